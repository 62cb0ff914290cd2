/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/interrupt.h"

/* jansson escapes controls below 0x20, but not U+0080..U+009F, which some terminals obey as they do an escape sequence. */
char *vial_output_json_text(const json_t *json, gsize flags)
{
	char *text = json_dumps(json, flags | JSON_ENCODE_ANY);
	GString *out = g_string_new(NULL);
	for (const char *at = text ? text : ""; *at; at++) {
		if ((guchar)at[0] == 0xc2 && (guchar)at[1] <= 0x9f && (guchar)at[1] >= 0x80)
			g_string_append_printf(out, "\\u00%02x", (guchar) * ++at);
		else
			g_string_append_c(out, *at);
	}
	free(text);
	return g_string_free(out, FALSE);
}

/* One line on stderr. Whatever went into the sentence, a name or a server's words, cannot drive the terminal. */
static void print_sentence(VialCli *cli, const char *style, const char *sentence)
{
	g_autofree char *clean = vial_sanitize_line(sentence);
	fprintf(stderr, "%s%s%svial:%s %s\n", cli->has_color_err ? "\033[" : "", cli->has_color_err ? style : "", cli->has_color_err ? "m" : "",
	        cli->has_color_err ? "\033[0m" : "", clean);
}

static void print_error(VialCli *cli, const GError *error)
{
	if (cli->is_json) {
		gboolean is_http = error->domain == VIAL_HTTP_ERROR && error->code >= 400;
		json_t *json = json_pack("{s:s}", "error", error->message);
		if (json && is_http)
			json_object_set_new(json, "code", json_integer(error->code));
		g_autofree char *text = vial_output_json_text(json, JSON_COMPACT);
		fprintf(stderr, "%s\n", text);
		json_decref(json);
		return;
	}
	print_sentence(cli, "1;31", error->message);
}

static int fail_with(VialCli *cli, GError *error, int status)
{
	fflush(stdout);
	if (g_error_matches(error, VIAL_HTTP_ERROR, VIAL_HTTP_INTERRUPTED))
		status = vial_interrupt_exit_status(VIAL_EXIT_INTERRUPTED); /* the user knows what happened */
	else if (g_error_matches(error, VIAL_HTTP_ERROR, VIAL_HTTP_PIPE))
		status = VIAL_EXIT_PIPE;
	else
		print_error(cli, error);
	g_error_free(error);
	return status;
}

int vial_output_fail(VialCli *cli, GError *error)
{
	return fail_with(cli, error, VIAL_EXIT_ERROR);
}

int vial_output_fail_remote(VialCli *cli, GError *error)
{
	return fail_with(cli, error, VIAL_EXIT_REMOTE);
}

int vial_output_usage(VialCli *cli, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	g_autofree char *sentence = g_strdup_vprintf(format, args);
	va_end(args);
	g_autoptr(GError) error = g_error_new(VIAL_OPTIONS_ERROR, 0, "%s (see `vial help%s%s`)", sentence, cli->command ? " " : "",
	                                      cli->command ? cli->command->name : "");
	print_error(cli, error);
	return VIAL_EXIT_USAGE;
}

int vial_output_fail_usage(VialCli *cli, GError *error)
{
	int status = vial_output_usage(cli, "%s", error->message);
	g_error_free(error);
	return status;
}

void vial_output_note(VialCli *cli, const char *format, ...)
{
	if (cli->is_quiet)
		return;
	va_list args;
	va_start(args, format);
	g_autofree char *sentence = g_strdup_vprintf(format, args);
	va_end(args);
	fflush(stdout);
	print_sentence(cli, "2", sentence);
}

void vial_output_json(const json_t *json)
{
	g_autofree char *text = vial_output_json_text(json, JSON_INDENT(2));
	puts(text);
}

const char *vial_output_style(const VialCli *cli, const char *sgr)
{
	if (!cli->has_color_out)
		return "";
	g_autofree char *sequence = g_strdup_printf("\033[%sm", sgr);
	return g_intern_string(sequence);
}

