/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: run one and hear what it prints, at a terminal or not; and hear one that already runs. Output is the exact bytes. */
#pragma once

#include "operations/operation.h"
#include "operations/run.h"

/* All is borrowed for the call. */
typedef struct {
	const char *cmd; /* a shell line, or */
	json_t *argv;    /* an array of words */
	const char *cwd, *user;
	json_t *env;            /* an object of strings, or NULL */
	double timeout_seconds; /* 0: none */
	gboolean undo;          /* the state before it is kept (service/undo.h) */
	gboolean background;    /* it ends when the command has a pid */
	gboolean attached;      /* in the background, and heard: cancelling only stops to listen. It reads what processes.h sends it */
	GBytes *input;          /* what it reads, of any size; NULL: nothing. One in the background can be sent more */
	gboolean is_terminal;   /* a terminal of that size; what is written to the operation is typed there */
	gint64 rows, cols;
} VialExecRequest;

typedef struct {
	gint64 pid; /* of one in the background, whose end is not known; else 0 */
	gint64 exit_code;
	gint64 duration_ms;
	const char *signal; /* that ended it, without SIG, or NULL */
	gboolean timed_out;
	gboolean oom;       /* ended because memory ran out */
	gboolean zone_lost; /* the guest killed its own init, and every process with it */
	gboolean cancelled;
	gboolean detached;
	gboolean truncated;      /* there was more than was asked for */
	const char *full_output; /* where in the sandbox the whole output is, or NULL */
} VialExecEnd;

typedef struct {
	/* The sandbox is awake and has been asked. May come before the function that began it has returned. */
	void (*begun)(VialOperation *operation, gpointer data);
	void (*started)(VialOperation *operation, gint64 pid, gpointer data); /* may be NULL */
	gboolean (*output)(VialOutputStream stream, GBytes *bytes, gpointer data);
	gboolean (*shown)(GBytes *bytes, gpointer data); /* by a terminal; NULL: that is output, too */
	void (*writable)(gpointer data);                 /* may be NULL */
	void (*end)(const VialExecEnd *end, const GError *error, gpointer data);
} VialExecSink;

VialOperation *vial_op_exec(const VialCaller *caller, const char *sandbox_id, const VialExecRequest *request, const VialExecSink *sink, gpointer data,
                            GError **error);
/* A terminal's further controls; what cannot be meant is ignored. */
void vial_op_exec_resize(VialOperation *operation, gint64 rows, gint64 cols);
void vial_op_exec_signal(VialOperation *operation, const char *name);

/* What the process printed last, then what it prints, until it exits. Cancelling only stops listening. */
VialOperation *vial_op_attach(const VialCaller *caller, const char *sandbox_id, gint64 pid, const VialExecSink *sink, gpointer data, GError **error);
/* Without what it printed before. */
VialOperation *vial_op_attach_now(const VialCaller *caller, const char *sandbox_id, gint64 pid, const VialExecSink *sink, gpointer data,
                                  GError **error);

/* The same as vial_op_exec() as one bounded answer: VIAL_ANSWER_OUTPUT_BYTES of each stream, as text. The rest is in a file in the sandbox. */
typedef struct {
	const char *output[2]; /* by VialOutputStream; UTF-8 */
	gsize output_size[2];
	VialExecEnd end;
} VialExecAnswer;

typedef void (*VialExecDone)(const VialExecAnswer *answer, const GError *error, gpointer data);
VialOperation *vial_op_exec_collected(const VialCaller *caller, const char *sandbox_id, const VialExecRequest *request, VialExecDone done,
                                      gpointer data, GError **error);
