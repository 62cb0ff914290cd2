/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See process.h. What it talks through is made by processpipes.c, stdin is processinput.c, who is told what on a terminal processterm.c; the CLOSE of
 * an exec is in finish().
 */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmdline.h"
#include "processinput.h"
#include "processpipes.h"
#include "procguard.h"
#include "signals.h"
#include "wire/wire.h"

#define MAX_REMEMBERED 64
#define GRACE_MS 2000
/* After SIGKILL nothing but a broken kernel keeps a process; the stream must still end. */
#define UNKILLABLE_MS 5000
/*
 * When the process has exited but a child of it still holds the pipe ("server &"), we cannot know whether more will come: we take what comes until
 * the pipe has been silent for this long, then close. In the background the ring keeps reading.
 */
#define SILENCE_MS 250
#define SWEEP_MS 20
#define MAX_SWEEPS 250
#define BACKGROUND_READ_BYTES (64u * 1024u)
/* How far somebody may be behind whom the process waits for: both outputs are read once more before that is looked at. */
#define HOLDING_BYTES (VIAL_RING_BYTES / 2)

static struct vial_process_run *runs;

struct vial_process_run *vial_process_first(void)
{
	return runs;
}

struct vial_process_run *vial_process_find(pid_t pid)
{
	struct vial_process_run *run = runs;

	/* Newest first: a pid that came round again means the younger process. */
	while (run && (run->pid != pid || pid <= 0))
		run = run->next;
	return run;
}

/* --- the end of things --- */

static void close_output(struct vial_process_output *output)
{
	if (output->fd < 0)
		return;
	vial_watch_remove(&output->watch);
	/* A pty has one descriptor for both directions; its input side owns it too and is closed first. */
	close(output->fd);
	output->fd = -1;
}

static bool has_open_output(const struct vial_process_run *run)
{
	return run->outputs[0].fd >= 0 || run->outputs[1].fd >= 0;
}

static void free_run(struct vial_process_run *run)
{
	struct vial_process_run **link = &runs;

	while (*link && *link != run)
		link = &(*link)->next;
	if (*link)
		*link = run->next;
	vial_process_input_close(run);
	close_output(&run->outputs[0]);
	close_output(&run->outputs[1]);
	vial_timer_clear(&run->deadline);
	vial_timer_clear(&run->grace);
	vial_timer_clear(&run->silence);
	vial_ring_free(run->ring);
	vial_spill_finish(run->spill, false);
	free(run->program);
	free(run->command);
	free(run->cwd);
	free(run);
}

/* Forgets the oldest exited processes beyond MAX_REMEMBERED; those somebody is attached to stay. */
static void forget_old(void)
{
	unsigned count = 0;

	for (struct vial_process_run *run = runs, *next; run; run = next) {
		next = run->next;
		if (run->is_exited && run->is_done && ++count > MAX_REMEMBERED && !run->attached)
			free_run(run);
	}
}

static json_t *result_of(const struct vial_process_run *run)
{
	json_t *result = json_pack("{s:i,s:b,s:I}", "exit_code", run->exit.exit_code, "timed_out", run->is_timed_out, "duration_ms",
	                           (json_int_t)run->duration_ms);

	if (run->exit.signal)
		json_object_set_new(result, "signal", json_string(vial_signal_name(run->exit.signal)));
	if (run->exit.is_oom)
		json_object_set_new(result, "oom", json_true());
	if (run->exit.is_process_limit)
		json_object_set_new(result, "process_limit", json_true());
	if (run->exit.is_zone_lost)
		json_object_set_new(result, "zone_lost", json_true());
	if (run->is_cancelled)
		json_object_set_new(result, "cancelled", json_true());
	return result;
}

/* The exec's own: whoever is attached has not been cut. */
static json_t *exec_result_of(struct vial_process_run *run)
{
	json_t *result = result_of(run);
	const char *full_output = vial_spill_finish(run->spill, run->is_truncated);

	run->spill = NULL;
	if (run->is_truncated)
		json_object_set_new(result, "truncated", json_true());
	if (full_output)
		json_object_set_new(result, "full_output", json_string(full_output));
	return result;
}

