/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code in a context. The execution id is the call's id, so the record, the answer and the guest speak of the same thing. Text is valid UTF-8 without
 * control sequences, unless they are asked for: what a model reads must not be able to hide anything from it.
 */
#pragma once

#include "operations/operation.h"

/* All is borrowed for the call. */
typedef struct {
	GBytes *code;            /* UTF-8 without NUL */
	const char *language;    /* of the default context that is meant; NULL: python */
	const char *user;        /* whose; NULL: the sandbox's own */
	const char *context;     /* the id of a context instead; NULL: none */
	const char *cwd;         /* where the default context begins; NULL: in the working directory */
	gint64 timeout_ms;       /* 0: none */
	gint64 max_output_bytes; /* of each of stdout and stderr, or VIAL_UNSAID */
	gboolean raw_ansi;       /* control sequences are wanted */
	gboolean images;         /* a still picture beside what only a page can show */
	json_t *env;             /* an object of strings, or NULL */
	gboolean undo;           /* the state before it is kept (service/undo.h) */
	json_t *argv;            /* the code is a program with this name and these arguments: a list of strings, or NULL */
} VialRunRequest;

typedef enum { VIAL_OUTPUT_STDOUT, VIAL_OUTPUT_STDERR } VialOutputStream;

/* A value that the code showed: a MIME bundle. */
typedef struct {
	json_t *bundle;
	gsize size_bytes; /* as JSON */
	gboolean is_main_result;
	const char *display_id; /* by which it can be replaced, or NULL */
	gboolean is_update;     /* it takes the place of what has that id */
} VialRunResult;

typedef struct {
	const char *name, *value, *traceback;
} VialRunError;

typedef struct {
	const char *execution_id;
	gint64 execution_count;
	gint64 duration_ms;
	gboolean has_error; /* the code failed: the sink heard of it */
	gint64 exit_code;   /* as a shell would have it */
	gboolean timed_out;
	gboolean kernel_restarted;
	gboolean cancelled;
	gboolean truncated;       /* output or results were left out */
	const char *full_output;  /* where in the sandbox the whole output is, or NULL */
	gint64 results_omitted;   /* by the agent or by us */
	const char *results_file; /* where in the sandbox those are, or NULL */
	gint64 results_lost;      /* of the omitted: not in that file, because the disk was full or we cut what the guest should have */
	json_t *files;            /* a list of {path, size, mime, sha256?, deleted?}: made, changed or removed by this run */
	gboolean files_truncated; /* there were more */
} VialRunEnd;

typedef struct {
	/* The sandbox is awake and has been given the code. May come before vial_op_run() has returned. */
	void (*begun)(VialOperation *operation, gpointer data);
	gboolean (*output)(VialOutputStream stream, const char *text, gsize size, gpointer data);
	gboolean (*result)(const VialRunResult *result, gpointer data);
	/* What was shown so far is to go: at once, or when something else comes, so that nothing flickers. May be NULL. */
	gboolean (*clear)(gboolean is_waiting, gpointer data);
	gboolean (*error)(const VialRunError *error, gpointer data);
	/* `end` or `error`; everything is borrowed. */
	void (*end)(const VialRunEnd *end, const GError *error, gpointer data);
} VialRunSink;

VialOperation *vial_op_run(const VialCaller *caller, const char *sandbox_id, const VialRunRequest *request, const VialRunSink *sink, gpointer data,
                           GError **error);

/* The same as one bounded answer: VIAL_ANSWER_MAX_BYTES. */
typedef struct {
	const char *output[2]; /* by VialOutputStream */
	gsize output_size[2];
	json_t *results;           /* a list of bundles */
	const VialRunError *error; /* NULL when the code did not fail */
	VialRunEnd end;
} VialRunAnswer;

typedef void (*VialRunDone)(const VialRunAnswer *answer, const GError *error, gpointer data);
VialOperation *vial_op_run_collected(const VialCaller *caller, const char *sandbox_id, const VialRunRequest *request, VialRunDone done, gpointer data,
                                     GError **error);
