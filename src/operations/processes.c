/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/processes.h"

#include "operations/guest.h"
#include "operations/input.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "service/app.h"
#include "service/slots.h"
#include "util/json.h"

#define MAX_PROCESSES 65536
#define MAX_PORTS 65536

VIAL_SHAPE(process_shape, { "pid", VIAL_SHAPE_INT, TRUE, 1, G_MAXINT32, NULL, 0 }, { "cmd", VIAL_SHAPE_TEXT, TRUE, 0, 8192, NULL, 0 },
           { "user", VIAL_SHAPE_TEXT, FALSE, 0, 256, NULL, 0 }, { "cwd", VIAL_SHAPE_TEXT, FALSE, 0, 3 * VIAL_PATH_MAX_BYTES, NULL, 0 },
           { "started_at_ms", VIAL_SHAPE_INT, FALSE, 0, G_MAXINT64, NULL, 0 }, { "state", VIAL_SHAPE_TOKEN, TRUE, 0, 16, NULL, 0 },
           { "exit_code", VIAL_SHAPE_INT, FALSE, G_MININT32, G_MAXINT32, NULL, 0 }, { "cpu_ms", VIAL_SHAPE_INT, FALSE, 0, G_MAXINT64, NULL, 0 },
           { "rss_kb", VIAL_SHAPE_INT, FALSE, 0, G_MAXINT64, NULL, 0 }, { "background", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, 0 },
           { "pty", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, 0 });
VIAL_SHAPE(processes_shape, { "processes", VIAL_SHAPE_LIST, TRUE, 0, MAX_PROCESSES, &process_shape, 0 });

VIAL_SHAPE(port_shape, { "port", VIAL_SHAPE_INT, TRUE, 1, 65535, NULL, 0 }, { "address", VIAL_SHAPE_TOKEN, TRUE, 0, 64, NULL, 0 });
VIAL_SHAPE(ports_shape, { "ports", VIAL_SHAPE_LIST, TRUE, 0, MAX_PORTS, &port_shape, 0 });

VIAL_SHAPE(metrics_shape, { "cpu_ms", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, 0 },
           { "memory_used_kb", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, 0 }, { "memory_limit_kb", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, 0 },
           { "disk_used_kb", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, 0 }, { "disk_total_kb", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, 0 },
           { "processes", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, 0 }, { "load", VIAL_SHAPE_LIST, FALSE, 0, 3, NULL, 0 });

typedef struct {
	gint64 bytes;
} InputEnd;

VIAL_SHAPE(input_shape, { "bytes", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, G_STRUCT_OFFSET(InputEnd, bytes) });

gboolean vial_op_process_list(const VialCaller *caller, const char *sandbox_id, VialDocumentDone done, gpointer data, GError **error)
{
	VialSandbox *sandbox;

	return vial_operation_admit(caller, VIAL_VERB_PROCESS_READ, sandbox_id, 0, &sandbox, error) &&
	       vial_guest_ask(caller, VIAL_VERB_PROCESS_READ, sandbox, json_pack("{s:s}", "op", "proc.list"), NULL, &processes_shape, done, data,
	                      error);
}

gboolean vial_op_port_list(const VialCaller *caller, const char *sandbox_id, VialDocumentDone done, gpointer data, GError **error)
{
	VialSandbox *sandbox;

	return vial_operation_admit(caller, VIAL_VERB_PORT_READ, sandbox_id, 0, &sandbox, error) &&
	       vial_guest_ask(caller, VIAL_VERB_PORT_READ, sandbox, json_pack("{s:s}", "op", "ports"), NULL, &ports_shape, done, data, error);
}

gboolean vial_op_process_signal(const VialCaller *caller, const char *sandbox_id, gint64 pid, const char *signal, VialDocumentDone done,
                                gpointer data, GError **error)
{
	VialSandbox *sandbox;

	if (!signal)
		signal = "TERM";
	return vial_operation_admit(caller, VIAL_VERB_PROCESS_SIGNAL, sandbox_id, 0, &sandbox, error) &&
	       vial_check_text("signal", signal, VIAL_SIGNAL_MAX_BYTES, error) &&
	       vial_guest_ask(caller, VIAL_VERB_PROCESS_SIGNAL, sandbox,
	                      json_pack("{s:s, s:I, s:s}", "op", "proc.signal", "pid", (json_int_t)pid, "signal", signal),
	                      json_pack("{s:I, s:s}", "pid", (json_int_t)pid, "signal", signal), NULL, done, data, error);
}

/* Input */

typedef struct {
	const VialWriteSink *sink;
	gpointer data;
	VialInput input;
} Feed;

static void feed_free(gpointer data)
{
	Feed *feed = data;

	vial_input_clear(&feed->input);
	g_free(feed);
}

