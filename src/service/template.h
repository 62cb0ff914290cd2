/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates: an image plus the checkpoint of a sandbox that was booted from it, warmed up and frozen. Images are what
 * scripts/build-image left in images_dir (NAME.json and a rootfs); checkpoints are baked here, once for each combination
 * of image, agent, kernels, engine version and CPU, and kept in images_dir too. A template may be replaced (see
 * vial_templates_watch): do not keep a pointer to one over the main loop.
 */
#pragma once

#include "service/app.h"
#include "service/build_log.h"

typedef struct {
	char *name;
	char *summary;
	char **aliases;
	char *hash; /* of image and runtime together: what a checkpoint depends on */
	char *image_hash;
	char *base_hash; /* of the template that it is an edition of (edition.h); NULL: it is a template itself */
	char *rootfs;
	char *checkpoint;  /* NULL until baked */
	VialLimits limits; /* defaults for its sandboxes */
	gint64 size_bytes;
	char *created_at;
	int hold; /* keeps the checkpoint, see prune.h; -1 for none */
	/* Custom ones */
	char *project;      /* whose it is; NULL: everybody's */
	char *folder;       /* below `templates/` of the data directory: its checkpoints are there. NULL: an image, in images_dir */
	char **layers;      /* names (layer.h), bottom to top; NULL: none */
	json_t *env;        /* of each of its sandboxes, below the request's own; NULL: none */
	char *workdir;      /* where commands and kernels start; NULL: the usual place */
	gboolean is_wanted; /* somebody has asked for it: the pool has some ready */
	char *warm;         /* Python that is run in the default context before the checkpoint is taken; NULL: none */
	/* Of start.h, NULL: none. What it is, a sandbox of it finds running; so none is made without a checkpoint. */
	char *start_command, *ready_command;
	char *start_user; /* NULL: `user` */
} VialTemplate;

/* Reads the images and copies agent and kernels to where guests find them. Blocks; at start. */
VialTemplates *vial_templates_load(VialApp *app, GError **error);
void vial_templates_free(VialTemplates *templates);

GPtrArray *vial_templates_all(VialTemplates *templates); /* borrowed */
/* Is it one of them, or an edition (edition.h)? */
gboolean vial_template_is_listed(VialTemplates *templates, const VialTemplate *template);
const char *vial_templates_runtime_dir(const VialTemplates *templates);
json_t *vial_template_json(const VialTemplate *template, const char *engine);

/* Bakes every template that has no checkpoint yet, one after the other, telling progress on standard output. */
typedef void (*VialBaked)(guint failures, const char *problem, gpointer data); /* `problem` is the last one, or NULL */
void vial_templates_bake(VialApp *app, VialBaked done, gpointer data);
/*
 * Custom templates (template_custom.c). Their records are the builder's: what has to be kept of one is an object without absolute paths.
 *
 *     template = vial_template_derive(base)    copies what a child has of it: root, layers, env, workdir, sizes, start; not its name and not its warm
 * code … set name, project, folder, layers, env, workdir, warm, start … vial_template_make_ready()               bakes it, or finds that it was baked
 * before vial_templates_put()                     from now on sandboxes are made of it
 */
VialTemplate *vial_template_derive(const VialTemplate *base);
void vial_template_free(VialTemplate *template);
json_t *vial_template_to_record(VialApp *app, const VialTemplate *template);
VialTemplate *vial_template_from_record(VialApp *app, const json_t *record, GError **error);
/* Another than its base's, none with an empty `command`; `user` NULL is `user`. Neither command nor ready: it stays as it is. */
void vial_template_set_start(VialTemplate *template, const char *command, const char *ready, const char *user);
gboolean vial_template_has_start(const VialTemplate *template);
/*
 * Bakes one that is not in the list, after whatever is being baked. The template is the caller's and must live until `done`, whose error is what its
 * owner should read: of warm code that failed, its last lines. What its start command prints goes to `log` (NULL: nowhere), and it has
 * `start_seconds` at most.
 */
typedef void (*VialTemplateReady)(VialTemplate *template, const GError *error, gpointer data);
void vial_template_make_ready(VialApp *app, VialTemplate *template, VialBuildLog *log, gint64 start_seconds, VialTemplateReady done, gpointer data);
/*
 * What viald's log is told of why one could not be baked, new: the first line. Those below are what its own programs have said, and what of that was
 * a secret of its build nobody may know any more.
 */
char *vial_template_problem_line(const char *problem);
/* Takes it over, and the place of the one with its name in its project. */
void vial_templates_put(VialApp *app, VialTemplate *template);
/* Out of the list; its files are the caller's affair. FALSE: there is none. */
gboolean vial_templates_drop(VialApp *app, const char *project, const char *name);
/* What a project means by a name: its own template, else everybody's. `project` NULL: only everybody's. */
VialTemplate *vial_templates_find_in(VialTemplates *templates, const char *project, const char *name_or_alias);
/* Its folder below the data directory, NULL for an image's. */
char *vial_template_folder(VialApp *app, const VialTemplate *template);

/* From now on: an image that is rebuilt or added is baked and, once ready, takes the old one's place for new sandboxes. */
void vial_templates_watch(VialApp *app);
/* Before quitting: watches no more, gives up what is being baked, and calls `done` when nothing of it is left. */
void vial_templates_end_baking(VialTemplates *templates, void (*done)(gpointer data), gpointer data);
