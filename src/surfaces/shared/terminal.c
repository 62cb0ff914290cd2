/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/shared/terminal.h"

#include <string.h>

#include "http/websocket.h"
#include "http/websocket_handshake.h"
#include "operations/limits.h"
#include "operations/surface_user.h"
#include "util/json.h"

#define CLOSE_NORMAL 1000
#define CLOSE_POLICY 1008
#define CLOSE_ERROR 1011

typedef struct {
	VialRequest *request;
	const VialTerminalDialect *dialect;
	VialOperation *operation; /* NULL before it is begun and after its end */
	VialWebSocket *socket;    /* NULL until it is open */
	gboolean is_accepted;
	gboolean awaits_first; /* the message that decides what runs */
	gint64 rows, cols;     /* of what is to run then */
	GByteArray *inbox;     /* from the client, waiting for room */
	GByteArray *early;     /* from the terminal, before the socket is open */
	json_t *last;          /* the exit or error message, once the process has ended */
	unsigned close_code;
} Terminal;

static void terminal_free(Terminal *terminal)
{
	vial_request_on_gone(terminal->request, NULL, NULL);
	vial_operation_cancel(terminal->operation); /* which to a terminal is a hang-up */
	json_decref(terminal->last);
	g_byte_array_unref(terminal->inbox);
	g_byte_array_unref(terminal->early);
	vial_request_unref(terminal->request);
	g_free(terminal);
}

static Terminal *terminal_new(VialRequest *request, const VialTerminalDialect *dialect)
{
	Terminal *terminal = g_new0(Terminal, 1);

	*terminal = (Terminal){ .request = vial_request_ref(request), .dialect = dialect, .inbox = g_byte_array_new(), .early = g_byte_array_new() };
	return terminal;
}

/* The terminal's output */

static gboolean send_output(Terminal *terminal, const void *bytes, gsize size)
{
	return vial_websocket_send(terminal->socket, FALSE, bytes, size) > VIAL_BODY_HIGH_BYTES;
}

static gboolean on_output(VialOutputStream stream, GBytes *bytes, gpointer data)
{
	Terminal *terminal = data;
	gsize size;
	const void *content = g_bytes_get_data(bytes, &size);

	if (terminal->socket)
		return send_output(terminal, content, size);
	g_byte_array_append(terminal->early, content, (guint)size);
	return TRUE; /* at most a window: no credit is given for it until it is sent */
}

static void on_drained(VialWebSocket *socket, gpointer data)
{
	Terminal *terminal = data;

	vial_operation_drained(terminal->operation);
}

/* The last word, and the close after it. */
static void send_last(Terminal *terminal)
{
	g_autofree char *text = vial_json_dump(terminal->last);

	vial_websocket_send(terminal->socket, TRUE, text, strlen(text));
	vial_websocket_close(terminal->socket, terminal->close_code, NULL);
}

static void say_last(Terminal *terminal, const VialExecEnd *end, const GError *error)
{
	const VialTerminalDialect *dialect = terminal->dialect;

	terminal->close_code = error ? CLOSE_ERROR : CLOSE_NORMAL;
	terminal->last = error ? json_pack("{s:s, s:s}", "type", "error", dialect->error_field, error->message)
	                       : json_pack("{s:s, s:I}", "type", "exit", dialect->exit_field, (json_int_t)end->exit_code);
	if (terminal->socket)
		send_last(terminal);
}

static void on_end(const VialExecEnd *end, const GError *error, gpointer data)
{
	Terminal *terminal = data;

	terminal->operation = NULL;
	if (terminal->is_accepted)
		return say_last(terminal, end, error);
	if (error)
		vial_request_reply_error(terminal->request, g_error_copy(error));
	else
		vial_request_reply_fail(terminal->request, VIAL_ERROR_INTERNAL, "the terminal ended before it began");
	terminal_free(terminal);
}

/* The client's input */

static void push_input(Terminal *terminal)
{
	gsize piece = MIN(terminal->inbox->len, vial_operation_room(terminal->operation));

	if (piece > 0) {
		vial_operation_write(terminal->operation, terminal->inbox->data, piece);
		g_byte_array_remove_range(terminal->inbox, 0, (guint)piece);
	}
	vial_websocket_set_reading(terminal->socket, terminal->inbox->len == 0);
}

static void on_writable(gpointer data)
{
	Terminal *terminal = data;

	if (terminal->socket)
		push_input(terminal);
}

/* The stream is open: what was typed before it was can go. */
static void on_begun(VialOperation *operation, gpointer data)
{
	Terminal *terminal = data;

	terminal->operation = operation;
	on_writable(terminal);
}

static void control(Terminal *terminal, const void *bytes, gsize size)
{
	g_autoptr(json_t) message = vial_json_parse_object(bytes, size, NULL);
	const char *type = json_string_value(json_object_get(message, "type"));
	gint64 rows = json_integer_value(json_object_get(message, "rows")), cols = json_integer_value(json_object_get(message, "cols"));

	if (!type)
		return vial_websocket_close(terminal->socket, CLOSE_POLICY, "a text message must be a JSON object with a type");
	if (strcmp(type, "resize") == 0 && terminal->awaits_first) {
		terminal->rows = rows;
		terminal->cols = cols;
	} else if (strcmp(type, "resize") == 0) {
		vial_op_exec_resize(terminal->operation, rows, cols);
	} else if (strcmp(type, "signal") == 0) {
		vial_op_exec_signal(terminal->operation, json_string_value(json_object_get(message, "signal")));
	}
}

