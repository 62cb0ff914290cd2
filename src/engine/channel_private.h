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
	int fd; /* -1: shut */
	guint read_watch;
	guint write_watch;
	VialChannelEvents events;
	gpointer data;
	struct vial_wire_reader reader;
	GQueue outgoing; /* VialOutgoing */
	gsize head_offset;
	gboolean is_held;
	GQueue held; /* VialOutgoing, whole frames of streams */
	guint32 next_stream;
	guint next_tag;
	GHashTable *streams;    /* id -> VialStream, not owned */
	GHashTable *host_calls; /* tag -> VialHostCall */
};

void vial_channel_send(VialChannel *channel, guint32 stream, enum vial_wire_type type, guint8 sub, const void *payload,
                       gsize size);
void vial_channel_send_json(VialChannel *channel, guint32 stream, enum vial_wire_type type, json_t *message);
/* With descriptors, which are consumed. */
void vial_channel_send_fds(VialChannel *channel, json_t *message, GArray *fds);

/* FALSE: the guest broke the contract. */
gboolean vial_stream_handle(VialStream *stream, const struct vial_wire_frame *frame);
/* Takes it off the channel and tells its owner. */
void vial_stream_finish(VialStream *stream, json_t *result, const GError *error);
void vial_host_call_finish(VialHostCall *call, json_t *result, const GError *error);
