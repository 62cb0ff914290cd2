/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/sandboxes.h"

#include <string.h>

#include "operations/entry.h"
#include "operations/limits.h"
#include "operations/facts.h"
#include "operations/surface_network.h"
#include "operations/validate.h"
#include "service/custom_templates.h"
#include "service/quota.h"
#include "service/snapshot.h"
#include "util/json.h"

static const char *const on_idle_choices[] = { [VIAL_ON_IDLE_DELETE] = "delete", [VIAL_ON_IDLE_HIBERNATE] = "hibernate", NULL };

/* Whoever waits for a change, and its record. */
typedef struct {
	VialEntry *entry;
	VialOperationDone done;
	VialSandboxDone sandbox_done;
	VialSandbox *sandbox;
	gpointer data;
} Waiter;

static Waiter *waiter_new(VialEntry *entry, VialOperationDone done, gpointer data)
{
	Waiter *waiter = g_new0(Waiter, 1);

	*waiter = (Waiter){ .entry = entry, .done = done, .data = data };
	return waiter;
}

/* Making */

static gint64 or_default(gint64 value)
{
	return value == VIAL_UNSAID ? -1 : value;
}

/* A client that does not say which of the two it means. */
static gboolean find_origin(const VialCaller *caller, VialCreateRequest *request, GError **error)
{
	const char *origin = request->origin;

	if (!origin)
		return TRUE;
	if (!vial_check_required("origin", origin, VIAL_NAME_MAX_BYTES, error))
		return FALSE;
	if (vial_snapshots_find(caller->app, caller->principal, origin, NULL))
		request->from_snapshot = origin;
	else if (vial_templates_find_in(caller->app->templates, caller->principal->project, origin) ||
	         vial_custom_templates_find(caller->app, caller->principal->project, origin))
		request->template_name = origin;
	else
		return vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no template \"%s\", and no snapshot", origin);
	return TRUE;
}

static gboolean check_create(VialCreateRequest *request, int *out_on_idle, GError **error)
{
	return vial_check_text("template", request->template_name, VIAL_NAME_MAX_BYTES, error) &&
	       vial_check_text("engine", request->engine, VIAL_NAME_MAX_BYTES, error) &&
	       vial_check_text("from_snapshot", request->from_snapshot, VIAL_NAME_MAX_BYTES, error) &&
	       vial_check_size(request->tier, &request->cpu, &request->memory_mb, error) &&
	       vial_check_int("ttl_seconds", request->ttl_seconds, 0, VIAL_LIFETIME_MAX_SECONDS, error) &&
	       vial_check_int("idle_seconds", request->idle_seconds, 0, VIAL_LIFETIME_MAX_SECONDS, error) &&
	       vial_check_choice("on_idle", request->on_idle, on_idle_choices, out_on_idle, error) && vial_check_metadata(request->metadata, error) &&
	       vial_check_env(request->env, error);
}

/* A disk is as large as its template's. */
static gboolean has_disk(const VialCaller *caller, const VialCreateRequest *request, GError **error)
{
	const char *name = request->template_name ? request->template_name : caller->app->config->default_template;
	const VialTemplate *template = vial_templates_find_in(caller->app->templates, caller->principal->project, name);

	if (!vial_check_int("disk_gb", request->disk_gb, 0, VIAL_DISK_MAX_GB, error))
		return FALSE;
	/* That there is none is told where it would be used. */
	if (request->disk_gb == VIAL_UNSAID || !template || template->limits.disk_mb >= request->disk_gb * 1024)
		return TRUE;
	return vial_fail(error, VIAL_ERROR_INVALID,
	                 "a sandbox of %s has a disk of %" G_GINT64_FORMAT " MB, and %" G_GINT64_FORMAT
	                 " GB are wanted: choose a template with a larger one",
	                 template->name, (gint64) template->limits.disk_mb, request->disk_gb);
}

