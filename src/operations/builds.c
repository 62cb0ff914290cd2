/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/builds.h"

#include <string.h>

#include "operations/dockerfile.h"
#include "operations/entry.h"
#include "operations/facts.h"
#include "operations/limits.h"
#include "operations/steps.h"
#include "operations/surface_network.h"
#include "operations/validate.h"
#include "service/build_files.h"
#include "service/build_secrets.h"
#include "service/capacity.h"
#include "service/layer.h"
#include "service/quota.h"
#include "service/slots.h"
#include "util/json.h"

#define DEFAULT_TIMEOUT_SECONDS 1800

/* Whoever waits, and the record. */
typedef struct {
	VialEntry *entry;
	VialApp *app;
	VialIdentity *principal;
	char *project;
	char *id; /* of the build; of a template's: the name that it gets, and its tag */
	char *tag;
	VialSandbox *sandbox; /* held, or NULL */
	VialDocumentDone document_done;
	VialOperationDone done;
	gpointer data;
} Waiter;

static Waiter *waiter_new(const VialCaller *caller, VialEntry *entry, VialDocumentDone done, gpointer data)
{
	Waiter *waiter = g_new0(Waiter, 1);

	*waiter =
		(Waiter){ .entry = entry, .app = caller->app, .project = g_strdup(caller->principal->project), .document_done = done, .data = data };
	waiter->principal = vial_identity_ref((VialIdentity *)caller->principal);
	return waiter;
}

static void waiter_free(Waiter *waiter)
{
	if (waiter->sandbox)
		vial_sandbox_release(waiter->sandbox);
	vial_identity_unref(waiter->principal);
	g_free(waiter->project);
	g_free(waiter->id);
	g_free(waiter->tag);
	g_free(waiter);
}

/* What is asked for */

/* A build, from what was asked for to what the service wants; everything in it is its own. */
typedef struct {
	char *name, *tag, *workdir; /* workdir NULL: the base says it, or nobody */
	json_t *source, *steps, *network;
	VialLimits limits;
	gint64 timeout_seconds;
} Plan;

static void plan_clear(Plan *plan)
{
	g_free(plan->name);
	g_free(plan->tag);
	g_free(plan->workdir);
	json_decref(plan->source);
	json_decref(plan->steps);
	json_decref(plan->network);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Plan, plan_clear)

static gboolean read_limits(VialApp *app, const VialTemplateBuildRequest *request, const VialTemplate *base, VialLimits *out, GError **error)
{
	double cpu = request->cpu;
	gint64 memory_mb = request->memory_mb;

	*out = base->limits;
	if (!vial_check_size(request->tier, &cpu, &memory_mb, error) ||
	    !vial_check_int("disk_mb", request->disk_mb, VIAL_DISK_MIN_MB, VIAL_DISK_MAX_MB, error))
		return FALSE;
	if (cpu != (double)VIAL_UNSAID)
		out->cpu = cpu;
	if (memory_mb != VIAL_UNSAID)
		out->memory_mb = memory_mb;
	if (request->disk_mb != VIAL_UNSAID)
		out->disk_mb = request->disk_mb;
	return vial_capacity_possible(app, out, error);
}

static gboolean check_args(json_t *args, GError **error)
{
	if (vial_check_env(args, error))
		return TRUE;
	g_prefix_error(error, "args: ");
	return FALSE;
}

/* Each must be long enough to be found again in what the steps print. */
static gboolean check_secrets(json_t *secrets, GError **error)
{
	const char *name;
	json_t *value;

	if (!vial_check_env(secrets, error)) {
		g_prefix_error(error, "secrets: ");
		return FALSE;
	}
	json_object_foreach (secrets, name, value)
		if (json_string_length(value) < VIAL_BUILD_SECRET_MIN_BYTES)
			return vial_fail(error, VIAL_ERROR_INVALID,
			                 "field \"secrets.%s\" has fewer than %d characters, and could not be kept out of the log: what is that "
			                 "short is no secret",
			                 name, VIAL_BUILD_SECRET_MIN_BYTES);
	if (vial_build_secrets_count(secrets) > VIAL_BUILD_SECRET_LINES_MAX)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"secrets\" has more than %d lines in all", VIAL_BUILD_SECRET_LINES_MAX);
	return TRUE;
}