static void go_on(struct vial_process_run *run);

void vial_process_listen(struct vial_attached *attached)
{
	attached->next = attached->run->attached;
	attached->run->attached = attached;
}

void vial_process_detach(struct vial_attached *attached)
{
	struct vial_attached **link = &attached->run->attached;

	while (*link != attached)
		link = &(*link)->next;
	*link = attached->next;
	if (attached->holds)
		go_on(attached->run);
	forget_old();
}

static size_t take_output(struct vial_process_output *output, const uint8_t *bytes, size_t size_bytes);

/*
 * What was told to end takes its whole group along. Again and again for a while, because a process that was being forked at that moment can escape a
 * signal to the group, and a fork bomb always has one.
 */
static void sweep_group(struct vial_timer *timer, void *data)
{
	struct vial_process_run *run = data;

	if (run->outer_pid > 1 && kill(-run->outer_pid, SIGKILL) == 0 && run->sweeps++ < MAX_SWEEPS)
		vial_timer_set(&run->grace, SWEEP_MS, sweep_group, run);
}

/* After everything else, unless its reader is not there to read it; who runs in the background has readers who come later. A terminal has its person.
 */
static void add_hints(struct vial_process_run *run, struct vial_stream *stream)
{
	char text[VIAL_HINTS_BYTES];
	size_t room, size = run->is_pty ? 0 : vial_hints_end(&run->hints, run->is_timed_out ? run->timeout_ms : 0, text);
	uint8_t *space = size > 0 && stream ? vial_stream_reserve(stream, &room) : NULL;

	if (size > 0 && !stream && run->ring)
		vial_ring_put(run->ring, VIAL_WIRE_STDERR, (const uint8_t *)text, size);
	if (!space)
		return;
	if (room < size)
		size = 0;
	memcpy(space, text, size);
	vial_stream_commit(stream, VIAL_WIRE_STDERR, size > 0 ? take_output(&run->outputs[1], space, size) : 0);
}

static void finish(struct vial_process_run *run)
{
	struct vial_stream *stream = run->stream;

	if (run->is_done)
		return;
	run->is_done = true;
	run->stream = NULL;
	vial_timer_clear(&run->silence);
	vial_timer_clear(&run->grace);
	if (run->is_timed_out || run->is_cancelled)
		sweep_group(&run->grace, run);
	vial_process_input_close(run);
	if (stream) {
		close_output(&run->outputs[0]);
		close_output(&run->outputs[1]);
		add_hints(run, stream);
		vial_stream_close_ok(stream, exec_result_of(run));
	} else {
		add_hints(run, NULL);
	}
	for (struct vial_attached *attached = run->attached, *next; attached; attached = next) {
		next = attached->next;
		attached->on_done(attached);
	}
	forget_old();
}

static void on_silence(struct vial_timer *timer, void *data)
{
	finish(data);
}

/* By one whom the process waits for. */
static bool is_held_by_attached(const struct vial_process_run *run)
{
	for (const struct vial_attached *attached = run->attached; attached; attached = attached->next)
		if (attached->holds && vial_ring_behind(run->ring, &attached->reader) > HOLDING_BYTES)
			return true;
	return false;
}

/* A reader without credit, or a freeze: nobody listens to the pipe, so its silence says nothing about what is still in it. */
static bool is_held_up(const struct vial_process_run *run)
{
	if (is_held_by_attached(run))
		return true;
	for (int i = 0; i < 2; i++)
		if (run->outputs[i].fd >= 0 && !run->outputs[i].watch.is_added)
			return run->stream && !run->is_background;
	return false;
}

static void finish_or_drain(struct vial_process_run *run)
{
	if (!run->is_exited || run->is_done)
		return;
	if (!has_open_output(run))
		finish(run);
	else if (!is_held_up(run)) /* else on_writable() or go_on() comes back here */
		vial_timer_set(&run->silence, SILENCE_MS, on_silence, run);
}

/* --- output --- */

