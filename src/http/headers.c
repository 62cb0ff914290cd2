/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request headers: copied out of libmicrohttpd (whose memory ends with the request, while a handler may hold on longer)
 * and judged. libmicrohttpd is lenient where two parsers could disagree about where a request ends (RFC 9112, 6.3 and 11.2),
 * so everything ambiguous is refused here and the connection closed.
 */
#include <stdlib.h>
#include <string.h>

#include "http/internal.h"

/*
 * libmicrohttpd takes text to end at a NUL, so one that the client sent would cut a value short and hide what follows from us
 * but not from others. It leaves the head in one piece in its memory, with NULs in place of the separators: each line must
 * begin where the one before it ended, two bytes on for CR LF. A gap is a NUL, a folded line or a bare line feed.
 */
#define LINE_END_BYTES 2

typedef struct {
	VialRequest *request;
	gsize count;
	gboolean is_malformed;
	const char *at; /* where the next line begins, if there is no gap */
	gboolean has_gap;
	VialPair pairs[VIAL_HTTP_MAX_HEADERS];
} Collector;

static gboolean is_token(const char *text)
{
	if (!*text)
		return FALSE;
	for (; *text; text++)
		if (!g_ascii_isalnum(*text) && !strchr("!#$%&'*+-.^_`|~", *text))
			return FALSE;
	return TRUE;
}

static gboolean is_field_value(const char *text)
{
	for (; *text; text++)
		if (((guchar)*text < 0x20 && *text != '\t') || *text == 0x7f)
			return FALSE;
	return TRUE;
}

static enum MHD_Result collect(void *data, enum MHD_ValueKind kind, const char *name, const char *value)
{
	Collector *collector = data;
	VialArena *arena = &collector->request->arena;

	collector->has_gap |= name != collector->at || !value;
	if (!value)
		value = "";
	collector->at = value + strlen(value) + LINE_END_BYTES;
	if (!is_token(name) || !is_field_value(value)) {
		collector->is_malformed = TRUE;
		return MHD_NO;
	}
	if (collector->count < VIAL_HTTP_MAX_HEADERS)
		collector->pairs[collector->count] = (VialPair){
			.name = vial_arena_copy(arena, name, strlen(name)),
			.value = vial_arena_copy(arena, value, strlen(value)),
		};
	return ++collector->count <= VIAL_HTTP_MAX_HEADERS ? MHD_YES : MHD_NO;
}

const char *vial_headers_find(const VialRequest *request, const char *name)
{
	for (gsize i = 0; i < request->n_headers; i++)
		if (g_ascii_strcasecmp(request->headers[i].name, name) == 0)
			return request->headers[i].value;
	return NULL;
}

/* Headers of which a second one would make the request mean two things. */
static gboolean check_unique(const VialRequest *request, GError **error)
{
	static const char *const names[] = { "Host",   "Content-Length", "Transfer-Encoding", "Authorization",  "X-API-Key",       "Origin",
		                             "Expect", "Upgrade",        "X-Access-Token",    "E2B-Sandbox-Id", "E2B-Sandbox-Port" };

	for (gsize n = 0; n < G_N_ELEMENTS(names); n++) {
		gsize seen = 0;
		for (gsize i = 0; i < request->n_headers; i++)
			seen += g_ascii_strcasecmp(request->headers[i].name, names[n]) == 0;
		if (seen > 1)
			return vial_fail(error, VIAL_ERROR_INVALID, "the header %s may appear only once", names[n]);
	}
	return TRUE;
}

gboolean vial_headers_is_number(const char *text)
{
	guint64 number;

	return g_ascii_isdigit(text[0]) && g_ascii_string_to_unsigned(text, 10, 0, G_MAXINT64, &number, NULL);
}

/* Exactly what libmicrohttpd makes of the body, or an error: we must not think otherwise than it does. */
static gboolean check_framing(VialRequest *request, GError **error)
{
	const char *length = vial_headers_find(request, "Content-Length");
	const char *encoding = vial_headers_find(request, "Transfer-Encoding");

	if (encoding) {
		if (length)
			return vial_fail(error, VIAL_ERROR_INVALID, "Content-Length and Transfer-Encoding together are ambiguous: send one of them");
		if (g_ascii_strcasecmp(encoding, "chunked") != 0 || request->is_http_1_0)
			return vial_fail(error, VIAL_ERROR_INVALID, "the only Transfer-Encoding understood is chunked, in HTTP/1.1");
		request->has_body = TRUE;
		request->body_size = -1;
	} else if (length) {
		if (!vial_headers_is_number(length))
			return vial_fail(error, VIAL_ERROR_INVALID, "Content-Length must be a number of bytes");
		request->body_size = g_ascii_strtoll(length, NULL, 10);
		request->has_body = request->body_size > 0;
	}
	return TRUE;
}

