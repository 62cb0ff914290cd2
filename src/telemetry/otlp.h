/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One span per operation, exported to an OpenTelemetry collector (OTLP/HTTP, JSON) that the settings otlp_* name; nobody else decides where spans go.
 *
 * Exporting is never in the way of what is exported. vial_otlp_add() copies the span into a bounded queue and returns; a thread of our own gathers,
 * encodes and sends. What the collector does (hang, close, lie, not be there) costs spans, which are counted, and nothing else.
 *
 * Main thread. The legal order is new, any number of add and stats, free. Whoever uses this ignores SIGPIPE, as viald does.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "util/config.h"

/*
 * Memory: at most this many spans wait, those being sent included, and at most this many bytes of them. When one more comes, the oldest that are not
 * being sent are dropped: after an outage the collector learns what goes on now, and its users look at that first.
 */
#define VIAL_OTLP_QUEUE_SPANS 4096
#define VIAL_OTLP_QUEUE_BYTES (16 * 1024 * 1024)

/* Of a span. Longer texts are cut, between characters; attributes beyond these are left out, and the span says how many (droppedAttributesCount). */
#define VIAL_SPAN_NAME_MAX_BYTES 256
#define VIAL_SPAN_TEXT_MAX_BYTES 4096
#define VIAL_SPAN_KEY_MAX_BYTES 256 /* a key is never cut: two could become one */
#define VIAL_SPAN_MAX_ATTRIBUTES 128
#define VIAL_SPAN_ATTRIBUTES_MAX_BYTES (16 * 1024)

/*
 * All borrowed, for the time of the call. The span's kind is SERVER, with or without a parent: an operation is what a client asks for and waits for,
 * and whether that client takes part in tracing makes no difference to what it is.
 */
typedef struct {
	const char *name;            /* "run", "exec", "sandbox.create": the verb */
	const char *trace_id;        /* 32 lower-case hex digits; NULL: the exporter makes one */
	const char *parent_span_id;  /* 16 hex digits or NULL */
	const char *span_id;         /* 16 hex digits; NULL: it makes one */
	gint64 started_us, ended_us; /* wall clock, microseconds since the epoch */
	gboolean is_error;
	const char *error_type, *status_message; /* may be NULL; told only of an error, the first as the attribute error.type */
	const json_t *attributes;                /* an object of strings, numbers, booleans; may be NULL */
} VialSpan;

typedef struct VialOtlp VialOtlp;

/* NULL without an error when no endpoint is configured. A wrong setting is an error that names it. Reads otlp_headers_file; connects to nobody. */
VialOtlp *vial_otlp_new(const VialConfig *config, GError **error);
/* Accepts NULL. Gives what waits a last short chance, and returns after at most two seconds. */
void vial_otlp_free(VialOtlp *otlp);

/*
 * Accepts NULL. Copies; never blocks, never fails. An id that is not of the form above, or all zero, counts as NULL; a parent without its trace is
 * left out; a span that ended before it began (the clock was set) ended when it began.
 */
void vial_otlp_add(VialOtlp *otlp, const VialSpan *span);

typedef struct {
	guint64 exported;        /* spans that the collector has taken */
	guint64 dropped;         /* spans it never will: the queue was full, it refused them, or it could not be told for too long */
	guint64 failed_requests; /* requests without a 2xx answer, each attempt counted */
	guint queued;            /* spans that wait or are being sent */
} VialOtlpStats;

/* Accepts NULL: all zero. */
void vial_otlp_stats(const VialOtlp *otlp, VialOtlpStats *out);

/* Random, not all zero, and a terminating NUL. Any thread. */
void vial_span_id_fill(char out[17]);
void vial_trace_id_fill(char out[33]);