static void on_output(struct vial_watch *watch, uint32_t events, void *data);
static void watch_outputs(struct vial_process_run *run);

static void on_vacant(struct vial_timer *timer, void *data)
{
	watch_outputs(data);
}

static void output_ended(struct vial_process_output *output)
{
	struct vial_process_run *run = output->run;

	/* Nobody has the terminal open, which a program may do before it exits; to close our end would hang up on it. It may open it again, too. */
	if (run->is_pty && !run->is_exited) {
		vial_watch_remove(&output->watch);
		vial_timer_set(&run->silence, SILENCE_MS, on_vacant, run);
		return;
	}
	if (run->is_pty)
		vial_process_input_close(run);
	close_output(output);
	finish_or_drain(run);
}

/* How much of it is to be sent. */
static size_t take_output(struct vial_process_output *output, const uint8_t *bytes, size_t size_bytes)
{
	struct vial_process_run *run = output->run;
	uint64_t left = run->max_output_bytes - output->sent_bytes;

	vial_hints_look(&run->hints, output->channel == VIAL_WIRE_STDERR, bytes, size_bytes);
	if (run->max_output_bytes == 0)
		return size_bytes;
	vial_spill_add(run->spill, bytes, size_bytes);
	if (size_bytes > left) {
		run->is_truncated = true;
		size_bytes = (size_t)left;
	}
	output->sent_bytes += size_bytes;
	return size_bytes;
}

static void read_to_stream(struct vial_process_output *output)
{
	struct vial_process_run *run = output->run;
	size_t size;
	uint8_t *space = vial_stream_reserve(run->stream, &size);
	ssize_t got;

	if (!space) {
		/* No credit: the program waits in its write(2), as it would on any full pipe. */
		vial_watch_remove(&output->watch);
		vial_timer_clear(&run->silence);
		vial_stream_wait_writable(run->stream);
		return;
	}
	got = read(output->fd, space, size);
	vial_stream_commit(run->stream, output->channel, got > 0 ? take_output(output, space, (size_t)got) : 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0)
		output_ended(output);
	else if (run->is_exited)
		finish_or_drain(run);
}

static void kick_attached(struct vial_process_run *run)
{
	for (struct vial_attached *attached = run->attached; attached; attached = attached->next)
		vial_stream_wait_writable(attached->stream);
}

static void read_to_ring(struct vial_process_output *output)
{
	static uint8_t buffer[BACKGROUND_READ_BYTES];
	struct vial_process_run *run = output->run;
	ssize_t got;

	if (is_held_by_attached(run)) {
		vial_watch_remove(&output->watch);
		vial_timer_clear(&run->silence);
		return;
	}
	got = read(output->fd, buffer, sizeof(buffer));
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		output_ended(output);
		return;
	}
	vial_hints_look(&run->hints, output->channel == VIAL_WIRE_STDERR, buffer, (size_t)got);
	vial_ring_put(run->ring, output->channel, buffer, (size_t)got);
	kick_attached(run);
	if (run->is_exited)
		finish_or_drain(run);
}

static void on_output(struct vial_watch *watch, uint32_t events, void *data)
{
	struct vial_process_output *output = data;

	if (output->run->stream && !output->run->is_background)
		read_to_stream(output);
	else
		read_to_ring(output);
}

static void watch_outputs(struct vial_process_run *run)
{
	for (int i = 0; i < 2; i++) {
		struct vial_process_output *output = &run->outputs[i];

		if (output->fd >= 0 && !output->watch.is_added)
			vial_watch_add(&output->watch, output->fd, EPOLLIN, on_output, output);
	}
}

/* After somebody whom the process waits for has read something, or has left. */
static void go_on(struct vial_process_run *run)
{
	if (run->is_done || is_held_by_attached(run))
		return;
	watch_outputs(run);
	finish_or_drain(run);
}

/* --- attached streams --- */

static void end_attached(struct vial_stream *stream, json_t *result)
{
	struct vial_attached *attached = vial_stream_data(stream);

	vial_process_detach(attached);
	free(attached);
	if (result)
		vial_stream_close_ok(stream, result);
}

