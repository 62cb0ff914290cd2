/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames between viald and the agent, by the rules of docs/wire.md: each attach is a new epoch; what goes to the agent is stamped with it,
 * what comes back from an older one is dropped; only whole frames pass, in both directions. Sans I/O except for the pipes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "pipe.h"
#include "wire/wire.h"

struct vial_relay {
	uint16_t epoch;
	bool is_broken;  /* the guest sent what is no frame: nothing it says can be understood any more */
	bool owes_reset; /* the agent has not heard of this epoch: its RESET did not fit yet */
	struct vial_wire_reader from_guest;
	struct vial_pipe *to_guest_pipe;
	struct vial_pipe *from_guest_pipe;
};

int vial_relay_init(struct vial_relay *relay, struct vial_pipe *to_guest, struct vial_pipe *from_guest);
/* A new viald: next epoch, and RESET to the agent. */
void vial_relay_attach(struct vial_relay *relay);
/* False: no room now, try the same frame again when to_guest.room_fd fires. */
bool vial_relay_send(struct vial_relay *relay, const struct vial_wire_frame *frame);
/* 1: the next frame for viald; 0: none; -EPROTO: the guest broke the wire. Frames of older epochs are swallowed here. */
int vial_relay_receive(struct vial_relay *relay, struct vial_wire_frame *out_frame);