static gboolean check_start(const VialTemplateBuildRequest *request, GError **error)
{
	if (request->start_user && !request->start_command && !request->ready_command)
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "field \"start_user\" says who runs start_command and ready_command, and there is neither");
	/* An empty one is how a template says that nothing is to be started which its base starts. */
	return (g_strcmp0(request->start_command, "") == 0 ||
	        vial_check_text("start_command", request->start_command, VIAL_COMMAND_MAX_BYTES, error)) &&
	       vial_check_text("ready_command", request->ready_command, VIAL_COMMAND_MAX_BYTES, error) &&
	       vial_check_text("start_user", request->start_user, VIAL_USER_MAX_BYTES, error);
}

static gboolean check(const VialCaller *caller, const VialTemplateBuildRequest *request, GError **error)
{
	if (!request->steps == !request->dockerfile)
		return vial_fail(error, VIAL_ERROR_INVALID, "give either steps or dockerfile%s", request->steps ? ", not both" : "");
	if (request->args && !request->dockerfile)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"args\" is for the ARGs of a dockerfile");
	return vial_check_required("name", request->name, VIAL_NAME_MAX_BYTES, error) &&
	       vial_check_text("base", request->base, VIAL_NAME_MAX_BYTES, error) &&
	       vial_check_text("warm", request->warm, VIAL_WARM_MAX_BYTES, error) && check_start(request, error) &&
	       check_args(request->args, error) && check_secrets(request->secrets, error) &&
	       vial_check_int("timeout_seconds", request->timeout_seconds, 1, caller->app->config->max_build_seconds, error);
}

static json_t *make_source(const VialTemplateBuildRequest *request, const char *base, const Plan *plan)
{
	json_t *source = json_pack("{s:s, s:s*, s:O*, s:O*, s:O, s:s*, s:s*, s:s*, s:s*, s:I}", "base", base, "dockerfile", request->dockerfile,
	                           "steps", request->steps, "args", request->args, "network", plan->network, "warm", request->warm, "start_command",
	                           request->start_command, "ready_command", request->ready_command, "start_user", request->start_user,
	                           "timeout_seconds", (json_int_t)plan->timeout_seconds);
	json_t *names = json_array(), *value;
	const char *name;

	if (request->context)
		json_object_set_new(source, "context", json_string(request->context));
	if (json_array_size(request->tags) > 0)
		json_object_set(source, "tags", request->tags);
	if (plan->workdir)
		json_object_set_new(source, "workdir", json_string(plan->workdir));
	json_object_set_new(source, "cpu", json_real(plan->limits.cpu));
	json_object_set_new(source, "memory_mb", json_integer(plan->limits.memory_mb));
	json_object_set_new(source, "disk_mb", json_integer(plan->limits.disk_mb));
	json_object_foreach (request->secrets, name, value)
		json_array_append_new(names, json_string(name));
	if (json_array_size(names) > 0)
		json_object_set(source, "secret_names", names);
	json_decref(names);
	return source;
}

/* What its COPYs take along must be here, before anything begins. */
static gboolean has_files(const VialCaller *caller, const json_t *steps, GError **error)
{
	const json_t *step;
	gsize i;

	json_array_foreach ((json_t *)steps, i, step) {
		const json_t *copy = json_object_get(step, "copy");

		if (copy && !vial_build_files_have(caller->app, caller->principal->project, json_string_value(json_object_get(copy, "archive"))))
			return vial_fail(error, VIAL_ERROR_CONFLICT,
			                 "step %d: the files of COPY %.200s %.200s are not kept any more; send them again", (int)i + 1,
			                 json_string_value(json_object_get(copy, "from")), json_string_value(json_object_get(copy, "to")));
	}
	return TRUE;
}

static gboolean read_steps(const VialCaller *caller, const VialTemplateBuildRequest *request, const VialTemplate *base, Plan *plan, GError **error)
{
	const char *workdir = base->workdir ? base->workdir : request->workdir;

	if (!base->workdir)
		plan->workdir = g_strdup(request->workdir);
	plan->steps = request->dockerfile ? vial_dockerfile_parse(request->dockerfile, request->args, base->env, workdir, request->context, error)
	                                  : vial_steps_read(request->steps, workdir, request->may_copy, error);
	if (!plan->steps || !vial_steps_check(plan->steps, error) || !has_files(caller, plan->steps, error))
		return FALSE;
	if (json_array_size(plan->steps) > 0 || request->warm || request->start_command || request->ready_command)
		return TRUE;
	return vial_fail(error, VIAL_ERROR_INVALID, "there is nothing to build: give at least one step, or warm code, or a start command");
}