/* Everything but the environment's values. */
static json_t *create_record(const VialCreateRequest *request)
{
	json_t *body = json_pack("{s:s*, s:s*, s:s*, s:b}", "template", request->template_name, "from_snapshot", request->from_snapshot, "on_idle",
	                         request->on_idle, "persistent", request->persistent);

	if (request->cpu != (double)VIAL_UNSAID)
		json_object_set_new(body, "cpu", json_real(request->cpu));
	if (request->memory_mb != VIAL_UNSAID)
		json_object_set_new(body, "memory_mb", json_integer(request->memory_mb));
	if (request->ttl_seconds != VIAL_UNSAID)
		json_object_set_new(body, "ttl_seconds", json_integer(request->ttl_seconds));
	if (request->idle_seconds != VIAL_UNSAID)
		json_object_set_new(body, "idle_seconds", json_integer(request->idle_seconds));
	if (request->rests_when_over)
		json_object_set_new(body, "rests_when_over", json_true());
	if (request->wakes_by_use)
		json_object_set_new(body, "wakes_by_use", json_true());
	vial_facts_copy(body, "metadata", request->metadata);
	vial_facts_copy(body, "network", request->network);
	vial_facts_env(body, request->env);
	return body;
}

/* A key for certain agents makes its sandboxes through them. */
static gboolean may_make(const VialCaller *caller, GError **error)
{
	g_autoptr(GError) refusal = NULL;

	if (vial_ceiling_agentless(caller->principal, &refusal))
		return TRUE;
	vial_entry_refuse(caller, VIAL_VERB_SANDBOX_CREATE, NULL, NULL, refusal);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return FALSE;
}

static void on_created(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autofree Waiter *waiter = data;
	g_autoptr(GError) unrecorded = NULL;

	if (sandbox)
		vial_entry_set_sandbox(waiter->entry, sandbox);
	error = vial_entry_settle(waiter->entry, error, &unrecorded);
	waiter->sandbox_done(error ? NULL : sandbox, error, waiter->data);
}

gboolean vial_op_sandbox_create(const VialCaller *caller, const VialCreateRequest *asked, VialSandboxDone done, gpointer data, GError **error)
{
	VialCreateRequest request = *asked;
	g_autoptr(json_t) network = NULL;
	VialSandboxCreate create;
	VialEntry *entry;
	Waiter *waiter;
	int on_idle;

	if (!vial_operation_admit(caller, VIAL_VERB_SANDBOX_CREATE, NULL, 1, NULL, error) || !find_origin(caller, &request, error))
		return FALSE;
	/* A snapshot brings its own. */
	if (!request.network && !request.from_snapshot)
		request.network = network = vial_surface_network(caller);
	if (!check_create(&request, &on_idle, error) || !has_disk(caller, &request, error) || !may_make(caller, error) ||
	    !(entry = vial_entry_begin(caller, VIAL_VERB_SANDBOX_CREATE, NULL, create_record(&request), error)))
		return FALSE;
	create = (VialSandboxCreate){
		.template_name = request.template_name,
		.engine = request.engine,
		.from_snapshot = request.from_snapshot,
		.cpu = request.cpu == (double)VIAL_UNSAID ? 0 : request.cpu,
		.memory_mb = request.memory_mb == VIAL_UNSAID ? 0 : request.memory_mb,
		.ttl_seconds = or_default(request.ttl_seconds),
		.idle_seconds = or_default(request.idle_seconds),
		.on_idle = on_idle,
		.persistent = request.persistent,
		.rests_when_over = request.rests_when_over,
		.wakes_by_use = request.wakes_by_use,
		.metadata = request.metadata,
		.env = request.env,
		.network = request.network,
	};
	waiter = waiter_new(entry, NULL, data);
	waiter->sandbox_done = done;
	vial_sandboxes_create(caller->app, caller->principal, &create, on_created, waiter);
	return TRUE;
}

/* Finding */

VialSandbox *vial_op_sandbox_get(const VialCaller *caller, const char *sandbox_id, GError **error)
{
	VialSandbox *sandbox = NULL;

	return vial_operation_admit(caller, VIAL_VERB_SANDBOX_READ, sandbox_id, 0, &sandbox, error) ? sandbox : NULL;
}

