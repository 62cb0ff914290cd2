/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors in E2B's words: the SDKs look at `code` (JavaScript tells 404 and 409 by it) and `message` (Python raises KeyError without it), and at
 * `error_code` where one status has several meanings; that is the error's detail "error_code". The rest is the union of all dialects.
 */
#include "surfaces/e2b/control.h"
#include "util/json.h"

json_t *vial_e2b_error_body(const VialRequest *request, unsigned status, const GError *error)
{
	g_autofree char *sentence = g_utf8_make_valid(error->message, -1);
	const json_t *detail = vial_error_detail(error);
	json_t *body = json_pack("{s:i, s:s, s:s, s:s, s:s}", "code", (int)status, "message", sentence, "error", sentence, "type",
	                         vial_error_type(error), "request_id", vial_request_id(request));

	if (json_is_string(json_object_get(detail, "error_code")))
		json_object_set(body, "error_code", json_object_get(detail, "error_code"));
	if (detail)
		json_object_set(body, "detail", (json_t *)detail);
	return body;
}
