/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals. Each is a command in the background, and its pty_id is the pid that it has in there; a stream only listens to it, so whoever leaves can
 * come back, read what is kept, and go on typing. What cannot be started is told as an event: its client shows no other reason.
 */
#include "operations/terminal.h"

#include <string.h>

#include "operations/exec.h"
#include "operations/limits.h"
#include "operations/processes.h"
#include "operations/surface_user.h"
#include "surfaces/podflare/handlers.h"
#include "surfaces/shared/surface.h"
#include "util/base64.h"
#include "util/json.h"

static gboolean send_event(VialExchange *exchange, json_t *event)
{
	return vial_request_ndjson_send(exchange->request, event) > VIAL_BODY_HIGH_BYTES;
}

static void begin_stream(VialExchange *exchange)
{
	if (exchange->is_streaming)
		return;
	exchange->is_streaming = TRUE;
	vial_request_ndjson_begin(exchange->request, "", vial_exchange_drained, exchange);
}

static void end_stream(VialExchange *exchange)
{
	vial_request_stream_end(exchange->request);
	vial_exchange_end(exchange);
}

/* Listening */

static void on_begun(VialOperation *operation, gpointer data)
{
	((VialExchange *)data)->operation = operation;
}

/* There is one; until now it could be that there is none. */
static void on_started(VialOperation *operation, gint64 pid, gpointer data)
{
	begin_stream(data);
}

static gboolean on_output(VialOutputStream stream, GBytes *bytes, gpointer data)
{
	gsize size;
	const guint8 *content = g_bytes_get_data(bytes, &size);
	g_autofree char *text = g_base64_encode(content, size);

	return send_event(data, json_pack("{s:s, s:s}", "type", "pty_data", "data_b64", text));
}

static void on_end(const VialExecEnd *end, const GError *error, gpointer data)
{
	VialExchange *exchange = data;

	exchange->operation = NULL;
	if (vial_exchange_fail_early(exchange, error))
		return;
	if (error)
		send_event(exchange, json_pack("{s:s, s:s}", "type", "pty_error", "message", error->message));
	else if (!end->detached)
		send_event(exchange, json_pack("{s:s, s:I}", "type", "pty_exit", "data", (json_int_t)end->exit_code));
	end_stream(exchange);
}

static void listen_to(VialExchange *exchange, gint64 pid)
{
	static const VialExecSink sink = { .begun = on_begun, .started = on_started, .output = on_output, .end = on_end };
	VialCaller caller = vial_surface_caller(exchange->request);
	g_autoptr(GError) error = NULL;
	VialOperation *operation = vial_op_attach(&caller, vial_surface_sandbox(exchange->request), pid, &sink, exchange, &error);

	if (operation || !exchange->is_streaming)
		return vial_exchange_begin(exchange, operation, &error);
	on_end(NULL, error, exchange);
}

void vial_podflare_pty_attach(VialRequest *request)
{
	VialExchange *exchange = vial_exchange_new(request, NULL, NULL);
	g_autoptr(GError) error = NULL;
	gint64 pid;

	if (vial_decode_pid(request, &pid, &error))
		listen_to(exchange, pid);
	else
		vial_exchange_fail(exchange, error);
}

/* Beginning */

static void on_created(const VialExecAnswer *answer, const GError *error, gpointer data)
{
	VialExchange *exchange = data;
	g_autofree char *id = NULL;

	exchange->operation = NULL;
	begin_stream(exchange);
	if (error) {
		send_event(exchange, json_pack("{s:s, s:s}", "type", "pty_error", "message", error->message));
		return end_stream(exchange);
	}
	id = g_strdup_printf("%" G_GINT64_FORMAT, answer->end.pid);
	send_event(exchange, json_pack("{s:s, s:s}", "type", "pty_ready", "session_id", id));
	listen_to(exchange, answer->end.pid);
}

/* A list of pairs. */
static gboolean decode_env(const json_t *body, json_t **out, GError **error)
{
	json_t *pairs = NULL, *pair;
	gsize i;

	if (!vial_decode_list(body, "env", &pairs, error))
		return FALSE;
	*out = pairs ? json_object() : NULL;
	json_array_foreach (pairs, i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));

		if (json_array_size(pair) != 2 || !name)
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"env[%" G_GSIZE_FORMAT "]\" must be a list of a name and a value", i);
		json_object_set(*out, name, json_array_get(pair, 1));
	}
	return TRUE;
}

static gboolean decode(const json_t *body, VialExecRequest *out, GError **error)
{
	return vial_decode_text(body, "shellCmd", &out->cmd, error) && vial_decode_list(body, "argv", &out->argv, error) &&
	       vial_decode_int(body, "cols", &out->cols, error) && vial_decode_int(body, "rows", &out->rows, error) &&
	       vial_decode_text(body, "cwd", &out->cwd, error) && decode_env(body, &out->env, error);
}

void vial_podflare_pty_create(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_exchange_new(request, NULL, NULL);
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;
	VialExecRequest exec = { .user = vial_surface_user(&caller),
		                 .background = TRUE,
		                 .is_terminal = TRUE,
		                 .rows = VIAL_TERMINAL_DEFAULT_ROWS,
		                 .cols = VIAL_TERMINAL_DEFAULT_COLS };

	if (decode(vial_request_json(request), &exec, &error))
		operation = vial_op_exec_collected(&caller, vial_surface_sandbox(request), &exec, on_created, exchange, &error);
	json_decref(exec.env);
	vial_exchange_begin(exchange, operation, &error);
}

