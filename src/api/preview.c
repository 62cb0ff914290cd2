/* SPDX-License-Identifier: Apache-2.0 */
#include "api/preview.h"

#include <string.h>

#include "service/app.h"
#include "util/time.h"

#define PURPOSE "preview"
#define MAX_TOKEN_BYTES 128

/* Tokens: "<expiry in seconds>.<signature>"; sandbox and port are signed but need not be said. */

static char *signed_text(const char *sandbox_id, unsigned port, gint64 expires_s)
{
	return g_strdup_printf("%s %u %" G_GINT64_FORMAT, sandbox_id, port, expires_s);
}

char *vial_preview_token_new(const VialSigning *signing, const char *sandbox_id, unsigned port, gint64 expires_at_ms)
{
	gint64 expires_s = expires_at_ms / 1000;
	g_autofree char *text = signed_text(sandbox_id, port, expires_s);
	g_autofree char *hex = NULL;
	guint8 signature[VIAL_SHA256_BYTES];

	vial_signing_sign(signing, PURPOSE, text, signature);
	hex = vial_hex_encode(signature, sizeof(signature));
	return g_strdup_printf("%" G_GINT64_FORMAT ".%s", expires_s, hex);
}

gboolean vial_preview_token_check(const VialSigning *signing, const char *token, const char *sandbox_id, unsigned port,
                                  gint64 now_ms, gint64 *out_expires_at_ms)
{
	const char *dot = strchr(token, '.');
	g_autofree char *number = NULL;
	g_autofree char *text = NULL;
	guint64 expires_s;

	if (!dot || strlen(token) > MAX_TOKEN_BYTES)
		return FALSE;
	number = g_strndup(token, (gsize)(dot - token));
	if (!g_ascii_string_to_unsigned(number, 10, 1, G_MAXINT64 / 1000, &expires_s, NULL))
		return FALSE;
	text = signed_text(sandbox_id, port, (gint64)expires_s);
	if (!vial_signing_check(signing, PURPOSE, text, dot + 1) || now_ms >= (gint64)expires_s * 1000)
		return FALSE;
	if (out_expires_at_ms)
		*out_expires_at_ms = (gint64)expires_s * 1000;
	return TRUE;
}

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
			        vial_preview_token_check(vial_keys_signing(search->app->keys), *item + strlen(VIAL_PREVIEW_COOKIE "="),
			                                 search->id, search->port, vial_time_now_ms(), NULL);
}

static gboolean has_cookie(VialRequest *request, VialApp *app, const char *id, unsigned port)
{
	CookieSearch search = { .app = app, .id = id, .port = port };

	vial_request_each_header(request, try_cookies, &search);
	return search.is_found;
}

/* The same address without the token, which then is neither in the history nor in a Referer, and a cookie instead of it. */
static void exchange_token(VialRequest *request, const char *token, gint64 expires_at_ms, const char *rest)
{
	VialApp *app = vial_request_app(request);
	const char *path = vial_request_path(request);
	const char *outer_proto = vial_request_header(request, "X-Forwarded-Proto");
	gboolean is_https = *app->config->tls_cert || (outer_proto && strcmp(outer_proto, "https") == 0);
	/* "//host" and "/\host" in a Location would lead to another host. */
	const char *guard = path[1] == '/' || path[1] == '\\' ? "/." : "";
	g_autofree char *location = g_strdup_printf("%s%s%s%s", guard, path, *rest ? "?" : "", rest);
	g_autofree char *cookie =
	        g_strdup_printf(VIAL_PREVIEW_COOKIE "=%s; Path=/; HttpOnly; SameSite=Lax; Max-Age=%" G_GINT64_FORMAT "%s", token,
	                        (expires_at_ms - vial_time_now_ms()) / 1000, is_https ? "; Secure" : "");

	vial_request_set_header(request, "Set-Cookie", cookie);
	vial_request_set_header(request, "Location", location);
	vial_request_set_header(request, "Cache-Control", "no-store");
	vial_request_set_header(request, "Referrer-Policy", "no-referrer");
	vial_request_reply_empty(request, 303);
}

static VialSandbox *refuse(VialRequest *request, VialErrorCode code, const char *why)
{
	vial_request_reply_fail(request, code, "%s", why);
	return NULL;
}

static VialSandbox *find(VialRequest *request, const VialIdentity *identity, const char *id)
{
	VialApp *app = vial_request_app(request);
	g_autoptr(GError) error = NULL;
	VialSandbox *sandbox;

	if (identity) {
		sandbox = vial_sandboxes_find(app, identity, id, &error);
		if (!sandbox)
			vial_request_reply_error(request, g_steal_pointer(&error));
		return sandbox;
	}
	/* A good token names this one sandbox, whoever owns it. */
	sandbox = g_hash_table_lookup(vial_sandboxes_table(app->sandboxes), id);
	if (!sandbox || sandbox->state == VIAL_STATE_DELETED)
		return refuse(request, VIAL_ERROR_NOT_FOUND, "the sandbox behind this preview is gone");
	return sandbox;
}

VialSandbox *vial_preview_admit(VialRequest *request, unsigned port, gboolean is_upgrade, char **out_query)
{
	VialApp *app = vial_request_app(request);
	const char *id = vial_request_param(request, "id"), *key = vial_request_key(request), *method = vial_request_method(request);
	gboolean is_navigation = !is_upgrade && (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0);
	g_autoptr(VialIdentity) identity = key ? vial_keys_lookup(app->keys, key) : NULL;
	g_autofree char *rest = NULL;
	g_autofree char *token = vial_preview_split_query(vial_request_query_string(request), &rest);
	gint64 expires_at_ms;
	VialSandbox *sandbox;

	if (identity || (token && vial_preview_token_check(vial_keys_signing(app->keys), token, id, port, vial_time_now_ms(), &expires_at_ms))) {
		sandbox = find(request, identity, id);
		if (sandbox && !identity && is_navigation) {
			exchange_token(request, token, expires_at_ms, rest);
			return NULL;
		}
	} else if (has_cookie(request, app, id, port)) {
		/* Hosts of one domain are "same site" to a browser: it would send this cookie for a page of another sandbox, too. */
		if (vial_request_header(request, "Origin") && !vial_preview_is_same_origin(request))
			return refuse(request, VIAL_ERROR_FORBIDDEN, "pages of other origins may not use this preview");
		sandbox = find(request, NULL, id);
	} else {
		return refuse(request, VIAL_ERROR_UNAUTHORIZED,
		              "this preview needs a key or a token: POST /v1/sandboxes/{id}/previews makes an address with one");
	}
	if (sandbox)
		*out_query = g_steal_pointer(&rest);
	return sandbox;
}
