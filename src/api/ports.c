/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports inside a sandbox: ANY …/ports/{port}/{path}, the hosts {port}-{id}.DOMAIN, and addresses of the latter that a browser
 * can open. proxy.c does the work; here it is decided who may and what the program shall see.
 */
#include <string.h>

#include "api/guest.h"
#include "api/handlers.h"
#include "api/preview.h"
#include "api/proxy.h"
#include "http/server.h"
#include "http/websocket_handshake.h"
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

static void start(VialRequest *request, VialSandbox *sandbox, unsigned port, char *path, char *prefix)
{
	VialApp *app = vial_request_app(request);
	VialProxyTarget target = {
		.port = port, .path = path, .prefix = prefix, .is_upgrade = is_upgrade(request), .is_https = *app->config->tls_cert != '\0'
	};

	vial_proxy_start(request, sandbox, &target);
}

void vial_api_port_proxy(VialRequest *request)
{
	const char *path = vial_request_path(request), *inner = path;
	VialSandbox *sandbox;
	unsigned port;

	if (!read_port(request, &port) || !(sandbox = vial_guest_sandbox(request)))
		return;
	for (int i = 0; i < PREFIX_SEGMENTS; i++)
		inner = inner + 1 + strcspn(inner + 1, "/");
	start(request, sandbox, port, join_query(inner, vial_request_query_string(request)), g_strndup(path, (gsize)(inner - path)));
}

void vial_api_port_preview(VialRequest *request)
{
	g_autofree char *query = NULL;
	VialSandbox *sandbox;
	unsigned port;

	if (!read_port(request, &port) || !(sandbox = vial_preview_admit(request, port, is_upgrade(request), &query)))
		return;
	start(request, sandbox, port, join_query(vial_request_path(request), query), g_strdup(""));
}

/* "http://3000-{id}.localhost:7070": scheme and port are those of the server, the name is the operator's choice. */
static char *preview_url(VialApp *app, const char *id, unsigned port)
{
	const char *url = vial_server_url(app->server), *colon = strrchr(url, ':');
	gboolean has_port = colon && colon > url + 5 && !strchr(colon, ']') && !g_str_has_prefix(url, "unix:");

	/* A domain that says its own port means the proxy in front of us. */
	if (strchr(app->config->preview_domain, ':'))
		has_port = FALSE;
	return g_strdup_printf("%s://%u-%s.%s%s", g_str_has_prefix(url, "https:") ? "https" : "http", port, id, app->config->preview_domain,
	                       has_port ? colon : "");
}

void vial_api_preview_create(VialRequest *request)
{
	VialApp *app = vial_request_app(request);
	VialSandbox *sandbox = vial_guest_sandbox(request);
	g_autoptr(GError) error = NULL;
	g_autofree char *token = NULL, *url = NULL, *expires_at = NULL;
	gint64 port = 0, ttl_seconds = VIAL_PREVIEW_DEFAULT_TTL_SECONDS, expires_at_ms;

	if (!sandbox)
		return;
	if (!vial_json_get_int(vial_request_json(request), "port", VIAL_JSON_REQUIRED, 1, 65535, &port, &error) ||
	    !vial_json_get_int(vial_request_json(request), "ttl_seconds", 0, 1, VIAL_PREVIEW_MAX_TTL_SECONDS, &ttl_seconds, &error)) {
		vial_request_reply_error(request, g_steal_pointer(&error));
		return;
	}
	/* Whole seconds, which is all that a token says. */
	expires_at_ms = (vial_time_now_ms() / 1000 + ttl_seconds) * 1000;
	token = vial_preview_token_new(vial_keys_signing(app->keys), sandbox->id, (unsigned)port, expires_at_ms);
	url = preview_url(app, sandbox->id, (unsigned)port);
	expires_at = vial_time_format(expires_at_ms);
	vial_request_set_header(request, "Cache-Control", "no-store");
	vial_request_reply_json(request, 201,
	                        json_pack("{s:I, s:o, s:s, s:s}", "port", (json_int_t)port, "url",
	                                  json_sprintf("%s/?" VIAL_PREVIEW_PARAMETER "=%s", url, token), "token", token, "expires_at", expires_at));
}