static void send_ring(struct vial_stream *stream)
{
	struct vial_attached *attached = vial_stream_data(stream);
	struct vial_process_run *run = attached->run;
	uint8_t *space;
	size_t size, got;
	uint8_t channel;

	space = vial_stream_reserve(stream, &size);
	if (!space) {
		vial_stream_wait_writable(stream);
		return;
	}
	got = vial_ring_get(run->ring, &attached->reader, &channel, space, size);
	vial_stream_commit(stream, channel, got);
	if (got > 0) {
		vial_stream_wait_writable(stream);
		if (attached->holds)
			go_on(run);
	} else if (run->is_done) {
		end_attached(stream, result_of(run));
	}
}

static void on_attached_done(struct vial_attached *attached)
{
	send_ring(attached->stream);
}

static void on_attached_cancel(struct vial_stream *stream)
{
	end_attached(stream, json_pack("{s:b}", "detached", 1));
}

static void on_attached_drop(struct vial_stream *stream)
{
	end_attached(stream, NULL);
}

static void on_attached_event(struct vial_stream *stream, json_t *event);

static const struct vial_stream_handlers attached_handlers = {
	.on_writable = send_ring,
	.on_cancel = on_attached_cancel,
	.on_drop = on_attached_drop,
	.on_event = on_attached_event,
};

static void attach(struct vial_process_run *run, struct vial_stream *stream, bool is_past_told, bool holds)
{
	struct vial_attached *attached = calloc(1, sizeof(*attached));

	if (!attached) {
		vial_stream_close_errno(stream, ENOMEM, "cannot attach");
		return;
	}
	*attached = (struct vial_attached){ .run = run, .stream = stream, .holds = holds, .on_done = on_attached_done };
	if (!is_past_told)
		vial_ring_seek(run->ring, UINT64_MAX, &attached->reader);
	vial_process_listen(attached);
	vial_stream_set_handlers(stream, &attached_handlers, attached);
	vial_stream_send_event(stream, json_pack("{s:s,s:i}", "event", "started", "pid", (int)run->pid));
	vial_stream_wait_writable(stream);
}

void vial_process_attach(struct vial_process_run *run, struct vial_stream *stream, bool is_past_told)
{
	attach(run, stream, is_past_told, false);
}

/* --- ends and deadlines --- */

static void on_unkillable(struct vial_timer *timer, void *data)
{
	struct vial_process_run *run = data;

	run->exit = (struct vial_exit){ .exit_code = 128 + SIGKILL, .signal = SIGKILL };
	run->is_exited = true;
	if (run->child)
		vial_child_forget(run->child);
	run->child = NULL;
	finish(run);
}

static void on_grace_over(struct vial_timer *timer, void *data)
{
	struct vial_process_run *run = data;

	if (run->child)
		vial_child_signal(run->child, SIGKILL, true);
	vial_timer_set(&run->grace, UNKILLABLE_MS, on_unkillable, run);
}

void vial_process_end(struct vial_process_run *run)
{
	if (!run->child || run->grace.is_set)
		return;
	vial_process_ask_to_end(run);
	vial_timer_set(&run->grace, GRACE_MS, on_grace_over, run);
}

static void on_deadline(struct vial_timer *timer, void *data)
{
	struct vial_process_run *run = data;

	run->is_timed_out = true;
	vial_process_end(run);
}

/* --- the exec's stream --- */

static void on_data(struct vial_stream *stream, uint8_t channel, const uint8_t *bytes, size_t size_bytes)
{
	struct vial_process_run *run = vial_stream_data(stream);

	if (run->input.source == stream)
		vial_process_input_write(run, bytes, size_bytes);
	else
		vial_stream_consumed(stream, size_bytes); /* it has no stdin */
}

static void on_eof(struct vial_stream *stream, uint8_t channel)
{
	struct vial_process_run *run = vial_stream_data(stream);

	if (run->input.source == stream)
		vial_process_input_end(run, true);
}

static void on_writable(struct vial_stream *stream)
{
	struct vial_process_run *run = vial_stream_data(stream);

	watch_outputs(run);
	finish_or_drain(run);
}