static gboolean read_network(const VialCaller *caller, json_t *network, Plan *plan, GError **error)
{
	g_autoptr(json_t) usual = network ? NULL : vial_surface_network(caller);

	network = network ? network : usual;
	plan->network = network ? vial_slots_read_network(caller->app->config, network, error) : json_pack("{s:s}", "mode", "disabled");
	return plan->network != NULL;
}

/* What may be asked for at all. */
static gboolean is_within(const VialCaller *caller, const VialTemplateBuildRequest *request, const char *base, const Plan *plan, GError **error)
{
	VialApp *app = caller->app;
	const VialIdentity *principal = caller->principal;

	return vial_ceiling_agentless(principal, error) && vial_ceiling_template(app, principal, base, error) &&
	       vial_ceiling_template(app, principal, request->name, error) &&
	       vial_ceiling_network(app, principal, json_string_value(json_object_get(plan->network, "mode")), error) &&
	       vial_ceiling_size(app, principal, &plan->limits, error);
}

static gboolean make_plan(const VialCaller *caller, VialVerb verb, const VialTemplateBuildRequest *request, Plan *plan, GError **error)
{
	const char *base_name = request->base ? request->base : caller->app->config->default_template;
	g_auto(VialTemplateBase) base = { 0 };
	g_autoptr(GError) refusal = NULL;

	if (!check(caller, request, error) || !vial_layers_supported(caller->app, error) ||
	    !vial_template_name_split(caller->app, "name", request->name, &plan->name, &plan->tag, error) ||
	    !vial_template_tags_check(caller->app, plan->name, request->tags, error) ||
	    !vial_custom_templates_base(caller->app, caller->principal->project, base_name, &base, error) ||
	    !vial_template_base_takes_secrets(&base, request->secrets, error) ||
	    !read_limits(caller->app, request, base.template, &plan->limits, error) || !read_steps(caller, request, base.template, plan, error) ||
	    !read_network(caller, request->network, plan, error))
		return FALSE;
	plan->timeout_seconds = request->timeout_seconds == VIAL_UNSAID ? MIN(DEFAULT_TIMEOUT_SECONDS, caller->app->config->max_build_seconds)
	                                                                : request->timeout_seconds;
	plan->source = make_source(request, base_name, plan);
	if (is_within(caller, request, base_name, plan, &refusal))
		return TRUE;
	vial_entry_refuse(caller, verb, NULL, NULL, refusal);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return FALSE;
}

/* Building */

static void on_queued(const GError *error, gpointer data)
{
	Waiter *waiter = data;
	g_autoptr(GError) unrecorded = NULL;
	VialBuild *build = vial_builds_find(waiter->app, waiter->project, waiter->id, NULL);
	g_autoptr(json_t) document = build ? vial_build_json(build, FALSE) : NULL;

	error = vial_entry_settle(waiter->entry, error, &unrecorded);
	/* What nobody may be told of must not happen either. */
	if (error && build)
		vial_build_cancel(build, "viald: it could not be recorded", NULL);
	waiter->document_done(error ? NULL : document, error, waiter->data);
	waiter_free(waiter);
}

/* What is run is on record, with the names of secrets and without their values. */
static json_t *build_record(const VialTemplateBuildRequest *request, const Plan *plan)
{
	json_t *body = json_pack("{s:s, s:O}", "name", request->name, "steps", plan->steps);
	static const char *const fields[] = { "base",    "args",         "tags", "workdir",       "cpu",           "memory_mb",  "disk_mb",
		                              "network", "secret_names", "warm", "start_command", "ready_command", "start_user", "timeout_seconds" };

	for (gsize i = 0; i < G_N_ELEMENTS(fields); i++)
		vial_facts_copy(body, fields[i], json_object_get(plan->source, fields[i]));
	return body;
}

