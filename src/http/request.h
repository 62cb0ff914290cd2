/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP exchange as the API handlers see it; libmicrohttpd stays behind this seam. Main thread only.
 *
 * A handler is called once, when the body is complete (or, for a route with `stream_body`, when the headers are), already
 * authenticated and with the JSON body parsed. It answers at once or later, exactly once; a request answered later is kept
 * alive with vial_request_ref(). A client that goes away before the answer is complete fires the `gone` callback: the
 * handler cancels its work there; answering a gone request is allowed and does nothing.
 */
#pragma once

#include <gio/gio.h>
#include <glib.h>
#include <jansson.h>

#include "util/error.h"

typedef struct VialRequest VialRequest;
typedef struct VialServer VialServer;
typedef struct VialIdentity VialIdentity; /* src/auth/ */

typedef void (*VialHandler)(VialRequest *request);

typedef enum {
	VIAL_ROUTE_PUBLIC = 1 << 0,      /* no key needed (healthz) */
	VIAL_ROUTE_STREAM_BODY = 1 << 1, /* the handler pulls the body itself */
	VIAL_ROUTE_RAW_BODY = 1 << 2,    /* the body is not JSON; whole in memory, below body_limit */
	VIAL_ROUTE_UPGRADE = 1 << 3,     /* WebSocket */
	VIAL_ROUTE_ANY_METHOD = 1 << 4,
	VIAL_ROUTE_QUERY_KEY = 1 << 5, /* the key may be in the query, "authorization=Bearer …": for clients whose WebSockets have no headers */
} VialRouteFlags;

/*
 * One row of src/surfaces/native/routes.c. `pattern` has {name} for one segment and, last, {name...} for the rest of the path: nothing,
 * or everything after the next slash, as it was sent. ANY_METHOD is for proxies: origin and query are not looked at.
 */
typedef struct {
	const char *method;
	const char *pattern;
	VialHandler handler;
	unsigned flags;
	gsize body_limit_bytes; /* 0: the server's default for JSON bodies */
	unsigned verb;          /* what it does, by a table of the surface's; not looked at here */
} VialRoute;

/* The routes of one surface. */
typedef struct {
	const char *name; /* "native", "e2b", ...: what records call it */
	const VialRoute *routes;
	gsize n_routes;
	/* Whose requests are told by something else than their path (a header, the host), before any path is looked at. NULL: all such tables share
	 * their paths. The headers are known by then, nothing else. */
	gboolean (*claims)(const VialRequest *request);
	/* For public routes that get their body whole: whether it is to be taken at all, from a client whom nobody has looked at yet. FALSE: it has
	 * been answered. NULL: it is. */
	gboolean (*takes_body)(VialRequest *request);
	/* An error in that dialect's words: a new reference. NULL: our usual body (reply.c). */
	json_t *(*error_body)(const VialRequest *request, unsigned status, const GError *error);
} VialRouteTable;

VialRequest *vial_request_ref(VialRequest *request);
void vial_request_unref(VialRequest *request);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialRequest, vial_request_unref)

const char *vial_request_id(const VialRequest *request); /* the request_id of logs and error bodies */
/* The client's trace (W3C traceparent): 32 hexadecimal digits, and the 16 of its span that the request comes from; NULL: none. */
const char *vial_request_trace_id(const VialRequest *request);
const char *vial_request_parent_span(const VialRequest *request);
const char *vial_request_method(const VialRequest *request);
const char *vial_request_path(const VialRequest *request);                    /* as sent, percent-encoded, without the query */
const char *vial_request_query_string(const VialRequest *request);            /* as sent, without '?', "" if none */
const char *vial_request_param(const VialRequest *request, const char *name); /* decoded, except {name...} */
const char *vial_request_query(const VialRequest *request, const char *name); /* decoded, NULL if absent (ANY_METHOD: always) */
const char *vial_request_header(const VialRequest *request, const char *name);
typedef void (*VialPairFunc)(const char *name, const char *value, gpointer data);
void vial_request_each_query(VialRequest *request, VialPairFunc each, gpointer data);
void vial_request_each_header(VialRequest *request, VialPairFunc each, gpointer data);
/* The key the client shows, or NULL: for public routes that judge for themselves. */
const char *vial_request_key(const VialRequest *request);
/*
 * Such a route has found out who it is: borrowed, a reference is taken; NULL: known, but nobody in particular. Its connection
 * is not given up for lack of a key when places are few, and ends with the identity as any other.
 */
void vial_request_set_identity(VialRequest *request, VialIdentity *identity);
/* Whether its host is "{port}-{id}.anything", which is a port of a sandbox; the id is in lower case, to be freed. */
gboolean vial_request_port_host(const VialRequest *request, unsigned *out_port, char **out_id);
/* The other end's address in numbers, NULL for a unix socket. */
const char *vial_request_peer(VialRequest *request);
const VialIdentity *vial_request_identity(const VialRequest *request);
/* What a surface found out about it, kept until it is freed; NULL: nothing yet. */
void vial_request_set_note(VialRequest *request, gpointer note, GDestroyNotify free_note);
gpointer vial_request_note(const VialRequest *request);
/* The surface that it came through; NULL before a route is found, and for previews. */
const VialRouteTable *vial_request_table(const VialRequest *request);
gpointer vial_request_app(const VialRequest *request); /* given to vial_server_new() */

