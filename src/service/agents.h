/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named agents and their versions: what somebody's prompt needs of a machine, under a name. A version is never changed, only followed by the next;
 * one is active, and is what a call without a version means. Whose sandbox is whose is sessions.h's. Main thread only.
 *
 *     version: ready -> active <-> ready -> draining (retired, with sessions) -> retired
 */
#pragma once

#include "service/app.h"

#define VIAL_AGENT_NAME_MAX_BYTES 64
#define VIAL_AGENT_MIN_IDLE_SECONDS 300
#define VIAL_AGENT_DEFAULT_IDLE_SECONDS 600

typedef struct {
	gint64 number;    /* from 1 */
	json_t *document; /* {template?, cpu?, memory_mb?, tier?, network, idle_seconds, never_expire, languages, env, files, packages, ...}, checked
	                   */
	gint64 created_at_ms;
	gint64 retired_at_ms; /* 0: it is not */
	guint n_sessions;
} VialAgentVersion;

typedef struct VialAgentChanges VialAgentChanges;

typedef struct {
	VialApp *app;
	guint refs; /* the registry's, and those of what is being stored of it */
	char *id;   /* of its records in the store */
	char *project;
	char *name;
	char *description;
	gint64 active;        /* 0: it has no version yet */
	gint64 stored_active; /* as the store has it: what counts again if a change cannot be stored */
	char *damage;         /* what its records have lost; NULL: they are whole */
	gboolean is_deleting; /* nobody finds it any more, but not all of its sandboxes have ended */
	gint64 created_at_ms;
	GPtrArray *versions; /* VialAgentVersion, all of them stored; number - 1 is its place */
	VialAgentChanges *changes;
	GHashTable *sessions; /* sessions.c */
	GSequence *order;     /* the same, newest first */
	guint n_weighed;      /* agent_weight.c: how many versions have been, and what they take */
	gint64 weighed_bytes;
} VialAgent;

/* Reads all of them; blocks, at start. */
VialAgents *vial_agents_load(VialApp *app, GError **error);
void vial_agents_free(VialAgents *agents); /* accepts NULL */

gboolean vial_agent_name_is_valid(const char *name);
/* One that is not being deleted; NULL: none. Borrowed. */
VialAgent *vial_agents_find(const VialAgents *agents, const char *project, const char *name);
/* The same with those that are being deleted. */
VialAgent *vial_agents_find_any(const VialAgents *agents, const char *project, const char *name);
/* A project's, by name; elements are borrowed. */
GPtrArray *vial_agents_list(const VialAgents *agents, const char *project);
/* NULL: there is none of that number. */
VialAgentVersion *vial_agent_version(const VialAgent *agent, gint64 number);
/* The number that the next one to be made will have: those that are just being stored have theirs already. */
gint64 vial_agent_next_version(const VialAgent *agent);
/* FALSE for one that has lost a version in the store: which, nobody could correct, so it is not called. */
gboolean vial_agent_check_whole(const VialAgent *agent, GError **error);

json_t *vial_agent_json(const VialAgent *agent);
/* `is_whole`: with what its files hold, else only how large they are. */
json_t *vial_agent_version_json(const VialAgent *agent, const VialAgentVersion *version, gboolean is_whole);

/* CONFLICT when there is one of that name. `done` when it is on the disk; it exists at once. */
VialAgent *vial_agents_create(VialApp *app, const char *project, const char *name, const char *description, VialStoreDone done, gpointer data,
                              GError **error);
/*
 * Takes `document`, which was checked. It is there when it is stored, under vial_agent_next_version(): then the first is active, a later one if it
 * `is_activated`. One that cannot be stored never was, and takes those with it that were to follow it.
 */
void vial_agent_add_version(VialAgent *agent, json_t *document, gboolean is_activated, VialStoreDone done, gpointer data);
void vial_agent_activate(VialAgent *agent, const VialAgentVersion *version, VialStoreDone done, gpointer data);
/* No new sessions; those there are go on until they end. */
void vial_agent_retire(VialAgent *agent, VialAgentVersion *version, VialStoreDone done, gpointer data);
/*
 * Ends its sandboxes, those that are being made and those that were forked off too; `done` when nothing is left. A viald that dies over it goes on at
 * the next start (vial_agents_resume).
 */
void vial_agent_delete(VialAgent *agent, VialStoreDone done, gpointer data);
void vial_agents_resume(VialApp *app);

/* Of a project that is being deleted: nobody finds its agents any more. */
void vial_agents_close_project(VialApp *app, const char *project);
/* How many sessions they still have, those that are being made too. */
guint vial_agents_sessions_in(VialApp *app, const char *project);
/* Its sandboxes are gone: so are they. */
void vial_agents_forget_project(VialApp *app, const char *project);
