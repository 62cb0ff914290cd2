/* SPDX-License-Identifier: Apache-2.0 */
/* What vial says: errors, notes, JSON, and the sandbox's own bytes. */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "cli/cli.h"
#include "cli/sanitize.h"

/* Prints the error, in the form the user asked for, frees it and returns the exit status that goes with it. */
int vial_output_fail(VialCli *cli, GError *error);
/* The same for a command whose remote side has exit statuses of its own. */
int vial_output_fail_remote(VialCli *cli, GError *error);
/* One sentence about wrong usage; returns VIAL_EXIT_USAGE. The second form takes the sentence from an error and frees it. */
int vial_output_fail_usage(VialCli *cli, GError *error);
int vial_output_usage(VialCli *cli, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* "vial: …" on stderr, unless --quiet. */
void vial_output_note(VialCli *cli, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* JSON that a terminal may see; `flags` are jansson's. To be freed. */
char *vial_output_json_text(const json_t *json, gsize flags);
/* On stdout, indented, with a newline. */
void vial_output_json(const json_t *json);

/* SGR codes when colour is on, "" when not: vial_output_style(cli, "1;31"). */
const char *vial_output_style(const VialCli *cli, const char *sgr);

/* --- values for humans; static or rotating buffers are avoided: free them --- */
char *vial_output_bytes(gint64 size_bytes);   /* 12.3 MiB */
char *vial_output_duration(gint64 seconds);   /* 2h 5m */
char *vial_output_age(const char *rfc3339);   /* since then; "-" when it is no time */
gint64 vial_output_time(const char *rfc3339); /* seconds since 1970, -1 when it is no time */

/* --- bytes of a sandbox to one of our own file descriptors --- */
typedef struct {
	int fd;
	gboolean is_raw; /* as they come: fd is no terminal, or --raw */
	VialSanitizer sanitizer;
	char last; /* the last byte written */
} VialSink;

void vial_sink_init(VialSink *sink, const VialCli *cli, int fd, gboolean raw);
/* FALSE with VIAL_HTTP_PIPE when the reader left. */
gboolean vial_sink_write(VialSink *sink, const char *bytes, gsize size, GError **error);
void vial_sink_end(VialSink *sink);
/* Writes all of it to `fd`. */
gboolean vial_output_write_all(int fd, const void *bytes, gsize size, GError **error);
