/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files about agents. */
#pragma once

#include "operations/agents.h"
#include "operations/entry.h"

/* A version's document out of what was asked for, all of it checked; NULL with an error. */
json_t *vial_agent_version_read(const VialCaller *caller, const VialVersionRequest *request, GError **error);
/* The same as a record has it: without the values of its environment and what its files hold. */
json_t *vial_agent_version_facts(const json_t *document);

/* A name that a session or a user may have: a label that can be a segment of a path. */
gboolean vial_check_segment(const char *field, const char *text, gsize max_bytes, GError **error);

/*
 * Puts a version's files and packages into a sandbox that was just made. `done` says what went wrong; may come before this returns. Borrows nothing
 * beyond the call but the document, which must stay.
 */
gboolean vial_agent_needs_setup(const json_t *document);
void vial_agent_setup(VialApp *app, VialIdentity *principal, VialSandbox *sandbox, const json_t *document, VialOperationDone done, gpointer data);
