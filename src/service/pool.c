/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One entry is made at a time, and only while no client waits for a boot or has just claimed one, so that filling up never slows a user.
 *
 * The pool lives on what nobody else needs. As memory (util/memory.h) runs short it gives back in steps, and takes again only with some to spare, so
 * that its own guests do not make it go to and fro:
 *
 *     available   below 5 %   10 %         15 %      20 %
 *     blanks      -           -            -         kept      kept, made
 *     ready       -           one less     kept      kept, made
 *                             each look
 *
 * Of every template it has some of the template's own size, and of other sizes what was asked for lately (demand.h).
 *
 * And it sleeps: nobody has called for pool_idle_seconds, so everything is given back and no timer is left. The next call rouses it. That one
 * is restored in the ordinary way; the pool fills up behind it.
 */
#include "service/pool.h"

#include <string.h>

#include "service/demand.h"
#include "service/edition.h"
#include "service/layer.h"
#include "service/sandbox_private.h"
#include "service/slots.h"
#include "util/fault.h"
#include "util/id.h"
#include "util/log.h"
#include "util/memory.h"
#include "util/time.h"

/* How often memory is looked at, and how often when it is far from all marks. It is looked at before anything is made, too. */
#define LOOK_SECONDS 2
#define FAR_LOOK_SECONDS 10
#define FAR_PERCENT 30
#define PAUSE_AFTER_FAILURE_MS 30000
/* Of the memory there is. Below the first two what they say is given back; to make one takes the margin more; below the last all goes at once. */
#define BLANKS_PERCENT 15
#define READY_PERCENT 10
#define MARGIN_PERCENT 5
#define NOTHING_PERCENT 5
#define TOUCH_TIMEOUT_MS 30000
/* Whoever has claimed a guest is about to use it, and making the next one takes a core: that waits for a quiet moment, but not for ever. */
#define REST_MS 100
#define MAX_REST_MS 1000

typedef struct {
	char *host_id;
	char *template_name;
	char *template_hash;
	char *rootfs;
	char *runtime_dir;
	char *project; /* the template's */
	char **layers;
	VialLimits limits;
	gboolean is_restored; /* else a blank */
	VialInstance *instance;
	VialPool *pool;
} Entry;

struct VialPool {
	VialApp *app;
	GPtrArray *entries; /* ready ones */
	VialDemand *demand;
	Entry *making;
	guint look;
	guint rest;
	gint64 claimed_ms;
	gint64 failed_ms; /* 0: it did not */
	gint64 called_ms;
	gboolean is_closed;
	gboolean is_asleep;
	guint closing;
	void (*drained)(gpointer data);
	gpointer drained_data;
};

static void entry_free(Entry *entry)
{
	g_free(entry->host_id);
	g_free(entry->template_name);
	g_free(entry->template_hash);
	g_free(entry->rootfs);
	g_free(entry->runtime_dir);
	g_free(entry->project);
	g_strfreev(entry->layers);
	g_free(entry);
}

static void closed_one(VialPool *pool)
{
	if (pool->closing > 0 && --pool->closing == 0 && pool->drained)
		pool->drained(pool->drained_data);
}

static void on_discarded(const char *reason, gpointer data)
{
	closed_one(data);
}

static void on_discarded_quietly(const char *reason, gpointer data)
{
}

static void discard(Entry *entry, gboolean is_closing)
{
	VialPool *pool = entry->pool;

	g_ptr_array_remove(pool->entries, entry);
	vial_instance_stop(entry->instance);
	vial_instance_free(entry->instance);
	vial_sweep(pool->app, entry->host_id, is_closing ? on_discarded : on_discarded_quietly, pool);
	entry_free(entry);
}

static void on_entry_ended(VialInstance *instance, const char *reason, gpointer data)
{
	Entry *entry = data;

	vial_log_warning("pool", "a waiting sandbox ended", "host_id", entry->host_id, "detail", reason);
	discard(entry, FALSE);
}

static void watch(Entry *entry)
{
	static const VialInstanceEvents events = { .ended = on_entry_ended };

	vial_instance_set_events(entry->instance, &events, entry);
}

