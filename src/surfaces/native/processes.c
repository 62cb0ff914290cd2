/* SPDX-License-Identifier: Apache-2.0 */
/* Processes started by exec: list, signal, feed; listening ports; what the sandbox uses. (Attaching has exec's events: exec.c.) */
#include "operations/processes.h"

#include <string.h>

#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"
#include "surfaces/shared/transfer.h"

typedef gboolean (*Question)(const VialCaller *caller, const char *sandbox_id, VialDocumentDone done, gpointer data, GError **error);

static void ask(VialRequest *request, Question question)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, question(&caller, vial_surface_sandbox(request), vial_surface_reply_ok, request, &error), &error);
}

void vial_api_process_list(VialRequest *request)
{
	ask(request, vial_op_process_list);
}

void vial_api_port_list(VialRequest *request)
{
	ask(request, vial_op_port_list);
}

void vial_api_metrics(VialRequest *request)
{
	ask(request, vial_op_metrics);
}

void vial_api_process_signal(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	const char *signal = NULL;
	gint64 pid;

	vial_surface_begun(
		request,
		vial_decode_pid(request, &pid, &error) && vial_decode_text(vial_request_json(request), "signal", &signal, &error) &&
			vial_op_process_signal(&caller, vial_surface_sandbox(request), pid, signal, vial_surface_reply_nothing, request, &error),
		&error);
}

/* Feeding: POST {"data": "...", "close": bool}, or PUT of the bytes themselves, which may be any number, with ?close=true. */

static void on_fed(const char *path, gint64 bytes, const GError *error, gpointer data)
{
	VialExchange *exchange = data;

	if (error)
		return vial_exchange_fail(exchange, error);
	vial_request_reply_json(exchange->request, 200, json_pack("{s:I}", "bytes", (json_int_t)bytes));
	vial_exchange_end(exchange);
}

void vial_api_process_stdin(VialRequest *request)
{
	static const VialWriteSink sink = { .end = on_fed };
	VialCaller caller = vial_surface_caller(request);
	const json_t *body = vial_request_json(request);
	VialExchange *exchange = vial_exchange_new(request, NULL, NULL);
	VialOperation *operation = NULL;
	g_autoptr(GBytes) bytes = NULL;
	g_autoptr(GError) error = NULL;
	gboolean close = FALSE;
	gint64 pid;

	if (vial_decode_pid(request, &pid, &error) && vial_decode_bytes(body, "data", &bytes, &error) &&
	    vial_decode_bool(body, "close", &close, &error)) {
		if (!bytes)
			bytes = g_bytes_new_static("", 0);
		operation = vial_op_process_input(&caller, vial_surface_sandbox(request), pid, close, bytes, &sink, exchange, &error);
	}
	vial_exchange_begin(exchange, operation, &error);
}

void vial_api_process_stdin_stream(VialRequest *request)
{
	static const VialWriteSink sink = { .begun = vial_upload_begun, .writable = vial_upload_writable, .end = on_fed };
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_upload_new(request);
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;
	gint64 pid;

	if (vial_decode_pid(request, &pid, &error))
		operation = vial_op_process_input(&caller, vial_surface_sandbox(request), pid,
		                                  g_strcmp0(vial_request_query(request, "close"), "true") == 0, NULL, &sink, exchange, &error);
	vial_exchange_begin(exchange, operation, &error);
}
