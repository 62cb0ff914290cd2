/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals that outlive whoever looks at them: commands in the background with a terminal (exec.h makes them), known by their pid. They live in the
 * guest alone, so they go on in its sleep and in its forks, and nothing of viald's has to be kept. exec.h listens to them, processes.h lists them,
 * types into them and ends them; here is what only a terminal has.
 */
#pragma once

#include "operations/operation.h"

/* Without a document. */
gboolean vial_op_terminal_resize(const VialCaller *caller, const char *sandbox_id, gint64 pid, gint64 rows, gint64 cols, VialDocumentDone done,
                                 gpointer data, GError **error);

/* Numbers may be VIAL_UNSAID. */
typedef struct {
	gint64 since;     /* the number of the first byte that is wanted: 0, or what the last answer said */
	gint64 max_bytes; /* VIAL_TERMINAL_READ_BYTES */
	gint64 wait_ms;   /* how long to wait for something; none */
} VialTerminalReading;

typedef struct {
	const guint8 *bytes;
	gsize size;
	gint64 next; /* where to go on. Larger than since + size: what was between is not kept any more */
	gboolean exited;
	gint64 exit_code; /* then */
} VialTerminalOutput;

typedef void (*VialTerminalRead)(const VialTerminalOutput *output, const GError *error, gpointer data);
/* What it showed since a given byte, of what is kept: the last MiB. */
VialOperation *vial_op_terminal_read(const VialCaller *caller, const char *sandbox_id, gint64 pid, const VialTerminalReading *reading,
                                     VialTerminalRead done, gpointer data, GError **error);
