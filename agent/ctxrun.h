/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of code in a context: from its ctx.run to its CLOSE.
 *
 *   queued ──▶ running ──▶ closed          "done" of the kernel, or the kernel's end
 *     │           │ timeout, CANCEL
 *     │           ▼
 *     │      interrupting ──▶ closed       the code gave in; state kept
 *     │           │ grace over
 *     │           ▼
 *     │        killed ──▶ closed           the kernel ended; kernel_restarted
 *     └──────────────────▶ closed          timeout: its kernel was not ready in time, nothing ran
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "hints.h"
#include "loop.h"
#include "ops.h"
#include "spawn.h"
#include "stream.h"

struct vial_ctx;
struct vial_spill;

struct vial_run {
	struct vial_run *next;
	struct vial_ctx *ctx;
	struct vial_stream *stream; /* NULL: nobody listens any more */
	json_t *code;               /* until it is handed to the kernel */
	json_t *env;                /* of this run only; may be NULL */
	json_t *argv;               /* the code is a program with this name and these arguments; may be NULL */
	char id[VIAL_REQUEST_ID_MAX + 1];
	unsigned number;
	json_int_t timeout_ms, grace_ms, max_output_bytes, max_results_bytes;
	bool is_typescript, is_ansi, wants_images;
	bool is_running, is_interrupting, is_timed_out, is_cancelled, is_killed;
	bool has_error, is_truncated;
	bool has_kernel_error, has_ended_once; /* what a kernel says at most once */
	int exit_code;                         /* -1: that of any error, or of none */
	struct vial_hints hints;
	/* What ended the kernel was ours, and this is why; else its exit status tells. */
	const char *kill_name, *kill_reason;
	uint64_t sent_bytes[2];
	struct vial_spill *spill;
	/* Results: what was sent, and once the budget is spent, what was not. */
	uint64_t results_bytes;
	json_int_t results_omitted, results_lost;
	struct vial_spill *results_spill;
	int64_t started_ms;
	uint64_t changes; /* the point in time that changed files are counted from */
	struct vial_timer deadline, grace, again;
};

/* Reads the request and takes the stream over: the run is queued, or refused. */
void vial_run_accept(struct vial_ctx *ctx, struct vial_stream *stream, json_t *request, bool is_typescript);

/* For ctx.c: */
void vial_run_begin(struct vial_run *run);
/* It is next, and its kernel is not ready: its clock runs from here on. */
void vial_run_await_kernel(struct vial_run *run);
size_t vial_run_room(struct vial_run *run);
void vial_run_output(struct vial_run *run, uint8_t channel, const uint8_t *bytes, size_t size_bytes);
/* Messages as kernelmsg.h describes them. */
void vial_run_result(struct vial_run *run, json_t *message);
void vial_run_result_refused(struct vial_run *run, const char *problem);
/* "clear": what was shown so far is to go, at once or (is_waiting) when something else comes. */
void vial_run_clear(struct vial_run *run, bool is_waiting);
void vial_run_kernel_error(struct vial_run *run, json_t *message);
/* "ending": the code has given in to an interrupt, and the kernel needs time for its report. */
void vial_run_ending(struct vial_run *run);
/* "done": sends the answer and frees the run. */
void vial_run_done(struct vial_run *run, json_t *message);
/* The kernel has ended under it: likewise. */
void vial_run_kernel_lost(struct vial_run *run, const struct vial_exit *how);
void vial_run_refuse(struct vial_run *run, enum vial_code code, const char *problem);
void vial_run_interrupt(struct vial_run *run);
