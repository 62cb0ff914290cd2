/* SPDX-License-Identifier: Apache-2.0 */
/* The course of a build, between build_run.c (its beginning, its sandbox, its end), build_steps.c, build_copy.c (a COPY among them) and build_keep.c
 * (what is kept of them). */
#pragma once

#include "service/build_command.h"
#include "service/builds_private.h"
#include "service/sandbox_private.h"
#include "service/start.h"

typedef struct VialBuildFeed VialBuildFeed;

typedef struct VialBuildRun {
	VialBuild *build;
	VialTemplate *template; /* what it is to become; NULL: a snapshot */
	char *base_name;        /* the base's own */
	char *origin_id;        /* the snapshot that its sandbox is made of; NULL: the base is files alone */
	char *snapshot_id;      /* what it has become; NULL: not yet, or layers */
	char *cache_key;
	json_t *env; /* of ENV so far */
	char *workdir;
	VialSandbox *made;    /* created and not held yet; NULL: none, or held */
	VialSandbox *sandbox; /* held; NULL: none yet, or no more */
	VialStream *stream;   /* of the step under way */
	VialBuildFeed *feed;  /* what a COPY is sent; NULL: it is none */
	GString *complaint;   /* what a COPY has printed of its errors; NULL likewise */
	VialCommandOutput output;
	VialStart *start;   /* of a template with a memory: its start command is being made ready */
	gboolean is_taking; /* the layer; or the warm code runs in the sandbox */
	gboolean is_naming; /* the template is being recorded: from here on nobody stops it */
	gboolean is_named;  /* the template is there */
	guint next;         /* step */
	guint timer;        /* the whole build's */
	gint64 started_ms;
	gint64 layer_room_bytes; /* what the disk had left for the layer when it was asked for */
	GError *error;           /* why it fails, while its sandbox is being deleted */
	gboolean is_stopping;    /* cancelled or out of time: the first error that comes is this one's doing */
	gboolean is_abandoned;   /* viald stops: the next one tells of it */
} VialBuildRun;

/* The next of its steps; after the last it is kept. */
void vial_build_run_step(VialBuildRun *run);
/* Nothing of the step under way is heard any more: it is over, or is given up. */
void vial_build_run_clear_step(VialBuildRun *run);
/* What the steps have made becomes a layer or a snapshot; without a sandbox there is nothing to keep, and it is baked. */
void vial_build_run_keep(VialBuildRun *run);
void vial_build_run_bake(VialBuildRun *run);
/* It takes its name, and is the build's: a failure to record it removes what it is made of. */
void vial_build_run_name(VialBuildRun *run);
/* Its sandbox is of no more use; then it ends, with run->error, or is baked. */
void vial_build_run_leave(VialBuildRun *run);
/* Unless it has failed already. */
void vial_build_run_fail(VialBuildRun *run, VialErrorCode code, const char *format, ...) G_GNUC_PRINTF(3, 4);

/* The words of a COPY's command, which reads the archive from its input: a new reference. */
json_t *vial_build_copy_argv(const json_t *copy);
/*
 * Sends a file to a stream, and then that this was all, at the pace of whoever reads there. `failed` may come once, from the loop: it cannot be read,
 * errno says why. The stream must outlive it.
 */
VialBuildFeed *vial_build_feed_new(const char *path, VialStream *stream, void (*failed)(int error_number, gpointer data), gpointer data);
void vial_build_feed_go_on(VialBuildFeed *feed); /* the stream has room again */
void vial_build_feed_free(VialBuildFeed *feed);  /* accepts NULL */
