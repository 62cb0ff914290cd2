/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/exec.h"

#include <string.h>

#include "operations/exec_private.h"
#include "operations/guest.h"
#include "operations/input.h"
#include "operations/limits.h"
#include "operations/facts.h"
#include "operations/validate.h"
#include "util/json.h"

typedef struct {
	const VialExecSink *sink;
	gpointer data;
	GDestroyNotify free_data;
	VialInput input;
	gboolean is_background;
	gboolean is_attached;
	gboolean keeps_undo;
	gboolean is_started;
	gint64 pid; /* of one in the background, once it has one and its first input is being fed */
} Exec;

/* What the agent may say */

typedef struct {
	const char *event;
	gint64 pid;
} Event;

VIAL_SHAPE(event_shape, { "event", VIAL_SHAPE_TOKEN, TRUE, 0, 32, NULL, G_STRUCT_OFFSET(Event, event) },
           { "pid", VIAL_SHAPE_INT, TRUE, 1, G_MAXINT32, NULL, G_STRUCT_OFFSET(Event, pid) });

VIAL_SHAPE(end_shape, { "exit_code", VIAL_SHAPE_INT, TRUE, G_MININT32, G_MAXINT32, NULL, G_STRUCT_OFFSET(VialExecEnd, exit_code) },
           { "duration_ms", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, G_STRUCT_OFFSET(VialExecEnd, duration_ms) },
           { "signal", VIAL_SHAPE_TOKEN, FALSE, 0, VIAL_SIGNAL_MAX_BYTES, NULL, G_STRUCT_OFFSET(VialExecEnd, signal) },
           { "timed_out", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, G_STRUCT_OFFSET(VialExecEnd, timed_out) },
           { "oom", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, G_STRUCT_OFFSET(VialExecEnd, oom) },
           { "zone_lost", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, G_STRUCT_OFFSET(VialExecEnd, zone_lost) },
           { "cancelled", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, G_STRUCT_OFFSET(VialExecEnd, cancelled) },
           { "truncated", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, G_STRUCT_OFFSET(VialExecEnd, truncated) },
           { "full_output", VIAL_SHAPE_TEXT, FALSE, 0, VIAL_PATH_MAX_BYTES, NULL, G_STRUCT_OFFSET(VialExecEnd, full_output) });

VIAL_SHAPE(background_shape, { "pid", VIAL_SHAPE_INT, TRUE, 1, G_MAXINT32, NULL, G_STRUCT_OFFSET(VialExecEnd, pid) });
VIAL_SHAPE(detached_shape, { "detached", VIAL_SHAPE_BOOL, TRUE, 0, 0, NULL, G_STRUCT_OFFSET(VialExecEnd, detached) });

gboolean vial_exec_read_end(const json_t *result, VialExecEnd *out, GError **error)
{
	return vial_shape_read(&end_shape, result, out, error);
}

static void exec_free(gpointer data)
{
	Exec *exec = data;

	vial_input_clear(&exec->input);
	if (exec->free_data)
		exec->free_data(exec->data);
	g_free(exec);
}

/* What is piped into a command or typed at a terminal is code as much as the command is. */
static void on_recording(VialOperation *operation)
{
	const Exec *exec = vial_guest_state(operation);

	vial_guest_tape_input(operation, TRUE);
	if (exec->keeps_undo)
		vial_guest_keep_undo(operation);
}

static void on_opening(VialOperation *operation, json_t *open)
{
	if (json_object_get(open, "max_output_bytes"))
		json_object_set_new(open, "execution_id", json_string(vial_call_id(vial_guest_call(operation))));
}

static void on_opened(VialOperation *operation)
{
	Exec *exec = vial_guest_state(operation);

	if (!exec->is_background)
		vial_input_push(&exec->input, operation);
	if (exec->sink->begun)
		exec->sink->begun(operation, exec->data);
}

