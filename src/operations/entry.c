/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/entry.h"

#include <string.h>

#include "audit/audit.h"
#include "service/quota.h"
#include "service/slots.h"
#include "telemetry/otlp.h"
#include "util/json.h"
#include "util/log.h"

#define ERROR_MAX_BYTES 2048
#define REFUSALS_MAX 16
#define SPAN_DIGITS 16
#define TRACE_DIGITS 32

struct VialEntry {
	VialApp *app;
	VialVerb verb;
	VialAuditEntry *audit; /* NULL: a verb without a record */
	VialSandbox *sandbox;
	char *project, *principal_id, *runner_id; /* runner: as whose run it counts */
	gboolean is_run;                          /* counted among those under way */
	gint64 started_us;                        /* monotonic */
	gint64 began_us;                          /* wall clock */
	guint64 bytes_in, bytes_out;
	VialNetMark network;
	char trace_id[TRACE_DIGITS + 1], span_id[SPAN_DIGITS + 1], parent_span_id[SPAN_DIGITS + 1]; /* "" for none */
	json_t *model_call;
};

/* Who, and from where */

static json_t *principal_json(const VialCaller *caller)
{
	const VialIdentity *principal = caller->principal;
	json_t *json;

	if (!principal)
		return json_pack("{s:s, s:s, s:s}", "kind", caller->granted_sandbox ? "preview" : "nobody", "id", "preview", "name", "");
	json = json_pack("{s:s, s:s, s:s, s:s}", "kind", vial_principal_kind_name(principal->kind), "id", principal->id, "name", principal->name,
	                 "role", vial_role_name(principal->role));
	if (caller->granted_sandbox)
		json_object_set_new(json, "by_preview", json_true());
	return json;
}

static void set_text(json_t *json, const char *name, const char *text)
{
	if (text && *text)
		json_object_set_new(json, name, json_string(text));
}

/* The trace, and the model call, as one object; NULL when there is nothing to say. */
static json_t *origin_json(const VialOrigin *origin, const char *span_id)
{
	json_t *json;

	if (!origin || (!origin->trace_id && !origin->model_call))
		return NULL;
	json = origin->model_call ? json_copy(origin->model_call) : json_object();
	set_text(json, "trace_id", origin->trace_id);
	set_text(json, "parent_span_id", origin->parent_span_id);
	set_text(json, "span_id", span_id);
	return json;
}

/* Whose record it is. */
static const char *concerned(const VialCaller *caller, const VialSandbox *sandbox, const char *project)
{
	if (project)
		return project;
	if (sandbox)
		return vial_sandbox_project(sandbox);
	return caller->principal ? caller->principal->project : VIAL_DEFAULT_PROJECT;
}

static void tell_about(json_t *header, const VialAbout *about)
{
	set_text(header, "agent", about->agent);
	if (about->version > 0)
		json_object_set_new(header, "version", json_integer(about->version));
	set_text(header, "session", about->session);
	set_text(header, "user", about->user);
}

static json_t *make_header(const VialCaller *caller, VialVerb verb, const VialSandbox *sandbox, const char *project, const char *span_id)
{
	const VialOrigin *origin = caller->origin;
	json_t *header = json_pack("{s:s, s:s, s:o}", "action", vial_verb_rules(verb)->name, "project", concerned(caller, sandbox, project),
	                           "principal", principal_json(caller));
	json_t *from = origin_json(origin, span_id);

	if (origin) {
		set_text(header, "surface", origin->surface);
		set_text(header, "peer", origin->peer);
		set_text(header, "request_id", origin->request_id);
	}
	if (sandbox)
		vial_sandbox_identify(sandbox, header);
	else if (caller->about)
		tell_about(header, caller->about);
	if (from)
		json_object_set_new(header, "origin", from);
	return header;
}

/* Beginning */

static VialNetSlot *slot_of(const VialEntry *entry)
{
	return entry->sandbox ? vial_slots_find(entry->app->slots, vial_sandbox_host_id(entry->sandbox)) : NULL;
}

static void take_trace(VialEntry *entry, const VialOrigin *origin)
{
	if (origin && origin->trace_id)
		g_strlcpy(entry->trace_id, origin->trace_id, sizeof(entry->trace_id));
	if (origin && origin->parent_span_id)
		g_strlcpy(entry->parent_span_id, origin->parent_span_id, sizeof(entry->parent_span_id));
	/* Only whoever exports spans, or has a parent to name, needs a number for this one. */
	if (entry->app->otlp || entry->trace_id[0])
		vial_span_id_fill(entry->span_id);
	entry->model_call = origin && origin->model_call ? json_incref(origin->model_call) : NULL;
}

