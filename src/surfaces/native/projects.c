/* SPDX-License-Identifier: Apache-2.0 */
/* Projects, their quotas, and what they have used (JSON, or CSV for a spreadsheet). */
#include "operations/projects.h"

#include <string.h>

#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

static gboolean decode(const json_t *body, VialProjectRequest *out, GError **error)
{
	static const char *const names[] = { "name", "description", "quotas", "ceilings", "legal_hold", NULL };
	gboolean legal_hold = -1;

	*out = (VialProjectRequest){ .legal_hold = -1 };
	if (!vial_decode_known(body, names, error) || !vial_decode_text(body, "name", &out->name, error) ||
	    !vial_decode_text(body, "description", &out->description, error) || !vial_decode_object(body, "quotas", &out->quotas, error) ||
	    !vial_decode_object(body, "ceilings", &out->ceilings, error) || !vial_decode_bool(body, "legal_hold", &legal_hold, error))
		return FALSE;
	out->legal_hold = legal_hold;
	return TRUE;
}

void vial_api_project_list(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	json_t *answer = vial_op_project_list(&caller, &error);

	vial_surface_reply_now(request, answer, error);
}

void vial_api_project_get(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	json_t *answer = vial_op_project_get(&caller, vial_request_param(request, "project"), &error);

	vial_surface_reply_now(request, answer, error);
}

void vial_api_project_create(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	VialProjectRequest project;

	vial_surface_begun(request,
	                   decode(vial_request_json(request), &project, &error) &&
	                           vial_op_project_create(&caller, &project, vial_surface_reply_created, request, &error),
	                   &error);
}

void vial_api_project_change(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	VialProjectRequest project;

	if (json_object_get(vial_request_json(request), "name"))
		vial_fail(&error, VIAL_ERROR_INVALID, "field \"name\" cannot be changed: records of what was done are under it");
	vial_surface_begun(
		request,
		!error && decode(vial_request_json(request), &project, &error) &&
			vial_op_project_change(&caller, vial_request_param(request, "project"), &project, vial_surface_reply_ok, request, &error),
		&error);
}

void vial_api_project_delete(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request,
	                   vial_op_project_delete(&caller, vial_request_param(request, "project"), vial_surface_reply_nothing, request, &error),
	                   &error);
}

/* Quotas */

void vial_api_quota_get(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	json_t *answer = vial_op_quota_get(&caller, vial_request_param(request, "project"), &error);

	vial_surface_reply_now(request, answer, error);
}

void vial_api_quota_put(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request,
	                   vial_op_quota_put(&caller, vial_request_param(request, "project"), vial_request_json(request), vial_surface_reply_ok,
	                                     request, &error),
	                   &error);
}

/* Usage */

/* In quotes, which are doubled within. A person's id is what a provider calls him: a spreadsheet must not take it for a formula. */
static void add_text(GString *csv, const char *text)
{
	g_string_append(csv, strchr("=+-@", *text) && *text ? "\"'" : "\"");
	for (; *text; text++)
		g_string_append(csv, *text == '"' ? "\"\"" : (char[]){ *text, '\0' });
	g_string_append_c(csv, '"');
}

/* The line of names, which is there even when nothing was used; rows have their fields in this order. */
static void add_names(GString *csv, const char *group_by)
{
	static const char *const groups[][2] = {
		{ "day", "day" }, { "project", "project" }, { "template", "template" }, { "agent", "agent" }, { "key", "key_id" }
	};
	g_auto(GStrv) asked = g_strsplit(group_by ? group_by : "day", ",", -1);

	for (char **word = asked; *word; word++)
		g_strstrip(*word);
	for (gsize i = 0; i < G_N_ELEMENTS(groups); i++)
		if (g_strv_contains((const char *const *)asked, groups[i][0]))
			g_string_append_printf(csv, "%s,", groups[i][1]);
	g_string_append(csv, "sandbox_seconds,vcpu_seconds,memory_gb_seconds,runs,bytes_in,bytes_out\r\n");
}

static char *to_csv(const json_t *rows, const char *group_by)
{
	GString *csv = g_string_new(NULL);
	const json_t *row;
	const char *name;
	json_t *value;
	gsize i;

	add_names(csv, group_by);
	json_array_foreach (rows, i, row) {
		const char *comma = "";

		json_object_foreach ((json_t *)row, name, value) {
			g_string_append(csv, comma);
			comma = ",";
			if (json_is_string(value))
				add_text(csv, json_string_value(value));
			else if (json_is_integer(value))
				g_string_append_printf(csv, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
			else
				g_string_append_printf(csv, "%.3f", json_real_value(value));
		}
		g_string_append(csv, "\r\n");
	}
	return g_string_free(csv, FALSE);
}

static void on_usage(json_t *rows, const GError *error, gpointer data)
{
	VialRequest *request = data;
	char *csv;

	if (error || g_strcmp0(vial_request_query(request, "format"), "csv") != 0)
		return vial_surface_reply_ok(rows, error, data);
	csv = to_csv(rows, vial_request_query(request, "group_by"));
	vial_request_reply_bytes(request, 200, "text/csv; charset=utf-8", g_bytes_new_take(csv, strlen(csv)));
	vial_request_unref(request);
}

void vial_api_usage(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	const char *format = vial_request_query(request, "format");
	g_autoptr(GError) error = NULL;

	if (format && strcmp(format, "json") != 0 && strcmp(format, "csv") != 0)
		vial_fail(&error, VIAL_ERROR_INVALID, "field \"format\" must be json or csv");
	vial_surface_begun(request,
	                   !error && vial_op_usage_read(&caller, vial_request_param(request, "project"), vial_request_query(request, "from"),
	                                                vial_request_query(request, "to"), vial_request_query(request, "group_by"), on_usage, request,
	                                                &error),
	                   &error);
}
