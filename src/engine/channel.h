/* SPDX-License-Identifier: Apache-2.0 */
/*
 * viald's end of the wire: one unix socket to a sandbox host process (shim, vmm), many streams to the agent behind it.
 * Main thread only. Everything that arrives is hostile and is checked against docs/wire.md; the first lie closes the
 * channel, which ends the sandbox's usefulness and nobody else's.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "util/error.h"

typedef struct VialChannel VialChannel;
typedef struct VialStream VialStream;

typedef struct {
	void (*hello)(VialChannel *channel, json_t *message, gpointer data);      /* the agent's confirmation */
	void (*frozen)(VialChannel *channel, gpointer data);
	void (*host_event)(VialChannel *channel, json_t *message, gpointer data); /* a state event of the host process */
	void (*closed)(VialChannel *channel, const GError *error, gpointer data); /* once; the socket is gone */
} VialChannelEvents;

/* Takes the fd. */
VialChannel *vial_channel_new(int fd, const VialChannelEvents *events, gpointer data);
/* Closes without calling back; streams still open get `closed` with an error first. Accepts NULL. */
void vial_channel_free(VialChannel *channel);
guint vial_channel_open_streams(const VialChannel *channel);

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

/* NULL callbacks are allowed; unhandled data is consumed. Consumes request. Never returns NULL: failure comes as `closed`. */
VialStream *vial_stream_open(VialChannel *channel, json_t *request, const VialStreamEvents *events, gpointer data);
gsize vial_stream_room(const VialStream *stream);
/* At most vial_stream_room() bytes. */
void vial_stream_send(VialStream *stream, unsigned channel, const void *bytes, gsize size);
void vial_stream_send_eof(VialStream *stream, unsigned channel);
void vial_stream_send_event(VialStream *stream, json_t *event); /* consumes event; small ones only */
void vial_stream_consumed(VialStream *stream, gsize size);
/* Cancels if still open; no callback afterwards. Accepts NULL. */
void vial_stream_free(VialStream *stream);

/* One question, one answer: opens a stream, ignores data and events. Consumes request. */
void vial_channel_call(VialChannel *channel, json_t *request, guint timeout_ms, VialCallDone done, gpointer data);

/* The agent's {"ok":false,"code","error"} as our error. */
GError *vial_agent_error(json_t *result);
