/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of traces and spans as W3C Trace Context has them: lower-case hexadecimal, not all zero. otlp.h has those who make them. Any thread. */
#pragma once

#include <glib.h>

#define VIAL_TRACE_ID_LENGTH 32
#define VIAL_SPAN_ID_LENGTH 16

/* Exactly `length` digits. NULL is none. */
gboolean vial_trace_hex_is_valid(const char *text, gsize length);