static void on_writable(VialOperation *operation)
{
	Exec *exec = vial_guest_state(operation);

	if (!exec->is_background || exec->pid)
		vial_input_push(&exec->input, operation);
	if (exec->sink->writable)
		exec->sink->writable(exec->data);
}

static gboolean on_data(VialOperation *operation, unsigned channel, GBytes *bytes)
{
	Exec *exec = vial_guest_state(operation);
	VialOutputStream stream = channel == VIAL_WIRE_STDERR ? VIAL_OUTPUT_STDERR : VIAL_OUTPUT_STDOUT;

	/* What a terminal shows is as much for eyes as it is text: the journal has only that it was there. */
	if (channel != VIAL_WIRE_MAIN)
		vial_call_output(vial_guest_call(operation), stream == VIAL_OUTPUT_STDERR ? VIAL_JOURNAL_STDERR : VIAL_JOURNAL_STDOUT,
		                 g_bytes_get_data(bytes, NULL), g_bytes_get_size(bytes));
	return channel == VIAL_WIRE_MAIN && exec->sink->shown ? exec->sink->shown(bytes, exec->data) : exec->sink->output(stream, bytes, exec->data);
}

static gboolean on_event(VialOperation *operation, json_t *json)
{
	Exec *exec = vial_guest_state(operation);
	g_autoptr(GError) problem = NULL;
	Event event = { NULL, 0 };

	if (!vial_shape_read(&event_shape, json, &event, &problem))
		return vial_guest_reject(operation, problem);
	if (strcmp(event.event, "started") != 0 || exec->is_started) {
		vial_fail(&problem, VIAL_ERROR_GATEWAY, "a command tells of no such event, or not twice");
		return vial_guest_reject(operation, problem);
	}
	exec->is_started = TRUE;
	if (exec->sink->started)
		exec->sink->started(operation, event.pid, exec->data);
	return FALSE;
}

/* The end */

static json_t *facts(const VialExecEnd *end)
{
	json_t *json;

	if (end->pid)
		return json_pack("{s:I}", "pid", (json_int_t)end->pid);
	json = json_pack("{s:I, s:I, s:s*}", "exit_code", (json_int_t)end->exit_code, "duration_ms", (json_int_t)end->duration_ms, "signal",
	                 end->signal);
	if (end->timed_out)
		json_object_set_new(json, "timed_out", json_true());
	if (end->oom)
		json_object_set_new(json, "oom", json_true());
	if (end->truncated)
		json_object_set_new(json, "truncated", json_true());
	return json;
}

static void tell(VialOperation *operation, const VialExecEnd *end, const GError *error)
{
	Exec *exec = vial_guest_state(operation);
	g_autoptr(GError) unrecorded = NULL;

	error = vial_guest_end(operation, !error && end->cancelled ? "cancelled" : "done", error ? NULL : facts(end), error, &unrecorded);
	exec->sink->end(error ? NULL : end, error, exec->data);
}

/*
 * A background command's stream ends as soon as it has a pid, so input that came with the request is fed as process.h's input
 * would feed it, and the command's stdin stays open for more. Whether it wanted its input is its own business.
 */
static gboolean feed_first(VialOperation *operation, const VialExecEnd *end)
{
	Exec *exec = vial_guest_state(operation);

	if (!exec->is_background || exec->is_attached || exec->pid || !exec->input.bytes || g_bytes_get_size(exec->input.bytes) == 0)
		return FALSE;
	exec->pid = end->pid;
	vial_guest_continue(operation, json_pack("{s:s, s:I, s:b}", "op", "proc.stdin", "pid", (json_int_t)end->pid, "close", FALSE));
	vial_input_push(&exec->input, operation);
	return TRUE;
}

static const VialShape *shape_of(const Exec *exec)
{
	return exec->is_background && !exec->is_attached ? &background_shape : &end_shape;
}

