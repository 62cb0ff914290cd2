/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of its own per request, closed afterwards, so the hop-by-hop headers (RFC 9110, 7.6.1) end here on both
 * sides. The program must learn who asks and under which name, but never the key that opened the door: it runs code that
 * nobody vouches for.
 */
#include "surfaces/shared/proxy_headers.h"

#include <string.h>

#include "surfaces/shared/preview.h"
#include "auth/keys.h"

void vial_proxy_target_clear(VialProxyTarget *target)
{
	g_clear_pointer(&target->path, g_free);
	g_clear_pointer(&target->prefix, g_free);
}

static gboolean is_one_of(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (g_ascii_strcasecmp(name, *list) == 0)
			return TRUE;
	return FALSE;
}

static gboolean is_hop_by_hop(const char *name)
{
	static const char *const names[] = { "Connection",
		                             "Keep-Alive",
		                             "Proxy-Connection",
		                             "Proxy-Authenticate",
		                             "Proxy-Authorization",
		                             "TE",
		                             "Trailer",
		                             "Transfer-Encoding",
		                             "Upgrade",
		                             "Content-Length",
		                             NULL };

	return is_one_of(name, names);
}

/* Whether `name` is an element of a comma-separated list, which is how Connection names further hop-by-hop headers. */
static gboolean list_has(const char *list, const char *name)
{
	g_auto(GStrv) items = g_strsplit(list ? list : "", ",", -1);

	for (char **item = items; *item; item++)
		if (g_ascii_strcasecmp(g_strstrip(*item), name) == 0)
			return TRUE;
	return FALSE;
}

/* The way in */

typedef struct {
	GString *head;
	VialRequest *request;
	const VialProxyTarget *target;
	GString *cookies;
	GString *forwarded_for;
} Inward;

static gboolean is_ours(const Inward *inward, const char *name, const char *value)
{
	/* Expect was answered by us; of the others we write our own. */
	static const char *const names[] = { "Host",
		                             "X-API-Key",
		                             "X-Access-Token",
		                             "E2B-Traffic-Access-Token",
		                             "Expect",
		                             "X-Forwarded-Host",
		                             "X-Forwarded-Proto",
		                             "X-Forwarded-Prefix",
		                             "X-Request-Id",
		                             NULL };

	if (is_one_of(name, names))
		return TRUE;
	if (g_ascii_strcasecmp(name, "Authorization") != 0)
		return FALSE;
	if (g_ascii_strncasecmp(value, "Bearer ", 7) != 0)
		return FALSE;
	/*
	 * The program may have an authentication of its own, which comes through when our key came another way: in X-API-Key, or at a preview host.
	 * What let the caller in never reaches a guest, nor does anything that looks like a key of ours.
	 */
	if (*inward->target->prefix && !vial_request_header(inward->request, "X-API-Key"))
		return TRUE;
	return vial_key_has_form(value + 7 + strspn(value + 7, " "));
}

static void join(GString *list, const char *separator, const char *value)
{
	if (list->len > 0)
		g_string_append(list, separator);
	g_string_append(list, value);
}

static void add_cookies(GString *cookies, const char *value)
{
	g_auto(GStrv) items = g_strsplit(value, ";", -1);

	for (char **item = items; *item; item++)
		if (*g_strstrip(*item) && !vial_preview_is_cookie(*item))
			join(cookies, "; ", *item);
}

/* A page's own origin stays its own origin for a program that believes to be localhost; a foreign one stays foreign. */
static void add_origin(Inward *inward, const char *origin)
{
	if (vial_preview_is_same_origin(inward->request))
		g_string_append_printf(inward->head, "Origin: http://localhost:%u\r\n", inward->target->port);
	else
		g_string_append_printf(inward->head, "Origin: %s\r\n", origin);
}

static void add_request_header(const char *name, const char *value, gpointer data)
{
	Inward *inward = data;

	if (is_hop_by_hop(name) || is_ours(inward, name, value) || list_has(vial_request_header(inward->request, "Connection"), name))
		return;
	if (g_ascii_strcasecmp(name, "Cookie") == 0)
		add_cookies(inward->cookies, value);
	else if (g_ascii_strcasecmp(name, "X-Forwarded-For") == 0)
		join(inward->forwarded_for, ", ", value);
	else if (g_ascii_strcasecmp(name, "Origin") == 0)
		add_origin(inward, value);
	else
		g_string_append_printf(inward->head, "%s: %s\r\n", name, value);
}

