/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a request from complete headers to its handler: judge the headers, find the route, authenticate, deal with
 * the body, call. internal.h has the stages.
 */
#include <string.h>

#include "http/internal.h"
#include "util/log.h"

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

/* NULL: no surface claims it. */
static const VialRouter *claimed_router(VialRequest *request)
{
	guint n = 0;

	for (const VialRouteTable *const *table = request->server->tables; *table; table++) {
		if (!(*table)->claims)
			continue;
		if ((*table)->claims(request)) {
			request->table = *table; /* what is at no path of its is an error in its words */
			return request->server->claimed->pdata[n];
		}
		n++;
	}
	return NULL;
}

static gboolean find_route(VialRequest *request, GError **error)
{
	VialServer *server = request->server;
	const VialRouter *router = claimed_router(request);
	VialRouteMatch match;

	if (!router && server->config.host_route && vial_headers_match_preview_host(request)) {
		request->route = server->config.host_route;
		return TRUE;
	}
	vial_router_match(router ? router : server->router, &request->arena, request->method, request->path, &match);
	if (match.is_malformed)
		return vial_fail(error, VIAL_ERROR_INVALID, "the path is not valid: escapes must be %%XX, the text UTF-8 without NUL");
	if (!match.path_exists)
		return vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is nothing at this path");
	if (!match.route) {
		vial_request_set_header(request, "Allow", match.allow);
		return vial_fail(error, VIAL_ERROR_METHOD, "this path does not take %s; it takes %s", request->method, match.allow);
	}
	request->route = match.route;
	request->table = match.table;
	request->n_params = match.n_params;
	memcpy(request->param_names, match.names, sizeof(match.names));
	memcpy(request->param_values, match.values, sizeof(match.values));
	return TRUE;
}

/* A broken query has no key in it; what is wrong with it is said later, to whoever may be told. */
static const char *query_key(VialRequest *request)
{
	VialPair *pairs;
	gsize count;

	if (!(request->route->flags & VIAL_ROUTE_QUERY_KEY) || !vial_query_parse(&request->arena, request->query_string, &pairs, &count, NULL))
		return NULL;
	for (gsize i = 0; i < count; i++)
		if (strcmp(pairs[i].name, "authorization") == 0)
			return vial_headers_bearer(pairs[i].value);
	return NULL;
}

static void authenticate(VialRequest *request)
{
	VialServer *server = request->server;
	const char *in_headers = vial_headers_key(request), *key = in_headers ? in_headers : query_key(request);

	request->stage = STAGE_AUTHENTICATING;
	if (request->route->flags & VIAL_ROUTE_PUBLIC)
		request->is_auth_answered = TRUE;
	else if (key)
		server->config.authenticate(request, key, server->config.auth_data);
	else
		vial_request_authenticated(
			request, NULL,
			g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAUTHORIZED, "a key is needed: send it as \"Authorization: Bearer <key>\""));
}

void vial_request_authenticated(VialRequest *request, VialIdentity *identity, GError *error)
{
	g_autoptr(VialIdentity) owned = identity;
	g_autoptr(GError) refusal = error;

	if (request->is_auth_answered) {
		vial_log_error("http", "a request was authenticated twice", "request_id", request->id, "path", request->path);
		return;
	}
	request->is_auth_answered = TRUE;
	if (request->is_gone || !request->connection)
		return;
	if (!identity && !refusal)
		vial_fail(&refusal, VIAL_ERROR_UNAUTHORIZED, "this key is not known here");
	request->refusal = g_steal_pointer(&refusal);
	if (!request->refusal)
		request->identity = g_steal_pointer(&owned);
	request->gone = NULL; /* whoever was asked has answered; from here on it is the handler's */
	vial_connection_resume(request->connection);
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

/* Proxied: origin and query are the inner program's business. */
static gboolean is_proxied(const VialRequest *request)
{
	return request->route->flags & VIAL_ROUTE_ANY_METHOD;
}

/*
 * The judgement, in the order in which an error tells the client most and a stranger least. It has two halves: this one needs
 * nothing but the request, and admit() comes when it is known whose it is.
 */
static gboolean judge(VialRequest *request, const char *method, const char *version, GError **error)
{
	request->method = vial_arena_copy(&request->arena, method, strlen(method));
	request->is_head = strcmp(method, "HEAD") == 0;
	gboolean is_sound = vial_headers_load(request, method, version, error);
	vial_request_set_id(request);
	vial_request_set_trace(request);
	if (is_sound && !is_method(method))
		is_sound = vial_fail(error, VIAL_ERROR_INVALID, "the method is not valid");
	if (!is_sound || !split_target(request, error)) {
		request->must_close = TRUE;
		return FALSE;
	}
	return vial_host_check(request, error) && find_route(request, error) && (is_proxied(request) || vial_origin_check(request, error));
}

static gboolean admit(VialRequest *request, GError **error)
{
	if (request->refusal) {
		g_propagate_error(error, g_steal_pointer(&request->refusal));
		return FALSE;
	}
	if (is_proxied(request))
		return TRUE;
	return vial_query_parse(&request->arena, request->query_string, &request->query, &request->n_query, error) && check_body_size(request, error);
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
	    (request->must_close || request->expects_continue || request->body_size > VIAL_HTTP_DISCARD_LIMIT_BYTES)) {
		request->stage = STAGE_HELD; /* if it may not leave yet, the next call comes back here */
		return vial_reply_queue(request);
	}
	request->stage = STAGE_BODY;
	/* A streamed body may take as long as it likes while it moves; libmicrohttpd's idle timeout sees to that. */
	vial_connection_set_deadline(request->connection, wants_body(request) ? 0 : request->server->config.body_timeout_ms);
	return MHD_YES;
}

static enum MHD_Result refuse(VialRequest *request, GError *error)
{
	vial_shed_note_request(request->connection, request->identity != NULL);
	if (!request->must_close && vial_origin_is_preflight(request)) {
		g_error_free(error);
		vial_origin_reply_preflight(request);
	} else {
		vial_request_reply_error(request, error);
	}
	return proceed_to_body(request);
}

enum MHD_Result vial_dispatch_headers(VialRequest *request, const char *method, const char *version)
{
	GError *error = NULL;

	vial_connection_set_deadline(request->connection, 0);
	if (!judge(request, method, version, &error))
		return refuse(request, error);
	authenticate(request);
	return vial_dispatch_authenticated(request);
}

/* What a stranger sends is not kept in memory before somebody has looked who he is. */
static gboolean takes_body(VialRequest *request)
{
	gboolean is_asked = request->has_body && request->table && request->table->takes_body && (request->route->flags & VIAL_ROUTE_PUBLIC) &&
	                    !(request->route->flags & VIAL_ROUTE_STREAM_BODY);

	return !is_asked || request->table->takes_body(request);
}

enum MHD_Result vial_dispatch_authenticated(VialRequest *request)
{
	GError *error = NULL;

	if (!request->is_auth_answered) {
		vial_shed_note_question(request->connection);
		vial_connection_suspend(request->connection);
		return MHD_YES;
	}
	if (!admit(request, &error))
		return refuse(request, error);
	if (!takes_body(request)) {
		vial_shed_note_request(request->connection, FALSE);
		return proceed_to_body(request);
	}
	vial_shed_note_request(request->connection, request->identity != NULL);
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
