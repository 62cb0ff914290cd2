/* SPDX-License-Identifier: Apache-2.0 */
#include "service/quota.h"

#include <string.h>

#include "service/builds.h"
#include "service/project.h"
#include "service/sandbox_private.h"
#include "service/snapshot.h"
#include "util/time.h"

#define HOUR_MS ((gint64)3600 * 1000)

typedef struct {
	char *id; /* the sandbox's */
	char *project;
	char *key_id;
	gint64 at_ms;
} Creation;

struct VialPromise {
	VialApp *app;
	char *project;
	char *key_id;
	guint count; /* still to come */
	VialLimits limits;
};

struct VialQuotaBook {
	GQueue creations;    /* Creation, oldest first: the last hour's */
	GPtrArray *promises; /* VialPromise, borrowed */
	GHashTable *runs;    /* "project" or "project/principal" -> how many are under way */
	GHashTable *totals;  /* project -> how many there were since the start */
};

/* What is there */

typedef struct {
	guint sandboxes;
	double vcpu;
	gint64 memory_mb, disk_mb;
} Used;

static gboolean is_awake(const VialSandbox *sandbox)
{
	return sandbox->state != VIAL_STATE_HIBERNATED && sandbox->state != VIAL_STATE_FAILED && sandbox->state != VIAL_STATE_DELETED;
}

static void add(Used *used, guint count, const VialLimits *limits, gboolean awake)
{
	used->sandboxes += count;
	used->disk_mb += count * limits->disk_mb;
	if (awake) {
		used->vcpu += count * limits->cpu;
		used->memory_mb += count * limits->memory_mb;
	}
}

/* Of a project, or of one key of it. */
static gboolean is_promised_to(const VialPromise *promise, const char *project, const char *key_id)
{
	return (!project || strcmp(promise->project, project) == 0) && (!key_id || strcmp(promise->key_id, key_id) == 0);
}

static guint count_promised(VialApp *app, const char *project, const char *key_id)
{
	const GPtrArray *promises = app->quota_book->promises;
	guint count = 0;

	for (guint i = 0; i < promises->len; i++)
		if (is_promised_to(promises->pdata[i], project, key_id))
			count += ((VialPromise *)promises->pdata[i])->count;
	return count;
}

/* `project` NULL: of all. */
static Used count_used(VialApp *app, const char *project, const char *key_id)
{
	Used used = { 0 };
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->sandboxes->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const VialSandbox *sandbox = value;

		if (sandbox->state != VIAL_STATE_DELETED && (!project || strcmp(sandbox->project, project) == 0) &&
		    (!key_id || g_strcmp0(sandbox->key_id, key_id) == 0))
			add(&used, 1, &sandbox->limits, is_awake(sandbox));
	}
	for (guint i = 0; i < app->quota_book->promises->len; i++) {
		const VialPromise *promise = app->quota_book->promises->pdata[i];

		if (is_promised_to(promise, project, key_id))
			add(&used, promise->count, &promise->limits, TRUE);
	}
	return used;
}

gint64 vial_quota_awake_memory_mb(VialApp *app)
{
	return count_used(app, NULL, NULL).memory_mb;
}

static void count_one(json_t *counts, const char *name, gint64 n)
{
	json_object_set_new(counts, name, json_integer(json_integer_value(json_object_get(counts, name)) + n));
}

/* For people to read. A key that is gone, and a person, go by their id. */
static const char *name_of_key(VialApp *app, const char *key_id)
{
	const VialKey *key = vial_keys_find(app->keys, key_id);

	return key && *vial_key_identity(key)->name ? vial_key_identity(key)->name : key_id;
}

static const char *name_of(const VialIdentity *identity)
{
	return *identity->name ? identity->name : identity->id;
}

/* By which keys and from which templates: what somebody who has to make room wants to know. */
static json_t *who_has_them(VialApp *app, const char *project)
{
	json_t *by_key = json_object(), *by_template = json_object();
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->sandboxes->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const VialSandbox *sandbox = value;

		if (sandbox->state == VIAL_STATE_DELETED || strcmp(sandbox->project, project) != 0)
			continue;
		count_one(by_key, name_of_key(app, sandbox->key_id), 1);
		count_one(by_template, sandbox->template_name, 1);
	}
	return json_pack("{s:o, s:o}", "keys", by_key, "templates", by_template);
}

