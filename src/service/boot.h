/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings up a guest: host process, start or restore, limits, and the HELLO that makes it unique. No confirmation, no
 * sandbox: whatever goes wrong, everything made on the way is taken down again and `done` gets an error.
 *
 * At most as many boots run at a time as there are processors; the others wait their turn, which is faster for all of them.
 */
#pragma once

#include "service/app.h"

typedef struct {
	const char *sandbox_id; /* who the guest is told it is */
	const char *host_id;    /* the engine's name for it: its folder, cgroup and host process */
	const char *rootfs;
	const char *runtime_dir;
	const char *const *layers; /* names (layer.h), bottom to top; NULL: none */
	gboolean is_layered;       /* what it changes can be packed as a layer; implied by layers. Cold, or from an image that was so */
	const char *workdir;       /* where commands and kernels start; NULL: the usual place, or what the image was told */
	VialLimits limits;
	const char *image;      /* checkpoint to restore; NULL boots cold */
	gboolean is_trusted;    /* the image was written by us just now and needs no manifest */
	gboolean records_hot;   /* it is restored to record what memory it touches first */
	const char *generation; /* NULL: a new one */
	json_t *env;            /* borrowed; may be NULL */
	json_t *network;        /* the policy in force before user code runs; borrowed, NULL is disabled */
	gboolean is_resumed;    /* nobody else goes on from this image: its connections are the guest's, if its slot was parked */
	gboolean is_forked;     /* the guest was just forked: its host process, folder and slot are there, and it runs */
	VialInstance *blank;    /* a host process made ahead for exactly these limits and folders; taken over */
} VialBootSpec;

/* On success the instance is the caller's, who must set its events at once. */
typedef void (*VialBootDone)(VialInstance *instance, const GError *error, gpointer data);
void vial_boot(VialApp *app, const VialBootSpec *spec, VialBootDone done, gpointer data);

/* The HELLO alone, for a guest that runs already: a pooled one that gets its owner, or one that was frozen. */
void vial_boot_hello(VialApp *app, VialInstance *instance, const VialBootSpec *spec, VialBootDone done, gpointer data);

/* A fresh 128-bit generation, hexadecimal. */
char *vial_generation_new(void);

char *vial_host_dir(VialApp *app, const char *host_id);

/* Worker job: what a dead or stopped sandbox leaves behind. `done` (main loop, may be NULL) gets the reason of its end. */
typedef void (*VialSweptDone)(const char *reason, gpointer data);
void vial_sweep(VialApp *app, const char *host_id, VialSweptDone done, gpointer data);
