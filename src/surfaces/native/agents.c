/* SPDX-License-Identifier: Apache-2.0 */
/* Agents, their versions and their sessions; what is called in one is agent_calls.c's. */
#include "operations/agents.h"

#include "operations/limits.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"

static const char *agent_of(const VialRequest *request)
{
	return vial_request_param(request, "agent");
}

/* Agents */

void vial_api_agent_list(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	json_t *document = vial_op_agent_list(&caller, &error);

	vial_surface_reply_now(request, document, error);
}

void vial_api_agent_get(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	json_t *document = vial_op_agent_get(&caller, agent_of(request), &error);

	vial_surface_reply_now(request, document, error);
}

void vial_api_agent_create(VialRequest *request)
{
	static const char *const names[] = { "name", "description", NULL };
	VialCaller caller = vial_surface_question(request);
	const json_t *body = vial_request_json(request);
	const char *name = NULL, *description = NULL;
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request,
	                   vial_decode_known(body, names, &error) && vial_decode_text(body, "name", &name, &error) &&
	                           vial_decode_text(body, "description", &description, &error) &&
	                           vial_op_agent_create(&caller, name, description, vial_surface_reply_created, request, &error),
	                   &error);
}

void vial_api_agent_delete(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_agent_delete(&caller, agent_of(request), vial_surface_reply_nothing, request, &error), &error);
}

/* Versions */

/* Whoever misspells a field would believe of a version that is never changed what is not so. */
static gboolean decode_version(const json_t *body, VialVersionRequest *out, GError **error)
{
	static const char *const names[] = { "template",     "tier",         "cpu",        "memory_mb", "network",
		                             "idle_seconds", "never_expire", "languages",  "env",       "metadata",
		                             "files",        "packages",     "prompt_ref", "activate",  NULL };

	*out = (VialVersionRequest){ .cpu = (double)VIAL_UNSAID, .memory_mb = VIAL_UNSAID, .idle_seconds = VIAL_UNSAID };
	return vial_decode_known(body, names, error) && vial_decode_text(body, "template", &out->template_name, error) &&
	       vial_decode_text(body, "tier", &out->tier, error) && vial_decode_real(body, "cpu", &out->cpu, error) &&
	       vial_decode_int(body, "memory_mb", &out->memory_mb, error) && vial_decode_object(body, "network", &out->network, error) &&
	       vial_decode_int(body, "idle_seconds", &out->idle_seconds, error) &&
	       vial_decode_bool(body, "never_expire", &out->never_expire, error) && vial_decode_list(body, "languages", &out->languages, error) &&
	       vial_decode_object(body, "env", &out->env, error) && vial_decode_object(body, "metadata", &out->metadata, error) &&
	       vial_decode_list(body, "files", &out->files, error) && vial_decode_object(body, "packages", &out->packages, error) &&
	       vial_decode_text(body, "prompt_ref", &out->prompt_ref, error) && vial_decode_bool(body, "activate", &out->activate, error);
}

void vial_api_version_create(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	VialVersionRequest version;

	vial_surface_begun(request,
	                   decode_version(vial_request_json(request), &version, &error) &&
	                           vial_op_agent_version_create(&caller, agent_of(request), &version, vial_surface_reply_created, request, &error),
	                   &error);
}

void vial_api_version_list(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	json_t *document = vial_op_agent_version_list(&caller, agent_of(request), &error);

	vial_surface_reply_now(request, document, error);
}

/* One that is no number is one that there is not. */
static gint64 version_of(const VialRequest *request)
{
	gint64 number = 0;

	g_ascii_string_to_signed(vial_request_param(request, "version"), 10, 1, G_MAXINT32, &number, NULL);
	return number;
}

void vial_api_version_get(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	json_t *document = vial_op_agent_version_get(&caller, agent_of(request), version_of(request), &error);

	vial_surface_reply_now(request, document, error);
}

static void change_version(VialRequest *request, VialVerb verb)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(
		request, vial_op_agent_version_change(&caller, verb, agent_of(request), version_of(request), vial_surface_reply_ok, request, &error),
		&error);
}

void vial_api_version_activate(VialRequest *request)
{
	change_version(request, VIAL_VERB_AGENT_ACTIVATE);
}

void vial_api_version_retire(VialRequest *request)
{
	change_version(request, VIAL_VERB_AGENT_RETIRE);
}

/* Sessions */

void vial_api_session_list(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	VialSessionsRequest sessions = { .version = VIAL_UNSAID,
		                         .limit = VIAL_UNSAID,
		                         .user = vial_request_query(request, "user"),
		                         .state = vial_request_query(request, "state"),
		                         .cursor = vial_request_query(request, "cursor") };
	GError *error = NULL;
	json_t *document = NULL;

	if (vial_decode_query_int(request, "version", &sessions.version, &error) && vial_decode_query_int(request, "limit", &sessions.limit, &error))
		document = vial_op_session_list(&caller, agent_of(request), &sessions, &error);
	vial_surface_reply_now(request, document, error);
}

void vial_api_session_get(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	gint64 version = VIAL_UNSAID;
	GError *error = NULL;
	json_t *document = NULL;

	if (vial_decode_query_int(request, "version", &version, &error))
		document = vial_op_session_get(&caller, agent_of(request), vial_request_param(request, "session"),
		                               vial_request_query(request, "user"), version, &error);
	vial_surface_reply_now(request, document, error);
}

void vial_api_session_end(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	gint64 version = VIAL_UNSAID;
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request,
	                   vial_decode_query_int(request, "version", &version, &error) &&
	                           vial_op_session_end(&caller, agent_of(request), vial_request_param(request, "session"),
	                                               vial_request_query(request, "user"), version, vial_surface_reply_done, request, &error),
	                   &error);
}

void vial_api_user_forget(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(
		request, vial_op_user_forget(&caller, agent_of(request), vial_request_param(request, "user"), vial_surface_reply_ok, request, &error),
		&error);
}
