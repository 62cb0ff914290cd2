/* SPDX-License-Identifier: Apache-2.0 */
/* proc.list, proc.attach, proc.signal, proc.resize, proc.stdin: what can be done later to a process that exec started. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fspath.h"
#include "ops.h"
#include "process.h"
#include "procfs.h"
#include "pty.h"
#include "signals.h"

/* Of those that run; with the exited ones the answer stays below one frame. */
#define MAX_LISTED 160

struct vial_process_run *vial_request_process(struct vial_stream *stream, json_t *request)
{
	struct vial_process_run *run;
	json_int_t pid;

	if (!vial_request_integer(stream, request, "pid", 0, INT32_MAX, 0, &pid))
		return NULL;
	run = vial_process_find((pid_t)pid);
	if (!run)
		vial_stream_close_error(stream, VIAL_NOT_FOUND, "no command with pid %d was started here", (int)pid);
	return run;
}

void vial_op_proc_attach(struct vial_stream *stream, json_t *request)
{
	struct vial_process_run *run = vial_request_process(stream, request);

	if (!run)
		return;
	if (!run->ring)
		vial_stream_close_error(stream, VIAL_CONFLICT, "process %d does not run in the background", (int)run->pid);
	else
		vial_process_attach(run, stream, !json_is_false(json_object_get(request, "past")));
}

void vial_op_proc_signal(struct vial_stream *stream, json_t *request)
{
	struct vial_process_run *run = vial_request_process(stream, request);
	int signal = vial_signal_from_json(json_object_get(request, "signal"));
	int result;

	if (!run)
		return;
	if (signal == 0) {
		vial_stream_close_error(stream, VIAL_INVALID, "the field \"signal\" must be a name such as \"TERM\" or a number");
		return;
	}
	result = vial_process_signal(run, signal);
	if (result == -ESRCH)
		vial_stream_close_error(stream, VIAL_NOT_FOUND, "process %d has ended", (int)run->pid);
	else if (result < 0)
		vial_stream_close_errno(stream, result, "cannot signal process %d", (int)run->pid);
	else
		vial_stream_close_ok(stream, NULL);
}

void vial_op_proc_resize(struct vial_stream *stream, json_t *request)
{
	struct vial_process_run *run = vial_request_process(stream, request);
	json_int_t rows, columns;

	if (!run || !vial_request_integer(stream, request, "rows", 1, VIAL_PTY_MAX_CELLS, 0, &rows) ||
	    !vial_request_integer(stream, request, "cols", 1, VIAL_PTY_MAX_CELLS, 0, &columns))
		return;
	if (rows == 0 || columns == 0) {
		vial_stream_close_error(stream, VIAL_INVALID, "the fields \"rows\" and \"cols\" are required");
	} else if (!run->is_pty) {
		vial_stream_close_error(stream, VIAL_CONFLICT, "process %d has no terminal", (int)run->pid);
	} else {
		vial_process_resize(run, (unsigned short)rows, (unsigned short)columns);
		vial_stream_close_ok(stream, NULL);
	}
}

/* --- proc.stdin --- */

struct feeding {
	struct vial_process_run *run; /* NULL when its stdin is closed */
	bool closes;
	json_int_t bytes;
};

static void on_data(struct vial_stream *stream, uint8_t channel, const uint8_t *bytes, size_t size_bytes)
{
	struct feeding *feeding = vial_stream_data(stream);

	/* Before the write: that may end the operation. */
	feeding->bytes += (json_int_t)size_bytes;
	vial_process_input_write(feeding->run, bytes, size_bytes);
}

static void on_eof(struct vial_stream *stream, uint8_t channel)
{
	struct feeding *feeding = vial_stream_data(stream);

	vial_process_input_end(feeding->run, feeding->closes);
}

/* Everything is written, or the process takes no more. */
static void on_drained(struct vial_stream *stream)
{
	struct feeding *feeding = vial_stream_data(stream);
	json_int_t bytes = feeding->bytes;

	free(feeding);
	vial_stream_close_ok(stream, json_pack("{s:I}", "bytes", bytes));
}