static gboolean check_host(VialRequest *request, GError **error)
{
	const char *host = vial_headers_find(request, "Host");

	if (!host)
		return request->is_http_1_0 || vial_fail(error, VIAL_ERROR_INVALID, "the Host header is missing");
	for (const char *c = host; *c; c++)
		if (!g_ascii_isalnum(*c) && !strchr(".-_:[]%", *c))
			return vial_fail(error, VIAL_ERROR_INVALID, "the Host header is not a host name");
	request->host = host;
	return TRUE;
}

static void strip_trailing_space(VialRequest *request)
{
	/* The copies are ours; libmicrohttpd strips only at the front. */
	for (gsize i = 0; i < request->n_headers; i++)
		g_strchomp((char *)request->headers[i].value);
}

/* Where the headers begin, or NULL when the request line has a gap in it. */
static const char *find_first_header(const VialRequest *request, const char *method, const char *version)
{
	const char *target_end = request->raw_target_end;

	if (!target_end || target_end + 1 != version || target_end - strlen(request->target) != method + strlen(method) + 1)
		return NULL;
	return version + strlen(version) + LINE_END_BYTES;
}

static gboolean collect_all(Collector *collector, const char *method, const char *version, GError **error)
{
	struct MHD_Connection *mhd = collector->request->connection->mhd;
	gsize head_size = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;

	collector->at = find_first_header(collector->request, method, version);
	MHD_get_connection_values(mhd, MHD_HEADER_KIND, collect, collector);
	if (collector->is_malformed)
		return vial_fail(error, VIAL_ERROR_INVALID, "a header is malformed");
	if (collector->count > VIAL_HTTP_MAX_HEADERS)
		return vial_fail(error, VIAL_ERROR_INVALID, "more than %d headers", VIAL_HTTP_MAX_HEADERS);
	if (collector->has_gap || collector->at + LINE_END_BYTES != method + head_size)
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "the request line and headers must be lines that end in CR LF, without NUL and not folded");
	return TRUE;
}

gboolean vial_headers_load(VialRequest *request, const char *method, const char *version, GError **error)
{
	Collector collector = { .request = request };

	request->is_http_1_0 = strcmp(version, "HTTP/1.0") == 0;
	if (!collect_all(&collector, method, version, error))
		return FALSE;
	request->n_headers = collector.count;
	request->headers = vial_arena_alloc(&request->arena, MAX(collector.count, 1) * sizeof(VialPair));
	memcpy(request->headers, collector.pairs, collector.count * sizeof(VialPair));
	if (!check_unique(request, error) || !check_framing(request, error))
		return FALSE;
	strip_trailing_space(request);
	const char *expect = vial_headers_find(request, "Expect");
	request->expects_continue = expect && g_ascii_strcasecmp(expect, "100-continue") == 0;
	request->origin = vial_headers_find(request, "Origin");
	return check_host(request, error);
}

const char *vial_headers_key(const VialRequest *request)
{
	/* X-API-Key first: behind the ports proxy, Authorization may be meant for the program in the sandbox. */
	const char *key = vial_headers_find(request, "X-API-Key");
	if (key)
		return key;
	return vial_headers_bearer(vial_headers_find(request, "Authorization"));
}

const char *vial_headers_bearer(const char *authorization)
{
	if (!authorization || g_ascii_strncasecmp(authorization, "Bearer ", 7) != 0)
		return NULL;
	authorization += 7;
	return authorization + strspn(authorization, " ");
}

gboolean vial_request_port_host(const VialRequest *request, unsigned *out_port, char **out_id)
{
	const char *host = request->host;

	if (!host || !g_ascii_isdigit(host[0]))
		return FALSE;
	gsize digits = strspn(host, "0123456789");
	if (digits > 5 || host[digits] != '-')
		return FALSE;
	const char *id = host + digits + 1;
	gsize length = 0;
	while (g_ascii_isalnum(id[length]))
		length++;
	if (length != 20 || id[length] != '.')
		return FALSE;
	*out_port = (unsigned)strtoul(host, NULL, 10);
	*out_id = g_ascii_strdown(id, (gssize)length);
	return TRUE;
}

/* Fills the parameters `port` and `id`. */
gboolean vial_headers_match_preview_host(VialRequest *request)
{
	g_autofree char *id = NULL;
	unsigned port;

	if (!vial_request_port_host(request, &port, &id))
		return FALSE;
	request->n_params = 2;
	request->param_names[0] = "port";
	request->param_values[0] = vial_arena_copy(&request->arena, request->host, strspn(request->host, "0123456789"));
	request->param_names[1] = "id";
	request->param_values[1] = vial_arena_copy(&request->arena, id, strlen(id));
	return TRUE;
}
