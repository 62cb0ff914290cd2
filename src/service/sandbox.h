/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes: the registry, one object per sandbox, and what may be done with it when. Main thread only.
 *
 * Every request that needs the guest brackets its work with vial_sandbox_acquire() and vial_sandbox_release(): acquiring
 * wakes a hibernated sandbox first, and as long as somebody holds it, it is not idle. The guest may die all the same:
 * vial_sandbox_channel() is NULL then.
 *
 * What changes the whole of a sandbox takes its turn in the sandbox's queue (transition.h); every `done` is called exactly once.
 */
#pragma once

#include "service/app.h"
#include "service/journal.h"
#include "service/state.h"
#include "service/template.h"

typedef enum { VIAL_ON_IDLE_DELETE, VIAL_ON_IDLE_HIBERNATE } VialOnIdle;

typedef struct VialSandbox VialSandbox;

/* What may be read of one. Strings and JSON are borrowed and hold until the sandbox changes. */
VialApp *vial_sandbox_app(const VialSandbox *sandbox);
const char *vial_sandbox_id(const VialSandbox *sandbox);
const char *vial_sandbox_host_id(const VialSandbox *sandbox); /* the engine's name for it, see boot.h */
const char *vial_sandbox_project(const VialSandbox *sandbox);
const char *vial_sandbox_template(const VialSandbox *sandbox);
const char *vial_sandbox_workdir(const VialSandbox *sandbox); /* the template's; NULL: the usual one */
const char *vial_sandbox_agent(const VialSandbox *sandbox);   /* NULL: made without one */
gboolean vial_sandbox_is_ending(const VialSandbox *sandbox);  /* it is gone, or about to be: nobody comes in any more */
const char *vial_sandbox_reason(const VialSandbox *sandbox);  /* why it failed; NULL: it did not */
VialState vial_sandbox_state(const VialSandbox *sandbox);
gint64 vial_sandbox_created_at_ms(const VialSandbox *sandbox);
gint64 vial_sandbox_expires_at_ms(const VialSandbox *sandbox); /* 0: never */
const json_t *vial_sandbox_metadata(const VialSandbox *sandbox);
json_t *vial_sandbox_network(const VialSandbox *sandbox);
const VialLimits *vial_sandbox_limits(const VialSandbox *sandbox);
VialJournal *vial_sandbox_journal(const VialSandbox *sandbox);
gboolean vial_sandbox_is_persistent(const VialSandbox *sandbox);
/* See vial_sandbox_rest(). */
gboolean vial_sandbox_is_resting(const VialSandbox *sandbox);
gboolean vial_sandbox_rests_when_over(const VialSandbox *sandbox);
gboolean vial_sandbox_wakes_by_use(const VialSandbox *sandbox);
/* Its record cannot be read; see adopt.c. */
gboolean vial_sandbox_is_damaged(const VialSandbox *sandbox);

/* What a new sandbox is to be, its values checked (operations/sandboxes.c); strings and JSON are borrowed. */
typedef struct {
	const char *template_name;
	const char *engine;
	const char *from_snapshot;
	double cpu;          /* 0: the template's */
	gint64 memory_mb;    /* 0: the template's */
	gint64 disk_mb;      /* 0: the template's; only where it boots cold */
	gint64 ttl_seconds;  /* -1: the default; VIAL_TTL_LONGEST */
	gint64 idle_seconds; /* -1: the default */
	int on_idle;         /* -1: the default */
	gboolean persistent;
	/* When its ttl is over it is put to rest (vial_sandbox_rest) instead of being deleted; and whoever uses it then wakes it. */
	gboolean rests_when_over, wakes_by_use;
	json_t *metadata;
	json_t *env;
	json_t *network;
	/* Whose it is, for one that is made for an agent's session; else all NULL. */
	const char *agent, *session, *user;
	gint64 version;
	gboolean is_unprepared; /* vial_sandbox_prepared() will be called */
	const char
		*build; /* the steps of this build run in it: it boots cold, its changes can be packed, and nobody sees it; NULL: an ordinary one */
} VialSandboxCreate;

/* No end, or the latest there may be. */
#define VIAL_TTL_LONGEST (-2)

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
void vial_sandboxes_create(VialApp *app, const VialIdentity *identity, const VialSandboxCreate *create, VialSandboxDone done, gpointer data);

VialSandbox *vial_sandbox_ref(VialSandbox *sandbox);
void vial_sandbox_unref(VialSandbox *sandbox);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialSandbox, vial_sandbox_unref)

