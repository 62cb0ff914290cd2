/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all surfaces that speak HTTP share: who calls and from where, and how an answer becomes one of theirs. A surface is a folder of files that
 * decode a request into an operation (src/operations/) and encode what comes of it; they hold no rule of their own.
 *
 * Two patterns. A question with one answer: vial_surface_question(), then vial_surface_begun(request, vial_op_…(…, reply, request, &error), &error),
 * where `reply` answers. A conversation: an exchange, which ties the request to its operation, so that a client that leaves cancels it, and one that
 * is slow slows it.
 */
#pragma once

#include "http/request.h"
#include "http/server.h"
#include "operations/agents.h"
#include "operations/operation.h"

/* What vial_request_app() is. */
typedef struct {
	VialApp *app;
	VialServer *server;
} VialFront;

/* A VialAuthFunc; its data is a VialFront. */
void vial_surface_authenticate(VialRequest *request, const char *key, gpointer front);
/* Whom a key belongs to that comes from where it may come from: a new reference, or NULL with an error. What is refused is recorded. */
VialIdentity *vial_surface_identify(VialRequest *request, const char *key, GError **error);

VialApp *vial_surface_app(const VialRequest *request);
/* What somebody who wants a volume, in whatever dialect, is told. */
#define VIAL_NO_VOLUMES "there are no volumes here yet: a persistent sandbox keeps its files, and a snapshot can start many"
/* Whether a PandaStack client asks: it shares the native API's paths, and wants a few answers otherwise (pandastack.h). */
gboolean vial_surface_is_pandastack(const VialRequest *request);
VialCaller vial_surface_caller(VialRequest *request);
const char *vial_surface_sandbox(const VialRequest *request); /* the path's {id}, or */
/* where a request says it elsewhere: that one, from here on. */
void vial_surface_set_sandbox(VialRequest *request, const char *sandbox_id);

/*
 * A call of an agent has its sandbox now: that is the one that vial_surface_sandbox() gives from here on, and the answer says so: in a header, as the
 * first event of a stream, and where an answer is an object of ours, in its field "session" (tell_session).
 */
void vial_surface_enter(VialRequest *request, const VialAgentPlace *place);
json_t *vial_surface_session(const VialRequest *request); /* borrowed; NULL: it is no such call */
void vial_surface_tell_session(const VialRequest *request, json_t *answer);
const char *vial_surface_language(const VialRequest *request); /* of code that names none; NULL: the default */
/* Who runs it inside the sandbox: "user", and for a call of an agent, where that is whom it is for, "run_as". */
const char *vial_surface_user_field(const VialRequest *request);

/* Questions: takes the reference that the reply drops. */
VialCaller vial_surface_question(VialRequest *request);
/* When it was refused: replies so. */
void vial_surface_begun(VialRequest *request, gboolean is_begun, GError **error);
/* VialDocumentDone, for the most usual answers; `data` is the request. */
void vial_surface_reply_ok(json_t *document, const GError *error, gpointer data);
void vial_surface_reply_created(json_t *document, const GError *error, gpointer data);
void vial_surface_reply_accepted(json_t *document, const GError *error, gpointer data);
void vial_surface_reply_nothing(json_t *document, const GError *error, gpointer data);
/* VialOperationDone: 204. */
void vial_surface_reply_done(const GError *error, gpointer data);
/* At once: 200 with `document` (consumed), or the error. */
void vial_surface_reply_now(VialRequest *request, json_t *document, GError *error);

/* Conversations */
typedef struct {
	VialRequest *request;
	VialOperation *operation; /* NULL until it is begun */
	gboolean is_streaming;    /* its events have begun */
	gpointer state;           /* the handler's own */
	GDestroyNotify free_state;
} VialExchange;

VialExchange *vial_exchange_new(VialRequest *request, gpointer state, GDestroyNotify free_state);
/* `operation` is what began it, or NULL when it was refused, which is then answered. */
void vial_exchange_begin(VialExchange *exchange, VialOperation *operation, GError **error);
/* The answer is complete. */
void vial_exchange_end(VialExchange *exchange);
/* Answers with the error and ends. */
void vial_exchange_fail(VialExchange *exchange, const GError *error);
/* The end of a stream that failed before it began (the sandbox could not be woken): an answer like any other refusal, and TRUE. */
gboolean vial_exchange_fail_early(VialExchange *exchange, const GError *error);
/* A VialDrainFunc for answers that are streamed. */
void vial_exchange_drained(VialRequest *request, gpointer exchange);
/* Begins server-sent events; sends one and says whether the client has enough for now. */
void vial_exchange_sse_begin(VialOperation *operation, gpointer exchange);
gboolean vial_exchange_send(VialExchange *exchange, const char *event, json_t *data);

/* Fields of a JSON body by their type; what may be in them is the operation's affair. Absent or null leaves *out as it is. */
gboolean vial_decode_text(const json_t *body, const char *field, const char **out, GError **error);
gboolean vial_decode_bytes(const json_t *body, const char *field, GBytes **out, GError **error); /* a new reference */
gboolean vial_decode_int(const json_t *body, const char *field, gint64 *out, GError **error);
gboolean vial_decode_real(const json_t *body, const char *field, double *out, GError **error);
gboolean vial_decode_bool(const json_t *body, const char *field, gboolean *out, GError **error);
gboolean vial_decode_object(const json_t *body, const char *field, json_t **out, GError **error);
gboolean vial_decode_list(const json_t *body, const char *field, json_t **out, GError **error);
/* For what gives rights or takes them: whoever misspells a field believes something of them that is not so. `names` ends with NULL; "origin" may
 * always be said. */
gboolean vial_decode_known(const json_t *body, const char *const *names, GError **error);
/* A number in the query. */
gboolean vial_decode_query_int(const VialRequest *request, const char *name, gint64 *out, GError **error);
/* true, false, 1 or 0 in the query. */
gboolean vial_decode_query_bool(const VialRequest *request, const char *name, gboolean *out, GError **error);
/* The path's {pid}: NOT_FOUND when it is none. */
gboolean vial_decode_pid(const VialRequest *request, gint64 *out, GError **error);
