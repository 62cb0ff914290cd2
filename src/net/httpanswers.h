/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows what a server sends on one plain HTTP/1 connection, to know the answer of a request that asked for an upgrade from
 * all others: only its 101 takes the connection out of HTTP. Nothing is held back or changed here, and nothing is refused:
 * an answer that two parsers could frame differently only means that no 101 will be believed any more. Without I/O; one
 * thread at a time.
 */
#pragma once

#include <glib.h>

/* Requests whose answers are outstanding; a client that pipelines more is served, but can have no upgrade. */
#define VIAL_HTTP_MAX_PIPELINED 64

typedef struct VialHttpAnswers VialHttpAnswers;

typedef enum {
	VIAL_HTTP_ASKED_ANY,
	VIAL_HTTP_ASKED_HEAD,    /* the answer has no body, whatever its head says */
	VIAL_HTTP_ASKED_UPGRADE, /* a 101 is believed */
} VialHttpAsked;

VialHttpAnswers *vial_http_answers_new(void);
void vial_http_answers_free(VialHttpAnswers *answers); /* accepts NULL */

/* A request goes out to the server; to be called before its bytes do. */
void vial_http_answers_expect(VialHttpAnswers *answers, VialHttpAsked asked);
/* What the server sent. TRUE once its 101 to an upgrade has been seen, and from then on. */
gboolean vial_http_answers_feed(VialHttpAnswers *answers, const guint8 *bytes, gsize size);

/* How many of the next bytes need not be looked at: feeding them or skipping them is the same. */
guint64 vial_http_answers_blind_bytes(const VialHttpAnswers *answers);
void vial_http_answers_skip(VialHttpAnswers *answers, gsize size);
