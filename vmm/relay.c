/* SPDX-License-Identifier: Apache-2.0 */
/* See relay.h. Control thread only. */
#include "relay.h"

#include <errno.h>

int vial_relay_init(struct vial_relay *relay, struct vial_pipe *to_guest, struct vial_pipe *from_guest)
{
	*relay = (struct vial_relay){ .to_guest_pipe = to_guest, .from_guest_pipe = from_guest };
	return vial_wire_reader_init(&relay->from_guest);
}

static bool put(struct vial_relay *relay, const struct vial_wire_frame *frame)
{
	struct vial_wire_frame stamped = *frame;
	uint8_t header[VIAL_WIRE_HEADER_BYTES];

	stamped.epoch = relay->epoch;
	vial_wire_header_encode(&stamped, header);
	return vial_pipe_put_whole(relay->to_guest_pipe, header, sizeof(header), frame->payload, frame->length);
}

static bool send_owed_reset(struct vial_relay *relay)
{
	static const struct vial_wire_frame reset = { .stream = VIAL_WIRE_STREAM_CONNECTION, .type = VIAL_WIRE_RESET };

	if (relay->owes_reset && put(relay, &reset))
		relay->owes_reset = false;
	return !relay->owes_reset;
}

void vial_relay_attach(struct vial_relay *relay)
{
	relay->epoch++;
	relay->owes_reset = true;
	send_owed_reset(relay);
}

bool vial_relay_send(struct vial_relay *relay, const struct vial_wire_frame *frame)
{
	return send_owed_reset(relay) && put(relay, frame);
}

int vial_relay_receive(struct vial_relay *relay, struct vial_wire_frame *out_frame)
{
	for (;;) {
		int result = relay->is_broken ? -EPROTO : vial_wire_reader_next(&relay->from_guest, out_frame);
		size_t room, got;
		uint8_t *space;

		if (result < 0) {
			relay->is_broken = true;
			return result;
		}
		if (result > 0) {
			/* The host's own stream is not the guest's to speak on. */
			if (out_frame->stream == VIAL_WIRE_STREAM_HOST) {
				relay->is_broken = true;
				return -EPROTO;
			}
			if (out_frame->epoch == relay->epoch)
				return 1;
			continue;
		}
		space = vial_wire_reader_space(&relay->from_guest, &room);
		got = vial_pipe_take(relay->from_guest_pipe, space, room);
		if (got == 0)
			return 0;
		vial_wire_reader_filled(&relay->from_guest, got);
	}
}
