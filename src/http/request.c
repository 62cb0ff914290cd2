/* SPDX-License-Identifier: Apache-2.0 */
/* The request object: its life, its identity, and what handlers read from it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "http/internal.h"
#include "util/log.h"

VialRequest *vial_request_new(VialConnection *connection, const char *target)
{
	VialRequest *request = g_malloc(sizeof(*request));

	/* Everything before the arena; clearing its inline block would cost more than the rest of the request's memory. */
	memset(request, 0, G_STRUCT_OFFSET(VialRequest, arena));
	vial_arena_init(&request->arena);
	request->refs = 1;
	request->server = connection->server;
	request->connection = connection;
	request->started_us = g_get_monotonic_time();
	request->target = vial_arena_copy(&request->arena, target, strlen(target));
	request->method = request->path = request->query_string = "";
	connection->request = request;
	connection->server->stats.requests++;
	return request;
}

VialRequest *vial_request_ref(VialRequest *request)
{
	request->refs++;
	return request;
}

void vial_request_unref(VialRequest *request)
{
	if (!request || --request->refs > 0)
		return;
	g_assert(!request->connection);
	vial_reply_stream_clear(&request->stream);
	if (request->free_note)
		request->free_note(request->note);
	vial_identity_unref(request->identity);
	g_clear_error(&request->refusal);
	g_clear_pointer(&request->response, MHD_destroy_response);
	g_clear_pointer(&request->reply_headers, g_array_unref);
	g_clear_pointer(&request->body, g_byte_array_unref);
	g_clear_pointer(&request->raw_body, g_bytes_unref);
	g_clear_pointer(&request->json, json_decref);
	vial_arena_clear(&request->arena);
	g_free(request);
}

void vial_request_lose(VialRequest *request)
{
	VialGoneFunc gone = request->gone;

	if (request->is_gone)
		return;
	request->is_gone = TRUE;
	request->gone = NULL;
	vial_request_ref(request);
	vial_body_end(request, FALSE);
	vial_reply_stream_clear(&request->stream);
	if (gone)
		gone(request, request->gone_data);
	vial_request_unref(request);
}

/* The access log: at debug level, because one line per request would be the daemon's main product. */
static void log_completion(const VialRequest *request, gboolean was_sent)
{
	char status[16], duration[32];

	if (vial_log_level < VIAL_LOG_DEBUG)
		return;
	g_snprintf(status, sizeof(status), "%u", request->status);
	g_snprintf(duration, sizeof(duration), "%.3f", (double)(g_get_monotonic_time() - request->started_us) / 1000);
	vial_log_debug("http", was_sent ? "request answered" : "request ended without a complete answer", "request_id", request->id, "trace_id",
	               vial_request_trace_id(request), "method", request->method, "path", request->path, "status", status, "duration_ms", duration);
}

/* All bytes of a promised length were given and taken: complete, though the handler has yet to say so. */
static gboolean is_stream_complete(const VialRequest *request)
{
	const VialReplyStream *stream = &request->stream;

	return stream->is_open && !request->is_head && stream->written_bytes == stream->size_bytes && stream->queued_bytes == 0;
}

void vial_request_complete(VialRequest *request, gboolean was_sent)
{
	VialServerStats *stats = &request->server->stats;

	if (!request->is_upgraded)
		stats->requests--;
	stats->requests_total++;
	stats->by_class[was_sent && request->status < 600 ? request->status / 100 : 0]++;
	log_completion(request, was_sent);
	vial_commit_forget(request);
	if (request->is_patient)
		MHD_set_connection_option(request->connection->mhd, MHD_CONNECTION_OPTION_TIMEOUT,
		                          (request->server->config.idle_timeout_ms + 999) / 1000);
	request->stage = STAGE_DONE;
	request->connection->request = NULL;
	request->connection = NULL;
	if (was_sent && is_stream_complete(request))
		request->gone = NULL;
	/* An answer that is cut short, or a HEAD whose producer still produces: either way nobody listens any more. */
	vial_request_lose(request);
	/* An answer that was made and aborted before libmicrohttpd took it: it holds the request, as the request holds it. */
	g_clear_pointer(&request->response, MHD_destroy_response);
	vial_request_unref(request);
}

static gboolean is_sane_id(const char *text)
{
	gsize length = 0;

	for (; text[length]; length++)
		if (length == 64 || !(g_ascii_isalnum(text[length]) || strchr("._-", text[length])))
			return FALSE;
	return length > 0;
}

/* The client's own X-Request-Id when it can do no harm in a log, else the server's random prefix and a counter. */
void vial_request_set_id(VialRequest *request)
{
	const char *given = vial_headers_find(request, "X-Request-Id");
	VialServer *server = request->server;

	if (given && is_sane_id(given)) {
		g_strlcpy(request->id, given, sizeof(request->id));
		return;
	}
	guint64 n = server->request_id_counter++;
	gsize length = sizeof(server->request_id_prefix) - 1;
	memcpy(request->id, server->request_id_prefix, length);
	for (int i = 7; i >= 0; i--, n /= 36)
		request->id[length + (gsize)i] = "0123456789abcdefghijklmnopqrstuvwxyz"[n % 36];
	request->id[length + 8] = '\0';
}

