/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET …/pty: a terminal over a WebSocket; docs/cli.md has the messages. The process is started first and the WebSocket
 * accepted when it runs, so that what cannot be done is an ordinary error; what the process prints in between waits. The
 * client's end is the terminal's end: hang-up, as when a line is cut.
 */
#include <string.h>

#include "api/guest.h"
#include "api/handlers.h"
#include "http/websocket.h"
#include "http/websocket_handshake.h"
#include "service/calls.h"
#include "util/json.h"
#include "wire/wire.h"

#define MAX_COMMAND_BYTES (128 * 1024)
#define MAX_ROWS 4095
#define DEFAULT_ROWS 24
#define DEFAULT_COLS 80
#define MAX_SIGNAL_BYTES 16

#define CLOSE_NORMAL 1000
#define CLOSE_POLICY 1008
#define CLOSE_ERROR 1011

typedef struct {
	VialWebSocket *socket; /* NULL until it is open */
	gboolean is_accepted;
	GByteArray *inbox;    /* from the client, waiting for room */
	GByteArray *early;    /* from the terminal, before the socket is open */
	gsize unacknowledged; /* queued for the client, credit held back */
	json_t *last;         /* the exit or error message, once the process has ended */
	unsigned close_code;
	VialCall *call;
	json_t *call_detail;
} Pty;

static void pty_free(gpointer data)
{
	Pty *pty = data;

	if (pty->call)
		vial_call_end(pty->call, "cancelled", NULL);
	json_decref(pty->call_detail);
	json_decref(pty->last);
	g_byte_array_unref(pty->inbox);
	g_byte_array_unref(pty->early);
	g_free(pty);
}

/* The terminal's output */

static void on_drained(VialWebSocket *socket, gpointer data)
{
	VialSession *session = data;
	Pty *pty = session->state;

	vial_stream_consumed(session->stream, pty->unacknowledged);
	pty->unacknowledged = 0;
}

static void send_output(VialSession *session, const void *bytes, gsize size)
{
	Pty *pty = session->state;

	pty->unacknowledged += size;
	if (vial_websocket_send(pty->socket, FALSE, bytes, size) <= VIAL_BODY_HIGH_BYTES)
		on_drained(pty->socket, session);
}

static void on_data(VialStream *stream, unsigned channel, GBytes *bytes, gpointer data)
{
	VialSession *session = data;
	Pty *pty = session->state;
	gsize size;
	const void *content = g_bytes_get_data(bytes, &size);

	if (pty->socket)
		send_output(session, content, size);
	else
		g_byte_array_append(pty->early, content, (guint)size); /* at most a window: no credit is given for it */
}

/* The last word, and the close after it. */
static void send_last(Pty *pty)
{
	g_autofree char *text = vial_json_dump(pty->last);

	vial_websocket_send(pty->socket, TRUE, text, strlen(text));
	vial_websocket_close(pty->socket, pty->close_code, NULL);
}

static int exit_code_of(json_t *result)
{
	json_t *code = json_object_get(result, "exit_code");

	return json_is_integer(code) ? (int)json_integer_value(code) : -1;
}

static void on_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	VialSession *session = data;
	Pty *pty = session->state;

	if (pty->call)
		vial_call_end(g_steal_pointer(&pty->call), error ? "failed" : "done",
		              error ? json_pack("{s:s}", "error", error->message) : json_deep_copy(result));
	if (!pty->is_accepted) {
		g_autoptr(GError) nothing = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_INTERNAL, "the terminal ended before it began");

		return vial_session_fail(session, error ? error : nothing);
	}
	pty->close_code = error ? CLOSE_ERROR : CLOSE_NORMAL;
	pty->last = error ? json_pack("{s:s, s:s}", "type", "error", "error", error->message) :
	                    json_pack("{s:s, s:i}", "type", "exit", "exit_code", exit_code_of(result));
	if (pty->socket)
		send_last(pty);
}

/* The client's input */

static void push_input(VialSession *session)
{
	Pty *pty = session->state;
	gsize piece = MIN(pty->inbox->len, vial_stream_room(session->stream));

	if (piece > 0) {
		vial_stream_send(session->stream, VIAL_WIRE_MAIN, pty->inbox->data, piece);
		g_byte_array_remove_range(pty->inbox, 0, (guint)piece);
	}
	vial_websocket_set_reading(pty->socket, pty->inbox->len == 0);
}

static void on_writable(VialStream *stream, gpointer data)
{
	VialSession *session = data;

	if (((Pty *)session->state)->socket)
		push_input(session);
}

static void resize(VialSession *session, json_t *message)
{
	json_int_t rows = json_integer_value(json_object_get(message, "rows")), cols = json_integer_value(json_object_get(message, "cols"));

	/* A window being opened may report no size yet. */
	if (rows >= 1 && rows <= MAX_ROWS && cols >= 1 && cols <= MAX_ROWS)
		vial_stream_send_event(session->stream, json_pack("{s:s, s:I, s:I}", "event", "resize", "rows", rows, "cols", cols));
}

