/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP to viald over libcurl. Several requests can be under way at once; every call blocks until they have ended or the user
 * pressed Ctrl-C. Bodies stream through callbacks in both directions; an answer without a callback is collected up to a limit.
 */
#pragma once

#include <curl/curl.h>
#include <glib.h>

/* Codes from 400 are the HTTP status of viald's answer. */
#define VIAL_HTTP_ERROR (vial_http_error_quark())
GQuark vial_http_error_quark(void);
enum {
	VIAL_HTTP_FAILED = 1,      /* the connection, TLS, an answer that makes no sense */
	VIAL_HTTP_UNREACHABLE = 2, /* nobody listens there */
	VIAL_HTTP_INTERRUPTED = 3, /* Ctrl-C */
	VIAL_HTTP_PIPE = 4,        /* our own output's reader left */
};

typedef struct VialHttp VialHttp;

/* `url` is scheme://host:port, or unix:/path for a socket of this machine. `key` and `cacert` may be NULL. */
VialHttp *vial_http_new(const char *url, const char *key, const char *cacert);
void vial_http_free(VialHttp *http);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialHttp, vial_http_free)

/* FALSE stops the transfer; set *error. Called only for 2xx answers. */
typedef gboolean (*VialHttpDataFunc)(const void *bytes, gsize size, gpointer data, GError **error);
/* Bytes put into `buffer`, 0 at the end, -1 with *error. */
typedef gssize (*VialHttpReadFunc)(void *buffer, gsize size, gpointer data, GError **error);

typedef struct {
	/* To be set before performing; strings are borrowed. */
	const char *method;
	const char *path; /* from "/v1/" on, encoded, with the query */
	const char *body; /* sent as JSON; NULL: none */
	gsize body_size;
	VialHttpReadFunc on_read; /* instead of `body`: a streamed one */
	gint64 upload_size;       /* of the streamed body; -1: unknown, sent chunked */
	VialHttpDataFunc on_data; /* NULL: collect into `answer` */
	gpointer data;            /* for both callbacks */
	long timeout_seconds;     /* 0: none */
	const char *accept;       /* NULL: application/json */

	/* Filled in. */
	long status;
	GByteArray *answer;
	GError *error; /* set when the request failed or the status is not 2xx */

	/* http.c's own. */
	CURL *easy;
	struct curl_slist *headers;
	GByteArray *failure; /* the body of an answer that is not 2xx */
	VialHttp *http;
	gsize body_sent;
	gboolean is_done;
} VialHttpRequest;

void vial_http_request_clear(VialHttpRequest *request);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(VialHttpRequest, vial_http_request_clear)

/* Performs all of them side by side and returns when each has its `status` or `error`. */
void vial_http_perform_all(VialHttp *http, VialHttpRequest **requests, guint count);
/* One; its error, if any, is moved to *error. */
gboolean vial_http_perform(VialHttp *http, VialHttpRequest *request, GError **error);

/*
 * While set, Ctrl-C calls this instead of ending the transfer; it returns TRUE to let the transfer go on. It may perform other
 * requests. The REPL interrupts its running cell this way.
 */
typedef gboolean (*VialHttpInterruptFunc)(gpointer data);
void vial_http_on_interrupt(VialHttp *http, VialHttpInterruptFunc interrupt, gpointer data);

/* The settings that any handle to this viald needs: URL, TLS, proxy, connection. Used by http.c and websocket.c. */
void vial_http_prepare(VialHttp *http, CURL *easy, const char *path);
const char *vial_http_base_url(const VialHttp *http); /* http://… in any case */
const char *vial_http_key(const VialHttp *http);
/* One sentence for a libcurl failure; and for an answer that is not 2xx (moves nothing, `body` is viald's JSON or not). */
GError *vial_http_error_from_curl(VialHttp *http, CURLcode code, const char *detail);
GError *vial_http_error_from_answer(VialHttp *http, long status, const char *body, gsize size);