static void add_forwarded(Inward *inward)
{
	GString *head = inward->head;
	const char *host = vial_request_header(inward->request, "Host");
	const char *outer_proto = vial_request_header(inward->request, "X-Forwarded-Proto");
	const char *peer = vial_request_peer(inward->request);

	if (peer)
		join(inward->forwarded_for, ", ", peer);
	if (inward->forwarded_for->len > 0)
		g_string_append_printf(head, "X-Forwarded-For: %s\r\n", inward->forwarded_for->str);
	if (host)
		g_string_append_printf(head, "X-Forwarded-Host: %s\r\n", host);
	/* Somebody in front of us may have ended TLS. */
	g_string_append_printf(head, "X-Forwarded-Proto: %s\r\n",
	                       inward->target->is_https || (outer_proto && strcmp(outer_proto, "https") == 0) ? "https" : "http");
	if (*inward->target->prefix)
		g_string_append_printf(head, "X-Forwarded-Prefix: %s\r\n", inward->target->prefix);
	g_string_append_printf(head, "X-Request-Id: %s\r\n", vial_request_id(inward->request));
}

static void add_framing(Inward *inward)
{
	gint64 size = vial_request_body_size(inward->request);

	if (inward->target->is_upgrade)
		g_string_append(inward->head, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	else
		g_string_append(inward->head, "Connection: close\r\n");
	if (size < 0)
		g_string_append(inward->head, "Transfer-Encoding: chunked\r\n");
	else if (size > 0 || vial_request_header(inward->request, "Content-Length"))
		g_string_append_printf(inward->head, "Content-Length: %" G_GINT64_FORMAT "\r\n", size);
}

GString *vial_proxy_request_head(VialRequest *request, const VialProxyTarget *target)
{
	g_autoptr(GString) cookies = g_string_new(NULL);
	g_autoptr(GString) forwarded_for = g_string_new(NULL);
	GString *head = g_string_sized_new(1024);
	Inward inward = { .head = head, .request = request, .target = target, .cookies = cookies, .forwarded_for = forwarded_for };

	g_string_append_printf(head, "%s %s HTTP/1.1\r\nHost: localhost:%u\r\n", vial_request_method(request), target->path, target->port);
	vial_request_each_header(request, add_request_header, &inward);
	if (cookies->len > 0)
		g_string_append_printf(head, "Cookie: %s\r\n", cookies->str);
	add_forwarded(&inward);
	add_framing(&inward);
	g_string_append(head, "\r\n");
	return head;
}

/* The way out */

/* What follows "http://localhost:PORT" (or 127.0.0.1) in `url`, or NULL. */
static const char *after_inner_address(const char *url, unsigned port)
{
	g_autofree char *named = g_strdup_printf("http://localhost:%u", port);
	g_autofree char *numbered = g_strdup_printf("http://127.0.0.1:%u", port);
	const char *rest = g_str_has_prefix(url, named) ? url + strlen(named) : g_str_has_prefix(url, numbered) ? url + strlen(numbered) : NULL;

	return rest && (*rest == '\0' || strchr("/?#", *rest)) ? rest : NULL;
}

/* A redirection to where the program believes to be, as a path from where the client sees it. */
static void add_location(VialRequest *request, const VialProxyTarget *target, const char *location)
{
	const char *rest = after_inner_address(location, target->port);
	g_autofree char *moved = NULL;

	if (!rest && location[0] == '/' && location[1] != '/')
		rest = location;
	if (rest)
		moved = g_strdup_printf("%s%s%s", target->prefix, *rest == '/' ? "" : "/", rest);
	vial_request_set_header(request, "Location", moved ? moved : location);
}

void vial_proxy_copy_headers(VialRequest *request, const VialProxyTarget *target, const VialReplyReader *reader)
{
	const char *connection = vial_reply_reader_header(reader, "Connection");
	gsize count;
	const VialReplyHeader *headers = vial_reply_reader_headers(reader, &count);

	for (gsize i = 0; i < count; i++) {
		const char *name = headers[i].name, *value = headers[i].value;

		if (is_hop_by_hop(name) || list_has(connection, name) || g_ascii_strcasecmp(name, "X-Request-Id") == 0)
			continue;
		if (g_ascii_strcasecmp(name, "Location") == 0)
			add_location(request, target, value);
		else
			vial_request_set_header(request, name, value);
	}
}
