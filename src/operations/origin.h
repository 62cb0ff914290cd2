/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a call comes from: the surface it came through, the address, the trace it belongs to, and the model call that asked for it. Surfaces fill it
 * in; records and spans have it.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#define VIAL_ORIGIN_MAX_BYTES 256 /* of each of its texts */

typedef struct {
	const char *surface; /* "native", "e2b", ... */
	const char *request_id;
	const char *peer;           /* an address; NULL: a unix socket */
	const char *trace_id;       /* 32 hexadecimal digits, or NULL */
	const char *parent_span_id; /* 16, or NULL */
	json_t *model_call;         /* {model, provider, response_id, tool_call_id, user}, or NULL; checked */
	const GError *problem;      /* what the client said of it makes no sense: nothing is done on its account. NULL: all is well */
} VialOrigin;

/* An object with texts under those names; others are an error, for whoever sends them believes that they are recorded. NULL and null are fine. */
gboolean vial_origin_check_call(const json_t *json, GError **error);