static char *describe(const json_t *counts)
{
	GString *text = g_string_new(NULL);
	const char *name;
	json_t *count;

	json_object_foreach ((json_t *)counts, name, count) {
		if (text->len > 200) {
			g_string_append(text, ", ...");
			break;
		}
		g_string_append_printf(text, "%s%" JSON_INTEGER_FORMAT " by %s", text->len ? ", " : "", json_integer_value(count), name);
	}
	return g_string_free(text, FALSE);
}

/* Refusing */

typedef struct {
	VialApp *app;
	const char *project;
	const char *key_name; /* NULL: it is the project's limit */
} Scope;

/* Whole numbers as such. */
static json_t *number(double value)
{
	return value == (double)(gint64)value ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *make_detail(const char *name, const Scope *scope, double limit, double used, double asked, json_t *by)
{
	return json_pack("{s:{s:s, s:s, s:s, s:s*, s:o, s:o, s:o, s:o*}}", "limit", "name", name, "scope", scope->key_name ? "key" : "project",
	                 "project", scope->project, "key", scope->key_name, "limit", number(limit), "used", number(used), "asked", number(asked),
	                 "by", by);
}

static gboolean refuse(const Scope *scope, const char *name, const char *unit, double limit, double used, double asked, GError **error)
{
	json_t *by = who_has_them(scope->app, scope->project);
	g_autofree char *text = describe(json_object_get(by, "keys"));

	return vial_fail_with(error, VIAL_ERROR_QUOTA, make_detail(name, scope, limit, used, asked, by),
	                      "%s %s uses %.10g of %.10g %s%s%s%s, so %.10g more cannot be had; delete some, or have an operator raise %s",
	                      scope->key_name ? "the key" : "the project", scope->key_name ? scope->key_name : scope->project, used, limit, unit,
	                      *text ? " (" : "", text, *text ? ")" : "", asked, name);
}

static gboolean fits(const Scope *scope, const char *name, const char *unit, double limit, double used, double asked, GError **error)
{
	/* Thousandths of processors are sums of fractions. */
	return limit < 0 || used + asked <= limit + 1e-6 || refuse(scope, name, unit, limit, used, asked, error);
}

static gboolean fits_awake(const Scope *scope, const VialQuotas *quotas, const Used *used, const Used *asked, GError **error)
{
	return fits(scope, "max_vcpu", "processors", quotas->max_vcpu, used->vcpu, asked->vcpu, error) &&
	       fits(scope, "max_memory_mb", "MB of memory", (double)quotas->max_memory_mb, (double)used->memory_mb, (double)asked->memory_mb, error);
}

static gboolean fits_all(const Scope *scope, const VialQuotas *quotas, const Used *used, const Used *asked, GError **error)
{
	return fits(scope, "max_sandboxes", "sandboxes", (double)quotas->max_sandboxes, used->sandboxes, asked->sandboxes, error) &&
	       fits_awake(scope, quotas, used, asked, error) &&
	       fits(scope, "max_disk_mb", "MB of disk", (double)quotas->max_disk_mb, (double)used->disk_mb, (double)asked->disk_mb, error);
}

/* Creations per hour */

static void creation_free(gpointer data)
{
	Creation *creation = data;

	g_free(creation->id);
	g_free(creation->project);
	g_free(creation->key_id);
	g_free(creation);
}

static void forget_old(VialApp *app)
{
	GQueue *creations = &app->quota_book->creations;
	gint64 now_ms = vial_time_now_ms();
	Creation *oldest;

	/* One from the future (the clock was set back) counts for an hour from now at most. */
	for (GList *l = creations->head; l; l = l->next)
		((Creation *)l->data)->at_ms = MIN(((Creation *)l->data)->at_ms, now_ms);
	while ((oldest = g_queue_peek_head(creations)) && oldest->at_ms <= now_ms - HOUR_MS) {
		vial_store_delete_creation(app->store, oldest->id);
		creation_free(g_queue_pop_head(creations));
	}
}

static gboolean is_of(const Creation *creation, const char *project, const char *key_id)
{
	return strcmp(creation->project, project) == 0 && (!key_id || strcmp(creation->key_id, key_id) == 0);
}

static guint count_creations(VialApp *app, const char *project, const char *key_id)
{
	guint count = 0;

	for (GList *l = app->quota_book->creations.head; l; l = l->next)
		count += is_of(l->data, project, key_id) ? 1 : 0;
	return count;
}

/* When so many of them will be an hour old; 0: never, for there are fewer. */
static gint64 when_forgotten_ms(VialApp *app, const char *project, const char *key_id, guint n)
{
	for (GList *l = app->quota_book->creations.head; l; l = l->next)
		if (is_of(l->data, project, key_id) && --n == 0)
			return ((Creation *)l->data)->at_ms + HOUR_MS;
	return 0;
}

static json_t *who_made_them(VialApp *app, const char *project)
{
	json_t *by_key = json_object();

	for (GList *l = app->quota_book->creations.head; l; l = l->next)
		if (is_of(l->data, project, NULL))
			count_one(by_key, name_of_key(app, ((Creation *)l->data)->key_id), 1);
	return json_pack("{s:o}", "keys", by_key);
}

static gboolean fits_hour(const Scope *scope, const VialQuotas *quotas, const char *key_id, guint asked, GError **error)
{
	gint64 limit = quotas->max_create_per_hour, when_ms, there;
	g_autofree char *text = NULL;
	json_t *detail, *by;

	if (limit == VIAL_NO_QUOTA)
		return TRUE;
	/* Those that a fork under way was promised are as good as made. */
	there = count_creations(scope->app, scope->project, key_id) + count_promised(scope->app, scope->project, key_id);
	if (there + asked <= limit)
		return TRUE;
	by = who_made_them(scope->app, scope->project);
	text = describe(json_object_get(by, "keys"));
	detail = make_detail("max_create_per_hour", scope, (double)limit, (double)there, asked, by);
	/* Where even an empty hour would not do, waiting does not help. */
	when_ms = when_forgotten_ms(scope->app, scope->project, key_id, (guint)(there + asked - limit));
	if (when_ms > 0 && asked <= limit)
		json_object_set_new(detail, "retry_after", json_integer(MAX((when_ms - vial_time_now_ms() + 999) / 1000, 1)));
	return vial_fail_with(error, VIAL_ERROR_QUOTA, detail,
	                      "%s %s has made %" G_GINT64_FORMAT " sandboxes in the last hour%s%s%s and may make %" G_GINT64_FORMAT
	                      ", so %u more cannot be made now; wait, or have an "
	                      "operator raise max_create_per_hour",
	                      scope->key_name ? "the key" : "the project", scope->key_name ? scope->key_name : scope->project, there,
	                      *text ? " (" : "", text, *text ? ")" : "", limit, asked);
}

static void note_creation(VialApp *app, const char *id, const char *project, const char *key_id)
{
	Creation *creation = g_new0(Creation, 1);

	*creation = (Creation){ .id = g_strdup(id), .project = g_strdup(project), .key_id = g_strdup(key_id), .at_ms = vial_time_now_ms() };
	g_queue_push_tail(&app->quota_book->creations, creation);
	vial_store_put_creation(
		app->store,
		&(VialCreationRecord){ .id = creation->id, .project = creation->project, .key_id = creation->key_id, .created_at = creation->at_ms });
}

/* Sandboxes */

static gboolean admit_in(const Scope *scope, const VialQuotas *quotas, const char *key_id, const Used *asked, GError **error)
{
	Used used;

	if (!quotas)
		return TRUE;
	used = count_used(scope->app, scope->project, key_id);
	return fits_all(scope, quotas, &used, asked, error) && fits_hour(scope, quotas, key_id, asked->sandboxes, error);
}

static gboolean admit(VialApp *app, const VialIdentity *principal, const Used *asked, GError **error)
{
	const VialProject *project = vial_projects_find(app->projects, principal->project);
	Scope whole = { app, principal->project, NULL }, own = { app, principal->project, name_of(principal) };

	if (!project)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the project %s is being deleted", principal->project);
	forget_old(app);
	return admit_in(&whole, project->quotas, NULL, asked, error) && admit_in(&own, principal->limits, principal->id, asked, error);
}

gboolean vial_quota_admit(VialSandbox *sandbox, const VialIdentity *principal, GError **error)
{
	VialState state = sandbox->state;
	Used asked = { 0 };
	gboolean is_admitted;

	add(&asked, 1, &sandbox->limits, TRUE);
	/* It is in the registry, and must not count twice. */
	sandbox->state = VIAL_STATE_DELETED;
	is_admitted = admit(sandbox->app, principal, &asked, error);
	sandbox->state = state;
	if (is_admitted)
		note_creation(sandbox->app, sandbox->id, sandbox->project, sandbox->key_id);
	return is_admitted;
}

gboolean vial_quota_admit_wake(VialSandbox *sandbox, GError **error)
{
	VialApp *app = sandbox->app;
	const VialProject *project = vial_projects_find(app->projects, sandbox->project);
	const VialKey *key = vial_keys_find(app->keys, sandbox->key_id);
	const VialIdentity *owner = key ? vial_key_identity(key) : NULL;
	Scope whole = { app, sandbox->project, NULL }, own = { app, sandbox->project, owner ? name_of(owner) : NULL };
	Used asked = { 0 }, used;

	add(&asked, 1, &sandbox->limits, TRUE);
	if (project && (project->quotas->max_vcpu >= 0 || project->quotas->max_memory_mb >= 0)) {
		used = count_used(app, sandbox->project, NULL);
		if (!fits_awake(&whole, project->quotas, &used, &asked, error))
			return FALSE;
	}
	if (owner && owner->limits) {
		used = count_used(app, sandbox->project, sandbox->key_id);
		return fits_awake(&own, owner->limits, &used, &asked, error);
	}
	return TRUE;
}

/* Promises */

VialPromise *vial_quota_promise(VialSandbox *parent, const VialIdentity *principal, guint count, GError **error)
{
	VialPromise *promise;
	Used asked = { 0 };

	add(&asked, count, &parent->limits, TRUE);
	if (!admit(parent->app, principal, &asked, error))
		return NULL;
	promise = g_new0(VialPromise, 1);
	*promise = (VialPromise){
		.app = parent->app, .project = g_strdup(parent->project), .key_id = g_strdup(principal->id), .count = count, .limits = parent->limits
	};
	g_ptr_array_add(parent->app->quota_book->promises, promise);
	return promise;
}

void vial_promise_keep(VialPromise *promise, const char *sandbox_id)
{
	if (!promise || promise->count == 0)
		return;
	promise->count--;
	note_creation(promise->app, sandbox_id, promise->project, promise->key_id);
}

void vial_promise_free(VialPromise *promise)
{
	if (!promise)
		return;
	g_ptr_array_remove(promise->app->quota_book->promises, promise);
	g_free(promise->project);
	g_free(promise->key_id);
	g_free(promise);
}

guint vial_quota_promised(VialApp *app, const char *project)
{
	return count_promised(app, project, NULL);
}

/* Runs */

static void change_count(GHashTable *counts, const char *name, int by)
{
	gint64 *count = g_hash_table_lookup(counts, name);

	if (!count) {
		count = g_new0(gint64, 1);
		g_hash_table_insert(counts, g_strdup(name), count);
	}
	*count += by;
	if (*count == 0)
		g_hash_table_remove(counts, name);
}

guint64 vial_quota_runs_total(VialApp *app, const char *project)
{
	const gint64 *count = g_hash_table_lookup(app->quota_book->totals, project);

	return count ? (guint64)*count : 0;
}

static json_t *who_runs(VialApp *app, const char *project)
{
	json_t *by_key = json_object();
	gsize length = strlen(project);
	GHashTableIter iter;
	gpointer name, count;

	/* No project's name has a slash in it. */
	g_hash_table_iter_init(&iter, app->quota_book->runs);
	while (g_hash_table_iter_next(&iter, &name, &count))
		if (strncmp(name, project, length) == 0 && ((char *)name)[length] == '/')
			count_one(by_key, name_of_key(app, (char *)name + length + 1), *(gint64 *)count);
	return json_pack("{s:o}", "keys", by_key);
}

static gboolean fits_runs(const Scope *scope, const VialQuotas *quotas, gint64 running, GError **error)
{
	g_autofree char *text = NULL;
	json_t *detail, *by;

	if (!quotas || quotas->max_concurrent_runs == VIAL_NO_QUOTA || running < quotas->max_concurrent_runs)
		return TRUE;
	by = who_runs(scope->app, scope->project);
	text = describe(json_object_get(by, "keys"));
	detail = make_detail("max_concurrent_runs", scope, (double)quotas->max_concurrent_runs, (double)running, 1, by);
	if (quotas->max_concurrent_runs > 0)
		json_object_set_new(detail, "retry_after", json_integer(1));
	return vial_fail_with(error, VIAL_ERROR_QUOTA, detail,
	                      "%s %s runs %" G_GINT64_FORMAT " cells and commands at once%s%s%s, and may run %" G_GINT64_FORMAT
	                      "; wait for one to end, or have an operator raise max_concurrent_runs",
	                      scope->key_name ? "the key" : "the project", scope->key_name ? scope->key_name : scope->project, running,
	                      *text ? " (" : "", text, *text ? ")" : "", quotas->max_concurrent_runs);
}

const VialIdentity *vial_quota_runner(const VialIdentity *principal, const VialSandbox *sandbox)
{
	gboolean is_token = sandbox && sandbox->key_id && principal->kind == VIAL_PRINCIPAL_SANDBOX;
	const VialKey *key = is_token ? vial_keys_find(sandbox->app->keys, sandbox->key_id) : NULL;

	return key ? vial_key_identity(key) : principal;
}

gboolean vial_quota_begin_run(VialApp *app, const VialIdentity *principal, GError **error)
{
	VialQuotaBook *book = app->quota_book;
	const VialProject *project = vial_projects_find(app->projects, principal->project);
	g_autofree char *own_name = g_strconcat(principal->project, "/", principal->id, NULL);
	Scope whole = { app, principal->project, NULL }, own = { app, principal->project, name_of(principal) };
	const gint64 *all = g_hash_table_lookup(book->runs, principal->project), *mine = g_hash_table_lookup(book->runs, own_name);

	if ((project && !fits_runs(&whole, project->quotas, all ? *all : 0, error)) || !fits_runs(&own, principal->limits, mine ? *mine : 0, error))
		return FALSE;
	change_count(book->runs, principal->project, 1);
	change_count(book->runs, own_name, 1);
	change_count(book->totals, principal->project, 1);
	return TRUE;
}

void vial_quota_end_run(VialApp *app, const char *project, const char *principal_id)
{
	g_autofree char *own_name = g_strconcat(project, "/", principal_id, NULL);

	change_count(app->quota_book->runs, project, -1);
	change_count(app->quota_book->runs, own_name, -1);
}

/* Snapshots */

static gint64 snapshot_bytes(VialApp *app, const char *project)
{
	g_autoptr(GPtrArray) list = vial_snapshots_of(app, project);
	gint64 total = 0;

	for (guint i = 0; i < list->len; i++)
		total += ((VialSnapshot *)list->pdata[i])->size_bytes;
	return total;
}

static json_t *which_snapshots(VialApp *app, const char *project)
{
	g_autoptr(GPtrArray) list = vial_snapshots_of(app, project);
	json_t *sizes = json_object();

	for (guint i = 0; i < list->len; i++) {
		const VialSnapshot *snapshot = list->pdata[i];

		g_autofree char *undo = snapshot->is_undo ? g_strdup_printf("undo of %s (%s)", snapshot->sandbox_id, snapshot->id) : NULL;

		json_object_set_new(sizes, undo ? undo : snapshot->name ? snapshot->name : snapshot->id, json_integer(snapshot->size_bytes));
	}
	return json_pack("{s:o}", "snapshots", sizes);
}

static gboolean fits_snapshot(const Scope *scope, const VialQuotas *quotas, gint64 used, gint64 size, GError **error)
{
	gint64 limit = quotas ? quotas->max_snapshot_bytes : VIAL_NO_QUOTA;
	g_autofree char *asked = NULL;
	json_t *by;

	if (limit == VIAL_NO_QUOTA || (size != 0 ? used + size <= limit : used < limit))
		return TRUE;
	by = which_snapshots(scope->app, scope->project);
	asked = size > 0 ? g_strdup_printf("one of %" G_GINT64_FORMAT " bytes", size) : g_strdup("one more");
	return vial_fail_with(error, VIAL_ERROR_QUOTA, make_detail("max_snapshot_bytes", scope, (double)limit, (double)used, (double)size, by),
	                      "the %u snapshots of the project %s take %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT
	                      " bytes that %s may use, so there is no room for %s; delete some, or have an operator raise max_snapshot_bytes",
	                      (unsigned)json_object_size(json_object_get(by, "snapshots")), scope->project, used, limit,
	                      scope->key_name ? scope->key_name : "it", asked);
}

gboolean vial_quota_admit_snapshot(VialApp *app, const VialIdentity *principal, const char *name, gint64 size_bytes, GError **error)
{
	const VialProject *project = vial_projects_find(app->projects, name);
	Scope whole = { app, name, NULL }, own = { app, name, principal ? name_of(principal) : NULL };
	gint64 used = snapshot_bytes(app, name);

	/* Snapshots belong to the project, not to keys: a key's own limit is of all of them. */
	return fits_snapshot(&whole, project ? project->quotas : NULL, used, size_bytes, error) &&
	       (!principal || fits_snapshot(&own, principal->limits, used, size_bytes, error));
}

/* Templates */

static json_t *which_templates(VialApp *app, const char *project)
{
	g_autoptr(GPtrArray) list = vial_custom_templates_of(app, project);
	json_t *names = json_object();

	for (guint i = 0; i < list->len; i++)
		count_one(names, ((VialCustomTemplate *)list->pdata[i])->name, 1);
	return json_pack("{s:o}", "templates", names);
}

static gboolean fits_template(const Scope *scope, const VialQuotas *quotas, const char *key_id, GError **error)
{
	gint64 limit = quotas ? quotas->max_templates : VIAL_NO_QUOTA;
	guint used;

	if (limit == VIAL_NO_QUOTA)
		return TRUE;
	used = vial_custom_templates_count(scope->app, scope->project, key_id) + vial_builds_promised(scope->app, scope->project, key_id) +
	       vial_custom_templates_promised(scope->app, scope->project, key_id);
	if (used < limit)
		return TRUE;
	return vial_fail_with(
		error, VIAL_ERROR_QUOTA, make_detail("max_templates", scope, (double)limit, used, 1, which_templates(scope->app, scope->project)),
		"%s %s has %u of %" G_GINT64_FORMAT
		" templates, those that are being made included, so one more cannot be made; delete some, or have an operator raise max_templates",
		scope->key_name ? "the key" : "the project", scope->key_name ? scope->key_name : scope->project, used, limit);
}

gboolean vial_quota_admit_template(VialApp *app, const VialIdentity *principal, const char *name, const char *tag, GError **error)
{
	const VialProject *project = vial_projects_find(app->projects, principal->project);
	Scope whole = { app, principal->project, NULL }, own = { app, principal->project, name_of(principal) };

	if (!project)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the project %s is being deleted", principal->project);
	if (vial_custom_templates_replaces(app, principal->project, name, tag))
		return TRUE;
	return fits_template(&whole, project->quotas, NULL, error) && fits_template(&own, principal->limits, principal->id, error);
}

json_t *vial_quota_used_json(VialApp *app, const char *project)
{
	Used used = count_used(app, project, NULL);
	const gint64 *runs = g_hash_table_lookup(app->quota_book->runs, project);

	forget_old(app);
	return json_pack("{s:i, s:f, s:I, s:I, s:I, s:i, s:i, s:I}", "sandboxes", (int)used.sandboxes, "vcpu", used.vcpu, "memory_mb",
	                 (json_int_t)used.memory_mb, "disk_mb", (json_int_t)used.disk_mb, "snapshot_bytes", (json_int_t)snapshot_bytes(app, project),
	                 "templates", (int)vial_custom_templates_count(app, project, NULL), "created_last_hour",
	                 (int)count_creations(app, project, NULL), "concurrent_runs", (json_int_t)(runs ? *runs : 0));
}

json_t *vial_quota_by_json(VialApp *app, const char *project)
{
	return who_has_them(app, project);
}

/* The book */

static int by_time(gconstpointer a, gconstpointer b, gpointer unused)
{
	const Creation *left = a, *right = b;

	return left->at_ms < right->at_ms ? -1 : left->at_ms > right->at_ms;
}

VialQuotaBook *vial_quota_book_load(VialApp *app, GError **error)
{
	g_autoptr(GPtrArray) records = vial_store_load_creations(app->store, error);
	VialQuotaBook *book;

	if (!records)
		return NULL;
	book = g_new0(VialQuotaBook, 1);
	g_queue_init(&book->creations);
	book->promises = g_ptr_array_new();
	book->runs = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	book->totals = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	for (guint i = 0; i < records->len; i++) {
		const VialCreationRecord *record = records->pdata[i];
		Creation *creation = g_new0(Creation, 1);

		*creation = (Creation){ g_strdup(record->id), g_strdup(record->project), g_strdup(record->key_id), record->created_at };
		g_queue_push_tail(&book->creations, creation);
	}
	g_queue_sort(&book->creations, by_time, NULL);
	return book;
}

void vial_quota_book_free(VialQuotaBook *book)
{
	if (!book)
		return;
	g_queue_clear_full(&book->creations, creation_free);
	g_ptr_array_unref(book->promises);
	g_hash_table_unref(book->runs);
	g_hash_table_unref(book->totals);
	g_free(book);
}
