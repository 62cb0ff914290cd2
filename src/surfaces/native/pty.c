/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET …/pty: a terminal over a WebSocket; docs/cli.md has the messages. The process is started first and the WebSocket
 * accepted when it runs, so that what cannot be done is an ordinary error; what the process prints in between waits. The
 * client's end is the terminal's end: hang-up, as when a line is cut.
 */
#include <string.h>

#include "http/websocket.h"
#include "http/websocket_handshake.h"
#include "operations/exec.h"
#include "operations/limits.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

#define CLOSE_NORMAL 1000
#define CLOSE_POLICY 1008
#define CLOSE_ERROR 1011

typedef struct {
	VialRequest *request;
	VialOperation *operation; /* NULL before it is begun and after its end */
	VialWebSocket *socket;    /* NULL until it is open */
	gboolean is_accepted;
	GByteArray *inbox; /* from the client, waiting for room */
	GByteArray *early; /* from the terminal, before the socket is open */
	json_t *last;      /* the exit or error message, once the process has ended */
	unsigned close_code;
} Pty;

static void pty_free(Pty *pty)
{
	vial_request_on_gone(pty->request, NULL, NULL);
	vial_operation_cancel(pty->operation); /* which to a terminal is a hang-up */
	json_decref(pty->last);
	g_byte_array_unref(pty->inbox);
	g_byte_array_unref(pty->early);
	vial_request_unref(pty->request);
	g_free(pty);
}

/* The terminal's output */

static gboolean send_output(Pty *pty, const void *bytes, gsize size)
{
	return vial_websocket_send(pty->socket, FALSE, bytes, size) > VIAL_BODY_HIGH_BYTES;
}

static gboolean on_output(VialOutputStream stream, GBytes *bytes, gpointer data)
{
	Pty *pty = data;
	gsize size;
	const void *content = g_bytes_get_data(bytes, &size);

	if (pty->socket)
		return send_output(pty, content, size);
	g_byte_array_append(pty->early, content, (guint)size);
	return TRUE; /* at most a window: no credit is given for it until it is sent */
}

static void on_drained(VialWebSocket *socket, gpointer data)
{
	Pty *pty = data;

	if (pty->operation)
		vial_operation_drained(pty->operation);
}

/* The last word, and the close after it. */
static void send_last(Pty *pty)
{
	g_autofree char *text = vial_json_dump(pty->last);

	vial_websocket_send(pty->socket, TRUE, text, strlen(text));
	vial_websocket_close(pty->socket, pty->close_code, NULL);
}

static void on_end(const VialExecEnd *end, const GError *error, gpointer data)
{
	Pty *pty = data;

	pty->operation = NULL;
	if (!pty->is_accepted) {
		if (error)
			vial_request_reply_error(pty->request, g_error_copy(error));
		else
			vial_request_reply_fail(pty->request, VIAL_ERROR_INTERNAL, "the terminal ended before it began");
		return pty_free(pty);
	}
	pty->close_code = error ? CLOSE_ERROR : CLOSE_NORMAL;
	pty->last = error ? json_pack("{s:s, s:s}", "type", "error", "error", error->message)
	                  : json_pack("{s:s, s:I}", "type", "exit", "exit_code", (json_int_t)end->exit_code);
	if (pty->socket)
		send_last(pty);
}

/* The client's input */

static void push_input(Pty *pty)
{
	gsize piece = MIN(pty->inbox->len, vial_operation_room(pty->operation));

	if (piece > 0) {
		vial_operation_write(pty->operation, pty->inbox->data, piece);
		g_byte_array_remove_range(pty->inbox, 0, (guint)piece);
	}
	vial_websocket_set_reading(pty->socket, pty->inbox->len == 0);
}

static void on_writable(gpointer data)
{
	Pty *pty = data;

	if (pty->socket)
		push_input(pty);
}

static void control(Pty *pty, const void *bytes, gsize size)
{
	g_autoptr(json_t) message = vial_json_parse_object(bytes, size, NULL);
	const char *type = json_string_value(json_object_get(message, "type"));

	if (!type)
		vial_websocket_close(pty->socket, CLOSE_POLICY, "a text message must be a JSON object with a type");
	else if (strcmp(type, "resize") == 0)
		vial_op_exec_resize(pty->operation, json_integer_value(json_object_get(message, "rows")),
		                    json_integer_value(json_object_get(message, "cols")));
	else if (strcmp(type, "signal") == 0)
		vial_op_exec_signal(pty->operation, json_string_value(json_object_get(message, "signal")));
}

static void on_message(VialWebSocket *socket, gboolean is_text, const void *bytes, gsize size, gpointer data)
{
	Pty *pty = data;

	if (!pty->operation) /* nobody is there to read it */
		return;
	if (is_text)
		return control(pty, bytes, size);
	g_byte_array_append(pty->inbox, bytes, (guint)size);
	push_input(pty);
}

/* The socket */

static void on_opened(VialWebSocket *socket, gpointer data)
{
	Pty *pty = data;
	gboolean is_full = FALSE;

	pty->socket = socket;
	if (pty->early->len > 0)
		is_full = send_output(pty, pty->early->data, pty->early->len);
	g_byte_array_set_size(pty->early, 0);
	if (!is_full)
		on_drained(socket, pty);
	if (pty->last)
		send_last(pty);
}

static void on_socket_closed(VialWebSocket *socket, unsigned code, gpointer data)
{
	pty_free(data);
}

static void on_started(VialOperation *operation, gint64 pid, gpointer data)
{
	static const VialWebSocketHandlers handlers = {
		.opened = on_opened, .message = on_message, .drained = on_drained, .closed = on_socket_closed
	};
	Pty *pty = data;

	if (pty->is_accepted)
		return;
	pty->is_accepted = TRUE;
	if (!vial_websocket_accept(pty->request, NULL, &handlers, pty))
		pty_free(pty);
}

/* Beginning */

static void on_gone(VialRequest *request, gpointer data)
{
	pty_free(data);
}

static gboolean decode(VialRequest *request, VialExecRequest *out, GError **error)
{
	g_autofree char *unused = NULL;

	*out = (VialExecRequest){
		.cmd = vial_request_query(request, "cmd"),
		.cwd = vial_request_query(request, "cwd"),
		.user = vial_request_query(request, "user"),
		.is_terminal = TRUE,
		.rows = VIAL_TERMINAL_DEFAULT_ROWS,
		.cols = VIAL_TERMINAL_DEFAULT_COLS,
	};
	/* Checked before anything is started; accepting does it again. */
	return vial_websocket_check_handshake(request, &unused, error) && vial_decode_query_int(request, "rows", &out->rows, error) &&
	       vial_decode_query_int(request, "cols", &out->cols, error);
}

void vial_api_pty(VialRequest *request)
{
	static const VialExecSink sink = { .started = on_started, .output = on_output, .writable = on_writable, .end = on_end };
	VialCaller caller = vial_surface_caller(request);
	g_autoptr(json_t) shell = json_pack("[s, s]", "bash", "-l");
	Pty *pty = g_new0(Pty, 1);
	VialExecRequest exec;
	GError *error = NULL;

	*pty = (Pty){ .request = vial_request_ref(request), .inbox = g_byte_array_new(), .early = g_byte_array_new() };
	if (decode(request, &exec, &error)) {
		exec.argv = exec.cmd ? NULL : shell;
		pty->operation = vial_op_exec(&caller, vial_surface_sandbox(request), &exec, &sink, pty, &error);
	}
	if (pty->operation) {
		vial_request_on_gone(request, on_gone, pty);
		return;
	}
	vial_request_reply_error(request, error);
	pty_free(pty);
}