/* Memory and disk are fixed when the guest starts; the number of processors that it may use is not. */
static gboolean same_size(const VialLimits *a, const VialLimits *b)
{
	return a->memory_mb == b->memory_mb && a->disk_mb == b->disk_mb && a->process_limit == b->process_limit;
}

static gboolean is_like(const Entry *entry, const char *hash, const VialLimits *limits, gboolean restored)
{
	return entry->is_restored == restored && strcmp(entry->template_hash, hash) == 0 && same_size(&entry->limits, limits);
}

static guint count(VialPool *pool, const char *hash, const VialLimits *limits, gboolean restored)
{
	guint found = 0;

	for (guint i = 0; i < pool->entries->len; i++)
		found += is_like(pool->entries->pdata[i], hash, limits, restored);
	return found;
}

static guint count_own(VialPool *pool, const VialTemplate *template, gboolean restored)
{
	return count(pool, template->hash, &template->limits, restored);
}

/* Taking */

static gboolean on_rested(gpointer data)
{
	VialPool *pool = data;

	pool->rest = 0;
	vial_pool_kick(pool);
	return G_SOURCE_REMOVE;
}

static void rest(VialPool *pool)
{
	pool->claimed_ms = vial_time_monotonic_ms();
	if (!pool->rest && !pool->is_closed)
		pool->rest = g_timeout_add(REST_MS, on_rested, pool);
}

static VialInstance *take(Entry *entry, char **out_host_id)
{
	VialInstance *instance = entry->instance;

	vial_instance_set_events(instance, &(VialInstanceEvents){ 0 }, NULL);
	*out_host_id = g_strdup(entry->host_id);
	g_ptr_array_remove(entry->pool->entries, entry);
	rest(entry->pool);
	entry_free(entry);
	return instance;
}

static gboolean same_layers(char **a, const char *const *b)
{
	static const char *const none[] = { NULL };

	return g_strv_equal(a ? (const char *const *)a : none, b ? b : none);
}

static void note_demand(VialPool *pool, const VialTemplate *edition, const VialLimits *limits)
{
	const VialTemplate *own = vial_templates_find_in(pool->app->templates, edition->project, edition->name);
	VialLimits size = *limits;

	size.cpu = edition->limits.cpu; /* how much of them it may use makes no other guest of it */
	if (own && (strcmp(own->hash, edition->hash) != 0 || !same_size(&own->limits, &size)))
		vial_demand_note(pool->demand, edition->hash, &size, vial_time_monotonic_ms());
}

VialInstance *vial_pool_claim(VialPool *pool, const VialTemplate *edition, const VialLimits *limits, char **out_host_id)
{
	if (!pool)
		return NULL;
	note_demand(pool, edition, limits);
	for (guint i = 0; i < pool->entries->len; i++) {
		Entry *entry = pool->entries->pdata[i];

		if (is_like(entry, edition->hash, limits, TRUE))
			return take(entry, out_host_id);
	}
	return NULL;
}

void vial_pool_fill_spec(VialApp *app, VialBootSpec *spec, char **out_host_id)
{
	VialPool *pool = app->pool;

	for (guint i = 0; pool && i < pool->entries->len; i++) {
		Entry *entry = pool->entries->pdata[i];

		if (entry->is_restored || strcmp(entry->rootfs, spec->rootfs) != 0 || strcmp(entry->runtime_dir, spec->runtime_dir) != 0 ||
		    !same_layers(entry->layers, spec->layers) || !same_size(&entry->limits, &spec->limits))
			continue;
		spec->blank = take(entry, out_host_id);
		spec->host_id = *out_host_id;
		return;
	}
	*out_host_id = vial_id_new();
	spec->host_id = *out_host_id;
}

gboolean vial_pool_owns(VialPool *pool, const char *host_id)
{
	if (pool->making && strcmp(pool->making->host_id, host_id) == 0)
		return TRUE;
	for (guint i = 0; i < pool->entries->len; i++)
		if (strcmp(((Entry *)pool->entries->pdata[i])->host_id, host_id) == 0)
			return TRUE;
	return FALSE;
}

/* Making */

