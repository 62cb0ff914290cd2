/* SPDX-License-Identifier: Apache-2.0 */
/*
 * viald's end of the wire: one unix socket to a sandbox host process (shim, vmm), many streams to the agent behind it.
 * Main thread only. Everything that arrives is hostile and is checked against docs/wire.md; the first lie closes the
 * channel, which ends the sandbox's usefulness and nobody else's.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include <sys/types.h>

#include "engine/message.h"
#include "util/error.h"

typedef struct VialChannel VialChannel;
typedef struct VialStream VialStream;

typedef struct {
	void (*hello)(VialChannel *channel, const VialAgentHello *hello, gpointer data); /* the agent's confirmation */
	void (*frozen)(VialChannel *channel, gpointer data);
	void (*host_state)(VialChannel *channel, const char *state, gpointer data); /* of the host process; a static name */
	/* Once; the socket is gone. VIAL_ERROR_GATEWAY: because of a lie, and the text says which; else VIAL_ERROR_UNAVAILABLE. */
	void (*closed)(VialChannel *channel, const GError *error, gpointer data);
} VialChannelEvents;

/* Takes the fd. */
VialChannel *vial_channel_new(int fd, const VialChannelEvents *events, gpointer data);
/* Closes without calling back; streams still open get `closed` with an error first. Accepts NULL. */
void vial_channel_free(VialChannel *channel);
/* For one that is about to be freed: its streams end now, with that error. */
void vial_channel_end_streams(VialChannel *channel, const GError *error);
guint vial_channel_open_streams(const VialChannel *channel);
/* The process that wrote the first bytes, by the kernel's word and not by its own; 0 before they came. */
pid_t vial_channel_peer(const VialChannel *channel);
/*
 * For whoever decodes an answer and finds a field missing or absurd: the channel is closed for it as for any other lie, from the loop, and the
 * sandbox ends with that reason. `what` is our own sentence and goes on from "its agent broke the protocol: ". Accepts NULL.
 */
void vial_channel_violation(VialChannel *channel, const char *what);

void vial_channel_send_hello(VialChannel *channel, json_t *message); /* consumes message */
void vial_channel_send_freeze(VialChannel *channel);
/*
 * Between FREEZE and the HELLO that ends it nothing else may reach the agent, or the checkpoint would have half a frame in
 * it: while held, streams' frames wait here (credit bounds them).
 */
void vial_channel_hold(VialChannel *channel, gboolean is_held);

/* Called once with the answer, or with an error; `result` is borrowed. */
typedef void (*VialCallDone)(json_t *result, const GError *error, gpointer data);

/*
 * An operation of the host process (stream 0xffffffff). Consumes request. The descriptors `fds` (GArray of int, may be NULL) travel
 * with the first bytes of it; they are consumed too, whatever happens.
 */
void vial_channel_host_call(VialChannel *channel, json_t *request, GArray *fds, guint timeout_ms, VialCallDone done, gpointer data);
/* An array for them: freeing it closes what is in it. */
GArray *vial_fds_new(void);

typedef struct {
	/* Bytes of the agent; give their credit back with vial_stream_consumed() once they have gone somewhere. */
	void (*data)(VialStream *stream, unsigned channel, GBytes *bytes, gpointer data);
	/* A JSON event; `size` is its credit, given back likewise. */
	void (*event)(VialStream *stream, json_t *event, gsize size, gpointer data);
	void (*eof)(VialStream *stream, unsigned channel, gpointer data);
	void (*writable)(VialStream *stream, gpointer data); /* room again after vial_stream_room() was 0 */
	/* The end: the agent's CLOSE with ok:true, or an error. The owner still calls vial_stream_free(). */
	void (*closed)(VialStream *stream, json_t *result, const GError *error, gpointer data);
} VialStreamEvents;

/*
 * NULL callbacks are allowed; unhandled data is consumed. Consumes request. Never returns NULL: failure comes as `closed`, from the loop. So does a
 * NULL channel, that of a sandbox whose guest has just ended: UNAVAILABLE.
 */
VialStream *vial_stream_open(VialChannel *channel, json_t *request, const VialStreamEvents *events, gpointer data);
gsize vial_stream_room(const VialStream *stream);
/* At most vial_stream_room() bytes. */
void vial_stream_send(VialStream *stream, unsigned channel, const void *bytes, gsize size);
void vial_stream_send_eof(VialStream *stream, unsigned channel);
void vial_stream_send_event(VialStream *stream, json_t *event); /* consumes event; small ones only */
void vial_stream_consumed(VialStream *stream, gsize size);
/* Cancels if still open; no callback afterwards. Accepts NULL. */
void vial_stream_free(VialStream *stream);

/* One question, one answer: opens a stream, ignores data and events. Consumes request. A NULL channel is fine, see above. */
void vial_channel_call(VialChannel *channel, json_t *request, guint timeout_ms, VialCallDone done, gpointer data);