static void forget_source(struct vial_stream *stream)
{
	struct feeding *feeding = vial_stream_data(stream);
	struct vial_process_input *input = &feeding->run->input;

	input->source = NULL;
	input->on_drained = NULL;
	free(feeding);
}

static void on_cancel(struct vial_stream *stream)
{
	forget_source(stream);
	vial_stream_close_error(stream, VIAL_UNAVAILABLE, "cancelled");
}

static const struct vial_stream_handlers stdin_handlers = { .on_data = on_data, .on_eof = on_eof, .on_cancel = on_cancel, .on_drop = forget_source };

void vial_op_proc_stdin(struct vial_stream *stream, json_t *request)
{
	struct vial_process_run *run = vial_request_process(stream, request);
	struct feeding *feeding;
	bool closes;

	if (!run || !vial_request_bool(stream, request, "close", &closes))
		return;
	if (run->input.fd < 0) {
		vial_stream_close_error(stream, VIAL_CONFLICT, "the stdin of process %d is closed", (int)run->pid);
		return;
	}
	if (run->input.source) {
		vial_stream_close_error(stream, VIAL_CONFLICT, "somebody else is writing to the stdin of process %d", (int)run->pid);
		return;
	}
	feeding = calloc(1, sizeof(*feeding));
	if (!feeding) {
		vial_stream_close_errno(stream, ENOMEM, "cannot write to stdin");
		return;
	}
	feeding->run = run;
	feeding->closes = closes;
	run->input.source = stream;
	run->input.on_drained = on_drained;
	vial_stream_set_handlers(stream, &stdin_handlers, feeding);
}

/* --- proc.list --- */

struct usage {
	pid_t session;
	uint64_t cpu_ms, rss_kb;
};

static bool add_usage(const struct vial_process *process, void *data)
{
	struct usage *usage = data;

	/* A command's processes are its session: exec starts each in one of its own. */
	for (; usage->session; usage++) {
		if (usage->session == process->session) {
			usage->cpu_ms += process->cpu_ms + process->reaped_cpu_ms;
			usage->rss_kb += process->rss_kb;
			break;
		}
	}
	return true;
}

static json_t *describe(const struct vial_process_run *run, const struct usage *usages)
{
	json_t *process;
	uint64_t cpu_ms = run->exit.cpu_ms, rss_kb = 0;

	for (; !run->is_exited && usages->session; usages++) {
		if (usages->session == run->outer_pid) {
			cpu_ms = usages->cpu_ms;
			rss_kb = usages->rss_kb;
		}
	}
	process = json_pack("{s:i,s:o,s:s,s:o,s:I,s:s,s:I,s:I,s:b}", "pid", (int)run->pid, "cmd", vial_json_text(run->command), "user", run->user,
	                    "cwd", vial_json_text(run->cwd), "started_at_ms", (json_int_t)run->started_at_ms, "state",
	                    run->is_exited ? "exited" : "running", "cpu_ms", (json_int_t)cpu_ms, "rss_kb", (json_int_t)rss_kb, "background",
	                    run->is_background);
	if (process && run->is_pty)
		json_object_set_new(process, "pty", json_true());
	if (process && run->is_exited)
		json_object_set_new(process, "exit_code", json_integer(run->exit.exit_code));
	return process;
}

void vial_op_proc_list(struct vial_stream *stream, json_t *request)
{
	static struct usage usages[MAX_LISTED + 1];
	json_t *list = json_array();
	unsigned count = 0;

	for (struct vial_process_run *run = vial_process_first(); run && count < MAX_LISTED; run = run->next) {
		if (!run->is_exited && run->outer_pid > 0)
			usages[count++] = (struct usage){ .session = run->outer_pid };
	}
	usages[count] = (struct usage){ 0 };
	vial_procfs_for_each(add_usage, usages);
	count = 0;
	for (struct vial_process_run *run = vial_process_first(); run && count < MAX_LISTED; run = run->next) {
		if (run->pid == 0 || run->is_unlisted)
			continue;
		json_array_append_new(list, describe(run, usages));
		count++;
	}
	vial_stream_close_ok(stream, json_pack("{s:o}", "processes", list));
}