static void made(Entry *entry, VialInstance *instance, const GError *error)
{
	VialPool *pool = entry->pool;

	pool->making = NULL;
	if (error) {
		vial_log_warning("pool", "a sandbox could not be made ready", "template", entry->template_name, "error", error->message);
		pool->failed_ms = vial_time_monotonic_ms();
		entry_free(entry);
	} else {
		entry->instance = instance;
		g_ptr_array_add(pool->entries, entry);
		watch(entry);
		if (pool->is_closed)
			discard(entry, TRUE);
		else if (pool->is_asleep)
			discard(entry, FALSE);
		else
			vial_pool_kick(pool);
		return;
	}
	if (pool->is_closed)
		closed_one(pool);
}

/* The last step of making one, with its instance in `entry`. */
static void on_step_done(json_t *result, const GError *error, gpointer data)
{
	Entry *entry = data;
	VialInstance *instance = g_steal_pointer(&entry->instance);

	if (error) {
		vial_instance_stop(instance);
		vial_instance_free(instance);
		vial_sweep(entry->pool->app, entry->host_id, NULL, NULL);
	}
	made(entry, error ? NULL : instance, error);
}

/* While it waits it can as well fault in what a first run needs: then that one is as fast as any other. */
static void on_restored(VialInstance *instance, const GError *error, gpointer data)
{
	Entry *entry = data;

	if (error)
		return made(entry, NULL, error);
	entry->instance = instance;
	vial_channel_call(vial_instance_channel(instance),
	                  json_pack("{s:s, s:b, s:[s, s]}", "op", "warm", "touch", 1, "languages", "python", "javascript"), TOUCH_TIMEOUT_MS,
	                  on_step_done, entry);
}

static void on_blank_launched(VialInstance *instance, GError *error, gpointer data)
{
	Entry *entry = data;

	if (error) {
		vial_sweep(entry->pool->app, entry->host_id, NULL, NULL);
		return made(entry, NULL, error);
	}
	entry->instance = instance;
	vial_instance_create(instance, on_step_done, entry);
}

static Entry *entry_new(VialPool *pool, const VialTemplate *template, const VialLimits *limits, gboolean restored)
{
	Entry *entry = g_new0(Entry, 1);

	entry->pool = pool;
	entry->template_name = g_strdup(template->name);
	entry->template_hash = g_strdup(template->hash);
	entry->rootfs = g_strdup(template->rootfs);
	entry->runtime_dir = g_strdup(vial_templates_runtime_dir(pool->app->templates));
	entry->project = g_strdup(template->project);
	entry->layers = g_strdupv(template->layers);
	entry->limits = *limits;
	entry->is_restored = restored;
	return entry;
}

static void make_restored(VialPool *pool, const VialTemplate *template, const VialLimits *limits)
{
	Entry *entry = entry_new(pool, template, limits, TRUE);
	VialBootSpec spec = {
		.rootfs = entry->rootfs,
		.runtime_dir = entry->runtime_dir,
		.layers = (const char *const *)entry->layers,
		.limits = entry->limits,
		.image = template->checkpoint,
	};

	vial_pool_fill_spec(pool->app, &spec, &entry->host_id);
	spec.sandbox_id = entry->host_id;
	pool->making = entry;
	vial_boot(pool->app, &spec, on_restored, entry);
}

static void make_blank(VialPool *pool, const VialTemplate *template)
{
	Entry *entry = entry_new(pool, template, &template->limits, FALSE);
	g_autofree char *dir = NULL;
	g_auto(GStrv) layers = NULL;
	g_autoptr(GError) error = NULL;
	VialLaunch launch = { .rootfs = entry->rootfs, .runtime_dir = entry->runtime_dir, .limits = entry->limits, .net = vial_slots_guest_net() };

	entry->host_id = vial_id_new();
	dir = vial_host_dir(pool->app, entry->host_id);
	launch.id = entry->host_id;
	launch.dir = dir;
	pool->making = entry;
	g_mkdir_with_parents(dir, 0700);
	if (!vial_layers_resolve(pool->app, (const char *const *)entry->layers, &layers, &error) ||
	    !vial_slots_acquire(pool->app->slots, entry->host_id, &launch.netns, &error))
		return made(entry, NULL, error);
	launch.layers = (const char *const *)layers;
	launch.is_layered = layers != NULL;
	vial_instance_launch(pool->app->engine, &launch, on_blank_launched, entry);
}

