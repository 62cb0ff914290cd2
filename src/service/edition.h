/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Editions: a template's checkpoint for another size than its own. What cannot be changed when a guest is restored (under gVisor the number of its
 * processors, in a microVM its memory too) was decided when it was baked; so every such size has a checkpoint, baked when somebody first wants it
 * and kept beside the template's own. An edition is a VialTemplate with the name of its template, other limits and another hash; it is in no list.
 */
#pragma once

#include "service/template.h"

/* What a sandbox of this size is restored from: the template itself, or an edition, which may have to be made ready first. Never NULL. */
VialTemplate *vial_edition_for(VialApp *app, VialTemplate *template, const VialLimits *limits);
/* By the hash that a sandbox carries: the template, or an edition that is ready, as long as it is not replaced; NULL: there is none. */
VialTemplate *vial_edition_find(VialApp *app, const char *hash);

/*
 * `edition` is ready, or NULL when it could not be baked: then a sandbox is booted cold (one with a start command is refused), and the next attempt
 * is made after a while. Before this returns where there is nothing to wait for.
 */
typedef void (*VialEditionReady)(VialTemplate *edition, gpointer data);
void vial_edition_prepare(VialApp *app, const char *hash, VialEditionReady done, gpointer data);

/* The hashes of a template's sizes, ready or not, which its sandboxes may carry; its own first. Free it. */
char **vial_edition_hashes(VialApp *app, const char *hash);
/* Why it could not be baked the last time; NULL: it could, or nobody has tried. Borrowed. */
const char *vial_edition_problem(VialApp *app, const char *hash);
/* How many of a template's are ready. */
guint vial_editions_ready(VialApp *app, const VialTemplate *template);
void vial_editions_free(VialTemplates *templates);
