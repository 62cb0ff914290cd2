/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every guest sees read-only at /opt/vial: the agent and the language kernels of this build, copied once into
 * images_dir/runtime-HASH so that a rebuilt binary never changes under a living sandbox. Blocking; at start.
 */
#pragma once

#include <glib.h>

/* Sets *out_dir and *out_hash (12 hex digits over all contents). */
gboolean vial_runtime_install(const char *program_dir, const char *images_dir, char **out_dir, char **out_hash, GError **error);
