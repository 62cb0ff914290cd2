/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon remembers: projects, keys, sandboxes, snapshots, agents, custom templates. (What was done with them is the audit's: src/audit/.)
 * Everything is read once at start, synchronously; after that every operation goes through one queue to one writer thread, in order, and `done` is
 * called on the main loop. The main loop never waits for SQL.
 *
 * Durability: a record whose `done` came without an error survives the death of the daemon. Keys and snapshots, which must
 * also survive the death of the machine, are on the disk before `done`; a sandbox dies with the machine anyway. An error
 * means that nothing of the record was kept.
 */
#pragma once

#include <glib.h>

typedef struct VialStore VialStore;

/* Records. Strings are never NULL when loaded ("" instead); times are milliseconds since the epoch, 0 for none. */
typedef struct {
	char *id;
	char *project;
	char *role; /* auth/identity.h */
	char *label;
	char *hash;     /* SHA-256 of the key, hexadecimal: the key itself is never stored */
	char *source;   /* file: the one in keys/admin.key; api: made by request */
	char *document; /* JSON: everything the columns do not say */
	gint64 created_at;
	gint64 expires_at;
} VialKeyRecord;

/* Apart from the key, which is flushed to the disk whenever it changes. */
typedef struct {
	char *id; /* the key's */
	gint64 last_used_at;
} VialKeyUseRecord;

typedef struct {
	char *id;       /* its name */
	char *state;    /* active, deleting, deleted: names are not given twice, for the audit's sake */
	char *document; /* JSON: quotas and the like */
	gint64 created_at;
	gint64 updated_at;
} VialProjectRecord;

/* That a sandbox was made, for as long as that counts against a quota per hour. */
typedef struct {
	char *id; /* the sandbox's */
	char *project;
	char *key_id;
	gint64 created_at;
} VialCreationRecord;

typedef struct {
	char *id;
	char *project;
	char *key_id;
	char *template_name;
	char *engine;
	char *status;
	char *document; /* JSON: everything the columns do not say */
	gint64 created_at;
	gint64 updated_at;
	gint64 expires_at;
} VialSandboxRecord;

/* What ran before there was an audit (schema 2): read once, and then in there. */
typedef struct {
	char *id;
	char *sandbox_id;
	char *kind; /* exec, run, ... */
	char *status;
	char *detail;  /* JSON: what was asked for */
	char *outcome; /* JSON: what came of it; "" while it runs */
	gint64 started_at;
	gint64 ended_at;
} VialCallRecord;

typedef struct {
	char *id;
	char *project;
	char *sandbox_id;
	char *template_name;
	char *name;
	char *document; /* JSON */
	gint64 size_bytes;
	gint64 created_at;
} VialSnapshotRecord;

/* A named agent, and each of its versions: service/agents.h. Which sandbox is which session's is in the sandbox's own record. */
typedef struct {
	char *id;
	char *project;
	char *name;
	char *state;    /* active, deleting */
	char *document; /* JSON */
	gint64 active;  /* the number of its active version; 0: it has none yet */
	gint64 created_at;
} VialAgentRecord;

typedef struct {
	char *id; /* the agent's, a slash, its number */
	char *agent_id;
	gint64 number;
	char *document;    /* JSON: what its sandboxes are to be */
	gint64 retired_at; /* 0: it is not */
	gint64 created_at;
} VialAgentVersionRecord;

/* A custom template: service/custom_templates.c. */
typedef struct {
	char *id;
	char *project;
	char *key_id;
	char *name;     /* without its tags */
	char *document; /* JSON, without absolute paths */
	gint64 created_at;
} VialTemplateRecord;

/* The making of one: service/builds.c. */
typedef struct {
	char *id;
	char *project;
	char *key_id;
	char *name;
	char *status;
	char *document; /* JSON, without secrets */
	gint64 created_at;
	gint64 updated_at;
} VialBuildRecord;

/* `error` is NULL when the operation is done; borrowed. */
typedef void (*VialStoreDone)(const GError *error, gpointer data);

/* Opens or creates the database and brings its schema up to date. Blocks; at start only. */
VialStore *vial_store_open(const char *path, GError **error);
/* Finishes what is queued, then closes. Completions that were not yet delivered still are, by the main loop. */
void vial_store_close(VialStore *store); /* accepts NULL */

/*
 * Arrays of records, which free themselves. Either all of them or an error that says what to do: a damaged table never looks like one with fewer
 * records. Block; only before the main loop runs (puts may already be queued).
 */
GPtrArray *vial_store_load_projects(VialStore *store, GError **error);
GPtrArray *vial_store_load_keys(VialStore *store, GError **error);
GPtrArray *vial_store_load_key_uses(VialStore *store, GError **error);
GPtrArray *vial_store_load_creations(VialStore *store, GError **error);
GPtrArray *vial_store_load_sandboxes(VialStore *store, GError **error);
GPtrArray *vial_store_load_snapshots(VialStore *store, GError **error);
GPtrArray *vial_store_load_agents(VialStore *store, GError **error);
GPtrArray *vial_store_load_agent_versions(VialStore *store, GError **error);
GPtrArray *vial_store_load_templates(VialStore *store, GError **error);
GPtrArray *vial_store_load_builds(VialStore *store, GError **error);

/* The calls of an older schema, oldest first, and their end. Block, as loading does. */
GPtrArray *vial_store_load_calls(VialStore *store, GError **error);
gboolean vial_store_forget_calls(VialStore *store, GError **error);

/* Insert or replace by id. The record is copied. `done` may be NULL: a failure is then logged. */
void vial_store_put_project(VialStore *store, const VialProjectRecord *record, VialStoreDone done, gpointer data);
void vial_store_put_key(VialStore *store, const VialKeyRecord *record, VialStoreDone done, gpointer data);
void vial_store_put_sandbox(VialStore *store, const VialSandboxRecord *record, VialStoreDone done, gpointer data);
void vial_store_put_snapshot(VialStore *store, const VialSnapshotRecord *record, VialStoreDone done, gpointer data);
void vial_store_put_template(VialStore *store, const VialTemplateRecord *record, VialStoreDone done, gpointer data);
void vial_store_put_build(VialStore *store, const VialBuildRecord *record, VialStoreDone done, gpointer data);

void vial_store_put_agent(VialStore *store, const VialAgentRecord *record, VialStoreDone done, gpointer data);
void vial_store_put_agent_version(VialStore *store, const VialAgentVersionRecord *record, VialStoreDone done, gpointer data);
/* A version and its agent, which says that it is the active one: both or neither. */
void vial_store_put_active_version(VialStore *store, const VialAgentVersionRecord *version, const VialAgentRecord *agent, VialStoreDone done,
                                   gpointer data);

/* The record of a sandbox, and the end of another's and of a snapshot's (each may be NULL): all of it or nothing. */
void vial_store_exchange_sandbox(VialStore *store, const VialSandboxRecord *record, const char *gone_sandbox, const char *gone_snapshot,
                                 VialStoreDone done, gpointer data);

/* Nobody waits for these. */
void vial_store_put_key_use(VialStore *store, const VialKeyUseRecord *record);
void vial_store_delete_key_use(VialStore *store, const char *id);
void vial_store_put_creation(VialStore *store, const VialCreationRecord *record);
void vial_store_delete_creation(VialStore *store, const char *id);

/* Deleting what is not there is no error. */
void vial_store_delete_key(VialStore *store, const char *id, VialStoreDone done, gpointer data);
void vial_store_delete_sandbox(VialStore *store, const char *id, VialStoreDone done, gpointer data);
void vial_store_delete_snapshot(VialStore *store, const char *id, VialStoreDone done, gpointer data);
void vial_store_delete_agent(VialStore *store, const char *id, VialStoreDone done, gpointer data);
void vial_store_delete_agent_version(VialStore *store, const char *id, VialStoreDone done, gpointer data);
void vial_store_delete_template(VialStore *store, const char *id, VialStoreDone done, gpointer data);
void vial_store_delete_build(VialStore *store, const char *id, VialStoreDone done, gpointer data);
