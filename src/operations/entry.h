/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the files of this folder: the record of one operation, from its beginning to its end. Everything that is done on somebody's behalf has one
 * (verbs.c says which verbs); it is begun after the operation was admitted and its values were found good, and ended before anybody is told how it
 * went. It also counts among the runs, and becomes a span of whoever's trace it belongs to.
 */
#pragma once

#include "operations/operation.h"
#include "operations/tape.h"

typedef struct VialEntry VialEntry;

/*
 * NULL with an error when it cannot be recorded, or too many run: then it must not be done. `sandbox` may be NULL; `body` (taken over) is what is
 * done: the code, the path, the policy. Verbs without a record have an entry too: it is only timed.
 */
VialEntry *vial_entry_begin(const VialCaller *caller, VialVerb verb, VialSandbox *sandbox, json_t *body, GError **error);
/* The same for what is about a project, which need not be the caller's own: it is recorded there, for those whom it concerns. */
VialEntry *vial_entry_begin_in(const VialCaller *caller, VialVerb verb, const char *project, json_t *body, GError **error);
/* The operation's id: 20 characters. */
const char *vial_entry_id(const VialEntry *entry);
/* Another fact, known by now: of the header, which is kept for ever, or of the body. Values are taken over. */
void vial_entry_set(VialEntry *entry, const char *name, json_t *value);
json_t *vial_entry_body(VialEntry *entry);
/* A sandbox that was not there when it began. */
void vial_entry_set_sandbox(VialEntry *entry, VialSandbox *sandbox);
void vial_entry_count(VialEntry *entry, guint64 bytes_in, guint64 bytes_out);
/* The longest text that goes into a record; and where that goes. */
gsize vial_entry_text_max(const VialEntry *entry);
const VialAudit *vial_entry_audit(const VialEntry *entry);

/*
 * Its end. `outcome`: done, error (the code failed), cancelled; with `error`: failed or refused, by its kind. What is to be told: `error`, or why it
 * could not be recorded (kept in *unrecorded), for then nobody may be told that it was done. Frees the entry; accepts NULL.
 */
const GError *vial_entry_end(VialEntry *entry, const char *outcome, const GError *error, GError **unrecorded);
const GError *vial_entry_settle(VialEntry *entry, const GError *error, GError **unrecorded); /* done, or that error */

/* A refusal, recorded at once. */
void vial_entry_refuse(const VialCaller *caller, VialVerb verb, const VialSandbox *sandbox, const char *sandbox_id, const GError *error);
