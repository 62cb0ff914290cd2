/* SPDX-License-Identifier: Apache-2.0 */
/* A call as its sandbox's journal hears of it: that it began, what it printed, how it ended. The lasting record of it is the audit's. */
#pragma once

#include "service/journal.h"
#include "service/sandbox.h"

typedef struct VialCall VialCall;

/* `id` is the operation's; `kind` is static; `detail` is what was asked for (the command, the code). */
VialCall *vial_call_begin(VialSandbox *sandbox, const char *id, const char *kind, const json_t *detail);
/* The command or code of a detail, cut to one line. */
char *vial_call_describe(const json_t *detail);
const char *vial_call_id(const VialCall *call);
/* What it prints. Accepts NULL. */
void vial_call_output(VialCall *call, VialJournalStream stream, const void *bytes, gsize size);
/* `outcome` (may be NULL) is what came of it. Frees the call. */
void vial_call_end(VialCall *call, const char *status, const json_t *outcome);