static gboolean build(const VialCaller *caller, VialVerb verb, const VialTemplateBuildRequest *request, VialDocumentDone done, gpointer data,
                      GError **error)
{
	g_auto(Plan) plan = { 0 };
	VialBuildRequest wanted;
	GError *refusal = NULL;
	VialBuild *queued;
	VialEntry *entry;
	Waiter *waiter;

	if (!make_plan(caller, verb, request, &plan, error) || !(entry = vial_entry_begin(caller, verb, NULL, build_record(request, &plan), error)))
		return FALSE;
	wanted = (VialBuildRequest){
		.id = request->id,
		.name = plan.name,
		.tag = plan.tag,
		.source = plan.source,
		.steps = plan.steps,
		.secrets = request->secrets,
		.limits = plan.limits,
		.network = plan.network,
		.timeout_seconds = plan.timeout_seconds,
		.no_cache = request->no_cache,
	};
	waiter = waiter_new(caller, entry, done, data);
	queued = vial_builds_add(caller->app, caller->principal, &wanted, on_queued, waiter, &refusal);
	if (!queued) {
		vial_entry_settle(entry, refusal, NULL);
		g_propagate_error(error, refusal);
		waiter_free(waiter);
		return FALSE;
	}
	waiter->id = g_strdup(vial_build_id(queued));
	json_object_set_new(vial_entry_body(entry), "build", json_string(waiter->id));
	return TRUE;
}

gboolean vial_op_template_build(const VialCaller *caller, const VialTemplateBuildRequest *request, VialDocumentDone done, gpointer data,
                                GError **error)
{
	return vial_operation_admit(caller, VIAL_VERB_TEMPLATE_BUILD, NULL, 1, NULL, error) &&
	       build(caller, VIAL_VERB_TEMPLATE_BUILD, request, done, data, error);
}

VialBuildContext *vial_op_build_context(const VialCaller *caller, const VialBuildFileSink *sink, gpointer data, GError **error)
{
	VialBuildContext *context = NULL;
	GError *refusal = NULL;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_BUILD, NULL, 1, NULL, error))
		return NULL;
	if (vial_ceiling_agentless(caller->principal, &refusal))
		context = vial_build_context_new(caller->app, caller->principal->project, sink, data, &refusal);
	if (!context) {
		vial_op_build_context_refused(caller, refusal);
		g_propagate_error(error, refusal);
	}
	return context;
}

void vial_op_build_context_refused(const VialCaller *caller, const GError *refusal)
{
	vial_entry_refuse(caller, VIAL_VERB_TEMPLATE_BUILD, NULL, NULL, refusal);
}

static VialCustomTemplate *find(const VialCaller *caller, VialVerb verb, const char *name, GError **error)
{
	VialCustomTemplate *custom = vial_custom_templates_find(caller->app, caller->principal->project, name);
	g_autoptr(GError) refusal = NULL;

	if (!custom) {
		if (vial_templates_find_in(caller->app->templates, NULL, name))
			vial_fail(error, VIAL_ERROR_CONFLICT, "\"%s\" is a template that everybody has; only the operator's images change it", name);
		else
			vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no template \"%.64s\"", name);
		return NULL;
	}
	if (vial_ceiling_template(caller->app, caller->principal, name, &refusal))
		return custom;
	vial_entry_refuse(caller, verb, NULL, NULL, refusal);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return NULL;
}

/* All that the last build needed must be there again. */
static gboolean has_secrets(const json_t *source, json_t *secrets, GError **error)
{
	const json_t *name;
	gsize i;

	json_array_foreach (json_object_get(source, "secret_names"), i, name)
		if (!json_object_get(secrets, json_string_value(name)))
			return vial_fail(error, VIAL_ERROR_INVALID,
			                 "field \"secrets.%s\" is required: it was built with it, and secrets are not kept", json_string_value(name));
	return TRUE;
}

