/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/shared/preview.h"

#include <string.h>

#include "operations/tunnel.h"
#include "util/time.h"

char *vial_preview_split_query(const char *query, char **out_rest)
{
	g_auto(GStrv) items = g_strsplit(query, "&", -1);
	GString *rest = g_string_new(NULL);
	char *token = NULL;
	gboolean is_first = TRUE;

	for (char **item = items; *item; item++) {
		if (g_str_has_prefix(*item, VIAL_PREVIEW_PARAMETER "=")) {
			g_free(token);
			token = g_strdup(*item + strlen(VIAL_PREVIEW_PARAMETER "="));
			continue;
		}
		if (!is_first)
			g_string_append_c(rest, '&');
		g_string_append(rest, *item);
		is_first = FALSE;
	}
	*out_rest = g_string_free(rest, FALSE);
	return token;
}

gboolean vial_preview_is_cookie(const char *pair)
{
	return g_str_has_prefix(pair, VIAL_PREVIEW_COOKIE "=");
}

/* Without the port that goes without saying. */
static gsize authority_length(const char *authority, gboolean is_https)
{
	const char *usual = is_https ? ":443" : ":80";

	return strlen(authority) - (g_str_has_suffix(authority, usual) ? strlen(usual) : 0);
}

gboolean vial_preview_is_same_origin(const VialRequest *request)
{
	const char *origin = vial_request_header(request, "Origin"), *host = vial_request_header(request, "Host");
	gboolean is_https;
	gsize length;

	if (!origin || !host || !(g_str_has_prefix(origin, "http://") || g_str_has_prefix(origin, "https://")))
		return FALSE;
	is_https = origin[4] == 's';
	origin += is_https ? 8 : 7;
	length = authority_length(origin, is_https);
	return length == authority_length(host, is_https) && g_ascii_strncasecmp(origin, host, length) == 0;
}

/* Admission */

typedef struct {
	VialApp *app;
	const char *id;
	unsigned port;
	gboolean is_found;
	VialPreviewGrant grant;
} CookieSearch;

/* A neighbouring preview host can set cookies for the whole domain: one bad cookie of our name must not hide a good one. */
static void try_cookies(const char *name, const char *value, gpointer data)
{
	CookieSearch *search = data;
	g_auto(GStrv) items = NULL;

	if (search->is_found || g_ascii_strcasecmp(name, "Cookie") != 0)
		return;
	items = g_strsplit(value, ";", -1);
	for (char **item = items; *item && !search->is_found; item++)
		if (vial_preview_is_cookie(g_strstrip(*item)))
			search->is_found =
				vial_op_preview_check(search->app, *item + strlen(VIAL_PREVIEW_COOKIE "="), search->id, search->port, &search->grant);
}

static gboolean has_cookie(VialRequest *request, VialApp *app, const char *id, unsigned port, VialPreviewGrant *out)
{
	CookieSearch search = { .app = app, .id = id, .port = port };

	vial_request_each_header(request, try_cookies, &search);
	*out = search.grant;
	return search.is_found;
}

/* The same address without the token, which then is neither in the history nor in a Referer, and a cookie instead of it. */
static void exchange_token(VialRequest *request, const char *token, gint64 expires_at_ms, const char *rest)
{
	VialApp *app = vial_surface_app(request);
	const char *path = vial_request_path(request);
	const char *outer_proto = vial_request_header(request, "X-Forwarded-Proto");
	gboolean is_https = *app->config->tls_cert || (outer_proto && strcmp(outer_proto, "https") == 0);
	/* "//host" and "/\host" in a Location would lead to another host. */
	const char *guard = path[1] == '/' || path[1] == '\\' ? "/." : "";
	g_autofree char *location = g_strdup_printf("%s%s%s%s", guard, path, *rest ? "?" : "", rest);
	g_autofree char *cookie = g_strdup_printf(VIAL_PREVIEW_COOKIE "=%s; Path=/; HttpOnly; SameSite=Lax; Max-Age=%" G_GINT64_FORMAT "%s", token,
	                                          (expires_at_ms - vial_time_now_ms()) / 1000, is_https ? "; Secure" : "");

	vial_request_set_header(request, "Set-Cookie", cookie);
	vial_request_set_header(request, "Location", location);
	vial_request_set_header(request, "Cache-Control", "no-store");
	vial_request_set_header(request, "Referrer-Policy", "no-referrer");
	vial_request_reply_empty(request, 303);
}

static gboolean refuse(VialRequest *request, VialErrorCode code, const char *why)
{
	vial_request_reply_fail(request, code, "%s", why);
	return FALSE;
}

/* Hosts of one domain are "same site" to a browser: it would send this cookie for a page of another sandbox, too. */
static gboolean is_foreign_page(const VialRequest *request)
{
	return vial_request_header(request, "Origin") && !vial_preview_is_same_origin(request);
}

gboolean vial_preview_admit(VialRequest *request, unsigned port, gboolean is_upgrade, VialPreview *out)
{
	VialApp *app = vial_surface_app(request);
	const char *id = vial_surface_sandbox(request), *key = vial_request_key(request), *method = vial_request_method(request);
	gboolean is_navigation = !is_upgrade && (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0);
	g_autoptr(VialIdentity) identity = key ? vial_surface_identify(request, key, NULL) : NULL;
	g_autofree char *rest = NULL;
	g_autofree char *token = vial_preview_split_query(vial_request_query_string(request), &rest);
	VialCaller bearer = vial_surface_caller(request);
	VialPreviewGrant grant = { 0 };
	GError *error = NULL;

	bearer.granted_sandbox = id;
	if (!identity && token && vial_op_preview_check(app, token, id, port, &grant)) {
		bearer.principal = grant.principal;
		if (is_navigation && vial_operation_admit(&bearer, VIAL_VERB_TUNNEL, id, 0, NULL, &error))
			exchange_token(request, token, grant.expires_at_ms, rest);
		else if (is_navigation)
			vial_request_reply_error(request, error);
		if (is_navigation)
			return FALSE;
	} else if (!identity) {
		if (!has_cookie(request, app, id, port, &grant))
			return refuse(request, VIAL_ERROR_UNAUTHORIZED,
			              "this preview needs a key or a token: POST /v1/sandboxes/{id}/previews makes an address with one");
		if (is_foreign_page(request))
			return refuse(request, VIAL_ERROR_FORBIDDEN, "pages of other origins may not use this preview");
	}
	if (!identity && grant.principal)
		identity = vial_identity_ref((VialIdentity *)grant.principal);
	*out = (VialPreview){ .caller = bearer, .identity = g_steal_pointer(&identity), .query = g_steal_pointer(&rest) };
	out->caller.principal = out->identity;
	/* What was opened by a key, or by a preview that a key made, is cut when that key ends. */
	vial_request_set_identity(request, out->identity);
	return TRUE;
}

void vial_preview_clear(VialPreview *preview)
{
	vial_identity_unref(preview->identity);
	g_free(preview->query);
}
