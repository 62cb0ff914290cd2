/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.Process/Start and /Connect: a process's events as a stream. A client that leaves only stops to listen: so a command runs in the background,
 * attached to the stream that started it. One that connects hears what comes, and nothing of what was.
 */
#include <string.h>

#include "operations/exec.h"
#include "operations/limits.h"
#include "operations/processes.h"
#include "surfaces/e2b/data.h"
#include "surfaces/e2b/process.h"
#include "util/json.h"

#define KEEPALIVE "{\"event\":{\"keepalive\":{}}}"

typedef struct {
	VialConnect connect;  /* first */
	gboolean is_starting; /* Start, and not Connect */
	gint64 limit_ms;
} Listening;

static void listening_free(gpointer data)
{
	Listening *listening = data;

	vial_connect_clear(&listening->connect);
	g_free(listening);
}

static VialExchange *exchange_new(VialRequest *request)
{
	Listening *listening = g_new0(Listening, 1);
	VialExchange *exchange = vial_exchange_new(request, listening, listening_free);

	vial_connect_init(&listening->connect, exchange, KEEPALIVE);
	return exchange;
}

/* Events */

static void on_started(VialOperation *operation, gint64 pid, gpointer data)
{
	VialExchange *exchange = data;

	exchange->operation = operation;
	vial_connect_send(exchange->state, json_pack("{s:{s:{s:I}}}", "event", "start", "pid", (json_int_t)pid));
}

static gboolean on_output(VialOutputStream stream, GBytes *bytes, gpointer data)
{
	VialExchange *exchange = data;
	Listening *listening = exchange->state;
	const char *before = stream == VIAL_OUTPUT_STDERR ? "{\"event\":{\"data\":{\"stderr\":\"" : "{\"event\":{\"data\":{\"stdout\":\"";

	return vial_connect_send_bytes(&listening->connect, before, bytes, "\"}}}");
}

static gboolean on_shown(GBytes *bytes, gpointer data)
{
	VialExchange *exchange = data;

	return vial_connect_send_bytes(exchange->state, "{\"event\":{\"data\":{\"pty\":\"", bytes, "\"}}}");
}

/* As Go's os/exec calls them, which is what the original's answers have. */
static const char *signal_text(const char *name)
{
	static const char *const known[][2] = {
		{ "KILL", "killed" },
		{ "TERM", "terminated" },
		{ "INT", "interrupt" },
		{ "HUP", "hangup" },
		{ "ABRT", "aborted" },
		{ "SEGV", "segmentation fault" },
		{ "BUS", "bus error" },
		{ "FPE", "floating point exception" },
		{ "PIPE", "broken pipe" },
		{ "ALRM", "alarm clock" },
		{ "QUIT", "quit" },
		{ "ILL", "illegal instruction" },
		{ "USR1", "user defined signal 1" },
		{ "USR2", "user defined signal 2" },
	};

	for (gsize i = 0; i < G_N_ELEMENTS(known); i++)
		if (strcmp(known[i][0], name) == 0)
			return known[i][1];
	return name;
}

static json_t *end_json(const VialExecEnd *end)
{
	gboolean is_exit = !end->signal;
	g_autofree char *status =
		is_exit ? g_strdup_printf("exit status %d", (int)end->exit_code) : g_strdup_printf("signal: %s", signal_text(end->signal));
	json_t *json =
		json_pack("{s:I, s:b, s:s}", "exitCode", is_exit ? (json_int_t)end->exit_code : (json_int_t)-1, "exited", is_exit, "status", status);

	if (!is_exit || end->exit_code != 0)
		json_object_set_new(json, "error", json_string(end->oom ? "out of memory" : status));
	return json_pack("{s:{s:o}}", "event", "end", json);
}

static void on_end(const VialExecEnd *end, const GError *error, gpointer data)
{
	VialExchange *exchange = data;
	Listening *listening = exchange->state;
	g_autoptr(GError) timed_out = NULL, refusal = NULL;

	if (error && !exchange->is_streaming && g_error_matches(error, VIAL_ERROR, VIAL_ERROR_NOT_FOUND) && listening->is_starting) {
		vial_fail(&refusal, VIAL_ERROR_INVALID, "%s", error->message); /* the program, or the folder it was to start in */
		error = refusal;
	}
	if (error)
		return vial_e2b_stream_end(&listening->connect, error);
	if (end->timed_out) {
		vial_fail(&timed_out, VIAL_ERROR_TIMEOUT, "the command did not end within its time limit of %" G_GINT64_FORMAT " ms and was ended",
		          listening->limit_ms);
		return vial_e2b_stream_end(&listening->connect, timed_out);
	}
	vial_connect_send(&listening->connect, end_json(end));
	vial_e2b_stream_end(&listening->connect, NULL);
}

