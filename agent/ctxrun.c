/* SPDX-License-Identifier: Apache-2.0 */
/* See ctxrun.h. */
#include "ctxrun.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctx.h"
#include "ctxfiles.h"
#include "ctxlate.h"
#include "ctxspill.h"
#include "ops.h"
#include "signals.h"
#include "wire/wire.h"

#define DEFAULT_GRACE_MS 2000
#define MAX_GRACE_MS 60000
#define MAX_TIMEOUT_MS (INT64_C(30) * 24 * 3600 * 1000)
#define DEFAULT_OUTPUT_BYTES (1024 * 1024)
/* An interrupt is repeated: a child that took the first one for itself may have left the loop around it running. */
#define INTERRUPT_AGAIN_MS 500
/* For a kernel that has been interrupted and says so. */
#define REPORT_MS 10000
/* For runs that nobody listens to, or whose answer is full: read and forget. */
#define ANY_ROOM (256u * 1024u)

static void free_run(struct vial_run *run)
{
	vial_timer_clear(&run->deadline);
	vial_timer_clear(&run->grace);
	vial_timer_clear(&run->again);
	vial_spill_finish(run->spill, false);
	json_decref(run->request);
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

	if (!run->is_running) {
		leave_queue(run);
		run->stream = NULL;
		vial_stream_close_error(stream, VIAL_UNAVAILABLE, "cancelled before it began");
		free_run(run);
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

static bool is_good_id(const char *id)
{
	if (!*id || strlen(id) > 64)
		return false;
	for (; *id; id++) {
		if (!isalnum((unsigned char)*id) && *id != '-' && *id != '_')
			return false;
	}
	return true;
}

static bool is_good_name(const char *name)
{
	if (!isalpha((unsigned char)*name) && *name != '_')
		return false;
	while (*name && (isalnum((unsigned char)*name) || *name == '_'))
		name++;
	return !*name;
}

static bool is_good_env(json_t *env)
{
	const char *name;
	json_t *value;

	if (!env || json_is_null(env))
		return true;
	json_object_foreach(env, name, value) {
		if (!is_good_name(name) || !json_is_string(value))
			return false;
	}
	return json_is_object(env);
}

static bool check_env(struct vial_stream *stream, json_t *env)
{
	if (is_good_env(env))
		return true;
	vial_stream_close_error(stream, VIAL_INVALID, "the field \"env\" must be an object of names (letters, digits, _) and strings");
	return false;
}

static bool read_request(struct vial_run *run, struct vial_stream *stream, json_t *request)
{
	const char *id, *code;

	if (!vial_request_string(stream, request, "code", true, &code) ||
	    !vial_request_string(stream, request, "execution_id", true, &id) ||
	    !vial_request_integer(stream, request, "timeout_ms", 0, MAX_TIMEOUT_MS, 0, &run->timeout_ms) ||
	    !vial_request_integer(stream, request, "grace_ms", 0, MAX_GRACE_MS, DEFAULT_GRACE_MS, &run->grace_ms) ||
	    !vial_request_integer(stream, request, "max_output_bytes", 0, INT64_MAX, DEFAULT_OUTPUT_BYTES,
				  &run->max_output_bytes) ||
	    !vial_request_bool(stream, request, "raw_ansi", &run->is_ansi) ||
	    !check_env(stream, json_object_get(request, "env")))
		return false;
	if (!is_good_id(id)) {
		vial_stream_close_error(stream, VIAL_INVALID, "\"execution_id\" must be 1 to 64 letters, digits, - or _");
		return false;
	}
	snprintf(run->id, sizeof(run->id), "%s", id);
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
	run->stream = stream;
	run->request = json_incref(request);
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

void vial_run_begin(struct vial_run *run)
{
	struct vial_ctx *ctx = run->ctx;
	json_t *changes = vial_ctx_environment_changes(ctx);
	struct vial_kernel_request request = {
		.execution_id = run->id,
		.number = run->number,
		.code = json_object_get(run->request, "code"),
		.environment = changes,
		.env = json_object_get(run->request, "env"),
		.is_typescript = run->is_typescript,
		.is_ansi = run->is_ansi,
		.max_text_bytes = run->max_output_bytes < DEFAULT_OUTPUT_BYTES ? (size_t)run->max_output_bytes : DEFAULT_OUTPUT_BYTES,
	};

	if (json_is_null(request.env))
		request.env = NULL;
	run->is_running = true;
	run->started_ms = vial_loop_now_ms();
	run->spill = vial_spill_new(run->id, &ctx->user);
	run->changes = vial_changes_begin();
	vial_late_take(&ctx->late, take_late, run);
	if (run->timeout_ms > 0)
		vial_timer_set(&run->deadline, run->timeout_ms, on_deadline, run);
	if (vial_kernel_run(ctx->kernel, &request) < 0) {
		run->kill_name = "KernelDied";
		run->kill_reason = "the code could not be handed to the kernel";
		vial_kernel_kill(ctx->kernel);
	}
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

void vial_run_result(struct vial_run *run, json_t *message)
{
	json_t *event = json_pack("{s:s,s:O,s:b}", "event", "result", "data", json_object_get(message, "data"), "is_main_result",
				  json_is_true(json_object_get(message, "is_main_result")));

	if (event && json_object_get(message, "display_id")) {
		json_object_set(event, "display_id", json_object_get(message, "display_id"));
		json_object_set(event, "is_update", json_object_get(message, "is_update"));
	}
	if (is_heard(run) && event)
		vial_stream_send_event(run->stream, json_incref(event));
	json_decref(event);
}

void vial_run_error(struct vial_run *run, const char *name, json_t *value, json_t *traceback)
{
	run->has_error = true;
	if (run->stream)
		vial_stream_send_event(run->stream, json_pack("{s:s,s:s,s:O,s:O}", "event", "error", "name", name, "value", value,
							      "traceback", traceback));
}

static void say_error(struct vial_run *run, const char *name, const char *sentence)
{
	json_t *value = json_string(sentence);

	vial_run_error(run, name, value, value);
	json_decref(value);
}

/* --- the end --- */

static void close_run(struct vial_run *run, bool is_restarted)
{
	struct vial_ctx *ctx = run->ctx;
	const char *full_output = vial_spill_finish(run->spill, run->is_truncated);
	struct vial_stream *stream = run->stream;
	json_t *files = vial_changes_end(run->changes);
	json_t *result = json_pack("{s:s,s:I,s:s,s:b,s:b,s:b,s:o,s:I}", "execution_id", run->id, "execution_count",
				   ctx->execution_count, "status", run->has_error ? "error" : "ok", "timed_out", run->is_timed_out,
				   "kernel_restarted", is_restarted, "truncated", run->is_truncated, "files", files, "duration_ms",
				   (json_int_t)(vial_loop_now_ms() - run->started_ms));

	run->spill = NULL;
	if (full_output)
		json_object_set_new(result, "full_output", json_string(full_output));
	if (run->is_cancelled)
		json_object_set_new(result, "cancelled", json_true());
	free_run(run);
	if (stream)
		vial_stream_close_ok(stream, result);
	else
		json_decref(result);
}

void vial_run_ending(struct vial_run *run)
{
	if (run->is_interrupting && !run->is_killed)
		vial_timer_set(&run->grace, run->grace_ms + REPORT_MS, on_grace_over, run);
}

void vial_run_done(struct vial_run *run, json_t *message)
{
	json_t *count = json_object_get(message, "execution_count");
	struct vial_ctx *ctx = run->ctx;
	bool is_restarted = ctx->has_restarted || json_object_get(message, "exit_status");

	if (json_is_integer(count) && json_integer_value(count) > 0)
		ctx->execution_count = json_integer_value(count);
	if (json_is_true(json_object_get(message, "is_truncated")))
		run->is_truncated = true;
	ctx->has_restarted = false;
	close_run(run, is_restarted);
}

void vial_run_kernel_lost(struct vial_run *run, const struct vial_exit *how)
{
	char sentence[160];

	run->ctx->execution_count++;
	if (run->kill_name) {
		say_error(run, run->kill_name, run->kill_reason);
	} else if (how->is_oom) {
		say_error(run, "OutOfMemory", "the code used more memory than the sandbox has, and its kernel was ended; variables are lost");
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
		json_decref(vial_changes_end(run->changes));
	free_run(run);
	if (stream)
		vial_stream_close_error(stream, code, "%s", problem);
}
