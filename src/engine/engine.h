/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine seam: everything above it is engine-blind.
 *
 * An engine turns a launch specification into a *host process* (vial-shim, vial-vmm) that speaks docs/wire.md's host
 * frames. All of those have the same verbs, so the verbs live in instance.c; an engine supplies only what differs: what
 * must exist on disk and in the kernel before, which program to start, and what to sweep up after.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "engine/channel.h"
#include "engine/runsc.h"

/* In a checkpoint: see vial_instance_record_hot(). */
#define VIAL_HOT_FILE "hot"

typedef struct VialEngine VialEngine;
typedef struct VialInstance VialInstance;

typedef struct {
	double cpu;
	gint64 memory_mb;
	gint64 disk_mb;
	gint64 process_limit;
} VialLimits;

/* The guest's end of its network, the same in every sandbox. */
typedef struct {
	const char *mac;
	const char *v4, *gateway_v4; /* "address/prefix", "address" */
	const char *v6, *gateway_v6;
} VialGuestNet;

/* What a sandbox is started from. All strings are borrowed for the call. */
typedef struct {
	const char *id;
	const char *dir;           /* its folder, 0700, exists */
	const char *rootfs;        /* the image's root, read-only */
	const char *runtime_dir;   /* agent and kernels, appears as /opt/vial */
	const char *const *layers; /* image files over the root, bottom to top; NULL: none */
	gboolean is_layered;       /* what the guest changes can be packed as a layer: its root is an overlay also with no layer */
	VialLimits limits;
	const char *netns;       /* NULL: no network */
	const VialGuestNet *net; /* what the guest should call itself there; static */
} VialLaunch;

typedef struct {
	gint64 memory_bytes;
	gint64 cpu_usec;
} VialInstanceUsage;

typedef struct {
	const char *name;
	const char *isolation;
	/* A string that changes whenever checkpoints of the one version cannot be restored by the other. */
	const char *(*version)(VialEngine *engine);
	/* Optional: NULL, or a sentence about what an operator should know of it. */
	const char *(*warning)(VialEngine *engine);
	const char *(*host_program)(VialEngine *engine);
	gboolean records_hot; /* a restored host process can say what memory its guest touched, and a list of that makes the next restore faster */
	/* Optional: why no sandbox can have layers here, a sentence; NULL, or no such function: it can. */
	const char *(*refuses_layers)(VialEngine *engine);
	gboolean uses_tap; /* the guest's network is a TAP that comes with `start`, not the namespace */
	/* Blocking; on a worker thread. Leaves nothing behind when it fails. */
	gboolean (*prepare)(VialEngine *engine, const VialLaunch *launch, GError **error);
	/*
	 * Optional: the host process has this pid, by our own or the kernel's word: just launched, or (`parent_id`) forked by that one's, in whose
	 * place it still is.
	 */
	gboolean (*joined)(VialEngine *engine, const char *id, const char *dir, pid_t pid, const char *parent_id, GError **error);
	/* Optional: a host process of an earlier viald is ours now. Whatever else lives in its place is nobody's, and is ended. */
	void (*adopted)(VialEngine *engine, const char *id, const char *dir);
	/* Optional: completes a verb's request with fields and with descriptors. Opens files of ours, so it hardly blocks. */
	gboolean (*complete)(VialEngine *engine, const char *dir, const char *verb, json_t *request, GArray *fds, GError **error);
	/* Optional, where the host process can fork itself: appends what a child with this (prepared) folder needs. Takes the TAP. */
	gboolean (*add_child)(VialEngine *engine, const char *dir, int tap_fd, GArray *fds, GError **error);
	/* Optional: can a checkpoint of a sandbox with these limits become one with those? NULL: always. */
	gboolean (*fits)(const VialLimits *saved, const VialLimits *wanted);
	/* Limits once the sandbox runs: the backstop, with room for the engine's own needs. Blocking; see vial_engine_limit(). */
	gboolean (*limit)(VialEngine *engine, const char *id, const VialLimits *limits, GError **error);
	gboolean (*usage)(VialEngine *engine, const char *id, VialInstanceUsage *out_usage);
	/* Blocking; on a worker thread, after the host process has ended or was found dead. Returns why the sandbox ended. */
	char *(*cleanup)(VialEngine *engine, const char *id, const char *dir);
	/* Ids the engine still knows of, for the sweep at start. */
	GPtrArray *(*leftovers)(VialEngine *engine);
	void (*free)(VialEngine *engine);
} VialEngineOps;

struct VialEngine {
	const VialEngineOps *ops;
	gboolean carries_connections; /* a restored guest can go on with the connections of its checkpoint */
	GHashTable *limited;          /* limit.c's: what is in force */
	GHashTable *forked;           /* instance.c's: children that have not been put into their own place yet */
};

