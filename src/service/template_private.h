/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by template.c (what there is) and bake.c (making it ready). */
#pragma once

#include "service/template.h"

struct VialTemplates {
	char *images_dir;
	char *runtime_dir;
	char *runtime_hash;
	int runtime_hold; /* see prune.h */
	GPtrArray *all;
	GPtrArray *editions;    /* edition.c's */
	struct VialBake *bake;  /* under way, or NULL */
	GQueue waiting_bakes;   /* behind it: one at a time */
	gboolean is_baking_all; /* of those in the list, which must stay then */
	gboolean is_ending;     /* no bake is begun any more */
	/* template_watch.c */
	GHashTable *stamps;     /* record -> what it looked like when it was read */
	int watch_fd;           /* inotify; -1: none */
	guint watch;            /* its source, or a look now and then */
	guint look;             /* one that is due soon */
	gboolean is_reading;    /* a changed record: one at a time */
	VialTemplate *incoming; /* the one that is read and not ready yet */
};

/* From its record; NULL when that or its files are missing. Blocking; any thread. */
VialTemplate *vial_template_load(VialApp *app, VialTemplates *templates, const char *path);
/* The baked checkpoint, where there is one that may be used; one that may not is removed. Blocking; any thread. */
gboolean vial_template_take_checkpoint(VialApp *app, VialTemplates *templates, VialTemplate *template);
/* What sets it apart by its start, "" without one. Free it. */
char *vial_template_start_key(const VialTemplate *template);
/* Its key: what a checkpoint of it depends on. */
void vial_template_set_hash(VialApp *app, VialTemplates *templates, VialTemplate *template);
/* Bakes one that is not in the list yet, after what is being baked. `done` also when viald stops before, with a problem. The rest is make_ready's. */
void vial_template_bake(VialApp *app, VialTemplate *template, VialBuildLog *log, gint64 start_seconds, VialBaked done, gpointer data);
/* Notes what the record looks like; whether that is new. */
gboolean vial_template_note(VialTemplates *templates, const char *path);
void vial_templates_unwatch(VialTemplates *templates);

/* Where its checkpoints are, and the one that fits. */
char *vial_template_home(VialApp *app, const VialTemplate *template);
char *vial_template_checkpoint_dir(VialApp *app, const VialTemplate *template);

/* Runs a template's warm code in the default context; `problem` is NULL or what its owner should read. */
void vial_warmup(VialChannel *channel, const char *code, void (*done)(const char *problem, gpointer data), gpointer data);
