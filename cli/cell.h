/* SPDX-License-Identifier: Apache-2.0 */
/* One run of code in a kernel, shown as it happens: output, results, figures, error. Behind `vial run` and `vial repl`. */
#pragma once

#include <jansson.h>

#include "cli/cli.h"
#include "cli/output.h"

typedef struct {
	/* Set by the caller. */
	VialCli *cli;
	const char *sandbox_id;
	const char *out_dir; /* where figures and changed files go; NULL: they are only mentioned */
	gboolean is_raw;     /* the sandbox's bytes as they are */
	gboolean is_program; /* that it exits is no error, and what it leaves behind nobody's loss */

	/* Kept over runs: figures are numbered through. */
	int figures, results;

	char *found_id; /* the sandbox of an agent's session, as the run said; to be freed */

	/* About the last run. */
	gboolean has_ended;
	gboolean has_error, has_timed_out, has_restarted;
	int exit_code;
	VialSink out, err;
} VialCell;

/* `path` is a run/stream route, `body` its request (consumed). FALSE: the run could not be followed to its end. */
gboolean vial_cell_run(VialCell *cell, const char *path, json_t *body, GError **error);
/* For an execution that came in one piece: saves its figures and files to out_dir. */
gboolean vial_cell_save(VialCell *cell, const json_t *execution, GError **error);
/* The exit status that tells how the last run went. */
int vial_cell_exit_status(const VialCell *cell);
/* "python" for py, python3, … ; NULL for what is no language of ours. */
const char *vial_cell_language(const char *name);
