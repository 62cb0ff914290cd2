/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which runsc there is, and what it can do. Releases are named after their date: "release-20260905.0" from its makers, "0.0~20240729.0" from
 * Debian. What a command can do is read from its help, not from the date: builds of people's own have none.
 */
#pragma once

#include <glib.h>

typedef struct {
	char *path;
	char *version;       /* names checkpoints: one of another version is never restored */
	char *warning;       /* NULL, or what an old one costs */
	gboolean is_current; /* restores in the background, leaves zero pages out of checkpoints, carries connections through them */
} VialRunsc;

/*
 * `setting` is a path, a name in PATH, or "auto": the one that scripts/get-runsc made current below data_dir, else the one in PATH.
 * FALSE with a sentence that says what to do. Blocking.
 */
gboolean vial_runsc_find(const char *setting, const char *data_dir, VialRunsc *out_runsc, GError **error);
void vial_runsc_clear(VialRunsc *runsc);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(VialRunsc, vial_runsc_clear)