/* What runs */

static void on_listed(json_t *document, const GError *error, gpointer data)
{
	g_autoptr(json_t) terminals = document ? json_array() : NULL;
	json_t *process;
	gsize i;

	json_array_foreach (json_object_get(document, "processes"), i, process) {
		g_autofree char *id = g_strdup_printf("%" JSON_INTEGER_FORMAT, json_integer_value(json_object_get(process, "pid")));

		if (json_is_true(json_object_get(process, "pty")) && json_is_true(json_object_get(process, "background")) &&
		    strcmp(json_string_value(json_object_get(process, "state")), "running") == 0)
			json_array_append_new(terminals,
			                      json_pack("{s:s, s:O, s:O?, s:n}", "pty_id", id, "cmd_label", json_object_get(process, "cmd"),
			                                "created_at_ms", json_object_get(process, "started_at_ms"), "exit_code"));
	}
	vial_surface_reply_ok(terminals, error, data);
}

void vial_podflare_pty_list(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_process_list(&caller, vial_surface_sandbox(request), on_listed, request, &error), &error);
}

/* Working with one */

static GBytes *decode_input(const json_t *body, GError **error)
{
	const char *text = NULL;
	GBytes *bytes;

	if (!vial_decode_text(body, "data_b64", &text, error))
		return NULL;
	if (!text)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"data_b64\" is required"), NULL;
	bytes = vial_base64_decode(text);
	if (!bytes)
		vial_fail(error, VIAL_ERROR_INVALID, "field \"data_b64\" is not Base64");
	return bytes;
}

static void on_fed(const char *path, gint64 bytes, const GError *error, gpointer data)
{
	VialExchange *exchange = data;

	if (error)
		return vial_exchange_fail(exchange, error);
	vial_request_reply_json(exchange->request, 200, json_pack("{s:I}", "bytes", (json_int_t)bytes));
	vial_exchange_end(exchange);
}

void vial_podflare_pty_input(VialRequest *request)
{
	static const VialWriteSink sink = { .end = on_fed };
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_exchange_new(request, NULL, NULL);
	VialOperation *operation = NULL;
	g_autoptr(GBytes) bytes = NULL;
	g_autoptr(GError) error = NULL;
	gint64 pid;

	if (vial_decode_pid(request, &pid, &error) && (bytes = decode_input(vial_request_json(request), &error)))
		operation = vial_op_process_input(&caller, vial_surface_sandbox(request), pid, FALSE, bytes, &sink, exchange, &error);
	vial_exchange_begin(exchange, operation, &error);
}

static void on_read(const VialTerminalOutput *output, const GError *error, gpointer data)
{
	VialExchange *exchange = data;
	g_autofree char *text = output ? g_base64_encode(output->bytes, output->size) : NULL;
	json_t *answer;

	if (error)
		return vial_exchange_fail(exchange, error);
	answer = json_pack("{s:I, s:s, s:n}", "seq", (json_int_t)output->next, "data_b64", text, "exit_code");
	if (output->exited)
		json_object_set_new(answer, "exit_code", json_integer(output->exit_code));
	vial_request_reply_json(exchange->request, 200, answer);
	vial_exchange_end(exchange);
}

void vial_podflare_pty_read(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	VialExchange *exchange = vial_exchange_new(request, NULL, NULL);
	const json_t *body = vial_request_json(request);
	VialTerminalReading reading = { VIAL_UNSAID, VIAL_UNSAID, VIAL_UNSAID };
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;
	gint64 pid;

	if (vial_decode_pid(request, &pid, &error) && vial_decode_int(body, "since_seq", &reading.since, &error) &&
	    vial_decode_int(body, "max_bytes", &reading.max_bytes, &error) && vial_decode_int(body, "timeout_ms", &reading.wait_ms, &error)) {
		/* Longer than that is not refused, but not waited for. */
		reading.wait_ms = MIN(reading.wait_ms, VIAL_TERMINAL_WAIT_MS);
		operation = vial_op_terminal_read(&caller, vial_surface_sandbox(request), pid, &reading, on_read, exchange, &error);
	}
	vial_exchange_begin(exchange, operation, &error);
}

void vial_podflare_pty_resize(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	const json_t *body = vial_request_json(request);
	gint64 pid, rows = VIAL_UNSAID, cols = VIAL_UNSAID;
	g_autoptr(GError) error = NULL;

	vial_surface_begun(
		request,
		vial_decode_pid(request, &pid, &error) && vial_decode_int(body, "rows", &rows, &error) &&
			vial_decode_int(body, "cols", &cols, &error) &&
			vial_op_terminal_resize(&caller, vial_surface_sandbox(request), pid, rows, cols, vial_surface_reply_nothing, request, &error),
		&error);
}

void vial_podflare_pty_kill(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	gint64 pid;

	vial_surface_begun(request,
	                   vial_decode_pid(request, &pid, &error) && vial_op_process_signal(&caller, vial_surface_sandbox(request), pid, "KILL",
	                                                                                    vial_surface_reply_nothing, request, &error),
	                   &error);
}