static gboolean has_metadata(const VialSandbox *sandbox, json_t *wanted)
{
	const char *name;
	json_t *value;

	json_object_foreach (wanted, name, value)
		if (!json_equal(json_object_get(vial_sandbox_metadata(sandbox), name), value))
			return FALSE;
	return TRUE;
}

static gboolean is_wanted(const VialCaller *caller, const VialSandboxFilter *filter, VialSandbox *sandbox)
{
	return (filter->states == 0 || (filter->states & (1u << vial_sandbox_state(sandbox)))) &&
	       (!filter->template_name || strcmp(filter->template_name, vial_sandbox_template(sandbox)) == 0) &&
	       vial_sandbox_created_at_ms(sandbox) >= filter->since_ms && has_metadata(sandbox, filter->metadata) &&
	       vial_operation_may_touch(caller, sandbox, NULL);
}

static void reverse(GPtrArray *all)
{
	for (guint i = 0, j = all->len; i + 1 < j; i++) {
		gpointer front = all->pdata[i];

		all->pdata[i] = all->pdata[--j];
		all->pdata[j] = front;
	}
}

/* A page starts behind the sandbox named by the cursor; one that has gone since starts at the front again. */
static guint find_start(GPtrArray *all, const char *cursor)
{
	for (guint i = 0; cursor && i < all->len; i++)
		if (strcmp(vial_sandbox_id(all->pdata[i]), cursor) == 0)
			return i + 1;
	return 0;
}

GPtrArray *vial_op_sandbox_list(const VialCaller *caller, const VialSandboxFilter *filter, const char **out_next, GError **error)
{
	g_autoptr(GPtrArray) all = NULL, page = g_ptr_array_new_with_free_func((GDestroyNotify)vial_sandbox_unref);
	VialState state = VIAL_STATE_RUNNING;

	if (!vial_operation_admit(caller, VIAL_VERB_SANDBOX_LIST, NULL, 0, NULL, error))
		return NULL;
	if (filter->state && !vial_state_parse(filter->state, &state))
		return vial_fail(error, VIAL_ERROR_INVALID, "state \"%.32s\" is not one a sandbox can be in", filter->state), NULL;
	if (!vial_check_int("limit", filter->limit, 1, VIAL_PAGE_MAX, error))
		return NULL;
	all = vial_sandboxes_list(caller->app, caller->principal);
	if (filter->is_oldest_first)
		reverse(all);
	*out_next = NULL;
	for (guint i = find_start(all, filter->cursor); i < all->len; i++) {
		VialSandbox *sandbox = all->pdata[i];

		if ((filter->state && vial_sandbox_state(sandbox) != state) || !is_wanted(caller, filter, sandbox))
			continue;
		if (page->len == filter->limit) {
			*out_next = vial_sandbox_id(page->pdata[page->len - 1]);
			break;
		}
		g_ptr_array_add(page, vial_sandbox_ref(sandbox));
	}
	return g_steal_pointer(&page);
}

/* Changing */

static void on_changed(const GError *error, gpointer data)
{
	g_autofree Waiter *waiter = data;
	g_autoptr(GError) unrecorded = NULL;

	error = vial_entry_settle(waiter->entry, error, &unrecorded);
	waiter->sandbox_done(error ? NULL : waiter->sandbox, error, waiter->data);
	vial_sandbox_unref(waiter->sandbox);
}

static json_t *lifecycle_record(const VialLifecycleRequest *request)
{
	json_t *body = json_pack("{s:s*}", "on_idle", request->on_idle);

	if (request->ttl_seconds != VIAL_UNSAID)
		json_object_set_new(body, "ttl_seconds", json_integer(request->ttl_seconds));
	if (request->idle_seconds != VIAL_UNSAID)
		json_object_set_new(body, "idle_seconds", json_integer(request->idle_seconds));
	if (request->persistent >= 0)
		json_object_set_new(body, "persistent", json_boolean(request->persistent));
	return body;
}

