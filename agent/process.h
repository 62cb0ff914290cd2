/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that `exec` started: its pipes or pty, its deadline, its ring, its end. exec.c makes it, procops.c looks at it.
 *
 *   starting → running → draining (exited; somebody may still hold its pipes) → exited (remembered, the last 64)
 *
 * In the foreground the output goes to the exec's stream, and the process is held back when the stream has no credit. In the background it goes to a
 * ring, always, and to whoever is attached; it waits for nobody, except for whoever started it and stayed (attached).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "hints.h"
#include "loop.h"
#include "ring.h"
#include "spawn.h"
#include "spill.h"
#include "stream.h"

struct vial_process_output {
	struct vial_process_run *run;
	struct vial_watch watch;
	int fd; /* -1: at its end */
	uint8_t channel;
	uint64_t sent_bytes;
};

/* Bytes on their way to the process's stdin; bounded by the stream's credit. */
struct vial_process_input {
	int fd; /* -1: closed or never open */
	struct vial_watch watch;
	uint8_t *bytes;
	size_t start, end, capacity;
	bool is_ending;                                 /* the source has no more: tell it when all is written */
	bool closes_at_end;                             /* and then close the process's stdin */
	struct vial_stream *source;                     /* whom to give credit back; NULL when nobody is writing */
	void (*on_drained)(struct vial_stream *source); /* all written after is_ending, or the process is gone */
};

/* Somebody who reads what the ring gets. */
struct vial_attached {
	struct vial_attached *next;
	struct vial_process_run *run;
	struct vial_stream *stream; /* its on_writable comes when there is something new and room for it */
	struct vial_ring_reader reader;
	bool holds;                                      /* the process waits for it rather than that it misses anything */
	void (*on_done)(struct vial_attached *attached); /* the process has ended, and all it wrote is in the ring */
};

struct vial_process_run {
	struct vial_process_run *next;
	struct vial_child *child; /* NULL when it has exited */
	pid_t pid;
	pid_t outer_pid;
	char *program; /* for what goes wrong */
	char *command; /* for the list, see cmdline.h */
	char *cwd;
	char user[64];
	int64_t started_at_ms; /* wall clock */
	int64_t started_ms;    /* monotonic */
	int64_t duration_ms;
	int64_t timeout_ms; /* 0: none */
	bool is_background, is_exited, is_timed_out, is_cancelled, is_done;
	bool is_pty, is_attached, is_unlisted;
	struct vial_exit exit;
	struct vial_process_output outputs[2];
	struct vial_process_input input;
	struct vial_stream *stream; /* the exec's; NULL in the background */
	uint64_t max_output_bytes;  /* of each output, on the exec's stream; 0: all of it */
	struct vial_spill *spill;   /* with max_output_bytes: all of both */
	bool is_truncated;
	struct vial_hints hints;
	struct vial_ring *ring;
	struct vial_attached *attached;
	struct vial_timer deadline, grace, silence;
	unsigned sweeps;
};

/* What exec wants, with everything borrowed for the call. */
struct vial_process_options {
	const char *const *argv;
	const char *shell_line; /* what argv has bash run, or NULL */
	const char *cwd;
	char *const *env;
	const struct vial_user *user;
	bool has_stdin, is_background, is_pty;
	bool is_attached; /* in the background, and the stream stays as one that is attached */
	bool is_unlisted; /* it is nobody's business in the list of processes */
	unsigned short rows, columns;
	int64_t timeout_ms;        /* 0: none */
	uint64_t max_output_bytes; /* 0: any number. Else the whole goes into a file named after execution_id, and stays if it was cut */
	const char *execution_id;
};

/* Takes the stream over in any case: it is closed when the process has ended, or could not start. */
void vial_process_start(struct vial_stream *stream, const struct vial_process_options *options);

/* The one that a request's "pid" names; NULL after closing the stream. */
struct vial_process_run *vial_request_process(struct vial_stream *stream, json_t *request);
struct vial_process_run *vial_process_find(pid_t pid);
struct vial_process_run *vial_process_first(void);
/* Takes the stream over: the ring (with is_past_told), live output, and the same CLOSE as exec. */
void vial_process_attach(struct vial_process_run *run, struct vial_stream *stream, bool is_past_told);
/* For other ways to read the ring: `attached` is the caller's, with run and stream set. */
void vial_process_listen(struct vial_attached *attached);
void vial_process_detach(struct vial_attached *attached);
/* SIGTERM to its group, SIGKILL after the grace time. */
void vial_process_end(struct vial_process_run *run);
/* The first half of that: SIGTERM to its group, or a hang-up of its terminal. It has not exited. */
void vial_process_ask_to_end(struct vial_process_run *run);
/* To its group; SIGKILL to everyone on its terminal, where it has one. */
int vial_process_signal(struct vial_process_run *run, int signal);
void vial_process_resize(struct vial_process_run *run, unsigned short rows, unsigned short columns);

/* stdin: `source` gets credit as bytes are written. on_drained is set by proc.stdin only. */
void vial_process_input_write(struct vial_process_run *run, const uint8_t *bytes, size_t size_bytes);
void vial_process_input_end(struct vial_process_run *run, bool closes);
