/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a request from complete headers to its handler: judge the headers, find the route, authenticate, deal with
 * the body, call. internal.h has the stages.
 */
#include <string.h>

#include "http/internal.h"

static gboolean is_method(const char *text)
{
	gsize length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_");

	return length > 0 && length <= 32 && text[length] == '\0';
}

static gboolean split_target(VialRequest *request, GError **error)
{
	if (request->target[0] != '/')
		return vial_fail(error, VIAL_ERROR_INVALID, "the request target must be a path that starts with /");
	for (const char *c = request->target; *c; c++)
		if ((guchar)*c <= 0x20 || *c == 0x7f)
			return vial_fail(error, VIAL_ERROR_INVALID, "the request target has a control character in it");
	char *query = strchr(request->target, '?');
	if (query)
		*query++ = '\0';
	request->path = request->target;
	request->query_string = query ? query : "";
	return TRUE;
}

static gboolean find_route(VialRequest *request, GError **error)
{
	VialServer *server = request->server;
	VialRouteMatch match;

	if (server->config.host_route && vial_headers_match_preview_host(request)) {
		request->route = server->config.host_route;
		return TRUE;
	}
	vial_router_match(server->router, &request->arena, request->method, request->path, &match);
	if (match.is_malformed)
		return vial_fail(error, VIAL_ERROR_INVALID, "the path is not valid: escapes must be %%XX, the text UTF-8 without NUL");
	if (!match.path_exists)
		return vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is nothing at this path");
	if (!match.route) {
		vial_request_set_header(request, "Allow", match.allow);
		return vial_fail(error, VIAL_ERROR_METHOD, "this path does not take %s; it takes %s", request->method, match.allow);
	}
	request->route = match.route;
	request->n_params = match.n_params;
	memcpy(request->param_names, match.names, sizeof(match.names));
	memcpy(request->param_values, match.values, sizeof(match.values));
	return TRUE;
}

static gboolean authenticate(VialRequest *request, GError **error)
{
	VialServer *server = request->server;
	const char *key;

	if (request->route->flags & VIAL_ROUTE_PUBLIC)
		return TRUE;
	key = vial_headers_key(request);
	if (!key)
		return vial_fail(error, VIAL_ERROR_UNAUTHORIZED, "a key is needed: send it as \"Authorization: Bearer <key>\"");
	request->identity = server->config.authenticate(key, server->config.auth_data);
	if (!request->identity)
		return vial_fail(error, VIAL_ERROR_UNAUTHORIZED, "this key is not known here");
	return TRUE;
}

static gboolean check_body_size(VialRequest *request, GError **error)
{
	if (request->route->flags & VIAL_ROUTE_STREAM_BODY)
		return TRUE;
	request->body_limit = request->route->body_limit_bytes ? request->route->body_limit_bytes : VIAL_HTTP_JSON_BODY_LIMIT_BYTES;
	if (request->body_size > 0 && (guint64)request->body_size > request->body_limit)
		return vial_fail(error, VIAL_ERROR_TOO_LARGE, "the body is too large: at most %" G_GSIZE_FORMAT " bytes here", request->body_limit);
	return TRUE;
}

/* The judgement, in the order in which an error tells the client most and a stranger least. */
static gboolean admit(VialRequest *request, const char *method, const char *version, GError **error)
{
	request->method = vial_arena_copy(&request->arena, method, strlen(method));
	request->is_head = strcmp(method, "HEAD") == 0;
	gboolean is_sound = vial_headers_load(request, method, version, error);
	vial_request_set_id(request);
	if (is_sound && !is_method(method))
		is_sound = vial_fail(error, VIAL_ERROR_INVALID, "the method is not valid");
	if (!is_sound || !split_target(request, error)) {
		request->must_close = TRUE;
		return FALSE;
	}
	if (!vial_host_check(request, error) || !find_route(request, error))
		return FALSE;
	if (request->route->flags & VIAL_ROUTE_ANY_METHOD) /* proxied: origin and query are the inner program's business */
		return authenticate(request, error);
	return vial_origin_check(request, error) && authenticate(request, error) &&
	       vial_query_parse(&request->arena, request->query_string, &request->query, &request->n_query, error) && check_body_size(request, error);
}

static gboolean wants_body(const VialRequest *request)
{
	return request->on_data && !(request->is_answered && !request->stream.is_open);
}

/*
 * The headers are dealt with; on to the body. An answer that is ready already waits until the body has been read and
 * discarded, so that the connection can be used again, unless the body is too much or the client waits for our word.
 */
static enum MHD_Result proceed_to_body(VialRequest *request)
{
	if (request->is_answered && !wants_body(request) &&
	    (request->must_close || request->expects_continue || request->body_size > VIAL_HTTP_DISCARD_LIMIT_BYTES))
		return vial_reply_queue(request);
	request->stage = STAGE_BODY;
	/* A streamed body may take as long as it likes while it moves; libmicrohttpd's idle timeout sees to that. */
	vial_connection_set_deadline(request->connection, wants_body(request) ? 0 : request->server->config.body_timeout_ms);
	return MHD_YES;
}

enum MHD_Result vial_dispatch_headers(VialRequest *request, const char *method, const char *version)
{
	g_autoptr(GError) error = NULL;

	vial_connection_set_deadline(request->connection, 0);
	gboolean is_admitted = admit(request, method, version, &error);
	vial_shed_note_request(request->connection, request->identity != NULL);
	if (!is_admitted) {
		if (!request->must_close && vial_origin_is_preflight(request))
			vial_origin_reply_preflight(request);
		else
			vial_request_reply_error(request, g_steal_pointer(&error));
		return proceed_to_body(request);
	}
	if (request->route->flags & VIAL_ROUTE_STREAM_BODY) {
		request->route->handler(request);
		if (request->has_body && !request->is_answered && !request->on_data) {
			request->stage = STAGE_HELD;
			vial_connection_suspend(request->connection);
			return MHD_YES;
		}
	}
	return proceed_to_body(request);
}

enum MHD_Result vial_dispatch_held(VialRequest *request)
{
	return proceed_to_body(request);
}

static void call_handler(VialRequest *request)
{
	GError *error = NULL;

	if (vial_body_finish(request, &error))
		request->route->handler(request);
	else
		vial_request_reply_error(request, error);
}

enum MHD_Result vial_dispatch_complete(VialRequest *request)
{
	gboolean is_first = request->stage == STAGE_BODY;

	if (is_first) {
		request->stage = STAGE_HANDLING;
		vial_connection_set_deadline(request->connection, 0);
	}
	if (wants_body(request))
		vial_body_end(request, TRUE);
	else if (is_first && !request->is_answered && !(request->route->flags & VIAL_ROUTE_STREAM_BODY))
		call_handler(request);
	if (request->is_answered)
		return vial_reply_queue(request);
	vial_connection_suspend(request->connection);
	return MHD_YES;
}