static gboolean clients_are_waiting(VialPool *pool)
{
	gboolean may_rest = vial_time_monotonic_ms() - pool->claimed_ms < MAX_REST_MS;
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, vial_sandboxes_table(pool->app->sandboxes));
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		VialSandbox *sandbox = value;

		if (sandbox->state == VIAL_STATE_CREATING || sandbox->state == VIAL_STATE_WAKING || (may_rest && sandbox->active > 0))
			return TRUE;
	}
	return FALSE;
}

static gboolean has_just_failed(const VialPool *pool)
{
	return pool->failed_ms > 0 && vial_time_monotonic_ms() - pool->failed_ms < PAUSE_AFTER_FAILURE_MS;
}

guint vial_pool_memory_percent(void)
{
	VialMemory memory;

	return (guint)vial_fault_measure("memory.available", vial_memory_read("", &memory) ? vial_memory_percent(&memory) : 100);
}

/* Of a size that was asked for lately. Blanks there are none of: it would be another for every size. */
static VialTemplate *find_demanded(VialPool *pool, VialLimits *out_limits)
{
	GPtrArray *sizes = vial_demand_sizes(pool->demand, vial_time_monotonic_ms());

	for (guint i = 0; i < sizes->len; i++) {
		const VialDemandedSize *size = sizes->pdata[i];
		VialTemplate *edition = vial_edition_find(pool->app, size->hash);

		if (!edition || !edition->checkpoint ||
		    count(pool, size->hash, &size->limits, TRUE) >= MIN(size->wanted, (guint)pool->app->config->pool_size))
			continue;
		*out_limits = size->limits;
		return edition;
	}
	return NULL;
}

/* What one is missing of: the templates' own size, ready ones before blanks, then what was asked for lately; NULL when the pool is full. */
static VialTemplate *find_missing(VialPool *pool, VialLimits *out_limits, gboolean *out_restored)
{
	GPtrArray *templates = vial_templates_all(pool->app->templates);
	const VialConfig *config = pool->app->config;
	const guint wanted[] = { config->pool_size > 0 ? (guint)config->pool_blanks : 0, (guint)config->pool_size };

	for (int restored = TRUE; restored >= FALSE; restored--) {
		for (guint i = 0; i < templates->len; i++) {
			VialTemplate *template = templates->pdata[i];

			/* Of the custom ones only those that somebody has asked for: there may be many. */
			if (!template->checkpoint || (template->folder && !template->is_wanted) ||
			    count_own(pool, template, restored) >= wanted[restored])
				continue;
			*out_restored = restored;
			*out_limits = template->limits;
			return template;
		}
	}
	*out_restored = TRUE;
	return find_demanded(pool, out_limits);
}

static gboolean fill(gpointer data)
{
	VialPool *pool = data;
	VialTemplate *template;
	VialLimits limits;
	gboolean restored;

	if (pool->making || pool->is_closed || pool->is_asleep || pool->rest || has_just_failed(pool))
		return G_SOURCE_REMOVE;
	template = find_missing(pool, &limits, &restored);
	if (!template || vial_pool_memory_percent() < (guint)(restored ? READY_PERCENT : BLANKS_PERCENT) + MARGIN_PERCENT)
		return G_SOURCE_REMOVE;
	if (clients_are_waiting(pool))
		pool->rest = g_timeout_add(REST_MS, on_rested, pool);
	else if (restored)
		make_restored(pool, template, &limits);
	else
		make_blank(pool, template);
	return G_SOURCE_REMOVE;
}

void vial_pool_kick(VialPool *pool)
{
	if (pool && !pool->is_closed)
		g_idle_add_full(G_PRIORITY_LOW, fill, pool, NULL);
}

/* Looking after it */

static gboolean is_demanded(VialPool *pool, const Entry *entry)
{
	GPtrArray *sizes = vial_demand_sizes(pool->demand, vial_time_monotonic_ms());

	for (guint i = 0; i < sizes->len; i++) {
		const VialDemandedSize *size = sizes->pdata[i];

		if (is_like(entry, size->hash, &size->limits, TRUE))
			return TRUE;
	}
	return FALSE;
}

