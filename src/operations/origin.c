/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/origin.h"

#include "util/error.h"
#include "util/json.h"

static const char *const names[] = { "model", "provider", "response_id", "tool_call_id", "user", NULL };

gboolean vial_origin_check_call(const json_t *json, GError **error)
{
	const char *name, *text;
	json_t *value;

	if (!json || json_is_null(json))
		return TRUE;
	if (!json_is_object(json))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"origin\" must be an object");
	json_object_foreach ((json_t *)json, name, value) {
		if (!g_strv_contains(names, name))
			return vial_fail(error, VIAL_ERROR_INVALID,
			                 "field \"origin.%.64s\" is not known: model, provider, response_id, tool_call_id and user are", name);
		if (!vial_json_get_string(json, name, VIAL_JSON_OPTIONAL, VIAL_ORIGIN_MAX_BYTES, &text, error)) {
			g_prefix_error(error, "origin: ");
			return FALSE;
		}
	}
	return TRUE;
}
