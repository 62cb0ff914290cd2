/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves bytes between pairs of sockets on a thread of its own, so that a sandbox's download never holds up the main loop.
 * Data goes through pipes with splice(2) and is not copied, except where a guard looks at requests and the heads of answers.
 * All decisions have been taken before; the thread knows no policy. Calls are for the main thread.
 */
#pragma once

#include <glib.h>

#include "net/httpguard.h"

typedef struct VialRelay VialRelay;

/* The relay is gone when this has been called, on the main loop. */
typedef void (*VialRelayFunc)(guint64 bytes_in, guint64 bytes_out, gpointer data);

/*
 * Takes over both connected, non-blocking sockets and the guard (NULL: none), sends `first` to the server and then moves
 * until both sides are done.
 */
VialRelay *vial_relay_start(int client_fd, int server_fd, VialHttpGuard *guard, GByteArray *first, VialRelayFunc done, gpointer data);
/* Cuts it (both peers see a reset); `done` still comes. */
void vial_relay_cut(VialRelay *relay);
void vial_relay_progress(const VialRelay *relay, guint64 *out_bytes_in, guint64 *out_bytes_out);