/* Its template was replaced, or its size has not been asked for in a while. */
static gboolean is_stale(VialPool *pool, const Entry *entry)
{
	VialTemplate *edition = vial_edition_find(pool->app, entry->template_hash);

	if (!edition)
		return TRUE;
	return !(vial_template_is_listed(pool->app->templates, edition) && same_size(&edition->limits, &entry->limits)) && !is_demanded(pool, entry);
}

static void shrink(VialPool *pool, const char *hash, const VialLimits *limits, gboolean restored, guint percent)
{
	guint kept = count(pool, hash, limits, restored);
	guint allowed = kept;

	if (percent < NOTHING_PERCENT || (!restored && percent < BLANKS_PERCENT))
		allowed = 0;
	else if (restored && percent < READY_PERCENT && kept > 0)
		allowed = kept - 1;
	for (guint i = pool->entries->len; i > 0 && kept > allowed; i--) {
		Entry *entry = pool->entries->pdata[i - 1];

		if (!is_like(entry, hash, limits, restored))
			continue;
		discard(entry, FALSE);
		kept--;
	}
}

static void shrink_all(VialPool *pool, guint percent)
{
	GPtrArray *templates = vial_templates_all(pool->app->templates), *sizes = vial_demand_sizes(pool->demand, vial_time_monotonic_ms());
	guint before = pool->entries->len;
	g_autofree char *given_back = NULL, *available = NULL;

	for (guint i = 0; i < sizes->len; i++) {
		const VialDemandedSize *size = sizes->pdata[i];

		shrink(pool, size->hash, &size->limits, TRUE, percent);
	}
	for (guint i = 0; i < templates->len; i++) {
		const VialTemplate *template = templates->pdata[i];

		shrink(pool, template->hash, &template->limits, FALSE, percent);
		shrink(pool, template->hash, &template->limits, TRUE, percent);
	}
	if (pool->entries->len == before)
		return;
	given_back = g_strdup_printf("%u", before - pool->entries->len);
	available = g_strdup_printf("%u%%", percent);
	vial_log_info("pool", "memory is short, giving back", "count", given_back, "available", available);
}

static void give_back_stale(VialPool *pool)
{
	for (guint i = pool->entries->len; i > 0; i--) {
		Entry *entry = pool->entries->pdata[i - 1];

		if (is_stale(pool, entry))
			discard(entry, FALSE);
	}
}

void vial_pool_refresh(VialPool *pool)
{
	if (!pool || pool->is_closed)
		return;
	give_back_stale(pool);
	vial_pool_kick(pool);
}

/* Sleeping and waking */

/* A call that is being answered counts as long as it lasts. */
static gboolean is_being_used(VialPool *pool)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, vial_sandboxes_table(pool->app->sandboxes));
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (((VialSandbox *)value)->active > 0)
			return TRUE;
	return FALSE;
}

/* Until it may sleep; -1: it may not. */
static gint64 awake_for_ms(VialPool *pool)
{
	gint64 idle_ms = pool->app->config->pool_idle_seconds * 1000;

	return idle_ms > 0 ? MAX(pool->called_ms + idle_ms - vial_time_monotonic_ms(), 0) : -1;
}

static void fall_asleep(VialPool *pool)
{
	pool->is_asleep = TRUE;
	g_clear_handle_id(&pool->rest, g_source_remove);
	while (pool->entries->len > 0)
		discard(pool->entries->pdata[pool->entries->len - 1], FALSE);
	vial_log_info("pool", "nobody calls: the pool sleeps");
}

static gboolean on_look(gpointer data);

static void look_later(VialPool *pool, guint percent)
{
	guint seconds = percent >= FAR_PERCENT ? FAR_LOOK_SECONDS : LOOK_SECONDS;
	gint64 awake_ms = awake_for_ms(pool);

	if (awake_ms >= 0)
		seconds = (guint)MIN(seconds, awake_ms / 1000 + 1);
	pool->look = g_timeout_add_seconds(seconds, on_look, pool);
}