static void begin(Terminal *terminal, const void *first, gsize size);

static void on_message(VialWebSocket *socket, gboolean is_text, const void *bytes, gsize size, gpointer data)
{
	Terminal *terminal = data;

	if (is_text && (terminal->operation || terminal->awaits_first))
		return control(terminal, bytes, size);
	if (is_text || size == 0)
		return;
	if (terminal->awaits_first)
		return begin(terminal, bytes, size);
	if (!terminal->operation) /* nobody is there to read it */
		return;
	g_byte_array_append(terminal->inbox, bytes, (guint)size);
	push_input(terminal);
}

/* The socket */

static void on_opened(VialWebSocket *socket, gpointer data)
{
	Terminal *terminal = data;
	const char *greeting = terminal->dialect->greeting;
	gboolean is_full = FALSE;

	terminal->socket = socket;
	if (greeting)
		vial_websocket_send(socket, TRUE, greeting, strlen(greeting));
	if (terminal->early->len > 0)
		is_full = send_output(terminal, terminal->early->data, terminal->early->len);
	g_byte_array_set_size(terminal->early, 0);
	if (!is_full)
		on_drained(socket, terminal);
	if (terminal->last)
		send_last(terminal);
}

static void on_socket_closed(VialWebSocket *socket, unsigned code, gpointer data)
{
	terminal_free(data);
}

static void on_gone(VialRequest *request, gpointer data)
{
	terminal_free(data);
}

static void accept_socket(Terminal *terminal)
{
	static const VialWebSocketHandlers handlers = {
		.opened = on_opened, .message = on_message, .drained = on_drained, .closed = on_socket_closed
	};

	terminal->is_accepted = TRUE;
	if (!vial_websocket_accept(terminal->request, NULL, &handlers, terminal))
		terminal_free(terminal);
}

gboolean vial_terminal_decode(VialRequest *request, VialExecRequest *out, GError **error)
{
	g_autofree char *unused = NULL;

	*out = (VialExecRequest){ .is_terminal = TRUE, .rows = VIAL_TERMINAL_DEFAULT_ROWS, .cols = VIAL_TERMINAL_DEFAULT_COLS };
	/* Checked before anything is started; accepting does it again. */
	return vial_websocket_check_handshake(request, &unused, error) && vial_decode_query_int(request, "rows", &out->rows, error) &&
	       vial_decode_query_int(request, "cols", &out->cols, error);
}

/* The process first */

static void on_started(VialOperation *operation, gint64 pid, gpointer data)
{
	Terminal *terminal = data;

	if (!terminal->is_accepted)
		accept_socket(terminal);
}

static const VialExecSink sink = { .begun = on_begun, .started = on_started, .output = on_output, .writable = on_writable, .end = on_end };

void vial_terminal_start(VialRequest *request, const VialExecRequest *exec, const VialTerminalDialect *dialect)
{
	VialCaller caller = vial_surface_caller(request);
	Terminal *terminal = terminal_new(request, dialect);
	GError *error = NULL;

	terminal->operation = vial_op_exec(&caller, vial_surface_sandbox(request), exec, &sink, terminal, &error);
	if (terminal->operation) {
		vial_request_on_gone(request, on_gone, terminal);
		return;
	}
	vial_request_reply_error(request, error);
	terminal_free(terminal);
}

/* The socket first */

static gboolean is_command(const char *text, gsize size)
{
	return size > 1 && size <= VIAL_COMMAND_MAX_BYTES && text[size - 1] == '\n' && g_utf8_validate(text, (gssize)size, NULL);
}

static void begin(Terminal *terminal, const void *first, gsize size)
{
	VialCaller caller = vial_surface_caller(terminal->request);
	g_autofree char *line = is_command(first, size) ? g_strndup(first, size - 1) : NULL;
	g_autoptr(json_t) shell = line ? NULL : json_pack("[s, s]", "bash", "-l");
	VialExecRequest exec = {
		.cmd = line, .argv = shell, .user = vial_surface_user(&caller), .is_terminal = TRUE, .rows = terminal->rows, .cols = terminal->cols
	};
	g_autoptr(GError) error = NULL;

	terminal->awaits_first = FALSE;
	if (!line)
		g_byte_array_append(terminal->inbox, first, (guint)size);
	terminal->operation = vial_op_exec(&caller, vial_surface_sandbox(terminal->request), &exec, &sink, terminal, &error);
	if (!terminal->operation)
		say_last(terminal, NULL, error);
	else
		push_input(terminal);
}

void vial_terminal_await(VialRequest *request, const VialExecRequest *size, const VialTerminalDialect *dialect)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	Terminal *terminal;

	/* What it will be refused for is refused now, while it can be an answer. */
	if (!vial_operation_admit(&caller, VIAL_VERB_PTY, vial_surface_sandbox(request), 0, NULL, &error))
		return vial_request_reply_error(request, error);
	terminal = terminal_new(request, dialect);
	terminal->awaits_first = TRUE;
	terminal->rows = size->rows;
	terminal->cols = size->cols;
	accept_socket(terminal);
}
