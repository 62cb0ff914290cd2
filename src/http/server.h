/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server: libmicrohttpd driven by the GLib main loop, in the main thread, without threads of its own.
 *
 * Order of calls: new (listens at once, serves when the main loop runs), quiesce (no new connections; those open finish),
 * free (ends what is left). All limits are constants here, so that a reader finds them in one place.
 */
#pragma once

#include "auth/identity.h"
#include "http/request.h"

/*
 * Memory of one connection: request line, headers, and the buffers of bodies share it. Larger headers get 431. It is cleared
 * for every request: with twice as much, small requests cost a quarter more, and uploads gain a tenth.
 */
#define VIAL_HTTP_CONNECTION_MEMORY_BYTES (32 * 1024)
#define VIAL_HTTP_MAX_HEADERS 100
#define VIAL_HTTP_MAX_CONNECTIONS 4096
#define VIAL_HTTP_BACKLOG 1024
/* The headers must be complete this long after the connection opened. */
#define VIAL_HTTP_HEADER_TIMEOUT_MS (30 * 1000)
/* No byte in either direction while we wait for the client: body, answer being taken, or idle keep-alive. */
#define VIAL_HTTP_IDLE_TIMEOUT_MS (60 * 1000)
/* A body we collect (not one that is streamed) must be complete by then, however steadily it drips. */
#define VIAL_HTTP_BODY_TIMEOUT_MS (120 * 1000)
#define VIAL_HTTP_JSON_BODY_LIMIT_BYTES (1024 * 1024)
/*
 * A refused request's body is read and thrown away up to this size, because closing on a client that is still sending
 * makes its kernel drop our answer. Beyond it, or after VIAL_HTTP_BODY_TIMEOUT_MS, the connection is closed.
 */
#define VIAL_HTTP_DISCARD_LIMIT_BYTES (64 * 1024 * 1024)
/* A producer that ignores VIAL_BODY_HIGH_BYTES loses the connection here instead of taking the daemon down. */
#define VIAL_HTTP_QUEUE_LIMIT_BYTES (64 * 1024 * 1024)
/* A stream of events or lines that is silent for so long says that it is still there: clients give up after 30 s, or after as many as 15. */
#define VIAL_HTTP_HEARTBEAT_MS (10 * 1000)

/*
 * Whose key or token this is. Answers by vial_request_authenticated(), exactly once: before it returns, or later on the main
 * loop. Whoever answers later holds a reference to the request, which keeps `key` valid, too. When its client leaves
 * meanwhile, vial_request_on_gone() tells; an answer is not needed then, and harmless.
 */
typedef void (*VialAuthFunc)(VialRequest *request, const char *key, gpointer data);
/* Both are taken over. `identity` NULL: nobody. `error`: why not, which is then the client's answer; NULL: 401. */
void vial_request_authenticated(VialRequest *request, VialIdentity *identity, GError *error);

typedef struct {
	const char *listen;        /* "127.0.0.1:7070", "[::1]:7070", port 0 for any, or "unix:/path" */
	gboolean allow_public;     /* without it, an address that other machines can reach is refused */
	const char *tls_cert_file; /* PEM; both, or neither (NULL or "") */
	const char *tls_key_file;
	VialAuthFunc authenticate;
	gpointer auth_data;
	/*
	 * A request whose Host is "{port}-{id}.{name of ours}" goes here instead of the route table, with parameters `port` and
	 * `id`; method, pattern and body limit of the row are not looked at. NULL: no such hosts.
	 */
	const VialRoute *host_route;
	const char *preview_domain;         /* the name of ours that is meant for it; NULL: none but those below */
	const char *const *host_names;      /* other names that Host may have, "*.domain" or "*"; NULL: none */
	const char *const *allowed_origins; /* NULL-terminated list of "https://host[:port]", or "*"; NULL: same origin only */
	/*
	 * Nothing leaves before its record is on the disk: a ticket that stands for all that was recorded so far and is not there
	 * yet, or 0 when all is. Tickets only grow. It is asked for each answer and each write of a streamed one, which then wait
	 * for vial_server_committed(); an upgraded socket only for its 101. NULL: nothing is recorded.
	 */
	guint64 (*uncommitted)(gpointer data);
	gpointer commit_data;
	/* 0 means the constant above. Tests shorten them. */
	unsigned max_connections;
	unsigned header_timeout_ms;
	unsigned idle_timeout_ms;
	unsigned body_timeout_ms;
	unsigned heartbeat_ms;
} VialServerConfig;

/* `tables` (up to NULL) and what `config` points to stay the caller's; tables must outlive the server, the rest is copied. */
VialServer *vial_server_new(const VialServerConfig *config, const VialRouteTable *const *tables, gpointer app, GError **error);
void vial_server_quiesce(VialServer *server);
/*
 * Breaks every connection whose request, answer or upgraded socket is one of an identity that has_ended: its handler hears
 * `gone`, the owner of a socket its end. One that is idle stays; its next request is authenticated anew. Also from inside a
 * handler, whose own answer is lost if it is one of those.
 */
void vial_server_cut_ended(VialServer *server);
void vial_server_free(VialServer *server); /* accepts NULL */

/* All up to this ticket is on the disk now: what waited for it leaves. */
void vial_server_committed(VialServer *server, guint64 ticket);
/* What is held cannot be recorded: complete answers become a 503, streamed ones are broken off, whose handlers hear `gone`. */
void vial_server_commit_failed(VialServer *server);

/* "http://127.0.0.1:7070", with the port that was really bound. */
const char *vial_server_url(const VialServer *server);

typedef struct {
	guint connections;      /* open now */
	guint requests;         /* being answered now, without upgraded connections */
	guint upgraded;         /* WebSockets and tunnels open now */
	guint64 shed_total;     /* connections ended to make room since the start */
	guint64 requests_total; /* answered since the start */
	guint64 by_class[6];    /* of those, [2] is 2xx ... [5] is 5xx, [0] ended without an answer */
} VialServerStats;
void vial_server_stats(const VialServer *server, VialServerStats *out);
