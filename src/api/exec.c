/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST …/exec and …/exec/stream: one command, its output collected or streamed as server-sent events. Both forms read the
 * same body and end with the agent's CLOSE; a client that leaves cancels the command.
 */
#include <string.h>

#include "api/guest.h"
#include "api/handlers.h"
#include "service/calls.h"
#include "util/json.h"
#include "util/utf8.h"
#include "wire/wire.h"

#define MAX_COMMAND_BYTES (128 * 1024)
#define MAX_ARGUMENTS 1024
#define MAX_ENV_PAIRS 256
#define MAX_ENV_BYTES (32 * 1024)
#define MAX_TIMEOUT_SECONDS (7 * 24 * 3600)
/* Of each of stdout and stderr in a collected answer; the streamed form has no limit. */
#define COLLECT_LIMIT_BYTES (4 * 1024 * 1024)

typedef struct {
	gboolean is_stream;
	gboolean is_base64; /* the streamed form carries the exact bytes */
	gboolean is_background;
	json_t *started; /* a background command's answer, while its first input is being fed */
	char *input; /* what the command reads from its stdin */
	gsize input_size;
	gsize input_sent;
	VialOutput output[2];
	VialUtf8 utf8[2];
	gsize unacknowledged; /* given to a slow client, credit still held back */
	VialCall *call;
	json_t *call_detail;
} Exec;

static void exec_free(gpointer data)
{
	Exec *exec = data;

	if (exec->call)
		vial_call_end(exec->call, "cancelled", NULL);
	json_decref(exec->call_detail);
	json_decref(exec->started);
	vial_output_clear(&exec->output[0]);
	vial_output_clear(&exec->output[1]);
	g_free(exec->input);
	g_free(exec);
}

/* Reads the body into the agent's exec operation. */
static json_t *read_command(json_t *body, gboolean *out_background, GError **error)
{
	g_autoptr(json_t) open = json_pack("{s:s}", "op", "exec");
	const char *cmd = NULL, *cwd = NULL, *user = NULL;
	json_t *argv = NULL, *env = NULL;
	double timeout_seconds = 0;

	if (!vial_json_get_string(body, "cmd", VIAL_JSON_NONEMPTY, MAX_COMMAND_BYTES, &cmd, error) ||
	    !vial_json_get_string_array(body, "argv", 0, MAX_ARGUMENTS, MAX_COMMAND_BYTES, &argv, error) ||
	    !vial_json_get_string(body, "cwd", VIAL_JSON_NONEMPTY, 4096, &cwd, error) ||
	    !vial_json_get_string(body, "user", VIAL_JSON_NONEMPTY, 64, &user, error) ||
	    !vial_json_get_string_map(body, "env", 0, MAX_ENV_PAIRS, 256, MAX_ENV_BYTES, &env, error) ||
	    !vial_env_check_names(env, error) ||
	    !vial_json_get_double(body, "timeout_seconds", 0, 0, MAX_TIMEOUT_SECONDS, &timeout_seconds, error) ||
	    !vial_json_get_bool(body, "background", 0, out_background, error))
		return NULL;
	if (!cmd == !argv) {
		vial_fail(error, VIAL_ERROR_INVALID, "give either cmd (a shell line) or argv (a list of words)%s", cmd ? ", not both" : "");
		return NULL;
	}
	if (argv && json_array_size(argv) == 0) {
		vial_fail(error, VIAL_ERROR_INVALID, "argv is empty");
		return NULL;
	}
	if (cmd)
		json_object_set_new(open, "cmd", json_string(cmd));
	else
		json_object_set(open, "argv", argv);
	if (cwd)
		json_object_set_new(open, "cwd", json_string(cwd));
	if (user)
		json_object_set_new(open, "user", json_string(user));
	if (env)
		json_object_set(open, "env", env);
	if (timeout_seconds > 0)
		json_object_set_new(open, "timeout_ms", json_integer((json_int_t)(timeout_seconds * 1000)));
	if (*out_background)
		json_object_set_new(open, "background", json_true());
	return g_steal_pointer(&open);
}

static void send_input(VialSession *session)
{
	Exec *exec = session->state;
	gsize piece = MIN(vial_stream_room(session->stream), exec->input_size - exec->input_sent);

	if (!exec->input)
		return;
	vial_stream_send(session->stream, VIAL_WIRE_MAIN, exec->input + exec->input_sent, piece);
	exec->input_sent += piece;
	if (exec->input_sent < exec->input_size)
		return;
	vial_stream_send_eof(session->stream, VIAL_WIRE_MAIN);
	g_clear_pointer(&exec->input, g_free);
}

static void on_opened(VialSession *session)
{
	Exec *exec = session->state;

	exec->call = vial_call_begin(session->sandbox, "exec", g_steal_pointer(&exec->call_detail));
	if (!exec->is_background)
		send_input(session);
}

static void on_writable(VialStream *stream, gpointer data)
{
	VialSession *session = data;
	Exec *exec = session->state;

	if (!exec->is_background || exec->started)
		send_input(session);
}

static void on_drained(VialRequest *request, gpointer data)
{
	VialSession *session = data;
	Exec *exec = session->state;

	vial_stream_consumed(session->stream, exec->unacknowledged);
	exec->unacknowledged = 0;
}

