/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The installation's own secret, in <data_dir>/keys/signing.key: what it signs, only this installation can have written.
 * Deleting the file and restarting makes everything signed before worthless. Any thread.
 */
#pragma once

#include <glib.h>

#include "util/hash.h"

typedef struct VialSigning VialSigning;

/* Reads the secret, or makes it (mode 0600). Blocks; at start. `dir_fd` is the keys folder. */
VialSigning *vial_signing_open(int dir_fd, GError **error);
void vial_signing_free(VialSigning *signing); /* accepts NULL */

/* `purpose` keeps signatures for one use from being shown for another. `text` must not contain a NUL. */
void vial_signing_sign(const VialSigning *signing, const char *purpose, const char *text, guint8 out[VIAL_SHA256_BYTES]);
/* `signature` is hexadecimal. Takes the same time wherever it is wrong. */
gboolean vial_signing_check(const VialSigning *signing, const char *purpose, const char *text, const char *signature);