static void on_closed(VialOperation *operation, json_t *result, const GError *error)
{
	Exec *exec = vial_guest_state(operation);
	VialExecEnd end = { .pid = exec->pid };
	g_autoptr(GError) problem = NULL, refusal = NULL;

	if (exec->pid)
		return tell(operation, &end, NULL);
	if (!error && !vial_shape_read(shape_of(exec), result, &end, &problem)) {
		vial_guest_distrust(operation, problem, &refusal);
		error = refusal;
	}
	if (error || !feed_first(operation, &end))
		tell(operation, &end, error);
}

/* It goes on without whoever has left. */
static const char *on_left(VialOperation *operation)
{
	const Exec *exec = vial_guest_state(operation);

	return exec->is_attached && exec->is_started ? "done" : "cancelled";
}

/* Beginning */

static gboolean check(const VialExecRequest *request, GError **error)
{
	if (!request->cmd == !request->argv)
		return vial_fail(error, VIAL_ERROR_INVALID, "give either cmd (a shell line) or argv (a list of words)%s",
		                 request->cmd ? ", not both" : "");
	return vial_check_text("cmd", request->cmd, VIAL_COMMAND_MAX_BYTES, error) && (!request->argv || vial_check_argv(request->argv, error)) &&
	       vial_check_text("cwd", request->cwd, VIAL_PATH_MAX_BYTES, error) && vial_check_user(request->user, error) &&
	       vial_check_env(request->env, error) &&
	       vial_check_real("timeout_seconds", request->timeout_seconds, 0, VIAL_TIMEOUT_MAX_MS / 1000, error) &&
	       (!request->is_terminal || (vial_check_int("rows", request->rows, 1, VIAL_TERMINAL_MAX_CELLS, error) &&
	                                  vial_check_int("cols", request->cols, 1, VIAL_TERMINAL_MAX_CELLS, error)));
}

/* Everything but the environment, which may hold secrets: it is added to the OPEN only. */
static json_t *make_detail(const VialExecRequest *request)
{
	json_t *detail =
		json_pack("{s:s*, s:O*, s:s*, s:s*}", "cmd", request->cmd, "argv", request->argv, "cwd", request->cwd, "user", request->user);

	if (request->timeout_seconds > 0)
		json_object_set_new(detail, "timeout_ms", json_integer((json_int_t)(request->timeout_seconds * 1000)));
	if (request->background)
		json_object_set_new(detail, "background", json_true());
	if (request->background && request->attached)
		json_object_set_new(detail, "attached", json_true());
	if (request->is_terminal)
		json_object_set_new(detail, "pty", json_pack("{s:I, s:I}", "rows", (json_int_t)request->rows, "cols", (json_int_t)request->cols));
	return detail;
}

static json_t *make_open(const VialExecRequest *request, const json_t *detail, gint64 max_output_bytes)
{
	json_t *open = json_copy((json_t *)detail);

	json_object_set_new(open, "op", json_string("exec"));
	if (request->env)
		json_object_set(open, "env", request->env);
	if (request->input)
		json_object_set_new(open, "stdin", json_true());
	if (max_output_bytes > 0)
		json_object_set_new(open, "max_output_bytes", json_integer(max_output_bytes));
	return open;
}

VialOperation *vial_exec_start(const VialCaller *caller, const char *sandbox_id, const VialExecRequest *request, gint64 max_output_bytes,
                               const VialExecSink *sink, gpointer data, GDestroyNotify free_data, GError **error)
{
	static const VialGuestEvents events = { .recording = on_recording,
		                                .opening = on_opening,
		                                .opened = on_opened,
		                                .data = on_data,
		                                .event = on_event,
		                                .writable = on_writable,
		                                .left = on_left,
		                                .closed = on_closed };
	VialVerb verb = request->is_terminal ? VIAL_VERB_PTY : VIAL_VERB_EXEC;
	Exec *exec = g_new0(Exec, 1);
	VialSandbox *sandbox;
	json_t *detail, *open;

	*exec = (Exec){ .sink = sink,
		        .data = data,
		        .free_data = free_data,
		        .is_background = request->background,
		        .is_attached = request->background && request->attached,
		        .keeps_undo = request->undo };
	if (!vial_operation_admit(caller, verb, sandbox_id, 0, &sandbox, error) || !check(request, error)) {
		exec_free(exec);
		return NULL;
	}
	if (request->input)
		exec->input.bytes = g_bytes_ref(request->input);
	detail = make_detail(request);
	open = make_open(request, detail, max_output_bytes);
	vial_facts_env(detail, request->env);
	return vial_guest_start(caller, verb, sandbox, open, detail, &events, exec, exec_free, error);
}

