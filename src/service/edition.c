/* SPDX-License-Identifier: Apache-2.0 */
#include "service/edition.h"

#include <string.h>

#include "service/custom_templates.h"
#include "service/start.h"
#include "service/template_private.h"
#include "util/log.h"
#include "util/time.h"

#define RETRY_MS 60000
/* Sizes of one template, for as long as viald runs: whoever asks for a new size with every sandbox gets the later ones booted cold. */
#define MAX_EDITIONS 32
#define MAX_LISTED 256

typedef struct {
	VialApp *app;
	VialTemplate *template;
	GArray *waiting; /* Waiter */
	gboolean is_preparing;
	gint64 failed_ms; /* 0: it did not */
	char *problem;    /* why, or NULL */
} Edition;

typedef struct {
	VialEditionReady done;
	gpointer data;
} Waiter;

static void edition_free(gpointer data)
{
	Edition *edition = data;

	vial_template_free(edition->template);
	g_array_unref(edition->waiting);
	g_free(edition->problem);
	g_free(edition);
}

static GPtrArray *all_editions(VialTemplates *templates)
{
	if (!templates->editions)
		templates->editions = g_ptr_array_new_with_free_func(edition_free);
	return templates->editions;
}

void vial_editions_free(VialTemplates *templates)
{
	g_clear_pointer(&templates->editions, g_ptr_array_unref);
}

static VialTemplate *find_base(VialTemplates *templates, const char *hash)
{
	for (guint i = 0; i < templates->all->len; i++) {
		VialTemplate *template = templates->all->pdata[i];

		if (strcmp(template->hash, hash) == 0)
			return template;
	}
	return NULL;
}

/* Of templates that were replaced, unless somebody waits for one: then it goes the next time. */
static void forget_old(VialTemplates *templates)
{
	GPtrArray *all = all_editions(templates);

	for (guint i = all->len; i > 0; i--) {
		Edition *edition = all->pdata[i - 1];

		if (!edition->is_preparing && !find_base(templates, edition->template->base_hash))
			g_ptr_array_remove_index_fast(all, i - 1);
	}
}

/* Whoever asks for every size there is, and may have none of them baked, does not make the list grow. */
static void forget_idle(VialTemplates *templates)
{
	GPtrArray *all = all_editions(templates);

	for (guint i = all->len; i > 0 && all->len > MAX_LISTED; i--) {
		Edition *edition = all->pdata[i - 1];

		if (!edition->is_preparing && !edition->template->checkpoint)
			g_ptr_array_remove_index_fast(all, i - 1);
	}
}

static Edition *find(VialTemplates *templates, const char *hash)
{
	GPtrArray *all = all_editions(templates);

	for (guint i = 0; i < all->len; i++) {
		Edition *edition = all->pdata[i];

		if (strcmp(edition->template->hash, hash) == 0)
			return edition;
	}
	return NULL;
}

/* While it is being made ready it is a worker's. */
static gboolean is_ready(const Edition *edition)
{
	return !edition->is_preparing && edition->template->checkpoint;
}

static guint count(VialTemplates *templates, const char *base_hash, gboolean only_ready)
{
	GPtrArray *all = all_editions(templates);
	guint found = 0;

	for (guint i = 0; i < all->len; i++) {
		Edition *edition = all->pdata[i];

		found += strcmp(edition->template->base_hash, base_hash) == 0 && (!only_ready || is_ready(edition));
	}
	return found;
}

static Edition *edition_new(VialApp *app, VialTemplate *template, const VialLimits *limits)
{
	Edition *edition = g_new0(Edition, 1);

	edition->app = app;
	edition->template = vial_template_derive(template);
	edition->template->name = g_strdup(template->name);
	edition->template->project = g_strdup(template->project);
	edition->template->folder = g_strdup(template->folder);
	edition->template->warm = g_strdup(template->warm);
	edition->template->base_hash = g_strdup(template->hash);
	edition->template->limits = *limits;
	vial_template_set_hash(app, app->templates, edition->template);
	edition->waiting = g_array_new(FALSE, FALSE, sizeof(Waiter));
	return edition;
}