/* Two of them contradict each other; then there is none. */
void vial_request_set_trace(VialRequest *request)
{
	const char *given = NULL;

	for (gsize i = 0; i < request->n_headers; i++) {
		if (g_ascii_strcasecmp(request->headers[i].name, "traceparent") != 0)
			continue;
		if (given)
			return;
		given = request->headers[i].value;
	}
	if (given)
		vial_trace_parse(given, &request->trace);
}

void vial_request_on_gone(VialRequest *request, VialGoneFunc gone, gpointer data)
{
	if (request->is_answered && (!request->stream.is_open || request->stream.is_ended || request->stream.is_broken))
		return;
	request->gone = gone;
	request->gone_data = data;
}

gboolean vial_request_is_gone(const VialRequest *request)
{
	return request->is_gone;
}

const char *vial_request_id(const VialRequest *request)
{
	return request->id;
}

const char *vial_request_trace_id(const VialRequest *request)
{
	return request->trace.trace_id[0] ? request->trace.trace_id : NULL;
}

const char *vial_request_parent_span(const VialRequest *request)
{
	return request->trace.parent_span[0] ? request->trace.parent_span : NULL;
}

const char *vial_request_method(const VialRequest *request)
{
	return request->method;
}

const char *vial_request_path(const VialRequest *request)
{
	return request->path;
}

const char *vial_request_query_string(const VialRequest *request)
{
	return request->query_string;
}

const char *vial_request_param(const VialRequest *request, const char *name)
{
	for (gsize i = 0; i < request->n_params; i++)
		if (strcmp(request->param_names[i], name) == 0)
			return request->param_values[i];
	return NULL;
}

const char *vial_request_query(const VialRequest *request, const char *name)
{
	for (gsize i = 0; i < request->n_query; i++)
		if (strcmp(request->query[i].name, name) == 0)
			return request->query[i].value;
	return NULL;
}

const char *vial_request_header(const VialRequest *request, const char *name)
{
	return vial_headers_find(request, name);
}

void vial_request_each_query(VialRequest *request, VialPairFunc each, gpointer data)
{
	for (gsize i = 0; i < request->n_query; i++)
		each(request->query[i].name, request->query[i].value, data);
}

void vial_request_each_header(VialRequest *request, VialPairFunc each, gpointer data)
{
	for (gsize i = 0; i < request->n_headers; i++)
		each(request->headers[i].name, request->headers[i].value, data);
}

const char *vial_request_key(const VialRequest *request)
{
	return vial_headers_key(request);
}

void vial_request_set_identity(VialRequest *request, VialIdentity *identity)
{
	if (identity)
		vial_identity_ref(identity);
	vial_identity_unref(request->identity);
	request->identity = identity;
	if (request->connection)
		vial_shed_note_request(request->connection, TRUE);
}

/* Once for a connection: every request asks, and writing an address takes longer than finding a key. */
static const char *peer_of(VialConnection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *address = info ? info->client_addr : NULL;
	const void *bytes = NULL;

	if (connection->peer[0])
		return connection->peer;
	if (address && address->sa_family == AF_INET)
		bytes = &((const struct sockaddr_in *)address)->sin_addr;
	else if (address && address->sa_family == AF_INET6)
		bytes = &((const struct sockaddr_in6 *)address)->sin6_addr;
	return bytes ? inet_ntop(address->sa_family, bytes, connection->peer, sizeof(connection->peer)) : NULL;
}

/* A copy, as the request may outlive its connection. */
const char *vial_request_peer(VialRequest *request)
{
	const char *peer = !request->peer && request->connection ? peer_of(request->connection) : NULL;

	if (peer)
		request->peer = vial_arena_copy(&request->arena, peer, strlen(peer));
	return request->peer;
}

const VialIdentity *vial_request_identity(const VialRequest *request)
{
	return request->identity;
}

void vial_request_set_note(VialRequest *request, gpointer note, GDestroyNotify free_note)
{
	request->note = note;
	request->free_note = free_note;
}

gpointer vial_request_note(const VialRequest *request)
{
	return request->note;
}

const VialRouteTable *vial_request_table(const VialRequest *request)
{
	return request->table;
}

gpointer vial_request_app(const VialRequest *request)
{
	return request->server->app;
}

json_t *vial_request_json(const VialRequest *request)
{
	return request->json;
}

GBytes *vial_request_raw_body(const VialRequest *request)
{
	return request->raw_body;
}

gint64 vial_request_body_size(const VialRequest *request)
{
	return request->body_size;
}