gboolean vial_op_template_rebuild(const VialCaller *caller, const char *name, json_t *secrets, gboolean no_cache, VialDocumentDone done,
                                  gpointer data, GError **error)
{
	VialTemplateBuildRequest request = { .name = name, .secrets = secrets, .no_cache = no_cache };
	const VialCustomTemplate *custom;
	g_autoptr(json_t) source = NULL;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_REBUILD, NULL, 1, NULL, error) ||
	    !(custom = find(caller, VIAL_VERB_TEMPLATE_REBUILD, name, error)))
		return FALSE;
	if (!custom->source)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "\"%s\" was made out of a sandbox; there are no steps to repeat", name);
	source = json_incref(custom->source);
	if (!has_secrets(source, secrets, error))
		return FALSE;
	request.base = json_string_value(json_object_get(source, "base"));
	request.dockerfile = json_string_value(json_object_get(source, "dockerfile"));
	request.context = json_string_value(json_object_get(source, "context"));
	request.steps = json_object_get(source, "steps");
	request.may_copy = TRUE;
	request.args = json_object_get(source, "args");
	request.tags = json_object_get(source, "tags");
	request.workdir = json_string_value(json_object_get(source, "workdir"));
	request.cpu = json_number_value(json_object_get(source, "cpu"));
	request.memory_mb = json_integer_value(json_object_get(source, "memory_mb"));
	request.disk_mb = json_integer_value(json_object_get(source, "disk_mb"));
	request.network = json_object_get(source, "network");
	request.warm = json_string_value(json_object_get(source, "warm"));
	request.start_command = json_string_value(json_object_get(source, "start_command"));
	request.ready_command = json_string_value(json_object_get(source, "ready_command"));
	request.start_user = json_string_value(json_object_get(source, "start_user"));
	request.timeout_seconds = MIN(json_integer_value(json_object_get(source, "timeout_seconds")), caller->app->config->max_build_seconds);
	return build(caller, VIAL_VERB_TEMPLATE_REBUILD, &request, done, data, error);
}

/* Deleting */

static void on_deleted(const GError *error, gpointer data)
{
	Waiter *waiter = data;
	g_autoptr(GError) unrecorded = NULL;

	error = vial_entry_settle(waiter->entry, error, &unrecorded);
	waiter->done(error, waiter->data);
	waiter_free(waiter);
}

gboolean vial_op_template_delete(const VialCaller *caller, const char *name, VialOperationDone done, gpointer data, GError **error)
{
	GError *refusal = NULL;
	VialEntry *entry;
	Waiter *waiter;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_DELETE, NULL, 0, NULL, error) || !find(caller, VIAL_VERB_TEMPLATE_DELETE, name, error) ||
	    !(entry = vial_entry_begin(caller, VIAL_VERB_TEMPLATE_DELETE, NULL, json_pack("{s:s}", "name", name), error)))
		return FALSE;
	waiter = waiter_new(caller, entry, NULL, data);
	waiter->done = done;
	if (vial_custom_templates_delete(caller->app, caller->principal->project, name, on_deleted, waiter, &refusal))
		return TRUE;
	vial_entry_settle(entry, refusal, NULL);
	g_propagate_error(error, refusal);
	waiter_free(waiter);
	return FALSE;
}

/* Out of a sandbox */

static void on_made(VialCustomTemplate *custom, const GError *error, gpointer data)
{
	Waiter *waiter = data;
	g_autoptr(GError) unrecorded = NULL;
	g_autoptr(json_t) document = custom ? vial_custom_template_json(waiter->app, custom, TRUE) : NULL;

	if (custom)
		vial_entry_set(waiter->entry, "snapshot", json_string(custom->snapshot_id));
	error = vial_entry_settle(waiter->entry, error, &unrecorded);
	waiter->document_done(error ? NULL : document, error, waiter->data);
	waiter_free(waiter);
}

static void on_acquired(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Waiter *waiter = data;

	waiter->sandbox = sandbox;
	if (error)
		on_made(NULL, error, waiter);
	else
		vial_custom_template_from_sandbox(sandbox, waiter->principal, waiter->id, waiter->tag, on_made, waiter);
}