VialOperation *vial_op_exec(const VialCaller *caller, const char *sandbox_id, const VialExecRequest *request, const VialExecSink *sink, gpointer data,
                            GError **error)
{
	return vial_exec_start(caller, sandbox_id, request, 0, sink, data, NULL, error);
}

void vial_op_exec_resize(VialOperation *operation, gint64 rows, gint64 cols)
{
	/* A window being opened may report no size yet. */
	if (rows >= 1 && rows <= VIAL_TERMINAL_MAX_CELLS && cols >= 1 && cols <= VIAL_TERMINAL_MAX_CELLS)
		vial_stream_send_event(vial_guest_stream(operation),
		                       json_pack("{s:s, s:I, s:I}", "event", "resize", "rows", (json_int_t)rows, "cols", (json_int_t)cols));
}

void vial_op_exec_signal(VialOperation *operation, const char *name)
{
	if (name && vial_check_text("signal", name, VIAL_SIGNAL_MAX_BYTES, NULL))
		vial_stream_send_event(vial_guest_stream(operation), json_pack("{s:s, s:s}", "event", "signal", "signal", name));
}

/* Attaching */

static void on_attach_closed(VialOperation *operation, json_t *result, const GError *error)
{
	Exec *exec = vial_guest_state(operation);
	VialExecEnd end = { 0 };
	g_autoptr(GError) problem = NULL, refusal = NULL;

	if (!error && !vial_shape_read(json_object_get(result, "detached") ? &detached_shape : &end_shape, result, &end, &problem)) {
		vial_guest_distrust(operation, problem, &refusal);
		error = refusal;
	}
	vial_guest_end(operation, "done", NULL, error, NULL);
	exec->sink->end(error ? NULL : &end, error, exec->data);
}

static VialOperation *attach(const VialCaller *caller, const char *sandbox_id, gint64 pid, gboolean is_past_told, const VialExecSink *sink,
                             gpointer data, GError **error)
{
	static const VialGuestEvents events = { .opened = on_opened, .data = on_data, .event = on_event, .closed = on_attach_closed };
	VialSandbox *sandbox;
	Exec *exec;

	if (!vial_operation_admit(caller, VIAL_VERB_PROCESS_READ, sandbox_id, 0, &sandbox, error))
		return NULL;
	exec = g_new0(Exec, 1);
	*exec = (Exec){ .sink = sink, .data = data };
	return vial_guest_start(caller, VIAL_VERB_PROCESS_READ, sandbox,
	                        json_pack("{s:s, s:I, s:b}", "op", "proc.attach", "pid", (json_int_t)pid, "past", is_past_told), NULL, &events, exec,
	                        exec_free, error);
}

VialOperation *vial_op_attach(const VialCaller *caller, const char *sandbox_id, gint64 pid, const VialExecSink *sink, gpointer data, GError **error)
{
	return attach(caller, sandbox_id, pid, TRUE, sink, data, error);
}

VialOperation *vial_op_attach_now(const VialCaller *caller, const char *sandbox_id, gint64 pid, const VialExecSink *sink, gpointer data,
                                  GError **error)
{
	return attach(caller, sandbox_id, pid, FALSE, sink, data, error);
}
