/* SPDX-License-Identifier: Apache-2.0 */
/* Processes started by exec: list, signal, feed, attach again; listening ports; what the sandbox uses. */
#include <string.h>

#include "api/guest.h"
#include "api/handlers.h"
#include "service/slots.h"
#include "util/json.h"
#include "util/utf8.h"
#include "wire/wire.h"

static void reply_without_ok(VialRequest *request, json_t *result)
{
	json_t *answer = json_deep_copy(result);

	json_object_del(answer, "ok");
	vial_request_reply_json(request, 200, answer);
}

static void reply_nothing(VialRequest *request, json_t *result)
{
	vial_request_reply_empty(request, 204);
}

/* The path's {pid}; FALSE after having answered. */
static gboolean read_pid(VialRequest *request, guint64 *out_pid)
{
	if (g_ascii_string_to_unsigned(vial_request_param(request, "pid"), 10, 1, G_MAXINT32, out_pid, NULL))
		return TRUE;
	vial_request_reply_fail(request, VIAL_ERROR_NOT_FOUND, "there is no process %.20s", vial_request_param(request, "pid"));
	return FALSE;
}

void vial_api_process_list(VialRequest *request)
{
	vial_guest_ask(request, json_pack("{s:s}", "op", "proc.list"), reply_without_ok);
}

void vial_api_port_list(VialRequest *request)
{
	vial_guest_ask(request, json_pack("{s:s}", "op", "ports"), reply_without_ok);
}

void vial_api_process_signal(VialRequest *request)
{
	json_t *body = vial_request_json(request);
	g_autoptr(GError) error = NULL;
	const char *name = "TERM";
	guint64 pid;

	if (!read_pid(request, &pid))
		return;
	if (!vial_json_get_string(body, "signal", VIAL_JSON_NONEMPTY, 16, &name, &error)) {
		vial_request_reply_error(request, g_steal_pointer(&error));
		return;
	}
	vial_guest_ask(request, json_pack("{s:s, s:I, s:s}", "op", "proc.signal", "pid", (json_int_t)pid, "signal", name), reply_nothing);
}

/* Feeding: the body {"data": "...", "close": bool} goes to the process's stdin. */

typedef struct {
	char *bytes;
	gsize size;
	gsize sent;
} Feed;

static void feed_free(gpointer data)
{
	Feed *feed = data;

	g_free(feed->bytes);
	g_free(feed);
}

static void feed_push(VialSession *session)
{
	Feed *feed = session->state;
	gsize piece = MIN(vial_stream_room(session->stream), feed->size - feed->sent);

	if (!feed->bytes)
		return;
	vial_stream_send(session->stream, VIAL_WIRE_MAIN, feed->bytes + feed->sent, piece);
	feed->sent += piece;
	if (feed->sent < feed->size)
		return;
	vial_stream_send_eof(session->stream, VIAL_WIRE_MAIN);
	g_clear_pointer(&feed->bytes, g_free);
}

static void on_feed_writable(VialStream *stream, gpointer data)
{
	feed_push(data);
}

static void on_feed_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	VialSession *session = data;

	if (error)
		return vial_session_fail(session, error);
	reply_without_ok(session->request, result);
	vial_session_end(session);
}

void vial_api_process_stdin(VialRequest *request)
{
	static const VialStreamEvents events = { .writable = on_feed_writable, .closed = on_feed_closed };
	json_t *body = vial_request_json(request);
	g_autoptr(GError) error = NULL;
	const char *text = "";
	gboolean close = FALSE;
	guint64 pid;
	Feed *feed;

	if (!read_pid(request, &pid))
		return;
	if (!vial_json_get_string(body, "data", 0, G_MAXINT32, &text, &error) || !vial_json_get_bool(body, "close", 0, &close, &error)) {
		vial_request_reply_error(request, g_steal_pointer(&error));
		return;
	}
	feed = g_new0(Feed, 1);
	feed->size = json_string_length(json_object_get(body, "data"));
	feed->bytes = g_memdup2(text, feed->size + 1);
	vial_session_start(request, json_pack("{s:s, s:I, s:b}", "op", "proc.stdin", "pid", (json_int_t)pid, "close", close), &events,
	                   feed_push, feed, feed_free);
}

