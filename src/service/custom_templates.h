/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Custom templates: those of a project, beside the images that everybody has. One is made by a build (builds.h) or out of a sandbox, and is called by
 * a name and tags: `name:tag`, and `name` alone for the newest, which is also `name:latest`. A name of an image cannot be taken. What a template is
 * to sandboxes (root, layers, checkpoint) is a VialTemplate in the list of all (template.h); here are the names, the records and what a rebuild
 * repeats.
 *
 * Deleting one leaves alone what was made of it: layers are files by their content's hash, and stay as long as a sandbox, a snapshot, another
 * template or a build needs them. Main thread only.
 */
#pragma once

#include "service/snapshot.h"
#include "service/template.h"

#define VIAL_LATEST "latest"

typedef struct {
	char *id; /* of the build or its own; its folder below templates/ */
	char *project;
	char *key_id;
	char *name;
	GPtrArray *tags; /* char *; at least one */
	char *base;      /* as the build named it; NULL: it was not built, but made out of a sandbox */
	char *base_hash; /* what the base was then */
	json_t *source;  /* what a rebuild repeats: builds.h; NULL likewise */
	json_t *steps;   /* as they ran; NULL likewise */
	char *cache_key; /* equal for equal steps on an equal base; NULL: none */
	char *layer;     /* its own; NULL: it added no files */
	gint64 layer_bytes;
	char *snapshot_id; /* it is this snapshot, of a sandbox or of a build on such a one; NULL: layers */
	char *sandbox_id;  /* of which; NULL: it was built */
	char *problem;     /* why no sandbox can be made of it now; NULL: one can */
	gint64 created_at_ms;
	json_t *record; /* its VialTemplate, for the store; NULL for a snapshot */
} VialCustomTemplate;

VialCustomTemplates *vial_custom_templates_load(VialApp *app, GError **error);
void vial_custom_templates_free(VialCustomTemplates *templates); /* accepts NULL */
/* Once everything else is loaded: what has no usable checkpoint any more (an upgrade, say) is baked again; what nobody needs is removed. Then builds
 * begin. */
void vial_custom_templates_start(VialApp *app);

/* `name` and `name:tag`, cut in two; *out_tag is NULL without one. INVALID with the field's name when it is none; CONFLICT when an image has it. */
gboolean vial_template_name_split(VialApp *app, const char *field, const char *text, char **out_name, char **out_tag, GError **error);

/* By `name` or `name:tag`. NULL: there is none. */
VialCustomTemplate *vial_custom_templates_find(VialApp *app, const char *project, const char *name);

/* NULL: there is none. */
VialCustomTemplate *vial_custom_templates_by_id(VialApp *app, const char *id);

/* What a build stands on: an image, or a project's own that is ready. */
typedef struct {
	VialTemplate *template; /* its name, files, environment and sizes */
	char *snapshot_id;      /* it was made out of a sandbox, and its memory goes with it; NULL: files alone */
	char *hash;             /* of what it is made of: changes when a child would be another */
} VialTemplateBase;

void vial_template_base_clear(VialTemplateBase *base);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(VialTemplateBase, vial_template_base_clear)
/* FALSE with a sentence. */
gboolean vial_custom_templates_base(VialApp *app, const char *project, const char *name, VialTemplateBase *out, GError **error);
/* Whether a build on it may have these (names to values, or NULL): not where a memory is kept. FALSE with a sentence. */
gboolean vial_template_base_takes_secrets(const VialTemplateBase *base, const json_t *secrets, GError **error);
GPtrArray *vial_custom_templates_of(VialApp *app, const char *project); /* borrowed elements, by name */
guint vial_custom_templates_count(VialApp *app, const char *project, const char *key_id);
/* Those that are being made out of sandboxes of this project (or by this key) and will be one more. */
guint vial_custom_templates_promised(VialApp *app, const char *project, const char *key_id);
/* One of this name (tag NULL: none) takes the place of one that is there, so that there is not one more: it leaves that one no tag. */
gboolean vial_custom_templates_replaces(VialApp *app, const char *project, const char *name, const char *tag);
/* One with that key whose layer or snapshot is there; NULL: none. */
VialCustomTemplate *vial_custom_templates_cached(VialApp *app, const char *project, const char *cache_key);

/* Its base is not what it was when this one was built, or is gone. */
gboolean vial_custom_template_is_stale(VialApp *app, const VialCustomTemplate *custom);

/*
 * A finished one takes its place: its tag, and `latest`, are its own from now on. Both are taken over. `template` is NULL for one that is a snapshot.
 * `done` when it is on the disk; else nothing has changed.
 */
void vial_custom_templates_add(VialApp *app, VialCustomTemplate *custom, VialTemplate *template, const char *tag, VialStoreDone done, gpointer data);
VialCustomTemplate *vial_custom_template_new(const char *id, const char *project, const char *key_id, const char *name);
void vial_custom_template_free(VialCustomTemplate *custom); /* accepts NULL */

/* `name`: with all its tags; `name:tag`: that tag, and the template with its last. NOT_FOUND through `error`. */
gboolean vial_custom_templates_delete(VialApp *app, const char *project, const char *name, VialStoreDone done, gpointer data, GError **error);
/* All of a project, at its end; how many there were. */
guint vial_custom_templates_delete_all(VialApp *app, const char *project);

/* These (strings, checked) are its tags, too, and no other's of its name. And: they are nobody's any more; who has none left is deleted. */
void vial_custom_template_tag(VialApp *app, VialCustomTemplate *custom, const json_t *tags, VialStoreDone done, gpointer data);
void vial_custom_template_untag(VialApp *app, VialCustomTemplate *custom, const json_t *tags, VialStoreDone done, gpointer data);

/* As the API shows it; `is_whole`: with steps and source. */
json_t *vial_custom_template_json(VialApp *app, const VialCustomTemplate *custom, gboolean is_whole);

/* This sandbox, as it is now, is a template: a snapshot of it that is called by a name. The sandbox must be acquired; it goes on. */
void vial_custom_template_from_sandbox(VialSandbox *sandbox, const VialIdentity *principal, const char *name, const char *tag,
                                       void (*done)(VialCustomTemplate *custom, const GError *error, gpointer data), gpointer data);
/* The template that is this snapshot; NULL: none. */
const VialCustomTemplate *vial_custom_templates_with_snapshot(VialApp *app, const char *snapshot_id);

/* A checkpoint of this one has been made, or could not be: if it was deleted meanwhile, what lies in its folder goes again. */
void vial_custom_template_baked(VialApp *app, const VialTemplate *template);
/* Removes layers and folders that nobody needs, off the main loop. */
void vial_layers_collect(VialApp *app);