static void on_begun(VialOperation *operation, gpointer data)
{
	((VialExchange *)data)->operation = operation;
}

static const VialExecSink sink = { .begun = on_begun, .started = on_started, .output = on_output, .shown = on_shown, .end = on_end };

/* Starting */

static gboolean read_terminal(const json_t *body, VialExecRequest *out, GError **error)
{
	out->rows = VIAL_TERMINAL_DEFAULT_ROWS;
	out->cols = VIAL_TERMINAL_DEFAULT_COLS;
	return vial_e2b_terminal_size(body, &out->is_terminal, &out->rows, &out->cols, error);
}

/* What programs of the original find in their environment. */
static json_t *environment(VialRequest *request, json_t *wanted)
{
	const VialSandbox *sandbox = vial_e2b_look(request);
	json_t *env = json_pack("{s:s, s:s, s:s}", "E2B_SANDBOX", "true", "E2B_SANDBOX_ID", vial_sandbox_id(sandbox), "E2B_TEMPLATE_ID",
	                        vial_sandbox_template(sandbox));

	json_object_update(env, wanted);
	return env;
}

static gboolean decode(VialRequest *request, json_t *body, VialExecRequest *out, GError **error)
{
	json_t *process = NULL, *args = NULL, *env = NULL;
	const char *cmd = NULL, *tag = NULL;
	gboolean has_input = TRUE;

	if (!vial_decode_object(body, "process", &process, error) || !vial_decode_text(process, "cmd", &cmd, error) ||
	    !vial_decode_list(process, "args", &args, error) || !vial_decode_object(process, "envs", &env, error) ||
	    !vial_decode_text(process, "cwd", &out->cwd, error) || !vial_decode_bool(body, "stdin", &has_input, error) ||
	    !vial_decode_text(body, "tag", &tag, error) || !read_terminal(body, out, error))
		return FALSE;
	if (!cmd)
		return vial_fail(error, VIAL_ERROR_INVALID, "process.cmd, the program to start, is missing");
	out->argv = json_pack("[s]", cmd);
	json_array_extend(out->argv, args);
	out->env = environment(request, env);
	out->background = out->attached = TRUE;
	if (has_input || out->is_terminal)
		out->input = g_bytes_new_static("", 0);
	return TRUE;
}

/* Where nothing is said: the template's working directory, and where it has none, the user's home. */
static char *folder(VialRequest *request, const char *user, const char *wanted)
{
	const char *usual = vial_sandbox_workdir(vial_e2b_look(request));

	return vial_e2b_path(user, (!wanted || !*wanted) && usual ? usual : wanted);
}

void vial_e2b_process_start(VialRequest *request)
{
	VialCaller caller;
	VialExchange *exchange;
	Listening *listening;
	VialExecRequest exec = { 0 };
	g_autoptr(GError) error = NULL;
	g_autoptr(json_t) body = NULL;
	g_autofree char *user = NULL, *cwd = NULL;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	caller = vial_surface_caller(request);
	exchange = exchange_new(request);
	listening = exchange->state;
	user = vial_e2b_user(request);
	body = vial_connect_request(request, &error);
	if (!body || !vial_connect_timeout_ms(request, &listening->limit_ms, &error) || !decode(request, body, &exec, &error))
		return vial_e2b_stream_end(&listening->connect, error);
	exec.user = user;
	exec.cwd = cwd = folder(request, user, exec.cwd);
	exec.timeout_seconds = (double)listening->limit_ms / 1000;
	listening->is_starting = TRUE;
	vial_e2b_exchange_begin(exchange, vial_op_exec(&caller, vial_surface_sandbox(request), &exec, &sink, exchange, &error), &error);
	json_decref(exec.argv);
	json_decref(exec.env);
	g_clear_pointer(&exec.input, g_bytes_unref);
}

/* Listening to one that runs */

void vial_e2b_process_connect(VialRequest *request)
{
	VialExchange *exchange;
	Listening *listening;
	g_autoptr(GError) error = NULL;
	g_autoptr(json_t) body = NULL;
	VialCaller caller;
	gint64 pid;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	exchange = exchange_new(request);
	listening = exchange->state;
	body = vial_connect_request(request, &error);
	if (!body || !vial_connect_timeout_ms(request, &listening->limit_ms, &error) || !vial_e2b_process_pid(body, &pid, &error))
		return vial_e2b_stream_end(&listening->connect, error);
	caller = vial_surface_caller(request);
	vial_connect_limit(&listening->connect, listening->limit_ms);
	vial_e2b_exchange_begin(exchange, vial_op_attach_now(&caller, vial_surface_sandbox(request), pid, &sink, exchange, &error), &error);
}
