/* SPDX-License-Identifier: Apache-2.0 */
/* Custom templates and their builds; the log as JSON lines, or as server-sent events (whose data is plain text for PandaStack's clients). */
#include "operations/builds.h"

#include <string.h>

#include "operations/limits.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/pandastack.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

static gboolean decode_build(const json_t *body, VialTemplateBuildRequest *out, GError **error)
{
	static const char *const known[] = { "name",          "base",          "steps",      "dockerfile",      "args",     "tier",
		                             "cpu",           "memory_mb",     "disk_mb",    "network",         "secrets",  "warm",
		                             "start_command", "ready_command", "start_user", "timeout_seconds", "no_cache", NULL };

	*out = (VialTemplateBuildRequest){
		.cpu = (double)VIAL_UNSAID, .memory_mb = VIAL_UNSAID, .disk_mb = VIAL_UNSAID, .timeout_seconds = VIAL_UNSAID
	};
	return vial_decode_known(body, known, error) && vial_decode_text(body, "name", &out->name, error) &&
	       vial_decode_text(body, "base", &out->base, error) && vial_decode_list(body, "steps", &out->steps, error) &&
	       vial_decode_text(body, "dockerfile", &out->dockerfile, error) && vial_decode_object(body, "args", &out->args, error) &&
	       vial_decode_text(body, "tier", &out->tier, error) && vial_decode_real(body, "cpu", &out->cpu, error) &&
	       vial_decode_int(body, "memory_mb", &out->memory_mb, error) && vial_decode_int(body, "disk_mb", &out->disk_mb, error) &&
	       vial_decode_object(body, "network", &out->network, error) && vial_decode_object(body, "secrets", &out->secrets, error) &&
	       vial_decode_text(body, "warm", &out->warm, error) && vial_decode_text(body, "start_command", &out->start_command, error) &&
	       vial_decode_text(body, "ready_command", &out->ready_command, error) && vial_decode_text(body, "start_user", &out->start_user, error) &&
	       vial_decode_int(body, "timeout_seconds", &out->timeout_seconds, error) && vial_decode_bool(body, "no_cache", &out->no_cache, error);
}

void vial_api_template_build(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	VialTemplateBuildRequest wanted;

	vial_surface_begun(request,
	                   decode_build(vial_request_json(request), &wanted, &error) &&
	                           vial_op_template_build(&caller, &wanted, vial_surface_reply_accepted, request, &error),
	                   &error);
}

void vial_api_template_rebuild(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	const json_t *body = vial_request_json(request);
	g_autoptr(GError) error = NULL;
	json_t *secrets = NULL;
	gboolean no_cache = FALSE;

	vial_surface_begun(request,
	                   vial_decode_object(body, "secrets", &secrets, &error) && vial_decode_bool(body, "no_cache", &no_cache, &error) &&
	                           vial_op_template_rebuild(&caller, vial_request_param(request, "name"), secrets, no_cache,
	                                                    vial_surface_reply_accepted, request, &error),
	                   &error);
}

void vial_api_template_delete(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_template_delete(&caller, vial_request_param(request, "name"), vial_surface_reply_done, request, &error),
	                   &error);
}

void vial_api_template_from_sandbox(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	const char *name = NULL;

	vial_surface_begun(
		request,
		vial_decode_text(vial_request_json(request), "name", &name, &error) &&
			vial_op_template_from_sandbox(&caller, vial_surface_sandbox(request), name, vial_surface_reply_created, request, &error),
		&error);
}

void vial_api_build_list(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	g_autoptr(json_t) builds = vial_op_build_list(&caller, vial_request_query(request, "name"), vial_request_query(request, "status"), &error);
	json_t *answer = builds && vial_surface_is_pandastack(request) ? vial_pandastack_builds(builds) : json_incref(builds);

	vial_surface_reply_now(request, answer, error);
}

void vial_api_build_get(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	g_autoptr(json_t) build = vial_op_build_get(&caller, vial_request_param(request, "build"), &error);
	json_t *answer = build && vial_surface_is_pandastack(request) ? vial_pandastack_build(build) : json_incref(build);

	vial_surface_reply_now(request, answer, error);
}

void vial_api_build_cancel(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	json_t *answer = vial_op_build_cancel(&caller, vial_request_param(request, "build"), &error);

	vial_surface_reply_now(request, answer, error);
}

/* Logs */

typedef enum { FORM_LINES, FORM_EVENTS, FORM_TEXTS } Form;

typedef struct {
	VialRequest *request;
	VialBuildLogReader *reader;
	Form form;
} Log;

static void log_free(Log *log)
{
	vial_request_on_gone(log->request, NULL, NULL);
	vial_request_unref(log->request);
	g_free(log);
}

static gboolean on_line(const char *text, gsize size, gpointer data)
{
	Log *log = data;
	gsize waiting = log->form == FORM_TEXTS    ? vial_pandastack_send_log(log->request, text, size)
	                : log->form == FORM_EVENTS ? vial_request_sse_send_text(log->request, "log", text, size)
	                                           : vial_request_ndjson_send_text(log->request, text, size);

	return waiting > VIAL_BODY_HIGH_BYTES;
}

static void on_end(gpointer data)
{
	Log *log = data;

	if (log->form == FORM_TEXTS)
		vial_pandastack_send_log_end(log->request);
	vial_request_stream_end(log->request);
	log_free(log);
}

static void on_gone(VialRequest *request, gpointer data)
{
	Log *log = data;

	vial_build_log_reader_free(log->reader);
	log_free(log);
}

static void on_drained(VialRequest *request, gpointer data)
{
	vial_build_log_reader_drained(((Log *)data)->reader);
}

static Form choose_form(VialRequest *request)
{
	const char *accept = vial_request_header(request, "Accept");

	if (!accept || !strstr(accept, "text/event-stream"))
		return FORM_LINES;
	return vial_surface_is_pandastack(request) ? FORM_TEXTS : FORM_EVENTS;
}

void vial_api_build_logs(VialRequest *request)
{
	static const VialBuildLogSink sink = { .line = on_line, .end = on_end };
	VialCaller caller = vial_surface_caller(request);
	gboolean follows = FALSE;
	GError *error = NULL;
	Log *log = g_new0(Log, 1);

	*log = (Log){ .request = vial_request_ref(request), .form = choose_form(request) };
	if (vial_decode_query_bool(request, "follow", &follows, &error))
		log->reader = vial_op_build_logs(&caller, vial_request_param(request, "build"), follows, &sink, log, &error);
	if (!log->reader) {
		vial_request_reply_error(request, error);
		log_free(log);
		return;
	}
	if (log->form != FORM_LINES)
		vial_request_sse_begin(request, on_drained, log);
	else
		vial_request_ndjson_begin(request, "", on_drained, log);
	vial_request_on_gone(request, on_gone, log);
}