static void entry_free(VialEntry *entry)
{
	if (entry->is_run)
		vial_quota_end_run(entry->app, entry->project, entry->runner_id);
	if (entry->sandbox)
		vial_sandbox_unref(entry->sandbox);
	json_decref(entry->model_call);
	g_free(entry->project);
	g_free(entry->principal_id);
	g_free(entry->runner_id);
	g_free(entry);
}

/* What may go on for hours is told when it begins, too. */
static gboolean record_beginning(VialEntry *entry, GError **error)
{
	g_autoptr(json_t) body = json_deep_copy(vial_audit_entry_body(entry->audit));
	json_t *header = json_deep_copy(vial_audit_entry_header(entry->audit));

	json_object_set_new(header, "outcome", json_string("begun"));
	return vial_audit_add(entry->app->audit, header, g_steal_pointer(&body), FALSE, error);
}

static gboolean begin_record(VialEntry *entry, const VialCaller *caller, const char *project, json_t *body, GError **error)
{
	const VialVerbRules *rules = vial_verb_rules(entry->verb);
	VialApp *app = entry->app;
	/* What is typed or piped in is known only later. */
	gsize more = rules->is_run || entry->verb == VIAL_VERB_PROCESS_INPUT ? vial_entry_text_max(entry) : 0;

	if (rules->record == VIAL_NO_RECORD) {
		json_decref(body);
		return TRUE;
	}
	entry->audit = vial_audit_begin(app->audit, make_header(caller, entry->verb, entry->sandbox, project, entry->span_id), body, more,
	                                rules->is_stop, error);
	return entry->audit != NULL;
}

static VialEntry *begin(const VialCaller *caller, VialVerb verb, VialSandbox *sandbox, const char *project, json_t *body, GError **error)
{
	const VialVerbRules *rules = vial_verb_rules(verb);
	const VialIdentity *principal = caller->principal;
	VialEntry *entry = g_new0(VialEntry, 1);
	VialNetSlot *slot;

	*entry = (VialEntry){ .app = caller->app, .verb = verb, .started_us = g_get_monotonic_time(), .began_us = g_get_real_time() };
	entry->sandbox = sandbox ? vial_sandbox_ref(sandbox) : NULL;
	entry->project = g_strdup(principal ? principal->project : VIAL_DEFAULT_PROJECT);
	entry->principal_id = g_strdup(principal ? principal->id : "");
	take_trace(entry, caller->origin);
	if (rules->is_run && principal) {
		const VialIdentity *runner = vial_quota_runner(principal, sandbox);

		entry->runner_id = g_strdup(runner->id);
		if (!vial_quota_begin_run(caller->app, runner, error)) {
			vial_entry_refuse(caller, verb, sandbox, NULL, error ? *error : NULL);
			json_decref(body);
			entry_free(entry);
			return NULL;
		}
		entry->is_run = TRUE;
	}
	slot = slot_of(entry);
	if (slot)
		vial_net_slot_untold(slot, &entry->network);
	if (!begin_record(entry, caller, project, body ? body : json_object(), error)) {
		entry_free(entry);
		return NULL;
	}
	if (rules->record != VIAL_RECORD_BOTH || record_beginning(entry, error))
		return entry;
	vial_entry_end(entry, "failed", NULL, NULL);
	return NULL;
}

VialEntry *vial_entry_begin(const VialCaller *caller, VialVerb verb, VialSandbox *sandbox, json_t *body, GError **error)
{
	return begin(caller, verb, sandbox, NULL, body, error);
}

VialEntry *vial_entry_begin_in(const VialCaller *caller, VialVerb verb, const char *project, json_t *body, GError **error)
{
	return begin(caller, verb, NULL, project, body, error);
}

/* Facts */

const char *vial_entry_id(const VialEntry *entry)
{
	return vial_audit_entry_id(entry->audit);
}

void vial_entry_set(VialEntry *entry, const char *name, json_t *value)
{
	if (entry && entry->audit)
		json_object_set_new(vial_audit_entry_header(entry->audit), name, value);
	else
		json_decref(value);
}

json_t *vial_entry_body(VialEntry *entry)
{
	return entry && entry->audit ? vial_audit_entry_body(entry->audit) : NULL;
}

void vial_entry_set_sandbox(VialEntry *entry, VialSandbox *sandbox)
{
	if (!entry || entry->sandbox)
		return;
	entry->sandbox = vial_sandbox_ref(sandbox);
	if (entry->audit)
		vial_sandbox_identify(sandbox, vial_audit_entry_header(entry->audit));
}

