/* SPDX-License-Identifier: Apache-2.0 */
/* See ctxrun.h. */
#include "ctxrun.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "ctx.h"
#include "ctxcode.h"
#include "ctxfiles.h"
#include "ctxlate.h"
#include "spill.h"
#include "env.h"
#include "ops.h"
#include "procguard.h"
#include "signals.h"
#include "wire/wire.h"

#define DEFAULT_GRACE_MS 2000
#define MAX_GRACE_MS 60000
#define MIN_WAIT_MS 5000
#define MAX_ARGUMENTS 1024
#define MAX_ARGUMENTS_BYTES (128u * 1024u)
#define DEFAULT_OUTPUT_BYTES (1024 * 1024)
#define DEFAULT_RESULTS_BYTES (64 * 1024 * 1024)
/* An interrupt is repeated: a child that took the first one for itself may have left the loop around it running. */
#define INTERRUPT_AGAIN_MS 500
/* For a kernel that has been interrupted and says so. */
#define REPORT_MS 10000
/* For runs that nobody listens to, or whose answer is full: read and forget. */
#define ANY_ROOM (256u * 1024u)

static void drop_code(struct vial_run *run)
{
	vial_code_give_budget(json_string_length(run->code));
	json_decref(run->code);
	run->code = NULL;
}

static void give_up_waiting(struct vial_run *run);

static void free_run(struct vial_run *run)
{
	vial_timer_clear(&run->deadline);
	vial_timer_clear(&run->grace);
	vial_timer_clear(&run->again);
	vial_spill_finish(run->spill, false);
	vial_spill_finish(run->results_spill, false);
	drop_code(run);
	json_decref(run->env);
	json_decref(run->argv);
	free(run);
}

/* --- interrupting --- */

static void interrupt_again(struct vial_timer *timer, void *data)
{
	struct vial_run *run = data;

	if (!run->ctx->kernel || run->is_killed)
		return;
	vial_kernel_interrupt(run->ctx->kernel, run->number);
	vial_timer_set(&run->again, INTERRUPT_AGAIN_MS, interrupt_again, run);
}

static void on_grace_over(struct vial_timer *timer, void *data)
{
	struct vial_run *run = data;

	run->is_killed = true;
	run->kill_name = "KernelKilled";
	run->kill_reason = "the code did not end when it was interrupted, so its kernel was killed; variables are lost";
	if (run->ctx->kernel)
		vial_kernel_kill(run->ctx->kernel);
}

void vial_run_interrupt(struct vial_run *run)
{
	if (run->ctx->kernel)
		vial_kernel_interrupt(run->ctx->kernel, run->number);
}

/* Until it gives in, and then by force. */
static void end_run(struct vial_run *run)
{
	if (run->is_interrupting)
		return;
	run->is_interrupting = true;
	interrupt_again(&run->again, run);
	vial_timer_set(&run->grace, run->grace_ms, on_grace_over, run);
}

static void on_deadline(struct vial_timer *timer, void *data)
{
	struct vial_run *run = data;

	run->is_timed_out = true;
	if (!run->is_running) {
		give_up_waiting(run);
		return;
	}
	/* A client that does not read must not hold up the end: the code may be waiting in its print. */
	end_run(run);
	if (run->ctx->kernel)
		vial_kernel_continue(run->ctx->kernel);
}

/* --- the stream --- */

static void leave_queue(struct vial_run *run)
{
	struct vial_ctx *ctx = run->ctx;
	struct vial_run **link = &ctx->first_queued;

	while (*link && *link != run)
		link = &(*link)->next;
	if (!*link)
		return;
	*link = run->next;
	if (ctx->last_queued == &run->next)
		ctx->last_queued = link;
	ctx->queued_count--;
}

static void on_cancel(struct vial_stream *stream)
{
	struct vial_run *run = vial_stream_data(stream);
	struct vial_ctx *ctx;

	if (!run->is_running) {
		leave_queue(run);
		run->stream = NULL;
		vial_stream_close_error(stream, VIAL_UNAVAILABLE, "cancelled before it began");
		ctx = run->ctx;
		free_run(run);
		vial_ctx_next(ctx);
		return;
	}
	run->is_cancelled = true;
	end_run(run);
	if (run->ctx->kernel)
		vial_kernel_continue(run->ctx->kernel);
}

/* The sandbox is another one now: a run under way goes on unheard, one that waits was never begun. */
static void on_drop(struct vial_stream *stream)
{
	struct vial_run *run = vial_stream_data(stream);

	run->stream = NULL;
	if (!run->is_running) {
		leave_queue(run);
		free_run(run);
	} else if (run->ctx->kernel) {
		vial_kernel_continue(run->ctx->kernel);
	}
}

