/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds of custom templates: a queue, and the state of each. pending -> building -> ready | failed. A build's steps run in a sandbox of its own
 * (build_run.c) that nobody else sees, with its owner's ceilings and quotas; what comes of them is a layer, and the template is baked from a fresh
 * boot of base and layer, never from the sandbox that the steps ran in.
 *
 * What is asked for is on the disk before it is answered, without the values of secrets: they live in memory only. So a build that waits goes on
 * waiting when viald is restarted, unless it needs secrets; one that was under way fails and says in which step. From load to resume, while images
 * are baked, those of the last viald have no course but a log: they can be followed and cancelled. Main thread only.
 */
#pragma once

#include "service/build_log.h"
#include "service/custom_templates.h"

typedef struct VialBuild VialBuild;

typedef enum { VIAL_BUILD_PENDING, VIAL_BUILD_BUILDING, VIAL_BUILD_READY, VIAL_BUILD_FAILED } VialBuildState;

/* Checked values (operations/builds.c); all borrowed. */
typedef struct {
	const char *id;         /* its own, of nobody else's; NULL: a new one */
	const char *name, *tag; /* tag NULL: none */
	json_t *source;  /* {base, dockerfile or steps, args, tags, workdir, cpu, memory_mb, disk_mb, network, secret_names, warm, start_command,
	                    ready_command,  start_user, timeout_seconds}: what a rebuild repeats */
	json_t *steps;   /* resolved: dockerfile.h */
	json_t *secrets; /* names to values; NULL: none */
	VialLimits limits;
	json_t *network; /* read and checked */
	gint64 timeout_seconds;
	gboolean no_cache;
} VialBuildRequest;

VialBuilds *vial_builds_load(VialApp *app, GError **error);
void vial_builds_free(VialBuilds *builds); /* accepts NULL */
/* Once sandboxes are adopted: what the last viald was building is ended and has failed; what waited goes on waiting, until they may begin. */
void vial_builds_resume(VialApp *app);
void vial_builds_begin(VialApp *app);
/* Before quitting: none is begun any more; those under way are left for the next viald to tell of. */
void vial_builds_stop(VialApp *app);

/* In the queue. NULL with an error: too many wait, no room for another template, the disk is full. `done` when it is on the disk. */
VialBuild *vial_builds_add(VialApp *app, const VialIdentity *principal, const VialBuildRequest *request, VialStoreDone done, gpointer data,
                           GError **error);
/* NULL with NOT_FOUND. */
VialBuild *vial_builds_find(VialApp *app, const char *project, const char *id, GError **error);
GPtrArray *vial_builds_of(VialApp *app, const char *project); /* borrowed elements, newest first */
/* CONFLICT when it is over already, or its template is taking its name. It is over when nothing of it is left; then it still is in the list. */
gboolean vial_build_cancel(VialBuild *build, const char *who, GError **error);
/* Ends and forgets all of a project's; how many are not over yet. */
guint vial_builds_delete_all(VialApp *app, const char *project);
/* Templates that builds of this project (or key) which are not over will add. */
guint vial_builds_promised(VialApp *app, const char *project, const char *key_id);
/* Calls `each` with the name of every layer that builds under way need. */
void vial_builds_each_layer(VialApp *app, void (*each)(const char *layer, gpointer data), gpointer data);
/* Calls `each` with the hash of every archive that builds of this project which are not over need (build_files.h). */
void vial_builds_each_file(VialApp *app, const char *project, void (*each)(const char *hash, gpointer data), gpointer data);
/* A layer is just being packed. */
gboolean vial_builds_are_packing(VialApp *app);
gboolean vial_builds_use_folder(VialApp *app, const char *folder);

const char *vial_build_id(const VialBuild *build);
const char *vial_build_name(const VialBuild *build);
/* "name:tag", or "name". Free it. */
char *vial_build_full_name(const VialBuild *build);
VialBuildState vial_build_state(const VialBuild *build);
json_t *vial_build_json(const VialBuild *build, gboolean is_whole);
char *vial_build_log_path(VialApp *app, const char *id);
VialBuildLog *vial_build_log(const VialBuild *build); /* NULL: it is over, or after a restart its log could not be opened */
