/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread: the unix socket on which viald attaches, one at a time, and the operations it may ask for (docs/microvm.md). The newest
 * viald wins; losing one disturbs nothing. Descriptors come along with the frame that needs them (SCM_RIGHTS).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "machine.h"
#include "relay.h"
#include "wire/wire.h"

#define VIAL_MAX_FORKS 32u
/* A fork into that many: per child a socket, an overlay, a TAP and an exit file, and a new overlay for the parent. */
#define VIAL_CONTROL_MAX_FDS (4u * VIAL_MAX_FORKS + VIAL_MAX_DISKS)
/* viald is slow: stop listening to the guest. */
#define VIAL_CONTROL_OUT_HIGH (1024u * 1024u)

enum vial_phase { VIAL_PHASE_NEW, VIAL_PHASE_CREATED, VIAL_PHASE_RUNNING, VIAL_PHASE_PAUSED, VIAL_PHASE_EXITED };

struct vial_control {
	int listen_fd;
	int connection_fd;
	enum vial_phase phase;
	const char *end_reason;
	char end_detail[96];
	bool is_stopping; /* leave when everything is sent */
	struct vial_machine *machine;
	struct vial_relay relay;
	bool has_relay;
	struct vial_wire_reader from_viald;
	bool has_held_frame; /* a frame for the agent that did not fit yet */
	struct vial_wire_frame held_frame;
	int fds[VIAL_CONTROL_MAX_FDS];
	unsigned fd_count;
	uint8_t *out;
	size_t out_start, out_end, out_capacity;
	/* A snapshot being written by a forked process. */
	pid_t writer_pid;
	int writer_fd;
	json_int_t writer_tag;
	/* Enters the jail after the machine is built. */
	int (*enter_jail)(const char **out_error);
	uint64_t started_ns, first_run_ns;
	json_t *defaults; /* of a start that does not say everything: vmm.json, or NULL */
	int exit_fd;      /* exit.json, or -1 */
};

int vial_control_init(struct vial_control *control, struct vial_machine *machine, int listen_fd);
/* Serves until told to stop. The process's exit status. */
int vial_control_run(struct vial_control *control);

/* For ops.c and fork.c. */
void vial_control_answer(struct vial_control *control, json_int_t tag, json_t *answer);
void vial_control_refuse(struct vial_control *control, json_int_t tag, const char *error, int number);
void vial_control_set_phase(struct vial_control *control, enum vial_phase phase);
/* The next descriptor that came along, or -1. The caller owns it. */
int vial_control_take_fd(struct vial_control *control);
/* In a fork: forgets the parent's viald, listens on a socket of its own and has an exit file (or -1) of its own. */
void vial_control_become_child(struct vial_control *control, int listen_fd, int exit_fd);
/* Closes the descriptors that came along and nobody took. */
void vial_control_drop_fds(struct vial_control *control);
void vial_control_dispatch(struct vial_control *control, const uint8_t *payload, size_t length);
void vial_control_writer_done(struct vial_control *control);