static void on_cancel(struct vial_stream *stream)
{
	struct vial_process_run *run = vial_stream_data(stream);

	run->is_cancelled = true;
	if (run->is_exited)
		finish(run);
	else
		vial_process_end(run);
}

static void handle_event(struct vial_process_run *run, json_t *event)
{
	const char *name = json_string_value(json_object_get(event, "event"));
	json_int_t rows = json_integer_value(json_object_get(event, "rows"));
	json_int_t columns = json_integer_value(json_object_get(event, "cols"));
	int signal = vial_signal_from_json(json_object_get(event, "signal"));

	if (name && strcmp(name, "signal") == 0 && signal > 0)
		vial_process_signal(run, signal);
	else if (name && strcmp(name, "resize") == 0 && rows > 0 && rows < 4096 && columns > 0 && columns < 4096)
		vial_process_resize(run, (unsigned short)rows, (unsigned short)columns);
}

static void on_event(struct vial_stream *stream, json_t *event)
{
	handle_event(vial_stream_data(stream), event);
}

static void on_attached_event(struct vial_stream *stream, json_t *event)
{
	struct vial_attached *attached = vial_stream_data(stream);

	handle_event(attached->run, event);
}

/* The host that asked is gone (another generation): the process goes on, in the background. */
static void on_drop(struct vial_stream *stream)
{
	struct vial_process_run *run = vial_stream_data(stream);

	run->stream = NULL;
	run->is_background = true;
	vial_spill_finish(run->spill, false);
	run->spill = NULL;
	if (run->input.source == stream)
		run->input.source = NULL;
	if (!run->ring)
		run->ring = vial_ring_new();
	if (!run->ring)
		vial_process_end(run);
	else
		watch_outputs(run);
	finish_or_drain(run);
}

static const struct vial_stream_handlers exec_handlers = {
	.on_data = on_data,
	.on_eof = on_eof,
	.on_event = on_event,
	.on_writable = on_writable,
	.on_cancel = on_cancel,
	.on_drop = on_drop,
};

/* --- the child --- */

static void on_started(struct vial_child *child, void *data)
{
	struct vial_process_run *run = data;
	struct vial_stream *stream = run->stream;

	run->pid = vial_child_pid(child);
	run->outer_pid = vial_child_outer_pid(child);
	vial_procguard_spare(run->outer_pid);
	watch_outputs(run);
	if (!stream)
		return;
	/* Who wants its output in one piece is not woken for its beginning; who is attached is told so there. */
	if (run->max_output_bytes == 0 && !run->is_attached)
		vial_stream_send_event(stream, json_pack("{s:s,s:i}", "event", "started", "pid", (int)run->pid));
	if (run->is_background) {
		run->stream = NULL;
		if (run->input.source == stream)
			run->input.source = NULL;
		if (run->is_attached)
			attach(run, stream, true, true);
		else
			vial_stream_close_ok(stream, json_pack("{s:i}", "pid", (int)run->pid));
	}
}

static void refuse_crowded(struct vial_stream *stream)
{
	vial_stream_close_error(stream, VIAL_LIMIT, "the sandbox has reached its limit of processes; end some and try again");
}

static void explain_failure(struct vial_process_run *run, enum vial_spawn_stage stage, int error)
{
	struct vial_stream *stream = run->stream;

	if (stage == VIAL_SPAWN_FORK && error == EAGAIN)
		refuse_crowded(stream);
	else if (stage == VIAL_SPAWN_CWD && error == ENOENT)
		vial_stream_close_error(stream, VIAL_NOT_FOUND, "the working directory %s does not exist", run->cwd);
	else if (stage == VIAL_SPAWN_CWD)
		vial_stream_close_errno(stream, error, "cannot enter the working directory %s", run->cwd);
	else if (stage == VIAL_SPAWN_EXEC && error == ENOENT)
		vial_stream_close_error(stream, VIAL_NOT_FOUND, "command not found: %.200s", run->program);
	else if (stage == VIAL_SPAWN_EXEC)
		vial_stream_close_errno(stream, error, "cannot run %.200s", run->program);
	else
		vial_stream_close_errno(stream, error, "cannot start a process");
}

