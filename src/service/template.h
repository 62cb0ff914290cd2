/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates: an image plus the checkpoint of a sandbox that was booted from it, warmed up and frozen. Images are what
 * scripts/build-image left in images_dir (NAME.json and a rootfs); checkpoints are baked here, once for each combination
 * of image, agent, kernels, engine version and CPU, and kept in images_dir too. A template may be replaced (see
 * vial_templates_watch): do not keep a pointer to one over the main loop.
 */
#pragma once

#include "service/app.h"

typedef struct {
	char *name;
	char *summary;
	char **aliases;
	char *hash; /* of image and runtime together: what a checkpoint depends on */
	char *image_hash;
	char *rootfs;
	char *checkpoint;  /* NULL until baked */
	VialLimits limits; /* defaults for its sandboxes */
	gint64 size_bytes;
	char *created_at;
	int hold; /* keeps the checkpoint, see prune.h; -1 for none */
} VialTemplate;

/* Reads the images and copies agent and kernels to where guests find them. Blocks; at start. */
VialTemplates *vial_templates_load(VialApp *app, GError **error);
void vial_templates_free(VialTemplates *templates);

VialTemplate *vial_templates_find(VialTemplates *templates, const char *name_or_alias);
GPtrArray *vial_templates_all(VialTemplates *templates); /* borrowed */
const char *vial_templates_runtime_dir(const VialTemplates *templates);
json_t *vial_template_json(const VialTemplate *template, const char *engine);

/* Bakes every template that has no checkpoint yet, one after the other, telling progress on standard output. */
typedef void (*VialBaked)(guint failures, gpointer data);
void vial_templates_bake(VialApp *app, VialBaked done, gpointer data);
/* From now on: an image that is rebuilt or added is baked and, once ready, takes the old one's place for new sandboxes. */
void vial_templates_watch(VialApp *app);
/* Before quitting: watches no more, gives up what is being baked, and calls `done` when nothing of it is left. */
void vial_templates_end_baking(VialTemplates *templates, void (*done)(gpointer data), gpointer data);
