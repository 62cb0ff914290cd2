/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every operation by its verb, and what is asked of whoever wants it: the one table in which a role, a quota or a kind of record is
 * given to an operation. vial_operation_admit() is the one function that reads it.
 */
#pragma once

#include "auth/identity.h"

typedef enum {
	VIAL_VERB_TEMPLATE_READ,
	VIAL_VERB_SANDBOX_CREATE,
	VIAL_VERB_SANDBOX_LIST,
	VIAL_VERB_SANDBOX_READ,
	VIAL_VERB_SANDBOX_DELETE,
	VIAL_VERB_LIFECYCLE_CHANGE,
	VIAL_VERB_PAUSE,
	VIAL_VERB_RESUME,
	VIAL_VERB_HIBERNATE,
	VIAL_VERB_WAKE,
	VIAL_VERB_SNAPSHOT_TAKE,
	VIAL_VERB_SNAPSHOT_READ,
	VIAL_VERB_SNAPSHOT_DELETE,
	VIAL_VERB_FORK,
	VIAL_VERB_PROMOTE,
	VIAL_VERB_NETWORK_READ,
	VIAL_VERB_NETWORK_CHANGE,
	VIAL_VERB_EXEC,
	VIAL_VERB_PTY,
	VIAL_VERB_RUN,
	VIAL_VERB_CONTEXT_READ,
	VIAL_VERB_CONTEXT_CHANGE,
	VIAL_VERB_PROCESS_READ,
	VIAL_VERB_PROCESS_CHANGE,
	VIAL_VERB_PORT_READ,
	VIAL_VERB_TUNNEL,
	VIAL_VERB_PREVIEW_CREATE,
	VIAL_VERB_LOGS,
	VIAL_VERB_METRICS,
	VIAL_VERB_FILE_READ,
	VIAL_VERB_FILE_WRITE,
	VIAL_N_VERBS,
} VialVerb;

typedef struct {
	const char *name;
	VialRole role;            /* the least that may do it */
	gboolean needs_sandbox;   /* it is about one */
	gboolean makes_sandboxes; /* counted against the quota, refused while the daemon drains */
	const char *record;       /* the kind of its call record, NULL for none */
	gboolean is_watching;     /* a look or a clean-up, by a monitor as well as by a person: no sign that somebody is at work (service/pool.h) */
} VialVerbRules;

const VialVerbRules *vial_verb_rules(VialVerb verb);
