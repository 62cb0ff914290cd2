/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of src/http share and nobody else may see.
 *
 * The life of a request, by `stage`:
 *
 *   LINE            the request line has arrived                         (server.c: on_request_line)
 *   AUTHENTICATING  the headers are sound, the key was shown to authenticate(); suspended while that has not answered
 *   HELD            headers judged, handler called, connection suspended until the handler asks for the body, or until an
 *                   answer that does not wait for the body may leave (commit.c)
 *   BODY            the body is arriving: collected, streamed to the handler, or discarded (body.c)
 *   HANDLING        the body is complete, the handler runs; suspended while there is no answer that may leave
 *   ANSWERING       the answer was given to libmicrohttpd, which sends it (a streamed one pulls from reply_stream.c)
 *   DONE            libmicrohttpd has let go; the struct lives on only for those who hold references
 *
 * libmicrohttpd calls us back for a request as follows: once when the headers are complete (answering there makes it
 * close the connection, so we do it only when we want that), for each piece of body, and once more when all has arrived.
 * A connection suspended in such a call gets the same call again when resumed.
 */
#pragma once

#include <microhttpd.h>
#include <netinet/in.h>

#include "http/request.h"
#include "http/router.h"
#include "http/server.h"
#include "http/trace.h"
#include "http/uri.h"
#include "util/arena.h"

typedef enum {
	STAGE_LINE,
	STAGE_AUTHENTICATING,
	STAGE_HELD,
	STAGE_BODY,
	STAGE_HANDLING,
	STAGE_ANSWERING,
	STAGE_DONE,
} VialStage;

/* What a connection is to us, worst first: shed.c has the meaning. */
typedef enum {
	VIAL_RANK_SILENT,
	VIAL_RANK_STRANGER,
	VIAL_RANK_IDLE,
	VIAL_RANK_BUSY,
} VialRank;

typedef struct VialShed VialShed;

/* One socket. Requests follow one another on it. */
typedef struct VialConnection VialConnection;
struct VialConnection {
	VialServer *server;
	struct MHD_Connection *mhd;
	VialRequest *request;   /* the current one, NULL between two */
	VialUpgraded *upgraded; /* once it has left HTTP */
	int fd;
	gboolean is_suspended;
	gboolean is_watched;         /* known to server->watch_fd */
	gint64 deadline_us;          /* monotonic; 0: none. Checked once a second by server.c */
	GList link;                  /* in server->connections */
	char peer[INET6_ADDRSTRLEN]; /* "": not asked for yet, or no address */

	/* shed.c */
	VialRank rank;
	guint bucket;
	gint64 ranked_us;    /* when it got this rank */
	GList rank_link;     /* in the queue of rank and bucket */
	gboolean is_known;   /* has shown a key or a token that holds */
	gboolean is_leaving; /* was told to go */
};

struct VialServer {
	struct MHD_Daemon *daemon;
	GSource *source;
	int watch_fd; /* epoll of suspended connections' sockets, to notice a peer that leaves */
	int listen_fd;
	gboolean must_run; /* a connection was resumed, of which libmicrohttpd will only learn from MHD_run() */
	guint tick_id;
	char *url;
	char *unix_path;
	char *tls_cert;
	char *tls_key;
	VialRouter *router;
	const VialRouteTable *const *tables;
	GPtrArray *claimed;      /* VialRouter, for each table that claims its requests, in their order */
	VialServerConfig config; /* strings not owned, except below */
	VialRoute host_route;
	char **allowed_origins;
	char **host_names; /* host.c */
	gpointer app;
	GQueue connections;     /* VialConnection, by its link */
	VialConnection *latest; /* whose request line came last; may be NULL */
	VialShed *shed;
	GQueue upgraded; /* VialUpgraded */
	GQueue held;     /* VialRequest, by its hold: commit.c */
	VialServerStats stats;
	char request_id_prefix[13];
	guint64 request_id_counter;
};

