/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that exec started, listening ports, and what a sandbox uses. Attaching to a process is exec.h's. */
#pragma once

#include "operations/files.h"
#include "operations/operation.h"

/* {processes: [...]}, {ports: [...]} */
gboolean vial_op_process_list(const VialCaller *caller, const char *sandbox_id, VialDocumentDone done, gpointer data, GError **error);
gboolean vial_op_port_list(const VialCaller *caller, const char *sandbox_id, VialDocumentDone done, gpointer data, GError **error);
/* `signal` NULL: TERM. Without a document. */
gboolean vial_op_process_signal(const VialCaller *caller, const char *sandbox_id, gint64 pid, const char *signal, VialDocumentDone done,
                                gpointer data, GError **error);
/*
 * Bytes for a process's stdin, of any size; `close` ends its input after them. `bytes` NULL: they are written to the operation as they
 * arrive. The sink hears how many the process took.
 */
VialOperation *vial_op_process_input(const VialCaller *caller, const char *sandbox_id, gint64 pid, gboolean close, GBytes *bytes,
                                     const VialWriteSink *sink, gpointer data, GError **error);

/* The agent's view from inside, beside what the host counts. */
gboolean vial_op_metrics(const VialCaller *caller, const char *sandbox_id, VialDocumentDone done, gpointer data, GError **error);
