/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call on record: what ran in which sandbox, when, and how it ended. A call is stored when it begins, so one that was
 * in flight when viald died is found at the next start and reported as what it is: interrupted. The journal hears of it, too.
 */
#pragma once

#include "service/journal.h"
#include "service/sandbox.h"

typedef struct VialCall VialCall;

/* `detail` is consumed: what was asked for (the command, the language), without secrets. */
VialCall *vial_call_begin(VialSandbox *sandbox, const char *kind, json_t *detail);
/* The command or code of a detail, cut to one line. */
char *vial_call_describe(const json_t *detail);
const char *vial_call_id(const VialCall *call);
/* What it prints, for the sandbox's journal. */
void vial_call_output(VialCall *call, VialJournalStream stream, const void *bytes, gsize size);
/* `outcome` (may be NULL) is consumed: what came of it. Only that is written; the detail was, when it began. Frees the call. */
void vial_call_end(VialCall *call, const char *status, json_t *outcome);
