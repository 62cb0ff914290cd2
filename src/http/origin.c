/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Browsers: a page of another origin may not change anything here unless its origin is configured, and may not read
 * answers (CORS). Programs send no Origin and are not concerned. This is a second wall; the first is the key.
 */
#include <string.h>

#include "http/internal.h"

#define ALLOWED_METHODS "GET, HEAD, POST, PUT, PATCH, DELETE"
#define ALLOWED_HEADERS "Authorization, X-API-Key, Content-Type, X-Request-Id, Traceparent, X-Vial-Origin, X-Vial-Project"
#define PREFLIGHT_SECONDS "600"

static gboolean is_configured(const VialRequest *request)
{
	for (char **allowed = request->server->allowed_origins; allowed && *allowed; allowed++)
		if (strcmp(*allowed, "*") == 0 || g_ascii_strcasecmp(*allowed, request->origin) == 0)
			return TRUE;
	return FALSE;
}

/* The length of "host:port" without a port that is the scheme's default. */
static gsize authority_length(const char *authority, gboolean is_https)
{
	const char *suffix = is_https ? ":443" : ":80";

	return strlen(authority) - (g_str_has_suffix(authority, suffix) ? strlen(suffix) : 0);
}

static gboolean is_same_host(const VialRequest *request)
{
	gboolean is_https = g_ascii_strncasecmp(request->origin, "https://", 8) == 0;
	const char *authority;

	if (is_https)
		authority = request->origin + 8;
	else if (g_ascii_strncasecmp(request->origin, "http://", 7) == 0)
		authority = request->origin + 7;
	else
		return FALSE; /* "null", extensions, files */
	gsize length = authority_length(authority, is_https);
	return request->host && length == authority_length(request->host, is_https) && g_ascii_strncasecmp(authority, request->host, length) == 0;
}

static gboolean changes_state(const VialRequest *request)
{
	/* A WebSocket is opened by a GET that no browser restricts to the same origin. */
	if (vial_headers_find(request, "Upgrade"))
		return TRUE;
	return strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0 && strcmp(request->method, "OPTIONS") != 0;
}

gboolean vial_origin_check(VialRequest *request, GError **error)
{
	if (!request->origin || !changes_state(request) || is_configured(request) || is_same_host(request))
		return TRUE;
	return vial_fail(error, VIAL_ERROR_FORBIDDEN, "requests from pages of this origin are not allowed; add it to cors_origins if they should be");
}

void vial_origin_add_headers(VialRequest *request, struct MHD_Response *response)
{
	if (!request->origin || !request->server->allowed_origins || !is_configured(request))
		return;
	MHD_add_response_header(response, "Access-Control-Allow-Origin", request->origin);
	MHD_add_response_header(response, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After, Should-Retry");
	MHD_add_response_header(response, "Vary", "Origin");
}

gboolean vial_origin_is_preflight(const VialRequest *request)
{
	return strcmp(request->method, "OPTIONS") == 0 && request->origin && vial_headers_find(request, "Access-Control-Request-Method");
}

void vial_origin_reply_preflight(VialRequest *request)
{
	if (is_configured(request)) {
		vial_request_set_header(request, "Access-Control-Allow-Methods", ALLOWED_METHODS);
		vial_request_set_header(request, "Access-Control-Allow-Headers", ALLOWED_HEADERS);
		vial_request_set_header(request, "Access-Control-Max-Age", PREFLIGHT_SECONDS);
	}
	vial_request_reply_empty(request, MHD_HTTP_NO_CONTENT);
}