VialTemplate *vial_edition_for(VialApp *app, VialTemplate *template, const VialLimits *limits)
{
	VialLimits size = app->engine->ops->edition(&template->limits, limits);
	GPtrArray *all = all_editions(app->templates);
	Edition *edition;

	if (vial_limits_equal(&size, &template->limits))
		return template;
	forget_old(app->templates);
	for (guint i = 0; i < all->len; i++) {
		edition = all->pdata[i];
		if (strcmp(edition->template->base_hash, template->hash) == 0 && vial_limits_equal(&edition->template->limits, &size))
			return edition->template;
	}
	forget_idle(app->templates);
	edition = edition_new(app, template, &size);
	g_ptr_array_add(all, edition);
	return edition->template;
}

VialTemplate *vial_edition_find(VialApp *app, const char *hash)
{
	VialTemplate *template = find_base(app->templates, hash);
	Edition *edition = template ? NULL : find(app->templates, hash);

	if (edition && is_ready(edition) && find_base(app->templates, edition->template->base_hash))
		return edition->template;
	return template;
}

const char *vial_edition_problem(VialApp *app, const char *hash)
{
	const Edition *edition = find(app->templates, hash);

	return edition ? edition->problem : NULL;
}

guint vial_editions_ready(VialApp *app, const VialTemplate *template)
{
	return count(app->templates, template->hash, TRUE);
}

char **vial_edition_hashes(VialApp *app, const char *hash)
{
	GPtrArray *all = all_editions(app->templates);
	g_autoptr(GStrvBuilder) builder = g_strv_builder_new();

	g_strv_builder_add(builder, hash);
	for (guint i = 0; i < all->len; i++) {
		const VialTemplate *template = ((Edition *)all->pdata[i])->template;

		if (strcmp(template->base_hash, hash) == 0)
			g_strv_builder_add(builder, template->hash);
	}
	return g_strv_builder_end(builder);
}

static void on_ready(VialTemplate *template, const GError *error, gpointer data)
{
	Edition *edition = data;
	g_autoptr(GArray) waiting = edition->waiting;

	edition->waiting = g_array_new(FALSE, FALSE, sizeof(Waiter));
	edition->is_preparing = FALSE;
	edition->failed_ms = error ? vial_time_monotonic_ms() : 0;
	g_free(edition->problem);
	edition->problem = error ? g_strdup(error->message) : NULL;
	if (error) {
		g_autofree char *line = vial_template_problem_line(error->message);

		vial_log_warning("template", "a size could not be baked, its sandboxes boot cold or are refused", "template", template->name, "error",
		                 line);
	}
	vial_custom_template_baked(edition->app, template); /* who waits is being created, and so keeps it */
	for (guint i = 0; i < waiting->len; i++) {
		Waiter *waiter = &g_array_index(waiting, Waiter, i);

		waiter->done(error ? NULL : template, waiter->data);
	}
}

static gboolean may_bake(const Edition *edition)
{
	if (edition->failed_ms && vial_time_monotonic_ms() - edition->failed_ms < RETRY_MS)
		return FALSE;
	return count(edition->app->templates, edition->template->base_hash, TRUE) < MAX_EDITIONS;
}

void vial_edition_prepare(VialApp *app, const char *hash, VialEditionReady done, gpointer data)
{
	VialTemplate *base = find_base(app->templates, hash);
	Edition *edition = base ? NULL : find(app->templates, hash);
	Waiter waiter = { done, data };

	if (base)
		return done(base->checkpoint ? base : NULL, data);
	if (!edition || is_ready(edition) || (!edition->is_preparing && !may_bake(edition)))
		return done(edition && is_ready(edition) ? edition->template : NULL, data);
	g_array_append_val(edition->waiting, waiter);
	if (edition->is_preparing)
		return;
	edition->is_preparing = TRUE;
	vial_template_make_ready(app, edition->template, NULL, VIAL_START_MAX_SECONDS, on_ready, edition);
}