typedef struct {
	GQueue chunks; /* GBytes */
	gsize head_offset;
	gsize queued_bytes;
	gint64 size_bytes;    /* promised, -1 for none */
	gint64 written_bytes; /* by the handler */
	VialDrainFunc drained;
	gpointer drain_data;
	/* lines.c: what is sent in a silence, and when there was something last. */
	GBytes *heartbeat;
	gint64 last_write_us;
	guint heartbeat_id;
	gboolean is_open;   /* begun */
	gboolean is_ended;  /* by the handler */
	gboolean is_broken; /* abort */
	gboolean was_high;  /* the producer was told to wait */
} VialReplyStream;

/* commit.c: what of an answer waits for which ticket. */
#define VIAL_COMMIT_MAX_MARKS 8
#define VIAL_COMMIT_HEAD (-1) /* the place of the head; a byte of the body has its offset */
#define VIAL_COMMIT_NO_LIMIT G_MAXINT64
typedef struct {
	guint64 ticket;
	gint64 place;
} VialMark;
typedef struct {
	guint n_marks;
	VialMark marks[VIAL_COMMIT_MAX_MARKS];
	GList link; /* in server->held, while there are marks */
} VialHold;

struct VialRequest {
	int refs;
	VialStage stage;
	VialServer *server;
	VialConnection *connection; /* NULL from DONE on */
	const VialRoute *route;
	const VialRouteTable *table; /* NULL: none yet, or it is a preview's */
	VialIdentity *identity;
	GError *refusal; /* authenticate() answered with it; gone once it is told */
	gint64 started_us;

	char *target;               /* as sent */
	const char *raw_target_end; /* where it ended in libmicrohttpd's memory; valid until the headers are judged */
	const char *method;
	const char *path;
	const char *query_string;
	VialPair *headers;
	gsize n_headers;
	VialPair *query;
	gsize n_query;
	gsize n_params;
	const char *param_names[VIAL_ROUTE_MAX_PARAMS];
	const char *param_values[VIAL_ROUTE_MAX_PARAMS];
	const char *host;
	const char *origin;
	const char *peer; /* NULL: not asked for yet, or no address */
	char id[65];
	VialTrace trace; /* empty: none */

	/* body.c */
	gint64 body_size; /* Content-Length, -1 for chunked, 0 for none */
	gsize body_limit;
	guint64 discarded_bytes;
	GByteArray *body;
	GBytes *raw_body;
	json_t *json;
	VialBodyDataFunc on_data;
	VialBodyEndFunc on_end;
	gpointer body_data;

	gpointer note; /* the surface's */
	GDestroyNotify free_note;
	VialGoneFunc gone;
	gpointer gone_data;

	/* reply.c, reply_stream.c, upgrade.c */
	unsigned status;
	struct MHD_Response *response; /* made, not yet given to libmicrohttpd */
	GArray *reply_headers;         /* VialPair, in the arena */
	VialReplyStream stream;
	VialHold hold;
	VialUpgradeFunc upgrade_ready;
	gpointer upgrade_data;

	gboolean is_auth_answered : 1; /* by authenticate(), or nobody had to be asked */
	gboolean has_body : 1;
	gboolean expects_continue : 1;
	gboolean is_head : 1;
	gboolean is_http_1_0 : 1;
	gboolean must_close : 1;     /* the framing cannot be trusted: answer and close, read nothing more */
	gboolean is_gone : 1;        /* the client left, or we gave up on it */
	gboolean is_answered : 1;    /* a reply function was called */
	gboolean is_body_paused : 1; /* the handler said "enough for now" */
	gboolean is_body_over : 1;   /* on_end was called, or nobody wants it any more */
	gboolean is_upgraded : 1;

	VialArena arena;
};

/* connection.c */
VialConnection *vial_connection_new(VialServer *server, struct MHD_Connection *mhd);
void vial_connection_free(VialConnection *connection);
VialConnection *vial_connection_of(struct MHD_Connection *mhd);
void vial_connection_suspend(VialConnection *connection);
void vial_connection_resume(VialConnection *connection); /* nothing if it is not suspended */
void vial_connection_watch(VialConnection *connection);
void vial_connection_unwatch(VialConnection *connection);
/* Wakes the connection and makes libmicrohttpd drop it. */
void vial_connection_break(VialConnection *connection);
/* The same when we know that nobody is there, or no longer should be: its handler hears of it before. */
void vial_connection_drop(VialConnection *connection);
void vial_connection_set_deadline(VialConnection *connection, unsigned ms); /* 0: none */
/* Looks at server->watch_fd for peers that left. */
void vial_connections_check_peers(VialServer *server);

