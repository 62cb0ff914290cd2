/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports inside a sandbox: ANY …/ports/{port}/{path}, the hosts {port}-{id}.DOMAIN, and addresses of the latter that a browser
 * can open. proxy.c does the work; here it is decided who may and what the program shall see.
 */
#include <string.h>

#include "http/websocket_handshake.h"
#include "operations/limits.h"
#include "operations/tunnel.h"
#include "surfaces/native/handlers.h"
#include "surfaces/shared/surface.h"
#include "surfaces/shared/preview.h"
#include "surfaces/shared/proxy.h"
#include "util/json.h"
#include "util/time.h"

/* /v1/sandboxes/{id}/ports/{port} */
#define PREFIX_SEGMENTS 5

static gboolean read_port(VialRequest *request, unsigned *out_port)
{
	guint64 port;

	if (!g_ascii_string_to_unsigned(vial_request_param(request, "port"), 10, 1, 65535, &port, NULL)) {
		vial_request_reply_fail(request, VIAL_ERROR_INVALID, "the port must be a number between 1 and 65535");
		return FALSE;
	}
	*out_port = (unsigned)port;
	return TRUE;
}

static gboolean is_upgrade(VialRequest *request)
{
	return vial_request_body_size(request) == 0 && vial_websocket_is_asked_for(request);
}

static char *join_query(const char *path, const char *query)
{
	return g_strconcat(*path ? path : "/", *query ? "?" : "", query, NULL);
}

static void start(VialRequest *request, const VialCaller *caller, unsigned port, char *path, char *prefix)
{
	VialProxyTarget target = {
		.port = port, .path = path, .prefix = prefix, .is_upgrade = is_upgrade(request), .is_https = *caller->app->config->tls_cert != '\0'
	};

	vial_proxy_start(request, caller, &target);
}

void vial_api_port_proxy(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	const char *path = vial_request_path(request), *inner = path;
	unsigned port;

	if (!read_port(request, &port))
		return;
	for (int i = 0; i < PREFIX_SEGMENTS; i++)
		inner = inner + 1 + strcspn(inner + 1, "/");
	start(request, &caller, port, join_query(inner, vial_request_query_string(request)), g_strndup(path, (gsize)(inner - path)));
}

void vial_api_port_preview(VialRequest *request)
{
	VialPreview preview;
	unsigned port;

	if (!read_port(request, &port) || !vial_preview_admit(request, port, is_upgrade(request), &preview))
		return;
	start(request, &preview.caller, port, join_query(vial_request_path(request), preview.query), g_strdup(""));
	vial_preview_clear(&preview);
}

/* "http://3000-{id}.localhost:7070": scheme and port are those of the server, the name is the operator's choice. */
static char *preview_url(const VialFront *native, const char *id, gint64 port)
{
	const VialConfig *config = native->app->config;
	const char *url = vial_server_url(native->server), *colon = strrchr(url, ':');
	gboolean has_port = colon && colon > url + 5 && !strchr(colon, ']') && !g_str_has_prefix(url, "unix:");

	/* A domain that says its own port means the proxy in front of us. */
	if (strchr(config->preview_domain, ':'))
		has_port = FALSE;
	return g_strdup_printf("%s://%d-%s.%s%s", g_str_has_prefix(url, "https:") ? "https" : "http", (int)port, id, config->preview_domain,
	                       has_port ? colon : "");
}

void vial_api_preview_create(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	const json_t *body = vial_request_json(request);
	const char *id = vial_surface_sandbox(request);
	gint64 port = VIAL_UNSAID, ttl_seconds = VIAL_UNSAID, expires_at_ms;
	g_autofree char *token = NULL, *url = NULL, *expires_at = NULL;
	GError *error = NULL;

	if (!vial_decode_int(body, "port", &port, &error) || !vial_decode_int(body, "ttl_seconds", &ttl_seconds, &error) ||
	    !(token = vial_op_preview_create(&caller, id, port, ttl_seconds, &expires_at_ms, &error)))
		return vial_request_reply_error(request, error);
	url = preview_url(vial_request_app(request), id, port);
	expires_at = vial_time_format(expires_at_ms);
	vial_request_set_header(request, "Cache-Control", "no-store");
	vial_request_reply_json(request, 201,
	                        json_pack("{s:I, s:o, s:s, s:s}", "port", (json_int_t)port, "url",
	                                  json_sprintf("%s/?" VIAL_PREVIEW_PARAMETER "=%s", url, token), "token", token, "expires_at", expires_at));
}
