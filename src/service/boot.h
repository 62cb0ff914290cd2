/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings up a guest: host process, start or restore, limits, and the HELLO that makes it unique. No confirmation, no
 * sandbox: whatever goes wrong, everything made on the way is taken down again and `done` gets an error.
 */
#pragma once

#include "service/app.h"
#include "service/template.h"

typedef struct {
	const char *id;
	const char *dir;   /* made here if missing; removed again on failure unless keep_dir */
	const char *rootfs;
	VialLimits limits;
	const char *image; /* checkpoint to restore; NULL boots cold */
	json_t *env;       /* borrowed; may be NULL */
	gboolean keep_dir;
	const char *netns;
} VialBootSpec;

/* On success the instance is the caller's, who must set its events at once. */
typedef void (*VialBootDone)(VialInstance *instance, const GError *error, gpointer data);
void vial_boot(VialApp *app, const VialBootSpec *spec, VialBootDone done, gpointer data);

/* The HELLO alone, for an instance that is already running under another name (a pooled one) or was frozen. */
void vial_boot_hello(VialApp *app, VialInstance *instance, const VialBootSpec *spec, VialBootDone done, gpointer data);

/* A fresh 128-bit generation, hexadecimal. */
char *vial_generation_new(void);

/* Worker job: what a dead or stopped sandbox leaves behind. `done` (main loop) gets the reason of its end. */
typedef void (*VialSweptDone)(const char *reason, gpointer data);
void vial_sweep(VialApp *app, const char *id, const char *dir, gboolean remove_dir, VialSweptDone done, gpointer data);
