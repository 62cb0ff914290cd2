/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts (repl sessions): living interpreters of a sandbox. Documents are {id, language, cwd, state, execution_count, pid, queued}. */
#pragma once

#include "operations/operation.h"

typedef struct {
	const char *language; /* NULL: python */
	const char *cwd;      /* NULL: the workspace */
	const char *user;     /* NULL: the sandbox's */
} VialContextRequest;

gboolean vial_op_context_create(const VialCaller *caller, const char *sandbox_id, const VialContextRequest *request, VialDocumentDone done,
                                gpointer data, GError **error);
/* {contexts: [...]} */
gboolean vial_op_context_list(const VialCaller *caller, const char *sandbox_id, VialDocumentDone done, gpointer data, GError **error);
gboolean vial_op_context_restart(const VialCaller *caller, const char *sandbox_id, const char *context, VialDocumentDone done, gpointer data,
                                 GError **error);
/* Without a document. */
gboolean vial_op_context_delete(const VialCaller *caller, const char *sandbox_id, const char *context, VialDocumentDone done, gpointer data,
                                GError **error);
gboolean vial_op_context_interrupt(const VialCaller *caller, const char *sandbox_id, const char *context, VialDocumentDone done, gpointer data,
                                   GError **error);