static void on_recording(VialOperation *operation)
{
	vial_guest_tape_input(operation, TRUE);
}

static void on_opened(VialOperation *operation)
{
	Feed *feed = vial_guest_state(operation);

	vial_input_push(&feed->input, operation);
	if (feed->sink->begun)
		feed->sink->begun(operation, feed->data);
}

static void on_writable(VialOperation *operation)
{
	Feed *feed = vial_guest_state(operation);

	vial_input_push(&feed->input, operation);
	if (feed->sink->writable)
		feed->sink->writable(feed->data);
}

static void on_closed(VialOperation *operation, json_t *result, const GError *error)
{
	Feed *feed = vial_guest_state(operation);
	InputEnd end = { 0 };
	g_autoptr(GError) problem = NULL, refusal = NULL, unrecorded = NULL;

	if (!error && !vial_shape_read(&input_shape, result, &end, &problem)) {
		vial_guest_distrust(operation, problem, &refusal);
		error = refusal;
	}
	error = vial_guest_end(operation, "done", NULL, error, &unrecorded);
	feed->sink->end(NULL, end.bytes, error, feed->data);
}

VialOperation *vial_op_process_input(const VialCaller *caller, const char *sandbox_id, gint64 pid, gboolean close, GBytes *bytes,
                                     const VialWriteSink *sink, gpointer data, GError **error)
{
	static const VialGuestEvents events = { .recording = on_recording, .opened = on_opened, .writable = on_writable, .closed = on_closed };
	VialSandbox *sandbox;
	Feed *feed;

	if (!vial_operation_admit(caller, VIAL_VERB_PROCESS_INPUT, sandbox_id, 0, &sandbox, error))
		return NULL;
	feed = g_new0(Feed, 1);
	feed->sink = sink;
	feed->data = data;
	feed->input.bytes = bytes ? g_bytes_ref(bytes) : NULL;
	return vial_guest_start(caller, VIAL_VERB_PROCESS_INPUT, sandbox,
	                        json_pack("{s:s, s:I, s:b}", "op", "proc.stdin", "pid", (json_int_t)pid, "close", close),
	                        json_pack("{s:I}", "pid", (json_int_t)pid), &events, feed, feed_free, error);
}

/* Metrics */

typedef struct {
	VialSandbox *sandbox;
	VialDocumentDone done;
	gpointer data;
} Measuring;

/* Since it last started: a sandbox that was asleep has a new slot. */
static json_t *network_numbers(VialNetSlot *slot)
{
	VialNetCounters counters;

	vial_net_slot_counters(slot, &counters);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "connections_allowed", (json_int_t)counters.connections_allowed, "connections_denied",
	                 (json_int_t)counters.connections_denied, "dns_allowed", (json_int_t)counters.dns_allowed, "dns_denied",
	                 (json_int_t)counters.dns_denied, "bytes_in", (json_int_t)counters.bytes_in, "bytes_out", (json_int_t)counters.bytes_out);
}

static void add_host_view(VialSandbox *sandbox, json_t *document)
{
	VialApp *app = vial_sandbox_app(sandbox);
	VialNetSlot *slot = vial_slots_find(app->slots, vial_sandbox_host_id(sandbox));
	VialInstanceUsage usage;

	if (slot)
		json_object_set_new(document, "network", network_numbers(slot));
	if (app->engine->ops->usage(app->engine, vial_sandbox_host_id(sandbox), &usage)) {
		json_object_set_new(document, "host_memory_kb", json_integer(usage.memory_bytes / 1024));
		json_object_set_new(document, "host_cpu_ms", json_integer(usage.cpu_usec / 1000));
	}
}

static void on_measured(json_t *document, const GError *error, gpointer data)
{
	g_autofree Measuring *measuring = data;

	if (document)
		add_host_view(measuring->sandbox, document);
	measuring->done(document, error, measuring->data);
	vial_sandbox_unref(measuring->sandbox);
}

gboolean vial_op_metrics(const VialCaller *caller, const char *sandbox_id, VialDocumentDone done, gpointer data, GError **error)
{
	Measuring *measuring;
	VialSandbox *sandbox;

	if (!vial_operation_admit(caller, VIAL_VERB_METRICS, sandbox_id, 0, &sandbox, error))
		return FALSE;
	measuring = g_new0(Measuring, 1);
	*measuring = (Measuring){ vial_sandbox_ref(sandbox), done, data };
	if (vial_guest_ask(caller, VIAL_VERB_METRICS, sandbox, json_pack("{s:s}", "op", "metrics"), NULL, &metrics_shape, on_measured, measuring,
	                   error))
		return TRUE;
	vial_sandbox_unref(sandbox);
	g_free(measuring);
	return FALSE;
}
