/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that make up the sandbox service. */
#pragma once

#include "service/boot.h"
#include "service/sandbox.h"
#include "service/transition.h"

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
	char **layers;    /* names, see boot.h; NULL: none */
	char *workdir;    /* the template's; NULL: the usual one */
	char *host_id;    /* the engine's name for it, see boot.h; changes when it is hibernated and woken */
	char *generation; /* the last one its agent confirmed */
	char *slot_name;  /* from the record, for the adoption of its network */
	VialLimits limits;
	json_t *metadata;
	json_t *env;
	json_t *network;
	VialState state;
	char *reason;        /* why it failed */
	gboolean is_damaged; /* its record cannot be read: it is shown, and nothing of it is touched before its owner deletes it */
	char *lie;           /* what its guest was caught at, until that has become the reason */
	char *boot_mode;     /* pool, restore, cold, fork */
	gint64 boot_ms;
	gint64 created_at_ms;
	gint64 ttl_seconds;   /* 0: no end */
	gint64 expires_at_ms; /* 0: never */
	gint64 idle_seconds;  /* 0: no idle policy */
	VialOnIdle on_idle;
	gboolean persistent;
	/* Rest (hibernate.c): asleep with its ttl standing still, until somebody wakes it, or, if `wakes_by_use`, uses it. */
	gboolean is_resting;
	gboolean rests_when_over; /* when its ttl is over, it is put to rest instead of being deleted */
	gboolean wakes_by_use;
	gint64 rest_seconds; /* how long a rest may last: the ceiling of whoever made it, or put it to rest; 0: no end */
	/* A child that is tried out: its ttl_seconds are the trial's, and life_seconds what it has once it is promoted. */
	gboolean is_on_trial;
	gint64 life_seconds;
	char *agent; /* whose it is; NULL: made without one */
	/* Which session of it; session NULL: none (see sessions.h). What is made out of a user's sandbox is his, too (see forget.h). */
	gint64 version;
	char *session, *user;
	char **memory_of;            /* users whose memory it was made from, see memory_of.h; NULL: nobody's in particular */
	gboolean is_unprepared;      /* its version's files and packages are not in it yet: nobody is let in */
	gint64 last_call_at_ms;      /* of its session; wall clock */
	gint64 told_last_call_at_ms; /* what its record says of that */
	char *build;                 /* whose steps run in it; NULL: it is an ordinary one, which its project sees */
	char *from_snapshot;
	char *parent;
	char *tree_id;

	VialInstance *instance;
	guint active;          /* holders right now */
	gint64 last_active_ms; /* monotonic */
	gint64 charged_ms;     /* meter.c: wall clock, up to when its time is charged; 0: it is not awake */
	gint64 charged_monotonic_ms;
	GQueue transitions;   /* VialTransition; the head may be under way, see transition.h */
	guint pump;           /* the idle source that begins the next one */
	gpointer freeze;      /* the freeze that the transition under way is in, see freeze.c */
	VialJournal *journal; /* what happened in it lately */
};

struct VialSandboxes {
	VialApp *app;
	GHashTable *by_id; /* holds a reference each */
	guint tick;        /* clocks.c */
	gboolean tick_is_soon;
};

/* A clock of one of them may be due sooner than before. */
void vial_clocks_hasten(VialSandboxes *sandboxes);
/* An object in the registry, in state CREATING. */
VialSandbox *vial_sandbox_new(VialApp *app, const char *id);
void vial_sandbox_set_state(VialSandbox *sandbox, VialState state, const char *reason);
/* Takes the instance, listens to it, and opens for business. */
void vial_sandbox_set_running(VialSandbox *sandbox, VialInstance *instance);
/* Out of the registry and out of the store. */
void vial_sandbox_forget(VialSandbox *sandbox);
/* Of one that rests: what it has when it is awake again. */
void vial_sandbox_set_ttl(VialSandbox *sandbox, gint64 ttl_seconds);
/* It sleeps, and from here on rests. */
void vial_sandbox_begin_rest(VialSandbox *sandbox);
/* It lives so long only, unless that is longer than it would anyway; until the trial is ended, or it is given another ttl. */
void vial_sandbox_try_for(VialSandbox *sandbox, gint64 trial_seconds);
void vial_sandbox_end_trial(VialSandbox *sandbox);
/* What was asked for (-1: nothing) becomes what it gets, or an error when it is longer than may be. */
gboolean vial_sandbox_choose_ttl(VialApp *app, const VialIdentity *principal, gboolean persistent, gint64 *ttl, GError **error);
/* Stores it, and with it, all or nothing, the end of another sandbox's record and of a snapshot's; each may be NULL. */
void vial_sandbox_store_exchange(VialSandbox *sandbox, const char *gone_sandbox, const char *gone_snapshot, VialStoreDone done, gpointer data);
VialSandbox *vial_sandbox_from_record(VialApp *app, const VialSandboxRecord *record);
/* Hears its instance again after somebody else did. */
void vial_sandbox_listen(VialSandbox *sandbox);
/* Its guest or host process has ended: what is left is swept up, and the engine says why it ended. */
void vial_sandbox_guest_ended(VialSandbox *sandbox, const char *detail);
/* Stops the guest, if there is one, and lets go of it. */
void vial_sandbox_drop_instance(VialSandbox *sandbox);
/* Wakes a hibernated sandbox: the work of the transition that acquires one. */
typedef void (*VialWakeDone)(const GError *error, gpointer data);
void vial_wake(VialSandbox *sandbox, VialWakeDone done, gpointer data);
/* What a manifest says about it. */
json_t *vial_sandbox_facts(const VialSandbox *sandbox, const char *kind);
/* How its guest is booted; everything is borrowed from the sandbox. */
VialBootSpec vial_sandbox_boot_spec(const VialSandbox *sandbox);
/* A blank that fits, or a new host id: in the spec and in the sandbox. */
void vial_sandbox_choose_host(VialSandbox *sandbox, VialBootSpec *spec);
char *vial_hibernation_dir(VialApp *app, const char *sandbox_id);
