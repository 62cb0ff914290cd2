/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured log lines on standard error: time, level, module, message, then key=value pairs. Values are escaped, so data
 * from a guest or a client can neither forge a line nor drive a terminal. Any thread; one write(2) per line.
 */
#pragma once

#include <glib.h>

typedef enum {
	VIAL_LOG_ERROR,
	VIAL_LOG_WARNING,
	VIAL_LOG_INFO,
	VIAL_LOG_DEBUG,
} VialLogLevel;

typedef enum {
	VIAL_LOG_TEXT, /* time=... level=info module=http message="..." key="..." */
	VIAL_LOG_JSON, /* one JSON object per line */
} VialLogFormat;

extern VialLogLevel vial_log_level; /* read by the macros only; set through vial_log_setup() */

/* Also takes over GLib's own messages. */
void vial_log_setup(VialLogLevel level, VialLogFormat format);
gboolean vial_log_level_parse(const char *text, VialLogLevel *out);

/* Pairs of const char * (key, value) until NULL; a pair whose value is NULL is left out. */
void vial_log_write(VialLogLevel level, const char *module, const char *message, ...) G_GNUC_NULL_TERMINATED;

/*
 * vial_log_warning("engine", "the sandbox did not stop in time", "sandbox_id", id, "error", error->message);
 * Keys in use: request_id, trace_id, sandbox_id, error, and those that say what the message is about. The message is a constant.
 */
#define vial_log_at(level, module, ...)                                       \
	do {                                                                  \
		if ((level) <= vial_log_level)                                \
			vial_log_write((level), (module), __VA_ARGS__, NULL); \
	} while (0)
#define vial_log_error(module, ...) vial_log_at(VIAL_LOG_ERROR, module, __VA_ARGS__)
#define vial_log_warning(module, ...) vial_log_at(VIAL_LOG_WARNING, module, __VA_ARGS__)
#define vial_log_info(module, ...) vial_log_at(VIAL_LOG_INFO, module, __VA_ARGS__)
#define vial_log_debug(module, ...) vial_log_at(VIAL_LOG_DEBUG, module, __VA_ARGS__)
