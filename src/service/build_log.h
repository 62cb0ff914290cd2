/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A build's log: a file of JSON lines, {"time", "step", "total", "stream": "event"|"stdout"|"stderr", "text"}, one for each line that was printed.
 * What is printed is bounded: after VIAL_BUILD_LOG_MAX_BYTES a sentence says so and the rest is left out. Values of secrets become [redacted] before
 * anything is written. Readers have their own place in the file, so that a slow one holds up nobody. Main thread; the writes are small and go to the
 * page cache.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#define VIAL_BUILD_LOG_MAX_BYTES (8 * 1024 * 1024)
/* A longer line is cut into several. */
#define VIAL_BUILD_LOG_LINE_BYTES 4096
#define VIAL_BUILD_LAST_LINES 20

typedef struct VialBuildLog VialBuildLog;

/* Goes on where the file ends. NULL with an error when it cannot be opened. */
VialBuildLog *vial_build_log_open(const char *path, GError **error);
VialBuildLog *vial_build_log_ref(VialBuildLog *log);
void vial_build_log_unref(VialBuildLog *log); /* accepts NULL */

/* Names to values; kept in memory until the log is closed. */
void vial_build_log_hide(VialBuildLog *log, json_t *secrets);
/* What follows belongs to step `step` of `total`; what the step before left of a line is written out, and its last lines are forgotten. */
void vial_build_log_step(VialBuildLog *log, guint step, guint total);
void vial_build_log_event(VialBuildLog *log, const char *format, ...) G_GNUC_PRINTF(2, 3);
void vial_build_log_output(VialBuildLog *log, gboolean is_stderr, const void *bytes, gsize size);
gboolean vial_build_log_is_full(const VialBuildLog *log);
/* The last lines that this step printed, also when the log was full. New. */
json_t *vial_build_log_last(VialBuildLog *log);
/* `text` without secrets. Free it. */
char *vial_build_log_clean(const VialBuildLog *log, const char *text);
/* Nothing more will come; those who follow hear the rest and end. */
void vial_build_log_close(VialBuildLog *log);

/* Reading */

typedef struct {
	/* A line of the file, without its end. TRUE: enough, until vial_build_log_reader_drained(). */
	gboolean (*line)(const char *text, gsize size, gpointer data);
	void (*end)(gpointer data);
} VialBuildLogSink;

typedef struct VialBuildLogReader VialBuildLogReader;
/*
 * `log` is the one being written, or NULL for a build that has ended; followed, it ends when that is closed. Lines come from the loop. After `end` it
 * is gone. NULL with an error when the file cannot be read.
 */
VialBuildLogReader *vial_build_log_read(const char *path, VialBuildLog *log, gboolean follows, const VialBuildLogSink *sink, gpointer data,
                                        GError **error);
void vial_build_log_reader_drained(VialBuildLogReader *reader);
void vial_build_log_reader_free(VialBuildLogReader *reader); /* ends it without a word; accepts NULL */
/* The step of the last whole line; 0: there is none. A killed viald's log may be ahead of its record. */
guint vial_build_log_last_step(const char *path);

/* For build_log_read.c. */
typedef void (*VialBuildLogChanged)(gpointer data);
void vial_build_log_follow(VialBuildLog *log, VialBuildLogChanged changed, gpointer data);
void vial_build_log_unfollow(VialBuildLog *log, gpointer data);
gboolean vial_build_log_is_closed(const VialBuildLog *log);
