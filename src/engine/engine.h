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

typedef struct VialEngine VialEngine;
typedef struct VialInstance VialInstance;

typedef struct {
	double cpu;
	gint64 memory_mb;
	gint64 disk_mb;
	gint64 process_limit;
} VialLimits;

/* What a sandbox is started from. All strings are borrowed for the call. */
typedef struct {
	const char *id;
	const char *dir;         /* its folder, 0700, exists */
	const char *rootfs;      /* the image's root, read-only */
	const char *runtime_dir; /* agent and kernels, appears as /opt/vial */
	VialLimits limits;
	const char *netns;       /* NULL: no network */
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
	const char *(*host_program)(VialEngine *engine);
	/* Blocking; on a worker thread. Leaves nothing behind when it fails. */
	gboolean (*prepare)(VialEngine *engine, const VialLaunch *launch, GError **error);
	/* Limits once the sandbox runs: the backstop, with room for the engine's own needs. */
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
};

/* `tag` keeps this installation's kernel objects apart from another's. */
VialEngine *vial_gvisor_new(const char *runsc, const char *program_dir, const char *run_dir, const char *tag, GError **error);
/* The version of a usable runsc, or NULL with a sentence that says what to do. Blocking. */
char *vial_gvisor_probe(const char *runsc, GError **error);
void vial_engine_free(VialEngine *engine);

/* Instances: one live host process each. Main thread only. */

typedef struct {
	void (*hello)(VialInstance *instance, json_t *message, gpointer data);
	void (*frozen)(VialInstance *instance, gpointer data);
	/* The sandbox has ended or its host process has; once. */
	void (*ended)(VialInstance *instance, const char *reason, gpointer data);
} VialInstanceEvents;

typedef void (*VialInstanceReady)(VialInstance *instance, GError *error, gpointer data); /* error is borrowed */

/* Makes the host process; the guest is not started yet. */
void vial_instance_launch(VialEngine *engine, const VialLaunch *launch, VialInstanceReady ready, gpointer data);
/* Attaches to the host process that already lives in `dir`, e.g. after viald was restarted. */
void vial_instance_adopt(VialEngine *engine, const char *id, const char *dir, VialInstanceReady ready, gpointer data);
void vial_instance_set_events(VialInstance *instance, const VialInstanceEvents *events, gpointer data);
/* Lets go: the host process and the sandbox live on. Accepts NULL. */
void vial_instance_free(VialInstance *instance);

VialChannel *vial_instance_channel(VialInstance *instance);
const char *vial_instance_state(const VialInstance *instance); /* new, created, running, paused, exited */

/* The verbs. `done` gets an error or none. */
void vial_instance_create(VialInstance *instance, VialCallDone done, gpointer data);
void vial_instance_start(VialInstance *instance, const char *image, VialCallDone done, gpointer data);
void vial_instance_checkpoint(VialInstance *instance, const char *image, gboolean leave_running, VialCallDone done, gpointer data);
void vial_instance_pause(VialInstance *instance, VialCallDone done, gpointer data);
void vial_instance_resume(VialInstance *instance, VialCallDone done, gpointer data);
void vial_instance_stop(VialInstance *instance);