void vial_entry_count(VialEntry *entry, guint64 bytes_in, guint64 bytes_out)
{
	if (!entry)
		return;
	entry->bytes_in += bytes_in;
	entry->bytes_out += bytes_out;
}

gsize vial_entry_text_max(const VialEntry *entry)
{
	return (gsize)entry->app->config->audit_code_max_kb * 1024;
}

const VialAudit *vial_entry_audit(const VialEntry *entry)
{
	return entry->app->audit;
}

/* The end */

/* What the sandbox was refused on the network meanwhile, or before and nobody has told: by this operation, or by what runs beside it. */
static void tell_refusals(VialEntry *entry)
{
	VialNetSlot *slot = slot_of(entry);
	g_autoptr(json_t) events = NULL;
	VialNetMark now = { 0 };
	json_t *list, *event;
	gsize i;

	if (slot)
		vial_net_slot_mark(slot, &now);
	if (now.refused <= entry->network.refused)
		return;
	vial_entry_set(entry, "network_refused", json_integer((json_int_t)(now.refused - entry->network.refused)));
	vial_net_slot_told(slot, &now);
	events = vial_net_slot_events(slot, entry->network.last_event, REFUSALS_MAX);
	list = json_array();
	json_array_foreach (json_object_get(events, "events"), i, event)
		if (g_strcmp0(json_string_value(json_object_get(event, "verdict")), "deny") == 0)
			json_array_append(list, event);
	if (json_array_size(list) > 0)
		json_object_set_new(vial_entry_body(entry), "network_refusals", list);
	else
		json_decref(list);
}

static const char *outcome_of(const GError *error)
{
	if (error->domain != VIAL_ERROR)
		return "failed";
	return error->code == VIAL_ERROR_FORBIDDEN || error->code == VIAL_ERROR_QUOTA || error->code == VIAL_ERROR_UNAUTHORIZED ? "refused"
	                                                                                                                        : "failed";
}

static void tell_error(json_t *header, json_t *body, const GError *error)
{
	g_autofree char *text = g_utf8_make_valid(error->message, MIN((gssize)strlen(error->message), ERROR_MAX_BYTES));

	json_object_set_new(header, "error_type", json_string(vial_error_type(error)));
	json_object_set_new(body, "error_message", json_string(text));
}

static void tell_end(VialEntry *entry, const char *outcome, const GError *error)
{
	json_t *header = vial_audit_entry_header(entry->audit);

	json_object_set_new(header, "outcome", json_string(error ? outcome_of(error) : outcome));
	if (error)
		tell_error(header, vial_entry_body(entry), error);
	if (!json_object_get(header, "duration_ms"))
		json_object_set_new(header, "duration_ms", json_integer((g_get_monotonic_time() - entry->started_us) / 1000));
	if (vial_verb_rules(entry->verb)->is_run)
		json_object_set_new(header, "runs", json_integer(1));
	if (entry->bytes_in > 0)
		json_object_set_new(header, "bytes_in", json_integer((json_int_t)entry->bytes_in));
	if (entry->bytes_out > 0)
		json_object_set_new(header, "bytes_out", json_integer((json_int_t)entry->bytes_out));
	tell_refusals(entry);
}

/* Spans */

static void set_from(json_t *attributes, const char *name, const json_t *object, const char *field)
{
	json_t *value = json_object_get(object, field);

	if (json_is_string(value) || json_is_integer(value) || json_is_boolean(value))
		json_object_set(attributes, name, value);
}

/* Names of OpenTelemetry's conventions for generative models where they have one: what a model asks for is the execution of a tool. */
static json_t *span_attributes(const VialEntry *entry, const json_t *header)
{
	json_t *attributes = json_pack("{s:s, s:s}", "vial.project", entry->project, "vial.principal.id", entry->principal_id);

	if (vial_verb_rules(entry->verb)->is_run) {
		json_object_set_new(attributes, "gen_ai.operation.name", json_string("execute_tool"));
		json_object_set_new(attributes, "gen_ai.tool.name", json_string(vial_verb_rules(entry->verb)->name));
		json_object_set_new(attributes, "gen_ai.tool.type", json_string("function"));
	}
	set_from(attributes, "gen_ai.tool.call.id", entry->model_call, "tool_call_id");
	set_from(attributes, "gen_ai.request.model", entry->model_call, "model");
	set_from(attributes, "gen_ai.provider.name", entry->model_call, "provider");
	set_from(attributes, "gen_ai.response.id", entry->model_call, "response_id");
	set_from(attributes, "enduser.id", entry->model_call, "user");
	set_from(attributes, "gen_ai.agent.name", header, "agent");
	set_from(attributes, "gen_ai.conversation.id", header, "session");
	set_from(attributes, "vial.agent.version", header, "version");
	set_from(attributes, "vial.sandbox.id", header, "sandbox");
	set_from(attributes, "vial.template", header, "template");
	set_from(attributes, "vial.outcome", header, "outcome");
	set_from(attributes, "vial.exit_code", header, "exit_code");
	set_from(attributes, "vial.operation.id", header, "operation");
	return attributes;
}