static void on_writable(struct vial_stream *stream)
{
	struct vial_run *run = vial_stream_data(stream);

	if (run->ctx->kernel)
		vial_kernel_continue(run->ctx->kernel);
}

static const struct vial_stream_handlers handlers = {
	.on_cancel = on_cancel,
	.on_drop = on_drop,
	.on_writable = on_writable,
};

/* --- accepting --- */

static bool read_argv(struct vial_run *run, struct vial_stream *stream, json_t *argv)
{
	size_t size_bytes = 0, i;
	json_t *word;
	bool is_good = json_is_array(argv) && json_array_size(argv) >= 1 && json_array_size(argv) <= MAX_ARGUMENTS;

	if (!argv || json_is_null(argv))
		return true;
	json_array_foreach (argv, i, word) {
		is_good = is_good && json_is_string(word) && strlen(json_string_value(word)) == json_string_length(word);
		size_bytes += json_string_length(word);
	}
	if (!is_good || size_bytes > MAX_ARGUMENTS_BYTES) {
		vial_stream_close_error(stream, VIAL_INVALID, "the field \"argv\" must be a list of 1 to %d strings, together at most %u bytes",
		                        MAX_ARGUMENTS, MAX_ARGUMENTS_BYTES);
		return false;
	}
	run->argv = json_incref(argv);
	return true;
}

static bool read_request(struct vial_run *run, struct vial_stream *stream, json_t *request)
{
	const char *id, *code;
	json_t *env = json_object_get(request, "env");

	if (!vial_request_string(stream, request, "code", true, &code) || !vial_request_id(stream, request, "execution_id", true, &id) ||
	    !vial_request_integer(stream, request, "timeout_ms", 0, VIAL_MAX_TIMEOUT_MS, 0, &run->timeout_ms) ||
	    !vial_request_integer(stream, request, "grace_ms", 0, MAX_GRACE_MS, DEFAULT_GRACE_MS, &run->grace_ms) ||
	    !vial_request_integer(stream, request, "max_output_bytes", 0, INT64_MAX, DEFAULT_OUTPUT_BYTES, &run->max_output_bytes) ||
	    !vial_request_integer(stream, request, "max_results_bytes", 0, INT64_MAX, DEFAULT_RESULTS_BYTES, &run->max_results_bytes) ||
	    !vial_request_bool(stream, request, "raw_ansi", &run->is_ansi) || !vial_request_bool(stream, request, "images", &run->wants_images) ||
	    !vial_env_check(stream, env))
		return false;
	if (!vial_code_take_budget(stream, strlen(code)))
		return false;
	if (!read_argv(run, stream, json_object_get(request, "argv"))) {
		vial_code_give_budget(strlen(code));
		return false;
	}
	snprintf(run->id, sizeof(run->id), "%s", id);
	run->code = json_incref(json_object_get(request, "code"));
	run->env = vial_env_texts(env);
	return true;
}

void vial_run_accept(struct vial_ctx *ctx, struct vial_stream *stream, json_t *request, bool is_typescript)
{
	struct vial_run *run;

	if (ctx->state == VIAL_CTX_DEAD) {
		vial_stream_close_error(stream, VIAL_UNAVAILABLE, "%s; restart the context", ctx->problem);
		return;
	}
	if (ctx->queued_count >= VIAL_CTX_MAX_QUEUE) {
		vial_stream_close_error(stream, VIAL_LIMIT, "%d runs are waiting for this context already", VIAL_CTX_MAX_QUEUE);
		return;
	}
	run = calloc(1, sizeof(*run));
	if (!run) {
		vial_stream_close_error(stream, VIAL_INTERNAL, "out of memory");
		return;
	}
	if (!read_request(run, stream, request)) {
		free(run);
		return;
	}
	run->ctx = ctx;
	run->exit_code = -1;
	run->stream = stream;
	run->is_typescript = is_typescript;
	vial_stream_set_handlers(stream, &handlers, run);
	*ctx->last_queued = run;
	ctx->last_queued = &run->next;
	ctx->queued_count++;
	if (ctx->state != VIAL_CTX_IDLE)
		vial_stream_send_event(stream, json_pack("{s:s}", "event", "queued"));
	vial_ctx_next(ctx);
}

/* --- running --- */

static void take_late(uint8_t channel, const uint8_t *bytes, size_t size_bytes, void *data)
{
	vial_run_output(data, channel, bytes, size_bytes);
}

