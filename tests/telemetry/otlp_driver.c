/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/telemetry in a process of its own, for its tests and for measuring it. Takes viald's own settings (flags, environment, file), --hurry N, which
 * divides every time by N, and --request-ms N, which is how long a request may take then, whatever the hurry. Each line of standard input is a JSON
 * object and is answered with one:
 *
 *   {"do": "add", "span": {...}, "times": N}   the members of VialSpan; N spans that differ in nothing but the ids they do not name -> {"us": }
 *   {"do": "stats"}                            -> {"exported", "dropped", "failed_requests", "queued", "rss_kb"}
 *   {"do": "free"}                             -> {"ms": }, and ends
 *
 * Its first line is {"is_on": } once it has started; a setting that is refused is a sentence on standard error and status 1.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "telemetry/otlp_private.h"
#include "util/json.h"
#include "util/log.h"

static void answer(json_t *object)
{
	g_autofree char *text = vial_json_dump(object);

	json_decref(object);
	printf("%s\n", text);
	fflush(stdout);
}

static gint64 rss_kb(void)
{
	g_autofree char *text = NULL;
	const char *line;

	g_file_get_contents("/proc/self/status", &text, NULL, NULL);
	line = text ? strstr(text, "VmRSS:") : NULL;
	return line ? g_ascii_strtoll(line + 6, NULL, 10) : 0;
}

static const char *text_of(const json_t *object, const char *field)
{
	return json_string_value(json_object_get(object, field));
}

static void add(VialOtlp *otlp, const json_t *command)
{
	const json_t *object = json_object_get(command, "span"), *times = json_object_get(command, "times");
	VialSpan span = {
		.name = text_of(object, "name"),
		.trace_id = text_of(object, "trace_id"),
		.parent_span_id = text_of(object, "parent_span_id"),
		.span_id = text_of(object, "span_id"),
		.started_us = json_integer_value(json_object_get(object, "started_us")),
		.ended_us = json_integer_value(json_object_get(object, "ended_us")),
		.is_error = json_is_true(json_object_get(object, "is_error")),
		.error_type = text_of(object, "error_type"),
		.status_message = text_of(object, "status_message"),
		.attributes = json_object_get(object, "attributes"),
	};
	gint64 n = times ? json_integer_value(times) : 1, began_us = g_get_monotonic_time();

	for (gint64 i = 0; i < n; i++)
		vial_otlp_add(otlp, &span);
	answer(json_pack("{s:I}", "us", (json_int_t)(g_get_monotonic_time() - began_us)));
}

static void tell_stats(const VialOtlp *otlp)
{
	VialOtlpStats stats;

	vial_otlp_stats(otlp, &stats);
	answer(json_pack("{s:I, s:I, s:I, s:I, s:I}", "exported", (json_int_t)stats.exported, "dropped", (json_int_t)stats.dropped, "failed_requests",
	                 (json_int_t)stats.failed_requests, "queued", (json_int_t)stats.queued, "rss_kb", (json_int_t)rss_kb()));
}

/* FALSE: that was the last one. */
static gboolean obey(VialOtlp **otlp, const json_t *command)
{
	const char *what = text_of(command, "do");

	if (g_strcmp0(what, "add") == 0) {
		add(*otlp, command);
	} else if (g_strcmp0(what, "stats") == 0) {
		tell_stats(*otlp);
	} else if (g_strcmp0(what, "free") == 0) {
		gint64 began_us = g_get_monotonic_time();
		g_clear_pointer(otlp, vial_otlp_free);
		answer(json_pack("{s:I}", "ms", (json_int_t)((g_get_monotonic_time() - began_us) / 1000)));
		return FALSE;
	} else {
		fprintf(stderr, "otlp-driver: what is that?\n");
		exit(2);
	}
	return TRUE;
}

static void serve(VialOtlp **otlp)
{
	g_autofree char *line = NULL;
	size_t room = 0;
	ssize_t size;
	gboolean goes_on = TRUE;

	while (goes_on && (size = getline(&line, &room, stdin)) > 0) {
		g_autoptr(json_t) command = vial_json_parse_object(line, (gsize)size, NULL);
		goes_on = obey(otlp, command);
	}
}

int main(int argc, char **argv)
{
	double hurry = 1;
	int request_ms = 0;
	const GOptionEntry extra[] = { { "hurry", 0, 0, G_OPTION_ARG_DOUBLE, &hurry, "divide every time by this", "N" },
		                       { "request-ms", 0, 0, G_OPTION_ARG_INT, &request_ms, "how long a request may take", "N" },
		                       { 0 } };
	VialOtlpTimes times = vial_otlp_usual_times;
	g_autoptr(GError) error = NULL;
	g_autoptr(VialConfig) config = vial_config_load(&argc, &argv, extra, &error);
	VialOtlp *otlp = NULL;

	signal(SIGPIPE, SIG_IGN); /* as viald does */
	vial_log_setup(VIAL_LOG_INFO, VIAL_LOG_TEXT);
	if (config) {
		guint *all[] = { &times.gather_ms,        &times.first_retry_ms, &times.last_retry_ms, &times.connect_timeout_ms,
			         &times.total_timeout_ms, &times.farewell_ms,    &times.complaint_ms };
		for (gsize i = 0; i < G_N_ELEMENTS(all); i++)
			*all[i] = (guint)(*all[i] / hurry);
		if (request_ms > 0)
			times.connect_timeout_ms = times.total_timeout_ms = (guint)request_ms;
		otlp = vial_otlp_new_timed(config, &times, &error);
	}
	if (error) {
		fprintf(stderr, "otlp-driver: %s\n", error->message);
		return 1;
	}
	answer(json_pack("{s:b}", "is_on", otlp != NULL));
	serve(&otlp);
	vial_otlp_free(otlp);
	return 0;
}