static void on_data(VialStream *stream, unsigned channel, GBytes *bytes, gpointer data)
{
	VialSession *session = data;
	Exec *exec = session->state;
	unsigned index = channel == VIAL_WIRE_STDERR;
	gsize size;
	const void *content = g_bytes_get_data(bytes, &size);
	json_t *chunk;

	vial_call_output(exec->call, index ? VIAL_JOURNAL_STDERR : VIAL_JOURNAL_STDOUT, content, size);
	if (!exec->is_stream) {
		vial_output_add(&exec->output[index], content, size);
		vial_stream_consumed(stream, size);
		return;
	}
	exec->unacknowledged += size;
	if (exec->is_base64) {
		g_autofree char *encoded = g_base64_encode(content, size);

		chunk = json_pack("{s:s}", "chunk_base64", encoded);
	} else {
		g_autoptr(GString) text = g_string_sized_new(size);

		vial_utf8_feed(&exec->utf8[index], content, size, text);
		chunk = text->len > 0 ? json_pack("{s:s%}", "chunk", text->str, text->len) : NULL;
	}
	if (!chunk || vial_request_sse_send(session->request, index ? "stderr" : "stdout", chunk) < VIAL_BODY_HIGH_BYTES)
		on_drained(session->request, session);
}

static json_t *collected(Exec *exec, json_t *result)
{
	json_t *answer = json_object();

	vial_output_finish(&exec->output[0]);
	vial_output_finish(&exec->output[1]);
	json_object_set_new(answer, "stdout", json_stringn(exec->output[0].text->str, exec->output[0].text->len));
	json_object_set_new(answer, "stderr", json_stringn(exec->output[1].text->str, exec->output[1].text->len));
	json_object_update(answer, result);
	json_object_del(answer, "ok");
	if (!json_object_get(answer, "timed_out"))
		json_object_set_new(answer, "timed_out", json_false());
	json_object_set_new(answer, "truncated", json_boolean(exec->output[0].is_truncated || exec->output[1].is_truncated));
	return answer;
}

static void end_stream(VialSession *session, json_t *result, const GError *error)
{
	json_t *last = error ? json_pack("{s:s}", "error", error->message) : json_deep_copy(result);

	json_object_del(last, "ok");
	vial_request_sse_send(session->request, error ? "error" : "exit", last);
	vial_request_stream_end(session->request);
	vial_session_end(session);
}

/*
 * A background command's stream ends as soon as it has a pid, so input that came with the request is fed as …/stdin would
 * feed it, and the command's stdin stays open for more. TRUE while that is still to be done.
 */
static gboolean feed_first(VialSession *session, json_t *result)
{
	Exec *exec = session->state;

	if (!exec->is_background || exec->started || exec->input_size == 0)
		return FALSE;
	exec->started = json_incref(result);
	vial_stream_free(session->stream);
	session->stream = vial_stream_open(vial_sandbox_channel(session->sandbox),
	                                   json_pack("{s:s, s:O, s:b}", "op", "proc.stdin", "pid", json_object_get(result, "pid"), "close", FALSE),
	                                   &session->events, session);
	send_input(session);
	return TRUE;
}

static void on_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	VialSession *session = data;
	Exec *exec = session->state;

	if (!error && feed_first(session, result))
		return;
	if (exec->started) { /* whether it wanted its input is its own business */
		result = exec->started;
		error = NULL;
	}
	if (exec->call) {
		json_t *outcome = error ? json_pack("{s:s}", "error", error->message) : json_deep_copy(result);

		vial_call_end(g_steal_pointer(&exec->call), error ? "failed" : "done", outcome);
	}
	if (exec->is_stream)
		return end_stream(session, result, error);
	if (error)
		return vial_session_fail(session, error);
	vial_request_reply_json(session->request, 200, collected(exec, result));
	vial_session_end(session);
}

static void on_stream_opened(VialSession *session)
{
	vial_request_sse_begin(session->request, on_drained, session);
	on_opened(session);
}

static void exec_start(VialRequest *request, gboolean is_stream)
{
	static const VialStreamEvents events = { .data = on_data, .writable = on_writable, .closed = on_closed };
	json_t *body = vial_request_json(request);
	g_autoptr(GError) error = NULL;
	const char *input = NULL, *encoding = NULL;
	gboolean background = FALSE;
	json_t *open = NULL;
	Exec *exec;

	if (!vial_json_get_string(body, "stdin", 0, G_MAXINT32, &input, &error) ||
	    !vial_json_get_string(body, "encoding", VIAL_JSON_NONEMPTY, 16, &encoding, &error) ||
	    !(open = read_command(body, &background, &error))) {
		vial_request_reply_error(request, g_steal_pointer(&error));
		return;
	}
	exec = g_new0(Exec, 1);
	/* A background command answers with its pid at once, in either form as plain JSON. */
	exec->is_stream = is_stream && !background;
	exec->is_background = background;
	exec->is_base64 = g_strcmp0(encoding, "base64") == 0;
	exec->call_detail = json_deep_copy(open);
	json_object_del(exec->call_detail, "env");
	json_object_del(exec->call_detail, "op");
	vial_output_init(&exec->output[0], COLLECT_LIMIT_BYTES);
	vial_output_init(&exec->output[1], COLLECT_LIMIT_BYTES);
	if (input) {
		exec->input_size = json_string_length(json_object_get(body, "stdin"));
		exec->input = g_memdup2(input, exec->input_size + 1);
		json_object_set_new(open, "stdin", json_true());
	}
	vial_session_start(request, open, &events, exec->is_stream ? on_stream_opened : on_opened, exec, exec_free);
}

void vial_api_exec(VialRequest *request)
{
	exec_start(request, FALSE);
}

void vial_api_exec_stream(VialRequest *request)
{
	exec_start(request, TRUE);
}