/*
 * Waiting for others in the queue is free; waiting for the kernel is not, or one that never comes would hold its runs for ever. A new context's first
 * run may have a limit shorter than any kernel needs to come up, and means its code by it.
 */
void vial_run_await_kernel(struct vial_run *run)
{
	if (run->started_ms)
		return;
	run->started_ms = vial_loop_now_ms();
	if (run->timeout_ms > 0)
		vial_timer_set(&run->deadline, run->timeout_ms > MIN_WAIT_MS ? run->timeout_ms : MIN_WAIT_MS, on_deadline, run);
}

void vial_run_begin(struct vial_run *run)
{
	struct vial_ctx *ctx = run->ctx;
	json_t *changes = vial_ctx_environment_changes(ctx);
	struct vial_kernel_request request = {
		.execution_id = run->id,
		.number = run->number,
		.code = run->code,
		.environment = changes,
		.env = run->env,
		.argv = run->argv,
		.cwd = ctx->must_enter ? ctx->cwd : NULL,
		.is_typescript = run->is_typescript,
		.is_ansi = run->is_ansi,
		.wants_images = run->wants_images,
		.max_text_bytes = run->max_output_bytes < DEFAULT_OUTPUT_BYTES ? (size_t)run->max_output_bytes : DEFAULT_OUTPUT_BYTES,
	};

	ctx->must_enter = false;
	run->is_running = true;
	run->spill = vial_spill_new(VIAL_SPILL_OUTPUT, run->id, &ctx->user);
	run->changes = vial_changes_begin();
	vial_late_take(&ctx->late, take_late, run);
	if (vial_kernel_run(ctx->kernel, &request) < 0) {
		run->kill_name = "KernelDied";
		run->kill_reason = "the code could not be handed to the kernel";
		vial_kernel_kill(ctx->kernel);
	}
	/* Beside the kernel's first steps, not before them: clocks are system calls. */
	run->started_ms = vial_loop_now_ms();
	if (run->timeout_ms > 0)
		vial_timer_set(&run->deadline, run->timeout_ms, on_deadline, run);
	vial_changes_note_time();
	vial_procguard_make_way(vial_kernel_outer_pid(ctx->kernel));
	drop_code(run);
	json_decref(changes);
}

/* What the client did not take is dropped once the run is on its way out, so that the way is free. */
static bool is_heard(const struct vial_run *run)
{
	return run->stream && !run->is_cancelled && !(run->is_timed_out && vial_stream_room(run->stream) == 0);
}

size_t vial_run_room(struct vial_run *run)
{
	size_t room;

	if (!is_heard(run))
		return ANY_ROOM;
	room = vial_stream_room(run->stream);
	if (room == 0)
		vial_stream_wait_writable(run->stream);
	return room;
}

void vial_run_output(struct vial_run *run, uint8_t channel, const uint8_t *bytes, size_t size_bytes)
{
	uint64_t *sent = &run->sent_bytes[channel == VIAL_WIRE_STDERR];
	uint64_t left = (uint64_t)run->max_output_bytes > *sent ? (uint64_t)run->max_output_bytes - *sent : 0;

	vial_hints_look(&run->hints, channel == VIAL_WIRE_STDERR, bytes, size_bytes);
	vial_spill_add(run->spill, bytes, size_bytes);
	if (size_bytes > left) {
		run->is_truncated = true;
		size_bytes = (size_t)left;
	}
	if (!is_heard(run)) {
		run->is_truncated = run->is_truncated || size_bytes > 0;
		return;
	}
	if (size_bytes > 0)
		vial_stream_send_data(run->stream, channel, bytes, size_bytes);
	*sent += size_bytes;
}

/* Beyond the budget a result goes into a file in the sandbox, and so does every one after it: their order is kept. */
static void spill_result(struct vial_run *run, char *line, size_t size_bytes)
{
	run->is_truncated = true;
	run->results_omitted++;
	if (!run->results_spill)
		run->results_spill = vial_spill_new(VIAL_SPILL_RESULTS, run->id, &run->ctx->user);
	line[size_bytes] = '\n'; /* in place of the NUL */
	if (!vial_spill_add(run->results_spill, (const uint8_t *)line, size_bytes + 1))
		run->results_lost++;
}

static void send_result(struct vial_run *run, json_t *event)
{
	char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;
	size_t size = text ? strlen(text) : 0;

	if (text && (run->results_omitted > 0 || run->results_bytes + size > (uint64_t)run->max_results_bytes)) {
		spill_result(run, text, size);
	} else if (text) {
		run->results_bytes += size;
		vial_stream_send_event_text(run->stream, text, size);
	}
	free(text);
}

