/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A span as it waits in the queue: a copy within the limits of otlp.h, one block of memory whose size is known, so that the queue can be bounded in
 * bytes and whoever adds one pays for a single allocation. Read-only once it is made. Nothing here blocks; any thread.
 */
#pragma once

#include "telemetry/otlp.h"
#include "telemetry/span_id.h"

typedef struct {
	const char *at; /* not terminated; whether it is UTF-8 is for the encoder to see */
	gsize length;
} VialSpanText;

typedef struct {
	VialSpanText key;
	json_type type; /* a string, an integer, a real, true or false */
	VialSpanText text;
	gint64 integer;
	double real;
} VialSpanAttribute;

typedef struct VialSpanRecord VialSpanRecord;
struct VialSpanRecord {
	VialSpanRecord *next; /* the queue's */
	gint64 added_us;      /* the queue's; monotonic */
	gsize size_bytes;     /* of the whole block */
	char trace_id[VIAL_TRACE_ID_LENGTH + 1];
	char span_id[VIAL_SPAN_ID_LENGTH + 1];
	char parent_span_id[VIAL_SPAN_ID_LENGTH + 1]; /* "" for none */
	gint64 started_us, ended_us;
	gboolean is_error;
	VialSpanText name, status_message;
	guint n_dropped_attributes;
	guint n_attributes;
	VialSpanAttribute attributes[];
};

/* Freed with g_free(). */
VialSpanRecord *vial_span_record_new(const VialSpan *span);
