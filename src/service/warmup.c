/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A custom template's warm code: run once in the default Python context before its checkpoint is taken, so that what it imports and loads is there in
 * every sandbox. Nobody reads its output, except the end of it when it fails.
 */
#include <string.h>

#include "service/build_command.h"
#include "service/template_private.h"
#include "util/json.h"
#include "util/time.h"

#define CODE_TIMEOUT_MS 600000

typedef struct {
	VialStream *stream;
	GString *tail; /* the end of its output */
	char *trace;
	guint timer;
	void (*done)(const char *problem, gpointer data);
	gpointer data;
} Warmup;

static void leave(Warmup *warmup, const char *problem)
{
	void (*done)(const char *problem, gpointer data) = warmup->done;
	g_autofree char *told = g_strdup(problem);
	gpointer data = warmup->data;

	g_clear_handle_id(&warmup->timer, g_source_remove);
	vial_stream_free(warmup->stream);
	g_string_free(warmup->tail, TRUE);
	g_free(warmup->trace);
	g_free(warmup);
	done(told, data);
}

static void on_data(VialStream *stream, unsigned channel, GBytes *bytes, gpointer data)
{
	Warmup *warmup = data;
	gsize size;
	const char *text = g_bytes_get_data(bytes, &size);

	vial_command_tail_add(warmup->tail, text, size);
	vial_stream_consumed(stream, size);
}

static void on_event(VialStream *stream, json_t *event, gsize size, gpointer data)
{
	Warmup *warmup = data;
	const char *name = json_string_value(json_object_get(event, "event"));
	json_t *trace = json_object_get(event, "traceback");

	if (g_strcmp0(name, "error") == 0) {
		const char *kind = json_string_value(json_object_get(event, "name")), *value = json_string_value(json_object_get(event, "value"));

		g_free(warmup->trace);
		warmup->trace = json_is_string(trace) ? g_strdup(json_string_value(trace))
		                                      : g_strdup_printf("%s: %s", kind ? kind : "error", value ? value : "");
	}
	vial_stream_consumed(stream, size);
}

static void on_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	Warmup *warmup = data;
	g_autofree char *tail = NULL, *text = NULL;

	if (error)
		return leave(warmup, error->message);
	if (g_strcmp0(json_string_value(json_object_get(result, "status")), "ok") == 0)
		return leave(warmup, NULL);
	if (warmup->trace)
		vial_command_tail_add(warmup->tail, warmup->trace, strlen(warmup->trace));
	tail = vial_command_tail_text(warmup->tail);
	text = g_strdup_printf("the warm code %s; its last lines:\n%s",
	                       json_is_true(json_object_get(result, "timed_out")) ? "took more than 10 minutes" : "failed", tail);
	leave(warmup, text);
}

static gboolean on_timeout(gpointer data)
{
	Warmup *warmup = data;

	warmup->timer = 0;
	leave(warmup, "the warm code did not end in time");
	return G_SOURCE_REMOVE;
}

void vial_warmup(VialChannel *channel, const char *code, void (*done)(const char *problem, gpointer data), gpointer data)
{
	static const VialStreamEvents events = { .data = on_data, .event = on_event, .closed = on_closed };
	Warmup *warmup = g_new0(Warmup, 1);
	json_t *request = json_pack("{s:s, s:s, s:s, s:s, s:i}", "op", "ctx.run", "language", "python", "execution_id", "warm", "code", code,
	                            "timeout_ms", CODE_TIMEOUT_MS);

	warmup->tail = g_string_new(NULL);
	warmup->done = done;
	warmup->data = data;
	/* The agent's own limit comes first; this one is for an agent that does not answer. */
	warmup->timer = vial_time_add_deadline(CODE_TIMEOUT_MS + 60000, on_timeout, warmup);
	warmup->stream = vial_stream_open(channel, request, &events, warmup);
}
