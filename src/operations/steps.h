/* SPDX-License-Identifier: Apache-2.0 */
/* For builds.c: the steps of a build as a client gives them, checked and in the form of dockerfile.h. */
#pragma once

#include <glib.h>
#include <jansson.h>

/*
 * `given` is an array of {"run", "user"?} or {"env"} or {"workdir"}; values are taken as they are, without variables. With `may_copy`, which is not
 * for what a client itself has written, also {"copy": {"archive", "from", "to", "user"?, "mode"?}}: out of what build_files.h keeps under that hash,
 * a path, or a glob that may match several, to a destination; `user` may have a group behind a colon, and is root otherwise. NULL with an INVALID
 * error that names the step.
 */
json_t *vial_steps_read(json_t *given, const char *workdir, gboolean may_copy, GError **error);
/* What every form must keep to: the length of commands, names of variables, paths. */
gboolean vial_steps_check(const json_t *steps, GError **error);
