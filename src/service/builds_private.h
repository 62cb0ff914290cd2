/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by builds.c (which there are) and build_run.c (the course of one). */
#pragma once

#include "service/builds.h"

/* What a build, and the files that are sent ahead for one, leave of the disk. */
#define VIAL_BUILD_RESERVE_BYTES (G_GINT64_CONSTANT(256) << 20)
/* On the disk of the data directory. */
gint64 vial_build_free_bytes(VialApp *app);

struct VialBuild {
	VialApp *app;
	char *id;
	char *project;
	char *key_id;
	VialIdentity *principal; /* NULL after a restart: looked up when its turn comes */
	char *name, *tag;
	json_t *source;
	json_t *steps;
	json_t *secrets; /* in memory only, until it is over */
	VialLimits limits;
	json_t *network;
	gint64 timeout_seconds;
	gboolean no_cache;

	VialBuildState state;
	const char *phase; /* what it is at, or failed in; NULL: nothing yet, or it is ready; static */
	guint step;        /* the one under way, from 1; 0: none yet */
	gboolean is_cached;
	char *base_hash;
	char *layer;
	gint64 layer_bytes;
	char *error;
	int exit_code; /* of the step that failed; -1: it has none */
	json_t *last_lines;
	char *cancelled_by;
	char *template_id;
	gint64 created_at_ms, started_at_ms, ended_at_ms;

	VialBuildLog *log;        /* NULL: it is over, or its file could not be opened after a restart */
	struct VialBuildRun *run; /* while it is under way */
	gboolean is_forgotten;    /* its project is gone: nothing of it is kept */
};

/* Begins its course; vial_build_over() comes once, later or at once. */
void vial_build_run(VialBuild *build);
/* Its course is to end soon: it is cancelled. */
void vial_build_run_stop(VialBuild *build);
void vial_build_run_each_layer(VialBuild *build, void (*each)(const char *layer, gpointer data), gpointer data);
gboolean vial_build_run_is_packing(const VialBuild *build);
/* Its template is being recorded, or is there: it can only become ready, or fail because that cannot be recorded. */
gboolean vial_build_run_is_naming(const VialBuild *build);
/* viald stops: nothing more is done, and nothing of it is told any more. */
void vial_build_run_abandon(VialBuild *build);
void vial_build_run_free(VialBuild *build); /* one that was abandoned, when no sandbox is left */

/* From build_run.c: `error` NULL: it is ready. */
void vial_build_over(VialBuild *build, const GError *error);
void vial_build_store(VialBuild *build, VialStoreDone done, gpointer data);
void vial_build_set_phase(VialBuild *build, const char *phase, guint step);