static void on_failed(struct vial_child *child, enum vial_spawn_stage stage, int error, void *data)
{
	struct vial_process_run *run = data;

	if (run->stream)
		explain_failure(run, stage, error);
	run->stream = NULL;
	free_run(run);
}

static void on_exit_of_child(struct vial_child *child, const struct vial_exit *how, void *data)
{
	struct vial_process_run *run = data;

	run->child = NULL;
	run->exit = *how;
	run->is_exited = true;
	run->duration_ms = vial_loop_now_ms() - run->started_ms;
	vial_timer_clear(&run->deadline);
	vial_timer_clear(&run->grace);
	if (run->is_pty)
		watch_outputs(run);
	finish_or_drain(run);
}

static const struct vial_child_handlers child_handlers = {
	.on_started = on_started,
	.on_failed = on_failed,
	.on_exit = on_exit_of_child,
};

/* --- starting --- */

static struct vial_process_run *new_run(struct vial_stream *stream, const struct vial_process_options *options)
{
	struct vial_process_run *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	for (int i = 0; i < 2; i++) {
		run->outputs[i].run = run;
		run->outputs[i].fd = -1;
	}
	run->input.fd = -1;
	run->stream = stream;
	run->is_background = options->is_background;
	run->is_attached = options->is_attached;
	run->is_unlisted = options->is_unlisted;
	run->program = strdup(options->argv[0]);
	run->command = options->shell_line ? vial_cmdline_from_shell(options->shell_line) : vial_cmdline_from_argv(options->argv);
	run->cwd = strdup(options->cwd);
	run->ring = options->is_background ? vial_ring_new() : NULL;
	strcpy(run->user, options->user->name);
	run->max_output_bytes = options->is_background ? 0 : options->max_output_bytes;
	if (run->max_output_bytes > 0)
		run->spill = vial_spill_new(VIAL_SPILL_OUTPUT, options->execution_id, options->user);
	if (!run->program || !run->command || !run->cwd || (options->is_background && !run->ring)) {
		free_run(run);
		return NULL;
	}
	return run;
}

/* Beside the process's first steps, not before them: clocks are system calls. */
static void note_start(struct vial_process_run *run)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	run->started_at_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	run->started_ms = vial_loop_now_ms();
}

static int spawn(struct vial_process_run *run, const struct vial_process_options *options, const int fds[3])
{
	struct vial_spawn request = {
		.argv = options->argv,
		.env = (const char *const *)options->env,
		.cwd = options->cwd,
		.user = options->user,
		.fds = { fds[0], fds[1], fds[2] },
		.fd_count = 3,
		.is_tty = options->is_pty,
	};

	return vial_spawn(&request, &child_handlers, run, &run->child);
}

void vial_process_start(struct vial_stream *stream, const struct vial_process_options *options)
{
	struct vial_process_run *run;
	int fds[3] = { -1, -1, -1 };
	int result;

	/* A shell without room for its children waits for half a minute before it says so. */
	if (!vial_procguard_has_room(options->user->uid)) {
		refuse_crowded(stream);
		return;
	}
	vial_procguard_make_way(0);
	run = new_run(stream, options);
	if (!run) {
		vial_stream_close_errno(stream, ENOMEM, "cannot start a process");
		return;
	}
	result = vial_process_pipes_open(run, options, fds);
	if (result == 0)
		result = spawn(run, options, fds);
	for (int i = 0; i < 3; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	if (result < 0) {
		free_run(run);
		vial_stream_close_errno(stream, result, "cannot start a process");
		return;
	}
	note_start(run);
	run->next = runs;
	runs = run;
	run->input.source = run->input.fd >= 0 ? stream : NULL;
	vial_stream_set_handlers(stream, &exec_handlers, run);
	run->timeout_ms = options->timeout_ms;
	if (options->timeout_ms > 0)
		vial_timer_set(&run->deadline, options->timeout_ms, on_deadline, run);
}
