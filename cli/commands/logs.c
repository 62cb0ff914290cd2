/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/stream.h"

static gboolean does_follow, is_raw;
static gint64 line_count = -1;
static char *stream_name;

static const VialOption options[] = {
	{ 'f', "follow", VIAL_OPTION_FLAG, &does_follow, NULL, "go on with what comes, until Ctrl-C", NULL },
	{ 'n', "tail", VIAL_OPTION_INT, &line_count, "N", "only the last N lines", NULL },
	{ 0, "stream", VIAL_OPTION_STRING, &stream_name, "NAME", "only stdout, stderr or event, as it was printed", "stdout stderr event" },
	{ 0, "raw", VIAL_OPTION_FLAG, &is_raw, NULL, "let escape sequences through to our terminal", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_logs_syntax = {
	.arguments = "ID",
	.description = "Its life cycle, the calls, and what they printed. With --json and --follow each line is one line of JSON.",
	.options = options,
	.min_arguments = 1,
	.max_arguments = 1,
	.completes = "@sandbox",
};

typedef struct {
	VialCli *cli;
	VialSink sink;
} Log;

static gboolean on_data(const void *bytes, gsize size, gpointer data, GError **error)
{
	return vial_sink_write(&((Log *)data)->sink, bytes, size, error);
}

static gboolean on_event(const char *event, json_t *data, gpointer user, GError **error)
{
	Log *log = user;
	const json_t *text = json_object_get(data, "line");
	if (log->cli->is_json) {
		g_autofree char *line = vial_output_json_text(data, JSON_COMPACT);
		return vial_output_write_all(STDOUT_FILENO, line, strlen(line), error) && vial_output_write_all(STDOUT_FILENO, "\n", 1, error);
	}
	if (strcmp(event, "error") == 0) {
		g_autofree char *sentence = vial_api_text(data, "error");
		g_autofree char *clean = vial_sanitize_line(sentence);
		g_set_error_literal(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, clean);
		return FALSE;
	}
	if (!json_is_string(text))
		return vial_stream_write_chunk(&log->sink, data, error);
	if (!vial_sink_write(&log->sink, json_string_value(text), json_string_length(text), error))
		return FALSE;
	return log->sink.last == '\n' || vial_sink_write(&log->sink, "\n", 1, error);
}

static gboolean print_log(Log *log, const char *path, GError **error)
{
	if (log->cli->is_json) {
		g_autoptr(json_t) lines = NULL;
		if (!vial_api_call(log->cli, "GET", path, NULL, &lines, error))
			return FALSE;
		vial_output_json(lines);
		return TRUE;
	}
	g_auto(VialHttpRequest) request = { .method = "GET", .path = path, .on_data = on_data, .data = log, .accept = "text/plain" };
	return vial_http_perform(log->cli->http, &request, error);
}

static char *log_path(const char *id)
{
	g_autofree char *base = vial_api_path("/sandboxes/%s/logs", id);
	GString *path = g_string_new(base);
	g_string_append_printf(path, "?follow=%d", does_follow ? 1 : 0);
	if (line_count >= 0)
		g_string_append_printf(path, "&limit=%" G_GINT64_FORMAT, line_count);
	if (stream_name) {
		g_string_append(path, "&stream=");
		g_string_append_uri_escaped(path, stream_name, NULL, FALSE);
	}
	return g_string_free(path, FALSE);
}

int vial_logs_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	Log log = { .cli = cli };
	vial_sink_init(&log.sink, cli, STDOUT_FILENO, is_raw);
	g_autofree char *id = vial_api_sandbox_id(cli, argv[0], &error);
	if (!id)
		return vial_output_fail(cli, error);
	g_autofree char *path = log_path(id);
	gboolean is_ok = does_follow ? vial_stream_perform(cli, "GET", path, NULL, on_event, &log, &error) : print_log(&log, path, &error);
	vial_sink_end(&log.sink);
	return is_ok ? VIAL_EXIT_OK : vial_output_fail(cli, error);
}