char *vial_output_bytes(gint64 size_bytes)
{
	if (size_bytes < 1024)
		return g_strdup_printf("%" G_GINT64_FORMAT " B", size_bytes);
	double value = (double)size_bytes;
	int unit = -1;
	while (value >= 1024 && unit < 4)
		value /= 1024, unit++;
	return g_strdup_printf("%.*f %ciB", value < 10 ? 1 : 0, value, "KMGTP"[unit]);
}

char *vial_output_duration(gint64 seconds)
{
	if (seconds < 0)
		seconds = 0;
	if (seconds < 60)
		return g_strdup_printf("%ds", (int)seconds);
	if (seconds < 3600)
		return seconds % 60 ? g_strdup_printf("%dm %ds", (int)(seconds / 60), (int)(seconds % 60))
		                    : g_strdup_printf("%dm", (int)(seconds / 60));
	if (seconds < 86400)
		return seconds % 3600 < 60 ? g_strdup_printf("%dh", (int)(seconds / 3600))
		                           : g_strdup_printf("%dh %dm", (int)(seconds / 3600), (int)(seconds % 3600 / 60));
	return g_strdup_printf("%" G_GINT64_FORMAT "d %dh", seconds / 86400, (int)(seconds % 86400 / 3600));
}

gint64 vial_output_time(const char *rfc3339)
{
	g_autoptr(GDateTime) time = rfc3339 ? g_date_time_new_from_iso8601(rfc3339, NULL) : NULL;
	return time ? g_date_time_to_unix(time) : -1;
}

char *vial_output_age(const char *rfc3339)
{
	gint64 then = vial_output_time(rfc3339);
	if (then < 0)
		return g_strdup("-");
	return vial_output_duration(g_get_real_time() / G_USEC_PER_SEC - then);
}

gboolean vial_output_write_all(int fd, const void *bytes, gsize size, GError **error)
{
	const char *at = bytes;
	while (size > 0) {
		ssize_t written = write(fd, at, size);
		if (written >= 0) {
			at += written;
			size -= (gsize)written;
		} else if (errno == EAGAIN) { /* someone made our stdout non-blocking */
			struct pollfd wait = { .fd = fd, .events = POLLOUT };
			poll(&wait, 1, 1000);
		} else if (errno == EPIPE) {
			g_set_error_literal(error, VIAL_HTTP_ERROR, VIAL_HTTP_PIPE, "the output's reader left");
			return FALSE;
		} else if (errno != EINTR) {
			g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "the output cannot be written: %s", g_strerror(errno));
			return FALSE;
		} else if (vial_interrupt_pending()) {
			g_set_error_literal(error, VIAL_HTTP_ERROR, VIAL_HTTP_INTERRUPTED, "interrupted");
			return FALSE;
		}
	}
	return TRUE;
}

void vial_sink_init(VialSink *sink, const VialCli *cli, int fd, gboolean raw)
{
	memset(sink, 0, sizeof *sink);
	sink->fd = fd;
	sink->is_raw = raw || !isatty(fd);
	sink->sanitizer.drops_color = fd == STDERR_FILENO ? !cli->has_color_err : !cli->has_color_out;
	sink->last = '\n';
}

gboolean vial_sink_write(VialSink *sink, const char *bytes, gsize size, GError **error)
{
	if (size == 0)
		return TRUE;
	sink->last = bytes[size - 1];
	if (sink->is_raw)
		return vial_output_write_all(sink->fd, bytes, size, error);
	GString *clean = g_string_sized_new(size + 64);
	vial_sanitize(&sink->sanitizer, bytes, size, clean);
	gboolean is_ok = vial_output_write_all(sink->fd, clean->str, clean->len, error);
	g_string_free(clean, TRUE);
	return is_ok;
}

void vial_sink_end(VialSink *sink)
{
	if (sink->is_raw)
		return;
	GString *rest = g_string_new(NULL);
	vial_sanitize_end(&sink->sanitizer, rest);
	vial_output_write_all(sink->fd, rest->str, rest->len, NULL);
	g_string_free(rest, TRUE);
}
