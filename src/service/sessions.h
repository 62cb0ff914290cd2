/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sessions of an agent: for each (version, user, session) that has been called, which sandbox is its. That is written down in the sandbox's own
 * record and nowhere else, so the two cannot disagree, whenever viald dies; this is the index over it, by hash and, for pages, in order. A session is
 * there for as long as its sandbox is, or while that is being made. Main thread only.
 */
#pragma once

#include "service/agents.h"
#include "service/sandbox.h"

#define VIAL_DEFAULT_SESSION "default"

typedef struct {
	VialAgent *agent;
	char *key;
	gint64 version;
	char *name;
	char *user;       /* "": nobody in particular */
	char *sandbox_id; /* NULL: there is none yet */
	gint64 created_at_ms;
	GSequenceIter *place;
	gpointer opening;      /* whoever makes its sandbox (operations/agent_open.c); it stays for as long as that takes */
	gboolean is_cancelled; /* ended while it was being made */
} VialSession;

void vial_sessions_init(VialAgent *agent);
void vial_sessions_clear(VialAgent *agent);
guint vial_sessions_count(const VialAgent *agent);

VialSession *vial_sessions_find(const VialAgent *agent, gint64 version, const char *user, const char *name);
/* One that is not there yet. */
VialSession *vial_sessions_add(VialAgent *agent, gint64 version, const char *user, const char *name);
/* Nobody makes its sandbox any more: without one, it is gone. */
void vial_session_settle(VialSession *session);
/* Borrowed; NULL: none, or one that is being deleted. */
VialSandbox *vial_session_sandbox(const VialSession *session);
/* {id, agent, version, user?, sandbox_id?, state, created_at, last_call_at?, reason?} */
json_t *vial_session_json(const VialSession *session);

/* A sandbox that says whose it is has come into the registry, or leaves it. */
void vial_session_bind(const VialSandbox *sandbox);
void vial_session_unbind(const VialSandbox *sandbox);
/* After a restart, once all were adopted: ends what was not ready for its session when the last viald died, and what is nobody's. */
void vial_sessions_adopted(VialApp *app);

/* Which ones are meant: 0 and NULL for all. */
typedef struct {
	gint64 version;
	const char *user;
	const char *name;
	int state; /* a VialState, or -1 */
} VialSessionFilter;

/* Newest first, `limit` at most, behind the cursor; *out_next is the next page's, to be freed, or NULL. NULL with an error. */
GPtrArray *vial_sessions_page(VialAgent *agent, const VialSessionFilter *filter, const char *cursor, guint limit, char **out_next, GError **error);
/* Ends those that are meant; `done` when nothing is left of them. Returns how many. `why` is on their sandboxes' record. */
guint vial_sessions_end(VialAgent *agent, const VialSessionFilter *filter, const char *why, VialStoreDone done, gpointer data);
/* Whatever is being made is not wanted any more. */
void vial_sessions_cancel(VialAgent *agent);