void vial_run_result(struct vial_run *run, json_t *message)
{
	bool is_cut = false;
	json_t *event, *bundle;

	if (!is_heard(run))
		return;
	bundle = vial_bundle_check(json_object_get(message, "data"), &is_cut);
	run->is_truncated = run->is_truncated || is_cut;
	event = json_pack("{s:s,s:o,s:b,s:O*,s:O*}", "event", "result", "data", bundle, "is_main_result",
	                  json_is_true(json_object_get(message, "is_main_result")), "display_id", json_object_get(message, "display_id"), "is_update",
	                  json_object_get(message, "is_update"));
	send_result(run, event);
	json_decref(event);
}

void vial_run_result_refused(struct vial_run *run, const char *problem)
{
	json_t *event;

	run->is_truncated = true;
	if (!is_heard(run))
		return;
	event = json_pack("{s:s,s:o,s:b}", "event", "result", "data", vial_bundle_note(problem), "is_main_result", 0);
	send_result(run, event);
	json_decref(event);
}

/* What is cleared no longer counts: a cell that draws the same thing for an hour has room for its last drawing. Either way nothing is shown beside
 * it. */
void vial_run_clear(struct vial_run *run, bool is_waiting)
{
	run->sent_bytes[0] = run->sent_bytes[1] = run->results_bytes = 0;
	if (is_heard(run))
		vial_stream_send_event(run->stream, json_pack("{s:s,s:b}", "event", "clear", "wait", is_waiting));
}

/* What the kernel says of a time limit is how it ended the code, and not why. */
static json_t *with_timeout(const struct vial_run *run, json_t *text, const char *between)
{
	char timeout[VIAL_HINTS_TIMEOUT_BYTES];
	json_t *both;

	if (!run->is_timed_out)
		return json_incref(text);
	vial_hints_timeout(run->timeout_ms, timeout);
	both = json_sprintf("%s%s%s", json_string_value(text), json_string_length(text) > 0 ? between : "", timeout);
	return both ? both : json_incref(text);
}

static void send_error(struct vial_run *run, json_t *name, json_t *value, json_t *traceback)
{
	run->has_error = true;
	/* A traceback ends with the value, and may have megabytes before it. */
	vial_hints_look(&run->hints, false, json_string_value(value), json_string_length(value));
	vial_hints_look(&run->hints, false, json_string_value(traceback), json_string_length(traceback));
	if (run->stream)
		vial_stream_send_event(run->stream, json_pack("{s:s,s:O,s:o,s:o}", "event", "error", "name", name, "value",
		                                              with_timeout(run, value, "; "), "traceback", with_timeout(run, traceback, "\n")));
}

void vial_run_kernel_error(struct vial_run *run, json_t *message)
{
	/* A run has one error. Who forges more of them would fill the answer. */
	if (run->has_kernel_error)
		return;
	run->has_kernel_error = true;
	send_error(run, json_object_get(message, "name"), json_object_get(message, "value"), json_object_get(message, "traceback"));
}

static void say_error(struct vial_run *run, const char *name, const char *sentence)
{
	json_t *title = json_string(name), *value = json_string(sentence);

	send_error(run, title, value, value);
	json_decref(title);
	json_decref(value);
}

/* --- the end --- */

static void add_files(struct vial_run *run, json_t *result)
{
	bool is_cut = false;
	json_t *files = run->is_running ? vial_changes_end(run->changes, &is_cut) : json_array();

	json_object_set_new(result, "files", files);
	if (is_cut)
		json_object_set_new(result, "files_truncated", json_true());
}

static void add_omitted(struct vial_run *run, json_t *result)
{
	const char *path = vial_spill_finish(run->results_spill, true);

	run->results_spill = NULL;
	if (run->results_omitted == 0)
		return;
	json_object_set_new(result, "results_omitted", json_integer(run->results_omitted));
	if (path)
		json_object_set_new(result, "results_file", json_string(path));
	else
		run->results_lost = run->results_omitted;
	if (run->results_lost > 0)
		json_object_set_new(result, "results_lost", json_integer(run->results_lost));
}

/* After everything else. Its error has told of a time limit already. */
static void add_hints(struct vial_run *run)
{
	char text[VIAL_HINTS_BYTES];
	size_t size = vial_hints_end(&run->hints, run->is_timed_out && !run->has_error ? run->timeout_ms : 0, text);

	if (size > 0 && is_heard(run) && vial_stream_room(run->stream) >= size)
		vial_run_output(run, VIAL_WIRE_STDERR, (const uint8_t *)text, size);
}

