/* SPDX-License-Identifier: Apache-2.0 */
#include "util/log.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "util/time.h"

/* A value longer than this is cut: a log line is a hint, not a transport. */
#define MAX_VALUE_BYTES 2048

VialLogLevel vial_log_level = VIAL_LOG_INFO;
static VialLogFormat log_format = VIAL_LOG_TEXT;

static const char *const level_names[] = { "error", "warning", "info", "debug" };

gboolean vial_log_level_parse(const char *text, VialLogLevel *out)
{
	for (gsize i = 0; i < G_N_ELEMENTS(level_names); i++) {
		if (strcmp(text, level_names[i]) == 0) {
			*out = (VialLogLevel)i;
			return TRUE;
		}
	}
	return FALSE;
}

/*
 * JSON string syntax serves both formats. Printable ASCII goes through; control characters, DEL, C1 controls, other
 * non-ASCII and bytes that are not UTF-8 are written as \uXXXX, so that no terminal or log shipper acts on them.
 */
static void append_quoted(GString *line, const char *value)
{
	const char *end = value + strnlen(value, MAX_VALUE_BYTES);
	gboolean was_cut = *end != '\0';

	g_string_append_c(line, '"');
	while (value < end) {
		guchar c = (guchar)*value;
		if (c == '"' || c == '\\') {
			g_string_append_c(line, '\\');
			g_string_append_c(line, (char)c);
			value++;
		} else if (c >= 0x20 && c < 0x7f) {
			g_string_append_c(line, (char)c);
			value++;
		} else if (c < 0x80) {
			g_string_append_printf(line, "\\u%04x", c);
			value++;
		} else {
			gunichar u = g_utf8_get_char_validated(value, end - value);
			if (u == (gunichar)-1 || u == (gunichar)-2) {
				g_string_append(line, "\\ufffd");
				value++;
				continue;
			}
			if (u > 0xffff)
				g_string_append_printf(line, "\\u%04x\\u%04x", 0xd7c0 + (u >> 10), 0xdc00 + (u & 0x3ff));
			else
				g_string_append_printf(line, "\\u%04x", u);
			value = g_utf8_next_char(value);
		}
	}
	g_string_append(line, was_cut ? "...\"" : "\"");
}

static void append_pair(GString *line, const char *key, const char *value)
{
	if (log_format == VIAL_LOG_JSON)
		g_string_append_printf(line, "%s\"%s\":", line->len > 1 ? "," : "", key);
	else
		g_string_append_printf(line, "%s%s=", line->len > 0 ? " " : "", key);
	append_quoted(line, value);
}

/* In the text format a plain word needs no quotes; only our own constants and times go this way. */
static void append_word(GString *line, const char *key, const char *word)
{
	if (log_format == VIAL_LOG_JSON)
		append_pair(line, key, word);
	else
		g_string_append_printf(line, "%s%s=%s", line->len > 0 ? " " : "", key, word);
}

static void emit(const GString *line)
{
	const char *at = line->str;
	gsize left = line->len;

	while (left > 0) {
		ssize_t n = write(STDERR_FILENO, at, left);
		if (n <= 0)
			return; /* nowhere left to complain */
		at += n;
		left -= (gsize)n;
	}
}

void vial_log_write(VialLogLevel level, const char *module, const char *message, ...)
{
	g_autoptr(GString) line = g_string_sized_new(256);
	char now[VIAL_TIME_TEXT_SIZE];
	const char *key;
	va_list args;

	if (level > vial_log_level)
		return;
	vial_time_fill(now, vial_time_now_ms());
	if (log_format == VIAL_LOG_JSON)
		g_string_append_c(line, '{');
	append_word(line, "time", now);
	append_word(line, "level", level_names[level]);
	append_word(line, "module", module);
	append_pair(line, "message", message);
	va_start(args, message);
	while ((key = va_arg(args, const char *))) {
		const char *value = va_arg(args, const char *);
		if (value)
			append_pair(line, key, value);
	}
	va_end(args);
	g_string_append(line, log_format == VIAL_LOG_JSON ? "}\n" : "\n");
	emit(line);
}

static GLogWriterOutput write_glib_message(GLogLevelFlags flags, const GLogField *fields, gsize n_fields, gpointer data)
{
	const char *message = "", *domain = "glib";
	VialLogLevel level = VIAL_LOG_DEBUG;

	if (flags & (G_LOG_LEVEL_ERROR | G_LOG_LEVEL_CRITICAL))
		level = VIAL_LOG_ERROR;
	else if (flags & G_LOG_LEVEL_WARNING)
		level = VIAL_LOG_WARNING;
	else if (flags & (G_LOG_LEVEL_MESSAGE | G_LOG_LEVEL_INFO))
		level = VIAL_LOG_INFO;
	for (gsize i = 0; i < n_fields; i++) {
		if (strcmp(fields[i].key, "MESSAGE") == 0 && fields[i].length < 0)
			message = fields[i].value;
		else if (strcmp(fields[i].key, "GLIB_DOMAIN") == 0 && fields[i].length < 0)
			domain = fields[i].value;
	}
	vial_log_at(level, "glib", message, "domain", domain);
	return G_LOG_WRITER_HANDLED;
}

void vial_log_setup(VialLogLevel level, VialLogFormat format)
{
	static gsize taken_over;

	vial_log_level = level;
	log_format = format;
	if (g_once_init_enter(&taken_over)) {
		g_log_set_writer_func(write_glib_message, NULL, NULL);
		g_once_init_leave(&taken_over, 1);
	}
}