gboolean vial_op_lifecycle_change(const VialCaller *caller, const char *sandbox_id, const VialLifecycleRequest *request, VialSandboxDone done,
                                  gpointer data, GError **error)
{
	VialLifecycle lifecycle = {
		.ttl_seconds = or_default(request->ttl_seconds),
		.idle_seconds = or_default(request->idle_seconds),
		.persistent = request->persistent,
		.rests_when_over = -1,
		.only_longer = request->only_longer,
	};
	GError *refusal = NULL;
	VialSandbox *sandbox;
	VialEntry *entry;
	Waiter *waiter;

	if (!vial_operation_admit(caller, VIAL_VERB_LIFECYCLE_CHANGE, sandbox_id, 0, &sandbox, error) ||
	    !vial_check_int("ttl_seconds", request->ttl_seconds, 0, VIAL_LIFETIME_MAX_SECONDS, error) ||
	    !vial_check_int("idle_seconds", request->idle_seconds, 0, VIAL_LIFETIME_MAX_SECONDS, error) ||
	    !vial_check_choice("on_idle", request->on_idle, on_idle_choices, &lifecycle.on_idle, error))
		return FALSE;
	entry = vial_entry_begin(caller, VIAL_VERB_LIFECYCLE_CHANGE, sandbox, lifecycle_record(request), error);
	if (!entry)
		return FALSE;
	if (!vial_sandbox_set_lifecycle(sandbox, caller->principal, &lifecycle, &refusal)) {
		vial_entry_settle(entry, refusal, NULL);
		g_propagate_error(error, refusal);
		return FALSE;
	}
	waiter = waiter_new(entry, NULL, data);
	waiter->sandbox_done = done;
	waiter->sandbox = vial_sandbox_ref(sandbox);
	vial_sandbox_store_then(sandbox, on_changed, waiter);
	return TRUE;
}

/* Ending, and power */

static void on_done(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autofree Waiter *waiter = data;
	g_autoptr(GError) unrecorded = NULL;

	error = vial_entry_settle(waiter->entry, error, &unrecorded);
	waiter->done(error, waiter->data);
}

gboolean vial_op_sandbox_delete(const VialCaller *caller, const char *sandbox_id, VialOperationDone done, gpointer data, GError **error)
{
	VialSandbox *sandbox;
	VialEntry *entry;

	if (!vial_operation_admit(caller, VIAL_VERB_SANDBOX_DELETE, sandbox_id, 0, &sandbox, error) ||
	    !(entry = vial_entry_begin(caller, VIAL_VERB_SANDBOX_DELETE, sandbox, NULL, error)))
		return FALSE;
	vial_sandbox_delete(sandbox, on_done, waiter_new(entry, done, data));
	return TRUE;
}

/* Whoever waits for a wake holds the sandbox: this one only wanted it awake. */
static void on_awake(VialSandbox *sandbox, const GError *error, gpointer data)
{
	on_done(sandbox, error, data);
	if (sandbox)
		vial_sandbox_release(sandbox);
}

gboolean vial_op_power(const VialCaller *caller, VialVerb verb, const char *sandbox_id, VialOperationDone done, gpointer data, GError **error)
{
	VialSandbox *sandbox;
	VialEntry *entry;
	Waiter *waiter;

	if (!vial_operation_admit(caller, verb, sandbox_id, 0, &sandbox, error) || !(entry = vial_entry_begin(caller, verb, sandbox, NULL, error)))
		return FALSE;
	waiter = waiter_new(entry, done, data);
	switch (verb) {
	case VIAL_VERB_PAUSE:
		vial_sandbox_pause(sandbox, on_done, waiter);
		return TRUE;
	case VIAL_VERB_RESUME:
		vial_sandbox_resume(sandbox, on_done, waiter);
		return TRUE;
	case VIAL_VERB_HIBERNATE:
		vial_sandbox_hibernate(sandbox, on_done, waiter);
		return TRUE;
	default:
		vial_sandbox_wake(sandbox, on_awake, waiter);
		return TRUE;
	}
}
