/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that are complete when given. An answer is first made and kept in the request, then handed to libmicrohttpd in
 * its next call for this connection: at once if we are inside one, else after a resume; but not before commit.c lets it.
 */
#include <string.h>

#include "http/internal.h"
#include "util/json.h"
#include "util/log.h"

void vial_request_set_header(VialRequest *request, const char *name, const char *value)
{
	VialPair pair = {
		.name = vial_arena_copy(&request->arena, name, strlen(name)),
		.value = vial_arena_copy(&request->arena, value, strlen(value)),
	};

	if (!request->reply_headers)
		request->reply_headers = g_array_sized_new(FALSE, FALSE, sizeof(VialPair), 8);
	g_array_append_val(request->reply_headers, pair);
}

static void add_headers(VialRequest *request, const char *content_type, struct MHD_Response *response)
{
	if (content_type)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
	if (request->id[0])
		MHD_add_response_header(response, "X-Request-Id", request->id);
	for (guint i = 0; request->reply_headers && i < request->reply_headers->len; i++) {
		const VialPair *pair = &g_array_index(request->reply_headers, VialPair, i);
		/* Refused when it would break the framing: line ends in a value, a Content-Length of its own. */
		if (MHD_add_response_header(response, pair->name, pair->value) != MHD_YES)
			vial_log_debug("http", "a response header was left out", "request_id", request->id, "name", pair->name);
	}
	if (!request->route || !(request->route->flags & VIAL_ROUTE_ANY_METHOD))
		vial_origin_add_headers(request, response);
}

void vial_reply_set(VialRequest *request, unsigned status, const char *content_type, struct MHD_Response *response)
{
	gboolean was_answered = request->is_answered;

	request->is_answered = TRUE;
	if (was_answered || request->is_gone || !request->connection || !response) {
		if (was_answered)
			vial_log_error("http", "a request was answered twice", "request_id", request->id, "path", request->path);
		g_clear_pointer(&response, MHD_destroy_response);
		return;
	}
	add_headers(request, content_type, response);
	request->response = response;
	request->status = status;
	/* Whoever gave a complete answer is finished with this request; no callback may reach it any more. */
	if (!request->stream.is_open && !request->upgrade_ready) {
		request->gone = NULL;
		if (request->stage == STAGE_BODY)
			vial_connection_set_deadline(request->connection, request->server->config.body_timeout_ms);
	}
	vial_commit_mark(request, VIAL_COMMIT_HEAD);
	vial_reply_wake(request);
}

void vial_reply_wake(VialRequest *request)
{
	if (vial_commit_limit(request) == VIAL_COMMIT_HEAD)
		return;
	/* A streamed answer leaves a paused body paused: the handler still decides about it. */
	if (!(request->stream.is_open && request->stage == STAGE_BODY))
		vial_connection_resume(request->connection);
}

enum MHD_Result vial_reply_queue(VialRequest *request)
{
	if (!request->response)
		return MHD_NO;
	if (vial_commit_limit(request) == VIAL_COMMIT_HEAD) {
		vial_connection_suspend(request->connection);
		return MHD_YES;
	}
	struct MHD_Response *response = g_steal_pointer(&request->response);
	request->stage = STAGE_ANSWERING;
	vial_connection_set_deadline(request->connection, 0);
	enum MHD_Result result = MHD_queue_response(request->connection->mhd, request->status, response);
	MHD_destroy_response(response);
	return result;
}

void vial_request_reply_json(VialRequest *request, unsigned status, json_t *body)
{
	char *text = vial_json_dump(body);

	json_decref(body);
	vial_reply_set(request, status, "application/json", MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE));
}

void vial_request_reply_empty(VialRequest *request, unsigned status)
{
	vial_reply_set(request, status, NULL, MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT));
}

void vial_request_reply_bytes(VialRequest *request, unsigned status, const char *content_type, GBytes *body)
{
	gsize size;
	gpointer data = g_bytes_unref_to_data(body, &size);

	/* Bytes of a sandbox must not be guessed to be a page by a browser. */
	vial_request_set_header(request, "X-Content-Type-Options", "nosniff");
	vial_reply_set(request, status, content_type, MHD_create_response_from_buffer_with_free_callback(size, data, g_free));
}

/* The sentence goes by two names, because client libraries of other services look for "message". */
json_t *vial_reply_error_body(const VialRequest *request, unsigned status, const char *type, const char *sentence)
{
	return json_pack("{s:i, s:s, s:s, s:s, s:s}", "code", (int)status, "error", sentence, "message", sentence, "type", type, "request_id",
	                 request->id);
}

/*
 * Client libraries repeat a 429 and most of what is 5xx by themselves. But a limit that is reached stays reached until somebody frees something, and
 * what failed half-way may have been done: so they are told not to, each in its own words, unless the error says when asking again helps. It says so
 * only where nothing was done (util/error.h).
 */
static void add_retry_headers(VialRequest *request, unsigned status, const json_t *detail)
{
	const json_t *retry_after = json_object_get(detail, "retry_after");

	if ((status == 429 || status == 503) && json_is_integer(retry_after)) {
		g_autofree char *seconds = g_strdup_printf("%" JSON_INTEGER_FORMAT, MAX(json_integer_value(retry_after), 0));
		vial_request_set_header(request, "Retry-After", seconds);
	} else if (status == 429 || status >= 500) {
		vial_request_set_header(request, "Should-Retry", "false");
		vial_request_set_header(request, "x-should-retry", "false");
	}
}

void vial_request_reply_error(VialRequest *request, GError *error)
{
	g_autoptr(GError) owned = error;
	unsigned status = vial_error_http_status(error);
	const json_t *detail = vial_error_detail(error);

	if (status == 500)
		vial_log_error("http", "a request failed", "request_id", request->id, "trace_id", vial_request_trace_id(request), "path",
		               request->path, "error", error->message);
	if (status == 401)
		vial_request_set_header(request, "WWW-Authenticate", "Bearer realm=\"vial\"");
	add_retry_headers(request, status, detail);
	g_autofree char *sentence = g_utf8_make_valid(error->message, -1);
	if (request->table && request->table->error_body)
		return vial_request_reply_json(request, status, request->table->error_body(request, status, error));
	json_t *body = vial_reply_error_body(request, status, vial_error_type(error), sentence);
	if (detail)
		json_object_set(body, "detail", (json_t *)detail);
	vial_request_reply_json(request, status, body);
}

void vial_request_reply_fail(VialRequest *request, VialErrorCode code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	GError *error = g_error_new_valist(VIAL_ERROR, (int)code, format, args);
	va_end(args);
	vial_request_reply_error(request, error);
}
