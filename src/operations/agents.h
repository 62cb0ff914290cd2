/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agents: named, with numbered versions that are never changed; and their sessions, each with a sandbox of its own that is made by the first call. A
 * call is opened first, which finds or makes the sandbox of its session, and then is an ordinary operation on that (run.h, exec.h, files.h).
 * Documents are as spec/openapi.yaml shows them.
 */
#pragma once

#include "operations/operation.h"

/* New references; NULL with an error. */
json_t *vial_op_agent_list(const VialCaller *caller, GError **error);
json_t *vial_op_agent_get(const VialCaller *caller, const char *name, GError **error);
gboolean vial_op_agent_create(const VialCaller *caller, const char *name, const char *description, VialDocumentDone done, gpointer data,
                              GError **error);
/* Without a document, when none of its sandboxes is left. */
gboolean vial_op_agent_delete(const VialCaller *caller, const char *name, VialDocumentDone done, gpointer data, GError **error);

/* Numbers may be VIAL_UNSAID, everything else NULL. All is borrowed for the call. */
typedef struct {
	const char *template_name;
	const char *tier; /* 2x4 ..., or cpu and memory_mb */
	double cpu;
	gint64 memory_mb;
	json_t *network;     /* docs/network.md; NULL: none */
	gint64 idle_seconds; /* at least VIAL_AGENT_MIN_IDLE_SECONDS */
	gboolean never_expire;
	json_t *languages; /* a list; NULL: any */
	json_t *env, *metadata;
	json_t *files;    /* [{path, content | content_base64, mode?}] */
	json_t *packages; /* {pip?: [], npm?: []} */
	const char *prompt_ref;
	gboolean activate;
} VialVersionRequest;

gboolean vial_op_agent_version_create(const VialCaller *caller, const char *name, const VialVersionRequest *request, VialDocumentDone done,
                                      gpointer data, GError **error);
json_t *vial_op_agent_version_list(const VialCaller *caller, const char *name, GError **error);
json_t *vial_op_agent_version_get(const VialCaller *caller, const char *name, gint64 number, GError **error);
/* VIAL_VERB_AGENT_ACTIVATE or _RETIRE. */
gboolean vial_op_agent_version_change(const VialCaller *caller, VialVerb verb, const char *name, gint64 number, VialDocumentDone done, gpointer data,
                                      GError **error);

typedef struct {
	gint64 version; /* or VIAL_UNSAID */
	const char *user, *state, *cursor;
	gint64 limit;
} VialSessionsRequest;

/* {items, next} */
json_t *vial_op_session_list(const VialCaller *caller, const char *agent, const VialSessionsRequest *request, GError **error);
/* `user` NULL: the session of nobody in particular. Without a version: that of the active one, else of the newest that has it. */
json_t *vial_op_session_get(const VialCaller *caller, const char *agent, const char *session, const char *user, gint64 version, GError **error);
/* Without a version: in all. NOT_FOUND when there is none. */
gboolean vial_op_session_end(const VialCaller *caller, const char *agent, const char *session, const char *user, gint64 version,
                             VialOperationDone done, gpointer data, GError **error);
/* Everything of a user, in one agent or, with NULL, in all of the project that the caller may use: {sessions,
 * sandboxes, snapshots}, how many of each. */
gboolean vial_op_user_forget(const VialCaller *caller, const char *agent, const char *user, VialDocumentDone done, gpointer data, GError **error);

/* Calls */

typedef struct {
	const char *agent;
	const char *session;  /* NULL: VIAL_DEFAULT_SESSION */
	const char *user;     /* whom it is for; NULL: nobody in particular */
	gint64 version;       /* VIAL_UNSAID: the active one */
	gboolean is_code;     /* it is to run code */
	const char *language; /* in that; NULL: the first that the version has */
} VialAgentCall;

/* Everything is borrowed. */
typedef struct {
	VialSandbox *sandbox;
	const char *agent, *session, *user; /* user NULL: nobody in particular */
	gint64 version;
	gboolean is_fresh;    /* it was made for this call: nothing of earlier ones is in it */
	const char *lost;     /* why the one before it is gone, where that is known */
	const char *language; /* what the code is in; NULL: whatever it says */
} VialAgentPlace;

typedef void (*VialAgentOpened)(const VialAgentPlace *place, const GError *error, gpointer data);
/*
 * `verb` is what will be done there. `opened` may come before this returns, with a sandbox that can be used right then. Nobody makes a second one for
 * the same session: whoever comes meanwhile waits. It goes on when its client leaves.
 */
gboolean vial_op_agent_open(const VialCaller *caller, VialVerb verb, const VialAgentCall *call, VialAgentOpened opened, gpointer data,
                            GError **error);