static void close_run(struct vial_run *run, bool is_restarted)
{
	const char *full_output;
	struct vial_stream *stream = run->stream;
	json_t *result;

	add_hints(run);
	full_output = vial_spill_finish(run->spill, run->is_truncated);
	result = json_pack("{s:s,s:I,s:s,s:b,s:b,s:b,s:I}", "execution_id", run->id, "execution_count", run->ctx->execution_count, "status",
	                   run->has_error ? "error" : "ok", "timed_out", run->is_timed_out, "kernel_restarted", is_restarted, "truncated",
	                   run->is_truncated, "duration_ms", (json_int_t)(vial_loop_now_ms() - run->started_ms));

	run->spill = NULL;
	if (full_output)
		json_object_set_new(result, "full_output", json_string(full_output));
	add_omitted(run, result);
	add_files(run, result);
	if (run->exit_code >= 0)
		json_object_set_new(result, "exit_code", json_integer(run->exit_code));
	if (run->is_cancelled)
		json_object_set_new(result, "cancelled", json_true());
	free_run(run);
	if (stream)
		vial_stream_close_ok(stream, result);
	else
		json_decref(result);
}

static void give_up_waiting(struct vial_run *run)
{
	struct vial_ctx *ctx = run->ctx;

	leave_queue(run);
	say_error(run, "KernelNotReady", "the kernel was not ready within the run's time limit; nothing of the code ran");
	close_run(run, false);
	vial_ctx_next(ctx);
}

void vial_run_ending(struct vial_run *run)
{
	/* Once: who says it again and again is not about to end. */
	if (run->has_ended_once)
		return;
	run->has_ended_once = true;
	if (run->is_interrupting && !run->is_killed)
		vial_timer_set(&run->grace, run->grace_ms + REPORT_MS, on_grace_over, run);
}

/* As a shell would have it. */
static void take_exit_code(struct vial_run *run, json_t *status)
{
	if (status)
		run->exit_code = (int)(json_integer_value(status) & 0xff);
}

void vial_run_done(struct vial_run *run, json_t *message)
{
	json_t *count = json_object_get(message, "execution_count");
	struct vial_ctx *ctx = run->ctx;
	bool is_restarted = ctx->has_restarted || json_object_get(message, "exit_status");

	if (json_integer_value(count) > 0 && json_integer_value(count) < INT_MAX)
		ctx->execution_count = json_integer_value(count);
	if (json_is_true(json_object_get(message, "is_truncated")))
		run->is_truncated = true;
	ctx->has_restarted = false;
	take_exit_code(run, json_object_get(message, "exit_status"));
	take_exit_code(run, json_object_get(message, "exit_code"));
	close_run(run, is_restarted);
}

void vial_run_kernel_lost(struct vial_run *run, const struct vial_exit *how)
{
	char sentence[160];

	run->ctx->execution_count++;
	if (!run->kill_name && !how->is_oom && !how->is_process_limit && !how->is_zone_lost)
		run->exit_code = how->signal ? 128 + how->signal : how->exit_code & 0xff;
	if (run->kill_name) {
		say_error(run, run->kill_name, run->kill_reason);
	} else if (how->is_oom) {
		say_error(run, "OutOfMemory", "the code used more memory than the sandbox has, and its kernel was ended; variables are lost");
	} else if (how->is_process_limit) {
		say_error(run, "ProcessLimit", "the code forked on and on until nobody else could run, and its kernel was ended; variables are lost");
	} else if (how->is_zone_lost) {
		say_error(run, "KernelDied", "every process of the sandbox was killed; variables are lost");
	} else if (how->signal) {
		snprintf(sentence, sizeof(sentence), "the kernel was killed by signal SIG%s; variables are lost", vial_signal_name(how->signal));
		say_error(run, "KernelDied", sentence);
	} else {
		snprintf(sentence, sizeof(sentence), "the kernel exited with status %d; variables are lost", how->exit_code);
		say_error(run, "KernelDied", sentence);
	}
	close_run(run, true);
}

void vial_run_refuse(struct vial_run *run, enum vial_code code, const char *problem)
{
	struct vial_stream *stream = run->stream;

	if (run->is_running)
		json_decref(vial_changes_end(run->changes, NULL));
	free_run(run);
	if (stream)
		vial_stream_close_error(stream, code, "%s", problem);
}
