/* SPDX-License-Identifier: Apache-2.0 */
/* GET …/replay: what was done with a sandbox, oldest first: each record of the audit as an event, whole. */
#include "operations/audit.h"
#include "operations/limits.h"
#include "operations/sandboxes.h"
#include "surfaces/podflare/handlers.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"
#include "util/time.h"

static void add_event(GString *lines, json_t *record)
{
	const char *time = json_string_value(json_object_get(record, "time")), *action = json_string_value(json_object_get(record, "action"));
	g_autoptr(json_t) event = NULL;
	g_autofree char *text = NULL;
	gint64 time_ms = 0;

	if (time)
		vial_time_parse(time, &time_ms);
	event = json_pack("{s:s, s:O, s:O?, s:I}", "type", action ? action : "damaged", "data", record, "seq", json_object_get(record, "seq"), "ts",
	                  (json_int_t)time_ms);
	text = vial_json_dump_ascii(event);
	g_string_append_printf(lines, "%s\n", text);
}

static void on_found(json_t *document, const GError *error, gpointer data)
{
	g_autoptr(VialRequest) request = data;
	json_t *records = json_object_get(document, "items");
	GString *lines;

	if (error)
		return vial_request_reply_error(request, g_error_copy(error));
	lines = g_string_new(NULL);
	for (gsize i = json_array_size(records); i > 0; i--)
		add_event(lines, json_array_get(records, i - 1));
	vial_request_reply_bytes(request, 200, "application/x-ndjson; charset=utf-8", g_string_free_to_bytes(lines));
}

void vial_podflare_replay(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	const char *id = vial_surface_sandbox(request);
	VialAuditRequest wanted = {
		.project = vial_request_identity(request)->project, .sandbox = id, .cursor = VIAL_UNSAID, .limit = VIAL_PAGE_MAX
	};
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_sandbox_get(&caller, id, &error) && vial_op_audit_list(&caller, &wanted, on_found, request, &error),
	                   &error);
}
