/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the requests of one plain HTTP/1 connection: each must name the same host as the first. It follows the framing of
 * bodies, so that a second request cannot hide behind the first, and lets bytes through only once the head they belong
 * to has been seen whole. Only when the server has switched to a WebSocket, which it says with 101, the rest of the
 * connection is no business of the guard; until then whatever comes must be a request, also behind one that asks for an
 * upgrade. Other protocols to switch to (h2c, TLS) could name other hosts inside: their 101 changes nothing, and what the
 * client says in them is refused. Without I/O; one thread at a time.
 */
#pragma once

#include <glib.h>

#include "net/tls.h"

typedef struct VialHttpGuard VialHttpGuard;

VialHttpGuard *vial_http_guard_new(void);
void vial_http_guard_free(VialHttpGuard *guard);

/*
 * Takes bytes from the client and appends to `out` what may go on to the server. FALSE: the request names another host, or
 * is not HTTP/1 that we could follow; the connection must end.
 */
gboolean vial_http_guard_feed(VialHttpGuard *guard, const guint8 *bytes, gsize size, GByteArray *out);
/* The host of the first request, normalised; "" when it named an address; NULL until it is known. */
const char *vial_http_guard_name(const VialHttpGuard *guard);

/*
 * Looks at bytes from the server, before the client gets them; `out` takes what it has set free of the client's. Of the next
 * blind_bytes() it need only know the number.
 */
void vial_http_guard_answer(VialHttpGuard *guard, const guint8 *bytes, gsize size, GByteArray *out);
guint64 vial_http_guard_blind_bytes(const VialHttpGuard *guard);
void vial_http_guard_skip(VialHttpGuard *guard, gsize size);
