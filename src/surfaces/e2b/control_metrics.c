/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox uses: as it is now, since nothing is kept of before. One that sleeps uses nothing, and is not woken to say so. */
#include "operations/processes.h"
#include "operations/sandboxes.h"
#include "surfaces/e2b/control.h"
#include "util/json.h"
#include "util/time.h"

static json_int_t bytes(const json_t *document, const char *field)
{
	return json_integer_value(json_object_get(document, field)) * 1024;
}

static json_t *metric_json(const json_t *document, double cpu)
{
	double load = json_number_value(json_array_get(json_object_get(document, "load"), 0));
	gint64 now_ms = vial_time_now_ms();
	char time[VIAL_TIME_TEXT_SIZE];

	vial_time_fill(time, now_ms);
	return json_pack("{s:s, s:I, s:i, s:f, s:I, s:I, s:i, s:I, s:I}", "timestamp", time, "timestampUnix", (json_int_t)(now_ms / 1000), "cpuCount",
	                 (int)MAX(cpu + 0.999, 1), "cpuUsedPct", MIN(load / MAX(cpu, 0.01), 1) * 100, "memUsed", bytes(document, "memory_used_kb"),
	                 "memTotal", bytes(document, "memory_limit_kb"), "memCache", 0, "diskUsed", bytes(document, "disk_used_kb"), "diskTotal",
	                 bytes(document, "disk_total_kb"));
}

static void on_measured(json_t *document, const GError *error, gpointer data)
{
	VialCaller caller = vial_surface_caller(data);
	g_autoptr(json_t) answer = error ? NULL : json_array();
	VialSandbox *sandbox = error ? NULL : vial_op_sandbox_get(&caller, vial_surface_sandbox(data), NULL);

	if (sandbox)
		json_array_append_new(answer, metric_json(document, vial_sandbox_limits(sandbox)->cpu));
	vial_surface_reply_ok(answer, error, data);
}

/* Theirs are taken every few seconds, and clients ask up to their own "now". */
#define CLOSE_ENOUGH_SECONDS 5

/* A time that has no measurement. */
static gboolean is_past(const VialRequest *request, gboolean *out, GError **error)
{
	gint64 end = G_MAXINT64;

	if (!vial_decode_query_int(request, "end", &end, error))
		return FALSE;
	*out = end < vial_time_now_ms() / 1000 - CLOSE_ENOUGH_SECONDS;
	return TRUE;
}

void vial_e2b_metrics(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	gboolean is_empty = FALSE;
	VialSandbox *sandbox = vial_e2b_find(&caller, vial_surface_sandbox(request), &error);

	if (!sandbox || !is_past(request, &is_empty, &error))
		vial_surface_begun(request, FALSE, &error);
	else if (is_empty || vial_sandbox_state(sandbox) != VIAL_STATE_RUNNING) {
		g_autoptr(json_t) nothing = json_array();

		vial_surface_reply_ok(nothing, NULL, request);
	} else {
		vial_surface_begun(request, vial_op_metrics(&caller, vial_sandbox_id(sandbox), on_measured, request, &error), &error);
	}
}
