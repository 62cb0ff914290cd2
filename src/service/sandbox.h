/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes: the registry, one object per sandbox, and what may be done with it when. Main thread only.
 *
 * Every request that needs the guest brackets its work with vial_sandbox_acquire() and vial_sandbox_release(): acquiring
 * wakes a hibernated sandbox first, and as long as somebody holds it, it is not idle.
 */
#pragma once

#include "service/app.h"
#include "service/journal.h"
#include "service/state.h"
#include "service/template.h"

typedef enum { VIAL_ON_IDLE_DELETE, VIAL_ON_IDLE_HIBERNATE } VialOnIdle;

typedef struct VialSandbox VialSandbox;

struct VialSandbox {
	int refs;
	VialApp *app;
	char *id;
	char *project;
	char *key_id;
	char *template_name;
	char *template_hash;
	char *rootfs;
	char *runtime_dir;
	char *host_id;    /* the engine's name for it, see boot.h; changes when it is hibernated and woken */
	char *generation; /* the last one its agent confirmed */
	char *slot_name;  /* from the record, for the adoption of its network */
	VialLimits limits;
	json_t *metadata;
	json_t *env;
	json_t *network;
	VialState state;
	char *reason; /* why it failed */
	char *boot_mode; /* pool, restore, cold, fork */
	gint64 boot_ms;
	gint64 created_at_ms;
	gint64 ttl_seconds;   /* 0: no end */
	gint64 expires_at_ms; /* 0: never */
	gint64 idle_seconds;  /* 0: no idle policy */
	VialOnIdle on_idle;
	gboolean persistent;
	char *from_snapshot;
	char *parent;
	char *tree_id;

	VialInstance *instance;
	guint active;             /* holders right now */
	gint64 last_active_ms;    /* monotonic */
	gboolean delete_wanted;   /* asked for while it could not be done yet */
	GPtrArray *delete_waiters; /* told when it is gone */
	gpointer transition;      /* what is being done to the whole of it; NULL between such things */
	gpointer freeze;          /* the freeze under way, see freeze.c */
	GPtrArray *freezes_waiting;
	VialJournal *journal;     /* what happened in it lately */
	GPtrArray *wake_waiters;  /* acquirers waiting for it to run */
};

/* What a create request asks for; strings and JSON are borrowed from the request's body. */
typedef struct {
	const char *template_name;
	const char *engine;
	const char *from_snapshot;
	double cpu;       /* 0: the template's */
	gint64 memory_mb; /* 0: the template's */
	gint64 ttl_seconds; /* -1: the default */
	gint64 idle_seconds; /* -1: the default */
	int on_idle;      /* -1: the default */
	gboolean persistent;
	json_t *metadata;
	json_t *env;
	json_t *network;
} VialSandboxCreate;

/* Refuses names that no environment variable can have; `env` may be NULL. */
gboolean vial_env_check_names(json_t *env, GError **error);
gboolean vial_sandbox_create_parse(json_t *body, VialSandboxCreate *out_create, GError **error);

VialSandboxes *vial_sandboxes_new(VialApp *app);
void vial_sandboxes_free(VialSandboxes *sandboxes);
guint vial_sandboxes_count(VialSandboxes *sandboxes);
/* NULL with NOT_FOUND when it does not exist or is somebody else's: the two look the same. */
VialSandbox *vial_sandboxes_find(VialApp *app, const VialIdentity *identity, const char *id, GError **error);
/* All of the caller's, newest first. The array holds references. */
GPtrArray *vial_sandboxes_list(VialApp *app, const VialIdentity *identity);
GHashTable *vial_sandboxes_table(VialSandboxes *sandboxes); /* id -> VialSandbox, borrowed */
/* Everybody's, with references: safe to walk while sandboxes come and go. */
GPtrArray *vial_sandboxes_all(VialSandboxes *sandboxes);

typedef void (*VialSandboxDone)(VialSandbox *sandbox, const GError *error, gpointer data);
void vial_sandboxes_create(VialApp *app, const VialIdentity *identity, const VialSandboxCreate *create, VialSandboxDone done,
                           gpointer data);

VialSandbox *vial_sandbox_ref(VialSandbox *sandbox);
void vial_sandbox_unref(VialSandbox *sandbox);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialSandbox, vial_sandbox_unref)

json_t *vial_sandbox_json(const VialSandbox *sandbox);
json_t *vial_sandbox_lifecycle_json(const VialSandbox *sandbox);
void vial_sandbox_store(VialSandbox *sandbox);
/* `done` (may be NULL) when the record is on the disk. */
void vial_sandbox_store_then(VialSandbox *sandbox, VialStoreDone done, gpointer data);

/* `done` is called at once when it runs, later when it must be woken; with an error when it cannot be used. */
void vial_sandbox_acquire(VialSandbox *sandbox, VialSandboxDone done, gpointer data);
void vial_sandbox_release(VialSandbox *sandbox);
VialChannel *vial_sandbox_channel(VialSandbox *sandbox);

/* Ends it and everything it has; `done` when nothing is left. Asking twice is fine. */
void vial_sandbox_delete(VialSandbox *sandbox, VialSandboxDone done, gpointer data);

/* Memory kept, no CPU. Each tells `done` when it is so; asking for what already is so is fine. */
void vial_sandbox_pause(VialSandbox *sandbox, VialSandboxDone done, gpointer data);
void vial_sandbox_resume(VialSandbox *sandbox, VialSandboxDone done, gpointer data);
/* State on disk, no process, no memory. Refused while somebody uses it. `done` may be NULL. */
void vial_sandbox_hibernate(VialSandbox *sandbox, VialSandboxDone done, gpointer data);
void vial_sandbox_wake(VialSandbox *sandbox, VialSandboxDone done, gpointer data);

/* PATCH lifecycle; the caller stores it. */
gboolean vial_sandbox_set_lifecycle(VialSandbox *sandbox, json_t *body, GError **error);

/* Once at start: takes over what the last viald left, reaps what cannot be taken over. */
typedef void (*VialAdopted)(guint adopted, guint reaped, gpointer data);
void vial_sandboxes_adopt(VialApp *app, VialAdopted done, gpointer data);