/* shed.c */
VialShed *vial_shed_new(void);
void vial_shed_free(VialShed *shed); /* accepts NULL */
void vial_shed_add(VialConnection *connection);
void vial_shed_remove(VialConnection *connection);
void vial_shed_note_question(VialConnection *connection);                   /* it has shown a key, whose is still to be found out */
void vial_shed_note_request(VialConnection *connection, gboolean is_known); /* its headers have been judged */
void vial_shed_note_end(VialConnection *connection);                        /* and it was answered */
/* Ends one connection when there are too many; after each new one, and now and then. */
void vial_shed_make_room(VialServer *server);

/* refuse.c: libmicrohttpd logs something; if it is about to refuse a request badly, answers in its place */
void vial_refuse_in_place(VialServer *server);

/* request.c */
VialRequest *vial_request_new(VialConnection *connection, const char *target);
void vial_request_complete(VialRequest *request, gboolean was_sent); /* libmicrohttpd lets go: DONE */
void vial_request_lose(VialRequest *request);                        /* the client is gone: tell the handler, once */
void vial_request_set_id(VialRequest *request);
void vial_request_set_trace(VialRequest *request);

/* headers.c */
/* `method` and `version` as libmicrohttpd gave them: their place in its memory matters. */
gboolean vial_headers_load(VialRequest *request, const char *method, const char *version, GError **error);
gboolean vial_headers_is_number(const char *text); /* digits only, below 2^63 */
const char *vial_headers_find(const VialRequest *request, const char *name);
/* The key the client shows, or NULL. */
const char *vial_headers_key(const VialRequest *request);
/* What is after "Bearer ", or NULL. */
const char *vial_headers_bearer(const char *authorization);
gboolean vial_headers_match_preview_host(VialRequest *request);

/* host.c */
gboolean vial_host_check(VialRequest *request, GError **error);
/* All names that count as ours, to be freed; `configured` may be NULL. */
char **vial_host_names(const char *listen, const char *preview_domain, const char *const *configured);

/* origin.c */
gboolean vial_origin_check(VialRequest *request, GError **error);
void vial_origin_add_headers(VialRequest *request, struct MHD_Response *response);
gboolean vial_origin_is_preflight(const VialRequest *request);
void vial_origin_reply_preflight(VialRequest *request);

/* dispatch.c: the steps of a request, each returns what libmicrohttpd wants to hear */
enum MHD_Result vial_dispatch_headers(VialRequest *request, const char *method, const char *version);
enum MHD_Result vial_dispatch_authenticated(VialRequest *request);
enum MHD_Result vial_dispatch_held(VialRequest *request);
enum MHD_Result vial_dispatch_complete(VialRequest *request);

/* body.c */
enum MHD_Result vial_body_receive(VialRequest *request, const char *data, gsize *size);
gboolean vial_body_finish(VialRequest *request, GError **error); /* parses what was collected */
void vial_body_end(VialRequest *request, gboolean is_complete);  /* tells the reader, once */

/* reply.c */
/* What every error says, made for the request: a new reference. */
json_t *vial_reply_error_body(const VialRequest *request, unsigned status, const char *type, const char *sentence);
void vial_reply_set(VialRequest *request, unsigned status, const char *content_type, struct MHD_Response *response);
enum MHD_Result vial_reply_queue(VialRequest *request);
void vial_reply_wake(VialRequest *request); /* there is an answer, or more of it, that may leave */

/* commit.c */
void vial_commit_mark(VialRequest *request, gint64 place); /* what is given from here on waits for what is recorded by now */
gint64 vial_commit_limit(const VialRequest *request);      /* the first place that may not leave yet */
void vial_commit_forget(VialRequest *request);

/* reply_stream.c */
void vial_reply_stream_clear(VialReplyStream *stream);

/* upgrade.c */
void vial_upgraded_peer_left(VialUpgraded *upgraded);
void vial_upgraded_close_all(VialServer *server);
void vial_upgraded_cut_ended(VialServer *server);