/* `runsc` is taken over. `tag` keeps this installation's kernel objects apart from another's. */
VialEngine *vial_gvisor_new(VialRunsc *runsc, const char *program_dir, const char *run_dir, const char *tag, GError **error);

/* `report` is what `vial-vmm --probe` said. */
VialEngine *vial_microvm_new(const char *program_dir, const char *images_dir, json_t *report, const char *tag, GError **error);
/* The report of a monitor that ran a small real guest, or NULL with a sentence. {"works","usable","reason","build","host",…}. Blocking. */
json_t *vial_microvm_probe(const char *program_dir, GError **error);
/* The guest kernel's folder below images_dir, or NULL with a sentence that says what to do. */
char *vial_microvm_kernel(const char *images_dir, GError **error);
/* The program that makes disk images of folders, likewise. */
char *vial_microvm_disk_builder(const char *program_dir, GError **error);

void vial_engine_free(VialEngine *engine);

typedef void (*VialEngineDone)(const GError *error, gpointer data); /* error is borrowed */
/*
 * Puts a running sandbox's limits in force, off the main loop: a group that has to give memory back takes its time. `done` when they are; before this
 * returns when they are so already, as for most guests of the pool. One at a time for a sandbox.
 */
void vial_engine_limit(VialEngine *engine, const char *id, const VialLimits *limits, VialEngineDone done, gpointer data);
/* It has ended: what is known of its limits is forgotten. */
void vial_engine_forget(VialEngine *engine, const char *id);
gboolean vial_engine_fits(const VialEngine *engine, const VialLimits *saved, const VialLimits *wanted);

#define VIAL_REASON_VIOLATION "protocol_violation: "

/* Instances: one live host process each. Main thread only. */

typedef struct {
	void (*hello)(VialInstance *instance, const VialAgentHello *hello, gpointer data);
	void (*frozen)(VialInstance *instance, gpointer data);
	/*
	 * The sandbox has ended or its host process has; once. When its agent or host process broke the protocol the reason says how, beginning with
	 * VIAL_REASON_VIOLATION, and so does the engine's cleanup() afterwards; else cleanup() knows more than `reason`.
	 */
	void (*ended)(VialInstance *instance, const char *reason, gpointer data);
} VialInstanceEvents;

typedef void (*VialInstanceReady)(VialInstance *instance, GError *error, gpointer data); /* error is borrowed */

/* Makes the host process; the guest is not started yet. */
void vial_instance_launch(VialEngine *engine, const VialLaunch *launch, VialInstanceReady ready, gpointer data);
/* Attaches to the host process that already lives in `dir`, e.g. after viald was restarted. */
void vial_instance_adopt(VialEngine *engine, const char *id, const char *dir, VialInstanceReady ready, gpointer data);
/* One that has ended while nobody listened says so to the next who does. */
void vial_instance_set_events(VialInstance *instance, const VialInstanceEvents *events, gpointer data);
/* Lets go: the host process and the sandbox live on. Accepts NULL. */
void vial_instance_free(VialInstance *instance);

/* We are about to end it, and cleanup() is to say why. One that has ended by itself has a reason of its own. */
void vial_instance_condemn(VialInstance *instance, const char *reason);
/* Nothing it says is to be believed any more: whoever listens to it hears that it has ended. */
void vial_instance_give_up(VialInstance *instance, const char *reason);

VialChannel *vial_instance_channel(VialInstance *instance);
const char *vial_instance_state(const VialInstance *instance); /* new, created, running, paused, exited */

/* The verbs. `done` gets an error or none. */
void vial_instance_create(VialInstance *instance, VialCallDone done, gpointer data);
/* `tap_fd` (-1: none) is consumed. `records_hot`: vial_instance_record_hot() will be asked for. */
void vial_instance_start(VialInstance *instance, const char *image, int tap_fd, gboolean records_hot, VialCallDone done, gpointer data);
/* Adds the list of what was touched since the restore to the checkpoint, for engines with records_hot. */
void vial_instance_record_hot(VialInstance *instance, const char *image, VialCallDone done, gpointer data);
void vial_instance_checkpoint(VialInstance *instance, const char *image, gboolean leave_running, VialCallDone done, gpointer data);
void vial_instance_pause(VialInstance *instance, VialCallDone done, gpointer data);
void vial_instance_resume(VialInstance *instance, VialCallDone done, gpointer data);
void vial_instance_stop(VialInstance *instance);

/*
 * One child of a fork: its folder is prepared, and it is reached by vial_instance_adopt() once the fork is done, soon: until then it lives in its
 * parent's place. Who it is the kernel says when it first speaks; what the monitor answers has no part in it.
 */
typedef struct {
	const char *id;
	const char *dir;
	int tap_fd; /* -1: none; consumed */
} VialForkChild;

/* Only where the engine has add_child. The guest must be frozen; the parent goes on in any case. */
void vial_instance_fork(VialInstance *instance, VialForkChild *children, guint n_children, VialCallDone done, gpointer data);