static void send_span(const VialEntry *entry, const json_t *header, const char *outcome, const GError *error)
{
	gboolean is_code_error = g_strcmp0(outcome, "error") == 0;
	const char *code_error = json_string_value(json_object_get(header, "error"));
	g_autoptr(json_t) attributes = span_attributes(entry, header);

	vial_otlp_add(entry->app->otlp, &(VialSpan){
						.name = vial_verb_rules(entry->verb)->name,
						.trace_id = entry->trace_id[0] ? entry->trace_id : NULL,
						.parent_span_id = entry->parent_span_id[0] ? entry->parent_span_id : NULL,
						.span_id = entry->span_id,
						.started_us = entry->began_us,
						.ended_us = entry->began_us + (g_get_monotonic_time() - entry->started_us),
						.is_error = error || is_code_error,
						.error_type = error ? vial_error_type(error) : code_error,
						.status_message = error ? error->message : NULL,
						.attributes = attributes,
					});
}

static void export_span(const VialEntry *entry, const char *outcome, const GError *error)
{
	if (entry->app->otlp)
		send_span(entry, entry->audit ? vial_audit_entry_header(entry->audit) : NULL, outcome, error);
}

const GError *vial_entry_end(VialEntry *entry, const char *outcome, const GError *error, GError **unrecorded)
{
	g_autoptr(GError) problem = NULL;

	if (!entry)
		return error;
	if (entry->audit)
		tell_end(entry, outcome, error);
	export_span(entry, outcome, error);
	if (entry->audit && !vial_audit_end(entry->app->audit, entry->audit, &problem)) {
		vial_log_error("audit", "an operation could not be recorded; its answer is withheld", "verb", vial_verb_rules(entry->verb)->name,
		               "error", problem->message);
		if (unrecorded)
			error = *unrecorded = g_error_new(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE,
			                                  "what was done could not be recorded, so its answer is withheld: %s", problem->message);
	}
	entry_free(entry);
	return error;
}

const GError *vial_entry_settle(VialEntry *entry, const GError *error, GError **unrecorded)
{
	return vial_entry_end(entry, "done", error, unrecorded);
}

/* Refusals */

/* A moment's span, for whoever looks for his call and finds that it was refused. */
static void export_refusal(const VialCaller *caller, VialVerb verb, const json_t *header, const GError *error)
{
	const VialIdentity *principal = caller->principal;
	VialEntry entry = { .app = caller->app, .verb = verb, .started_us = g_get_monotonic_time(), .began_us = g_get_real_time() };

	if (!caller->app->otlp)
		return;
	entry.project = (char *)(principal ? principal->project : VIAL_DEFAULT_PROJECT);
	entry.principal_id = (char *)(principal ? principal->id : "");
	take_trace(&entry, caller->origin);
	send_span(&entry, header, NULL, error);
	json_decref(entry.model_call);
}

void vial_entry_refuse(const VialCaller *caller, VialVerb verb, const VialSandbox *sandbox, const char *sandbox_id, const GError *error)
{
	gboolean is_right = error && error->domain == VIAL_ERROR && (error->code == VIAL_ERROR_FORBIDDEN || error->code == VIAL_ERROR_QUOTA);
	g_autoptr(GError) problem = NULL;
	json_t *header, *body;

	/* Somebody who looks for what is not there is no news; somebody who tries to do something with it is. */
	if (!error || (!is_right && vial_verb_rules(verb)->record == VIAL_NO_RECORD))
		return;
	header = make_header(caller, verb, sandbox, NULL, NULL);
	body = json_object();
	if (!sandbox && sandbox_id && g_utf8_validate(sandbox_id, -1, NULL) && strlen(sandbox_id) <= 64)
		json_object_set_new(header, "sandbox", json_string(sandbox_id));
	json_object_set_new(header, "outcome", json_string("refused"));
	tell_error(header, body, error);
	export_refusal(caller, verb, header, error);
	if (!vial_audit_add(caller->app->audit, header, body, FALSE, &problem))
		vial_log_warning("audit", "a refusal could not be recorded", "error", problem->message);
}
