/* SPDX-License-Identifier: Apache-2.0 */
/* The W3C trace context (https://www.w3.org/TR/trace-context/): which trace of the client's a request belongs to. */
#pragma once

#include <glib.h>

#define VIAL_TRACE_ID_LENGTH 32
#define VIAL_TRACE_SPAN_LENGTH 16

typedef struct {
	char trace_id[VIAL_TRACE_ID_LENGTH + 1];
	char parent_span[VIAL_TRACE_SPAN_LENGTH + 1]; /* the client's, from which the request comes */
} VialTrace;

/*
 * Reads the value of a `traceparent` header. Strict, because it ends up in logs and is compared by others: version 00, lower
 * case, neither id all zeros. FALSE for anything else, to be ignored as the recommendation asks.
 */
gboolean vial_trace_parse(const char *text, VialTrace *out);
