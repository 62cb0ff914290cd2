/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by custom_templates.c (names and records), custom_templates_files.c (what lies on the disk) and custom_templates_show.c. */
#pragma once

#include "service/custom_templates.h"

struct VialCustomTemplates {
	VialApp *app;
	GHashTable *by_id;
	GPtrArray *adding;  /* those that are being recorded: not in the list yet, but their files are theirs */
	GPtrArray *making;  /* out of sandboxes: custom_templates_show.c's, until they are in the list */
	GPtrArray *doomed;  /* what is to be removed once nobody uses it */
	guint retry;        /* a look at those */
	guint coming_up;    /* those that are not ready yet since the start */
	gboolean knows_all; /* every record could be read: what none of them names is nobody's */
};

/* Its full name: with its first tag, or without one. Free it. */
char *vial_custom_template_name(const VialCustomTemplate *custom);
/* In the list of all; NULL: it is not ready, or is a snapshot. */
VialTemplate *vial_custom_template_live(VialApp *app, const VialCustomTemplate *custom);
/* What it is called, by its tags. */
void vial_custom_template_set_names(VialTemplate *template, const VialCustomTemplate *custom);
void vial_custom_template_store(VialApp *app, const VialCustomTemplate *custom, VialStoreDone done, gpointer data);
void vial_custom_template_drop(VialApp *app, VialCustomTemplate *custom, VialStoreDone done, gpointer data);
/* Its folder, and its snapshot if it has one, go once no sandbox is being made from them. */
void vial_custom_template_doom(VialApp *app, const char *folder, const char *hash, const char *snapshot_id);