static void send_signal(VialSession *session, const char *name)
{
	if (name && *name && strlen(name) <= MAX_SIGNAL_BYTES)
		vial_stream_send_event(session->stream, json_pack("{s:s, s:s}", "event", "signal", "signal", name));
}

static void control(VialSession *session, const void *bytes, gsize size)
{
	Pty *pty = session->state;
	g_autoptr(json_t) message = vial_json_parse_object(bytes, size, NULL);
	const char *type = json_string_value(json_object_get(message, "type"));

	if (!type)
		vial_websocket_close(pty->socket, CLOSE_POLICY, "a text message must be a JSON object with a type");
	else if (strcmp(type, "resize") == 0)
		resize(session, message);
	else if (strcmp(type, "signal") == 0)
		send_signal(session, json_string_value(json_object_get(message, "signal")));
}

static void on_message(VialWebSocket *socket, gboolean is_text, const void *bytes, gsize size, gpointer data)
{
	VialSession *session = data;
	Pty *pty = session->state;

	if (pty->last) /* nobody is there to read it */
		return;
	if (is_text)
		return control(session, bytes, size);
	g_byte_array_append(pty->inbox, bytes, (guint)size);
	push_input(session);
}

/* The socket */

static void on_opened(VialWebSocket *socket, gpointer data)
{
	VialSession *session = data;
	Pty *pty = session->state;

	pty->socket = socket;
	if (pty->early->len > 0)
		send_output(session, pty->early->data, pty->early->len);
	g_byte_array_set_size(pty->early, 0);
	if (pty->last)
		send_last(pty);
}

static void on_socket_closed(VialWebSocket *socket, unsigned code, gpointer data)
{
	vial_session_end(data); /* cancels, which to a terminal is a hang-up */
}

static void on_event(VialStream *stream, json_t *event, gsize size, gpointer data)
{
	static const VialWebSocketHandlers handlers = {
		.opened = on_opened, .message = on_message, .drained = on_drained, .closed = on_socket_closed
	};
	VialSession *session = data;
	Pty *pty = session->state;
	const char *name = json_string_value(json_object_get(event, "event"));

	vial_stream_consumed(stream, size);
	if (!name || strcmp(name, "started") != 0 || pty->is_accepted)
		return;
	pty->is_accepted = TRUE;
	if (!vial_websocket_accept(session->request, NULL, &handlers, session))
		vial_session_end(session);
}

/* Beginning */

static void on_stream_opened(VialSession *session)
{
	Pty *pty = session->state;

	pty->call = vial_call_begin(session->sandbox, "pty", g_steal_pointer(&pty->call_detail));
}

static gboolean read_size(VialRequest *request, const char *name, guint64 initial, guint64 *out, GError **error)
{
	const char *text = vial_request_query(request, name);

	*out = initial;
	if (!text || g_ascii_string_to_unsigned(text, 10, 1, MAX_ROWS, out, NULL))
		return TRUE;
	return vial_fail(error, VIAL_ERROR_INVALID, "%s must be a number between 1 and %d", name, MAX_ROWS);
}

static gboolean read_command(VialRequest *request, json_t *open, GError **error)
{
	const char *cmd = vial_request_query(request, "cmd"), *cwd = vial_request_query(request, "cwd");
	guint64 rows, cols;

	if (!read_size(request, "rows", DEFAULT_ROWS, &rows, error) || !read_size(request, "cols", DEFAULT_COLS, &cols, error) ||
	    !vial_guest_add_user(open, vial_request_query(request, "user"), error) || (cwd && !vial_guest_add_path(open, "cwd", cwd, error)))
		return FALSE;
	if (cmd && (!*cmd || strlen(cmd) > MAX_COMMAND_BYTES))
		return vial_fail(error, VIAL_ERROR_INVALID, "cmd must be a shell line of 1 to %d bytes", MAX_COMMAND_BYTES);
	if (cmd)
		json_object_set_new(open, "cmd", json_string(cmd));
	else
		json_object_set_new(open, "argv", json_pack("[s, s]", "bash", "-l"));
	json_object_set_new(open, "pty", json_pack("{s:I, s:I}", "rows", (json_int_t)rows, "cols", (json_int_t)cols));
	return TRUE;
}

void vial_api_pty(VialRequest *request)
{
	static const VialStreamEvents events = { .data = on_data, .event = on_event, .writable = on_writable, .closed = on_closed };
	g_autoptr(json_t) open = json_pack("{s:s}", "op", "exec");
	g_autofree char *unused = NULL;
	g_autoptr(GError) error = NULL;
	Pty *pty;

	/* Checked before anything is started; accepting does it again. */
	if (!vial_websocket_check_handshake(request, &unused, &error) || !read_command(request, open, &error)) {
		vial_request_reply_error(request, g_steal_pointer(&error));
		return;
	}
	pty = g_new0(Pty, 1);
	pty->inbox = g_byte_array_new();
	pty->early = g_byte_array_new();
	pty->call_detail = json_deep_copy(open);
	json_object_del(pty->call_detail, "op");
	vial_session_start(request, g_steal_pointer(&open), &events, on_stream_opened, pty, pty_free);
}
