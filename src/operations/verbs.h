/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every operation by its verb, and what is asked of whoever wants it: the one table in which a role, a quota or a record is given to an operation.
 * vial_operation_admit() and entry.c read it, and so does `viald --print-routes`.
 */
#pragma once

#include "auth/identity.h"

typedef enum {
	VIAL_VERB_HEALTH,
	VIAL_VERB_ME,
	VIAL_VERB_DAEMON_METRICS,
	VIAL_VERB_TEMPLATE_READ,
	VIAL_VERB_TEMPLATE_BUILD,
	VIAL_VERB_TEMPLATE_REBUILD,
	VIAL_VERB_TEMPLATE_CANCEL,
	VIAL_VERB_TEMPLATE_DELETE,
	VIAL_VERB_TEMPLATE_MAKE,
	VIAL_VERB_TEMPLATE_TAG,
	VIAL_VERB_TEMPLATE_UPLOAD,
	VIAL_VERB_BUILD_READ,
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
	VIAL_VERB_ROLLBACK,
	VIAL_VERB_MERGE,
	VIAL_VERB_UNDO,
	VIAL_VERB_NETWORK_READ,
	VIAL_VERB_NETWORK_CHANGE,
	VIAL_VERB_EXEC,
	VIAL_VERB_PTY,
	VIAL_VERB_RUN,
	VIAL_VERB_CONTEXT_READ,
	VIAL_VERB_CONTEXT_CREATE,
	VIAL_VERB_CONTEXT_DELETE,
	VIAL_VERB_CONTEXT_RESTART,
	VIAL_VERB_CONTEXT_INTERRUPT,
	VIAL_VERB_PROCESS_READ,
	VIAL_VERB_PROCESS_SIGNAL,
	VIAL_VERB_PROCESS_INPUT,
	VIAL_VERB_TERMINAL_RESIZE,
	VIAL_VERB_PORT_READ,
	VIAL_VERB_TUNNEL,
	VIAL_VERB_PREVIEW_CREATE,
	VIAL_VERB_LOGS,
	VIAL_VERB_METRICS,
	VIAL_VERB_FILE_LIST,
	VIAL_VERB_FILE_READ,
	VIAL_VERB_FILE_WRITE,
	VIAL_VERB_FILE_MKDIR,
	VIAL_VERB_FILE_MOVE,
	VIAL_VERB_FILE_REMOVE,
	VIAL_VERB_PROJECT_READ,
	VIAL_VERB_PROJECT_CREATE,
	VIAL_VERB_PROJECT_CHANGE,
	VIAL_VERB_PROJECT_DELETE,
	VIAL_VERB_QUOTA_READ,
	VIAL_VERB_QUOTA_CHANGE,
	VIAL_VERB_USAGE_READ,
	VIAL_VERB_KEY_READ,
	VIAL_VERB_KEY_CREATE,
	VIAL_VERB_KEY_CHANGE,
	VIAL_VERB_KEY_ROTATE,
	VIAL_VERB_KEY_REVOKE,
	VIAL_VERB_AUDIT_READ,
	VIAL_VERB_AUDIT_EXPORT,
	VIAL_VERB_AUDIT_VERIFY,
	VIAL_VERB_AGENT_READ,
	VIAL_VERB_AGENT_CREATE,
	VIAL_VERB_AGENT_DELETE,
	VIAL_VERB_AGENT_VERSION,
	VIAL_VERB_AGENT_ACTIVATE,
	VIAL_VERB_AGENT_RETIRE,
	VIAL_VERB_SESSION_READ,
	VIAL_VERB_SESSION_END,
	VIAL_VERB_USER_FORGET,
	VIAL_N_VERBS,
} VialVerb;

typedef enum {
	VIAL_NO_RECORD,
	VIAL_RECORD_ONCE, /* one, when it has ended; a note when it begins */
	VIAL_RECORD_BOTH, /* and one when it begins, for what may go on for hours */
} VialVerbRecord;

typedef struct {
	const char *name;
	VialRole role;
	gboolean needs_sandbox;   /* it is about one */
	gboolean makes_sandboxes; /* refused while the daemon drains, and when there are too many */
	VialVerbRecord record;
	const char *call;     /* what the sandbox's journal calls it; NULL: it does not hear of it */
	gboolean is_run;      /* counts among the runs: of the quota, and of what is used */
	gboolean is_stop;     /* it stops something or frees room: possible, and recorded, when there is no room for the records of others */
	gboolean is_watching; /* a look or a clean-up, by a monitor as well as by a person: no sign that somebody is at work (service/pool.h) */
} VialVerbRules;

const VialVerbRules *vial_verb_rules(VialVerb verb);