/* Attaching: what the process printed last, then what it prints, until it exits. */

typedef struct {
	VialUtf8 utf8[2];
	gsize unacknowledged;
} Attach;

static void on_attach_drained(VialRequest *request, gpointer data)
{
	VialSession *session = data;
	Attach *attach = session->state;

	vial_stream_consumed(session->stream, attach->unacknowledged);
	attach->unacknowledged = 0;
}

static void on_attach_data(VialStream *stream, unsigned channel, GBytes *bytes, gpointer data)
{
	VialSession *session = data;
	Attach *attach = session->state;
	unsigned index = channel == VIAL_WIRE_STDERR;
	gsize size;
	const void *content = g_bytes_get_data(bytes, &size);
	g_autoptr(GString) text = g_string_sized_new(size);

	vial_utf8_feed(&attach->utf8[index], content, size, text);
	attach->unacknowledged += size;
	if (text->len == 0 || vial_request_sse_send(session->request, index ? "stderr" : "stdout",
	                                            json_pack("{s:s%}", "chunk", text->str, text->len)) < VIAL_BODY_HIGH_BYTES)
		on_attach_drained(session->request, session);
}

static void on_attach_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	VialSession *session = data;
	json_t *last = error ? json_pack("{s:s}", "error", error->message) : json_deep_copy(result);

	json_object_del(last, "ok");
	vial_request_sse_send(session->request, error ? "error" : "exit", last);
	vial_request_stream_end(session->request);
	vial_session_end(session);
}

static void on_attach_opened(VialSession *session)
{
	vial_request_sse_begin(session->request, on_attach_drained, session);
}

void vial_api_process_attach(VialRequest *request)
{
	static const VialStreamEvents events = { .data = on_attach_data, .closed = on_attach_closed };
	guint64 pid;

	if (read_pid(request, &pid))
		vial_session_start(request, json_pack("{s:s, s:I}", "op", "proc.attach", "pid", (json_int_t)pid), &events, on_attach_opened,
		                   g_new0(Attach, 1), g_free);
}

/* Metrics: the agent's view from inside, beside what the host counts. */

/* Since it last started: a sandbox that was asleep has a new slot. */
static json_t *network_numbers(VialNetSlot *slot)
{
	VialNetCounters counters;

	vial_net_slot_counters(slot, &counters);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "connections_allowed", (json_int_t)counters.connections_allowed, "connections_denied",
	                 (json_int_t)counters.connections_denied, "dns_allowed", (json_int_t)counters.dns_allowed, "dns_denied",
	                 (json_int_t)counters.dns_denied, "bytes_in", (json_int_t)counters.bytes_in, "bytes_out",
	                 (json_int_t)counters.bytes_out);
}

static void reply_metrics(VialRequest *request, json_t *result)
{
	VialApp *app = vial_request_app(request);
	json_t *answer = json_deep_copy(result);
	VialSandbox *sandbox = vial_sandboxes_find(app, vial_request_identity(request), vial_request_param(request, "id"), NULL);
	VialNetSlot *slot = sandbox ? vial_slots_find(app->slots, sandbox->host_id) : NULL;
	VialInstanceUsage usage;

	json_object_del(answer, "ok");
	if (slot)
		json_object_set_new(answer, "network", network_numbers(slot));
	if (sandbox && app->engine->ops->usage(app->engine, sandbox->host_id, &usage)) {
		json_object_set_new(answer, "host_memory_kb", json_integer(usage.memory_bytes / 1024));
		json_object_set_new(answer, "host_cpu_ms", json_integer(usage.cpu_usec / 1000));
	}
	vial_request_reply_json(request, 200, answer);
}

void vial_api_metrics(VialRequest *request)
{
	vial_guest_ask(request, json_pack("{s:s}", "op", "metrics"), reply_metrics);
}