gboolean vial_op_template_from_sandbox(const VialCaller *caller, const char *sandbox_id, const char *name, VialDocumentDone done, gpointer data,
                                       GError **error)
{
	g_autofree char *base = NULL, *tag = NULL;
	g_autoptr(GError) refusal = NULL;
	VialSandbox *sandbox;
	VialEntry *entry;
	Waiter *waiter;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_MAKE, sandbox_id, 0, &sandbox, error) ||
	    !vial_check_required("name", name, VIAL_NAME_MAX_BYTES, error) ||
	    !vial_template_name_split(caller->app, "name", name, &base, &tag, error))
		return FALSE;
	if (!vial_ceiling_template(caller->app, caller->principal, name, &refusal)) {
		vial_entry_refuse(caller, VIAL_VERB_TEMPLATE_MAKE, sandbox, NULL, refusal);
		g_propagate_error(error, g_steal_pointer(&refusal));
		return FALSE;
	}
	entry = vial_entry_begin(caller, VIAL_VERB_TEMPLATE_MAKE, sandbox, json_pack("{s:s}", "name", name), error);
	if (!entry)
		return FALSE;
	waiter = waiter_new(caller, entry, done, data);
	waiter->id = g_steal_pointer(&base);
	waiter->tag = g_steal_pointer(&tag);
	vial_sandbox_acquire(sandbox, on_acquired, waiter);
	return TRUE;
}

/* Watching */

static const char *const statuses[] = { "pending", "building", "ready", "failed", NULL };

json_t *vial_op_build_list(const VialCaller *caller, const char *template_name, const char *status, GError **error)
{
	g_autoptr(GPtrArray) list = NULL;
	json_t *answer;
	int wanted = -1;

	if (!vial_operation_admit(caller, VIAL_VERB_BUILD_READ, NULL, 0, NULL, error) ||
	    !vial_check_choice("status", status, statuses, &wanted, error))
		return NULL;
	list = vial_builds_of(caller->app, caller->principal->project);
	answer = json_array();
	for (guint i = 0; i < list->len; i++) {
		VialBuild *build = list->pdata[i];

		if ((wanted < 0 || (int)vial_build_state(build) == wanted) && (!template_name || strcmp(template_name, vial_build_name(build)) == 0))
			json_array_append_new(answer, vial_build_json(build, FALSE));
	}
	return answer;
}

static VialBuild *find_build(const VialCaller *caller, VialVerb verb, const char *id, GError **error)
{
	if (!vial_operation_admit(caller, verb, NULL, 0, NULL, error))
		return NULL;
	return vial_builds_find(caller->app, caller->principal->project, id, error);
}

json_t *vial_op_build_get(const VialCaller *caller, const char *id, GError **error)
{
	const VialBuild *build = find_build(caller, VIAL_VERB_BUILD_READ, id, error);

	return build ? vial_build_json(build, TRUE) : NULL;
}

/* What a key may not build it may not end either. */
static gboolean is_for(const VialCaller *caller, VialVerb verb, const VialBuild *build, GError **error)
{
	g_autofree char *full = vial_build_full_name(build);
	g_autoptr(GError) refusal = NULL;

	if (vial_ceiling_template(caller->app, caller->principal, full, &refusal))
		return TRUE;
	vial_entry_refuse(caller, verb, NULL, NULL, refusal);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return FALSE;
}

json_t *vial_op_build_cancel(const VialCaller *caller, const char *id, GError **error)
{
	VialBuild *build = find_build(caller, VIAL_VERB_TEMPLATE_CANCEL, id, error);
	g_autoptr(GError) refusal = NULL, unrecorded = NULL;
	const char *name = *caller->principal->name ? caller->principal->name : caller->principal->id;
	const GError *told;
	VialEntry *entry;

	if (!build || !is_for(caller, VIAL_VERB_TEMPLATE_CANCEL, build, error))
		return NULL;
	if (!(entry = vial_entry_begin(caller, VIAL_VERB_TEMPLATE_CANCEL, NULL, json_pack("{s:s, s:s}", "build", id, "name", vial_build_name(build)),
	                               error)))
		return NULL;
	vial_build_cancel(build, name, &refusal);
	told = vial_entry_settle(entry, refusal, &unrecorded);
	if (!told)
		return vial_build_json(build, TRUE);
	g_propagate_error(error, g_error_copy(told));
	return NULL;
}

VialBuildLogReader *vial_op_build_logs(const VialCaller *caller, const char *id, gboolean follows, const VialBuildLogSink *sink, gpointer data,
                                       GError **error)
{
	const VialBuild *build = find_build(caller, VIAL_VERB_BUILD_READ, id, error);
	g_autofree char *path = build ? vial_build_log_path(caller->app, vial_build_id(build)) : NULL;

	return build ? vial_build_log_read(path, vial_build_log(build), follows, sink, data, error) : NULL;
}
