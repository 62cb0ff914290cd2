/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the process service: which process a message means. */
#pragma once

#include <glib.h>
#include <jansson.h>

/* "process" of a message, {"pid": N} or {"tag": T}. */
gboolean vial_e2b_process_pid(const json_t *message, gint64 *out_pid, GError **error);
/* "input" of a message, {"stdin": B64} or {"pty": B64}: a new reference. */
GBytes *vial_e2b_process_bytes(const json_t *message, GError **error);
/* "pty" of a message, {"size": {"rows": N, "cols": N}}; what is not said stays as it is. */
gboolean vial_e2b_terminal_size(const json_t *message, gboolean *out_is_terminal, gint64 *out_rows, gint64 *out_cols, GError **error);
