/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tar archive being written (POSIX.1-2001: ustar, with pax records for what ustar has no room for): the bytes around the contents, nothing is
 * opened. For each file its header, its content, its padding; for a folder its header; then the end. The same names, sizes and modes in the same
 * order are the same bytes: everything is root's and of one date.
 */
#pragma once

#include <glib.h>

#define VIAL_TAR_BLOCK_BYTES 512
/* What the two blocks of the end have. */
#define VIAL_TAR_END_BYTES (2 * VIAL_TAR_BLOCK_BYTES)

/* Appended to `out`. Names are relative, UTF-8, without a "/" at the end; `mode` is the permissions. */
void vial_tar_add_file(GByteArray *out, const char *name, guint mode, guint64 size);
void vial_tar_add_folder(GByteArray *out, const char *name, guint mode);
void vial_tar_add_padding(GByteArray *out, guint64 size); /* behind a content of so many bytes */
void vial_tar_add_end(GByteArray *out);