static gboolean on_look(gpointer data)
{
	VialPool *pool = data;
	guint percent = vial_pool_memory_percent();
	VialLimits limits;
	gboolean restored;

	pool->look = 0;
	if (is_being_used(pool))
		pool->called_ms = vial_time_monotonic_ms();
	if (awake_for_ms(pool) == 0) {
		fall_asleep(pool);
		return G_SOURCE_REMOVE;
	}
	give_back_stale(pool);
	shrink_all(pool, percent);
	if (find_missing(pool, &limits, &restored))
		vial_pool_kick(pool);
	look_later(pool, percent);
	return G_SOURCE_REMOVE;
}

void vial_pool_rouse(VialPool *pool)
{
	if (!pool)
		return;
	pool->called_ms = vial_time_monotonic_ms();
	if (!pool->is_asleep || pool->is_closed)
		return;
	pool->is_asleep = FALSE;
	vial_log_info("pool", "a call: the pool wakes up");
	look_later(pool, 0);
	rest(pool);
}

VialPool *vial_pool_new(VialApp *app)
{
	VialPool *pool = g_new0(VialPool, 1);

	pool->app = app;
	pool->entries = g_ptr_array_new();
	pool->demand = vial_demand_new();
	pool->called_ms = vial_time_monotonic_ms();
	if (app->config->pool_size > 0) {
		look_later(pool, 0);
		vial_pool_kick(pool);
	}
	return pool;
}

void vial_pool_drain(VialPool *pool, void (*done)(gpointer data), gpointer data)
{
	pool->is_closed = TRUE;
	g_clear_handle_id(&pool->look, g_source_remove);
	g_clear_handle_id(&pool->rest, g_source_remove);
	pool->drained = done;
	pool->drained_data = data;
	pool->closing = 1 + pool->entries->len + (pool->making ? 1 : 0);
	while (pool->entries->len > 0)
		discard(pool->entries->pdata[pool->entries->len - 1], TRUE);
	closed_one(pool);
}

void vial_pool_free(VialPool *pool)
{
	if (!pool)
		return;
	g_clear_handle_id(&pool->look, g_source_remove);
	g_clear_handle_id(&pool->rest, g_source_remove);
	g_ptr_array_unref(pool->entries);
	vial_demand_free(pool->demand);
	g_free(pool);
}

/* [{cpu, memory_mb, ready}]: the sizes besides its own. */
static json_t *sizes_json(VialPool *pool, const VialTemplate *template)
{
	GPtrArray *sizes = vial_demand_sizes(pool->demand, vial_time_monotonic_ms());
	json_t *list = json_array();

	for (guint i = 0; i < sizes->len; i++) {
		const VialDemandedSize *size = sizes->pdata[i];
		const VialTemplate *edition = vial_edition_find(pool->app, size->hash);

		if (edition && strcmp(edition->name, template->name) == 0 && g_strcmp0(edition->project, template->project) == 0)
			json_array_append_new(list,
			                      json_pack("{s:f, s:I, s:I}", "cpu", size->limits.cpu, "memory_mb", (json_int_t)size->limits.memory_mb,
			                                "ready", (json_int_t)count(pool, size->hash, &size->limits, TRUE)));
	}
	return list;
}

json_t *vial_pool_json(VialPool *pool)
{
	GPtrArray *templates = vial_templates_all(pool->app->templates);
	json_t *list = json_object();

	for (guint i = 0; i < templates->len; i++) {
		VialTemplate *template = templates->pdata[i];

		if (template->project) /* what a project calls its own is nobody else's business */
			continue;
		json_object_set_new(list, template->name,
		                    json_pack("{s:I, s:I, s:o}", "ready", (json_int_t)count_own(pool, template, TRUE), "blank",
		                              (json_int_t)count_own(pool, template, FALSE), "sizes", sizes_json(pool, template)));
	}
	return list;
}

const char *vial_pool_state(VialPool *pool)
{
	if (pool->app->config->pool_size == 0)
		return "off";
	if (pool->is_asleep)
		return "asleep";
	return vial_pool_memory_percent() < BLANKS_PERCENT + MARGIN_PERCENT ? "short_of_memory" : "awake";
}
