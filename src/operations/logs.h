/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened in a sandbox, oldest first: its life cycle, the calls, what they printed. It never wakes the sandbox, and works for one that has
 * failed. The lines come from the journal in memory; the calls of an earlier viald from the store. A follower that reads slowly loses lines, and is
 * told how many, once they have fallen out of the journal.
 */
#pragma once

#include "operations/operation.h"
#include "service/journal.h"

typedef struct {
	const char *stream; /* stdout, stderr, event; NULL or "both": all */
	gint64 limit;       /* the last so many lines; VIAL_UNSAID: all there are */
	gboolean follow;    /* and what comes */
} VialLogRequest;

typedef struct {
	void (*begun)(gpointer data);
	/* TRUE: enough, until vial_logs_drained(). */
	gboolean (*line)(const VialJournalLine *line, gpointer data);
	void (*end)(gpointer data);
} VialLogSink;

typedef struct VialLogs VialLogs;

VialLogs *vial_op_logs(const VialCaller *caller, const char *sandbox_id, const VialLogRequest *request, const VialLogSink *sink, gpointer data,
                       GError **error);
void vial_logs_drained(VialLogs *logs);
void vial_logs_cancel(VialLogs *logs); /* accepts NULL */