/* The JSON body: an object, {} when the body was empty. Borrowed. Strict: duplicate keys, depth, UTF-8 were refused with 400. */
json_t *vial_request_json(const VialRequest *request);
GBytes *vial_request_raw_body(const VialRequest *request); /* VIAL_ROUTE_RAW_BODY */

/*
 * Fired at most once, never after a complete answer was given (reply_*, stream_end, stream_abort) or an upgrade is ready.
 * When the body is still being read its on_end(complete=FALSE) comes first. Also ends a streamed answer to HEAD.
 */
typedef void (*VialGoneFunc)(VialRequest *request, gpointer data);
void vial_request_on_gone(VialRequest *request, VialGoneFunc gone, gpointer data);
gboolean vial_request_is_gone(const VialRequest *request); /* for those who registered too late to be called */

/* Answers. `body` and `error` are consumed. */
void vial_request_reply_json(VialRequest *request, unsigned status, json_t *body);
void vial_request_reply_empty(VialRequest *request, unsigned status);
void vial_request_reply_bytes(VialRequest *request, unsigned status, const char *content_type, GBytes *body);
void vial_request_reply_error(VialRequest *request, GError *error);
void vial_request_reply_fail(VialRequest *request, VialErrorCode code, const char *format, ...) G_GNUC_PRINTF(3, 4);
/* Before any answer: one more response header (several of one name are several headers). */
void vial_request_set_header(VialRequest *request, const char *name, const char *value);

/*
 * A streamed answer is a bounded queue: write returns the bytes now waiting. Once that is above VIAL_BODY_HIGH_BYTES stop
 * producing until `drained` fires (below VIAL_BODY_LOW_BYTES). `size_bytes` is the Content-Length, or -1 for chunked.
 * end() finishes; abort() breaks the connection, which is how a client learns that a promised length will not come.
 */
#define VIAL_BODY_HIGH_BYTES (1024 * 1024)
#define VIAL_BODY_LOW_BYTES (256 * 1024)
typedef void (*VialDrainFunc)(VialRequest *request, gpointer data);
void vial_request_stream_begin(VialRequest *request, unsigned status, const char *content_type, gint64 size_bytes, VialDrainFunc drained,
                               gpointer data);
gsize vial_request_stream_write(VialRequest *request, GBytes *chunk); /* consumes the reference */
void vial_request_stream_end(VialRequest *request);
void vial_request_stream_abort(VialRequest *request);

/*
 * Server-sent events, and lines of JSON, over the above: begin sets the headers, and from then on a silence of VIAL_HTTP_HEARTBEAT_MS is broken, by
 * a comment, or by `idle_line` (without its line end: "" for an empty line, any JSON its dialect has for this; NULL: by nothing). All that is sent
 * is ASCII: send() escapes what is not, and the text given to send_text() is JSON (or text of ours) on one line that is ASCII already. `event` may
 * be NULL.
 */
void vial_request_sse_begin(VialRequest *request, VialDrainFunc drained, gpointer data);
gsize vial_request_sse_send(VialRequest *request, const char *event, json_t *data); /* consumes data */
gsize vial_request_sse_send_text(VialRequest *request, const char *event, const char *text, gsize size);
void vial_request_ndjson_begin(VialRequest *request, const char *idle_line, VialDrainFunc drained, gpointer data);
gsize vial_request_ndjson_send(VialRequest *request, json_t *line); /* consumes line */
gsize vial_request_ndjson_send_text(VialRequest *request, const char *text, gsize size);

/*
 * A streamed request body (VIAL_ROUTE_STREAM_BODY). `on_data` returns FALSE to say "enough for now": the bytes were taken,
 * but the client is not read further until vial_request_body_resume(). `on_end` comes exactly once and last, after
 * body_read() has returned (except when the client has left already), with complete=FALSE when the client left or the body
 * was broken, unless a complete answer was given before: then neither is called any more and the rest of the body is
 * discarded. While a streamed answer is open they go on; libmicrohttpd sends nothing of it before the body has ended.
 * body_size is the Content-Length, -1 for chunked, 0 without a body; a route may read a body that is not there.
 */
typedef gboolean (*VialBodyDataFunc)(VialRequest *request, const void *bytes, gsize size, gpointer data);
typedef void (*VialBodyEndFunc)(VialRequest *request, gboolean complete, gpointer data);
void vial_request_body_read(VialRequest *request, VialBodyDataFunc on_data, VialBodyEndFunc on_end, gpointer data);
void vial_request_body_resume(VialRequest *request);
/* The client may be silent for as long as it likes in the middle of this body; for bodies that somebody types. */
void vial_request_body_patient(VialRequest *request);
gint64 vial_request_body_size(const VialRequest *request);

/*
 * Takes the connection out of HTTP. `status` 101 is sent with the given headers (NULL-terminated name, value pairs), then
 * `ready` gets the plain socket and whatever bytes had already arrived; close it with vial_upgraded_close().
 */
typedef struct VialUpgraded VialUpgraded;
typedef void (*VialUpgradeFunc)(VialUpgraded *upgraded, int fd, GBytes *extra, gpointer data);
void vial_request_upgrade(VialRequest *request, const char *const *headers, VialUpgradeFunc ready, gpointer data);
void vial_upgraded_close(VialUpgraded *upgraded);
