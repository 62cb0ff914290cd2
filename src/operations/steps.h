/* SPDX-License-Identifier: Apache-2.0 */
/* For builds.c: the steps of a build as a client gives them, checked and in the form of dockerfile.h. */
#pragma once

#include <glib.h>
#include <jansson.h>

/* `given` is an array of {"run", "user"?} or {"env"} or {"workdir"}; values are taken as they are, without variables. NULL with an INVALID error that
 * names the step. */
json_t *vial_steps_read(json_t *given, const char *workdir, GError **error);
/* What either form must keep to: the length of commands, names of variables, paths. */
gboolean vial_steps_check(const json_t *steps, GError **error);
