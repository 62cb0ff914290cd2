/* SPDX-License-Identifier: Apache-2.0 */
/* What channel.c (the connection) and stream.c (the conversations on it) know of each other. */
#pragma once

#include "engine/channel.h"
#include "wire/wire.h"

typedef struct VialHostCall VialHostCall;

/* Bytes that did not fit yet. */
typedef struct {
	GBytes *bytes;
	GArray *fds; /* sent with the first of them; NULL: none, or gone already */
} VialOutgoing;

struct VialChannel {
	int refs;
	int fd;     /* -1: shut */
	pid_t peer; /* who wrote the first bytes, by the kernel's word; 0 before that */
	guint read_watch;
	guint write_watch;
	char *violation; /* the first lie, as a sentence; it closes the channel */
	guint violation_source;
	VialChannelEvents events;
	gpointer data;
	struct vial_wire_reader reader;
	GQueue outgoing; /* VialOutgoing */
	gsize head_offset;
	gboolean is_held;
	GQueue held; /* VialOutgoing, whole frames of streams */
	guint32 next_stream;
	guint next_tag;
	guint hellos_due; /* asked for, not yet answered */
	guint freezes_due;
	gboolean has_confirmed; /* a HELLO: from then on the agent only answers */
	gsize partial_bytes;    /* of all streams' EVENTs that are not whole yet */
	GHashTable *streams;    /* id -> VialStream, not owned */
	GHashTable *ending;     /* ids of streams that their owner has left and whose CLOSE is still to come */
	GHashTable *host_calls; /* tag -> VialHostCall */
};

void vial_channel_send(VialChannel *channel, guint32 stream, enum vial_wire_type type, guint8 sub, const void *payload, gsize size);
void vial_channel_send_json(VialChannel *channel, guint32 stream, enum vial_wire_type type, json_t *message);
/* With descriptors, which are consumed. */
void vial_channel_send_fds(VialChannel *channel, json_t *message, GArray *fds);

/* NULL, or how the guest broke the contract. */
const char *vial_stream_handle(VialStream *stream, const struct vial_wire_frame *frame);
/* Takes it off the channel and tells its owner. */
void vial_stream_finish(VialStream *stream, json_t *result, const GError *error);
/* `error` is the host process's refusal, or why there is no answer. */
void vial_host_call_finish(VialHostCall *call, json_t *result, const GError *error);
/* A JSON object of the guest's within our bounds, or NULL. */
json_t *vial_channel_parse(const void *bytes, gsize size);