json_t *vial_sandbox_json(const VialSandbox *sandbox);
/* Its session is called. */
void vial_sandbox_called(VialSandbox *sandbox);
/* Everything of its version is in it; `done` when that is on the disk. */
void vial_sandbox_prepared(VialSandbox *sandbox, VialStoreDone done, gpointer data);
/* What a record says of which sandbox it is about: sandbox, template, image, engine, agent, version, session, user. */
void vial_sandbox_identify(const VialSandbox *sandbox, json_t *header);
/* What happened to it without anybody asking: a record of viald's own. `reason` may be NULL. */
void vial_sandbox_record(const VialSandbox *sandbox, const char *action, const char *reason);
json_t *vial_sandbox_lifecycle_json(const VialSandbox *sandbox);
void vial_sandbox_store(VialSandbox *sandbox);
/* `done` (may be NULL) when the record is on the disk. */
void vial_sandbox_store_then(VialSandbox *sandbox, VialStoreDone done, gpointer data);

/* `done` is called at once when it runs, later when it must be woken first; with an error when it cannot be used. */
void vial_sandbox_acquire(VialSandbox *sandbox, VialSandboxDone done, gpointer data);
/* The same for whoever says that it is to be awake: what rests is woken by this, whatever else would wake it. */
void vial_sandbox_wake(VialSandbox *sandbox, VialSandboxDone done, gpointer data);
void vial_sandbox_release(VialSandbox *sandbox);
VialChannel *vial_sandbox_channel(VialSandbox *sandbox);

/* Ends it and everything it has; `done` when nothing is left. Asking twice is fine. */
void vial_sandbox_delete(VialSandbox *sandbox, VialSandboxDone done, gpointer data);

/* Memory kept, no CPU. Each tells `done` when it is so; asking for what already is so is fine. */
void vial_sandbox_pause(VialSandbox *sandbox, VialSandboxDone done, gpointer data);
void vial_sandbox_resume(VialSandbox *sandbox, VialSandboxDone done, gpointer data);
/* State on disk, no process, no memory. Refused while somebody uses it. `done` may be NULL. */
void vial_sandbox_hibernate(VialSandbox *sandbox, VialSandboxDone done, gpointer data);
/*
 * Hibernates it for a rest: its ttl stands still, and begins anew when it is awake again. It is not refused while somebody uses it: what is under way
 * ends with an error for whoever asked, and goes on inside when it is awake. Unless it wakes by use, only vial_sandbox_wake() wakes it; what else
 * would use it is refused with CONFLICT. `principal` is whose ceilings hold; NULL: of whoever made it. `done` may be NULL.
 */
void vial_sandbox_rest(VialSandbox *sandbox, const VialIdentity *principal, VialSandboxDone done, gpointer data);
/* Its guest said what no honest one says: it is ended, from the loop, and `why` is what its owner reads. May be called at any moment. */
void vial_sandbox_lost(VialSandbox *sandbox, const char *why);

/*
 * Takes a policy that has been read and checked (slots.h) over. `done` when it is in force where there is a guest, which is told of it; may be called
 * before this returns. The caller stores it.
 */
void vial_sandbox_set_network(VialSandbox *sandbox, json_t *network, VialSandboxDone done, gpointer data);

/* New settings of its life, each -1 for "as it is"; the caller stores it. */
typedef struct {
	gint64 ttl_seconds;
	gint64 idle_seconds;
	int on_idle; /* a VialOnIdle */
	int persistent;
	int rests_when_over;
	gboolean only_longer; /* the ttl is taken only if it ends later than the one it has */
} VialLifecycle;
/* `principal` is who wants it: his ceilings hold. */
gboolean vial_sandbox_set_lifecycle(VialSandbox *sandbox, const VialIdentity *principal, const VialLifecycle *lifecycle, GError **error);

/* Whether one like this may be given so long a life. */
gboolean vial_sandbox_may_live(const VialSandbox *sandbox, const VialIdentity *principal, gint64 ttl_seconds, GError **error);

/* Once at start: takes over what the last viald left, reaps what cannot be taken over. `records` are all VialSandboxRecords, borrowed for the call.
 */
typedef void (*VialAdopted)(guint adopted, guint reaped, gpointer data);
void vial_sandboxes_adopt(VialApp *app, const GPtrArray *records, VialAdopted done, gpointer data);
