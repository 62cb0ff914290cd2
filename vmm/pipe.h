/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded ring of bytes between two threads, with an eventfd at each end: one says "there are bytes", the other "there is room again".
 * Two of them join the console device (device thread) and the relay (control thread). What they hold belongs to the machine's state:
 * a snapshot takes it along, so no frame is ever cut in two.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More than one whole frame, so that a relay can always put one down. */
#define VIAL_PIPE_BYTES (512u * 1024u)

struct vial_pipe {
	uint8_t *bytes;
	size_t start;
	size_t used;
	bool is_writer_waiting;
	int data_fd; /* readable: bytes were added */
	int room_fd; /* readable: room was made while the writer waited */
	pthread_mutex_t lock;
};

int vial_pipe_init(struct vial_pipe *pipe);
void vial_pipe_close(struct vial_pipe *pipe);
/* In a fork: the eventfds are shared with the parent and must be our own. */
int vial_pipe_renew(struct vial_pipe *pipe);

/* Adds up to `length` bytes and returns how many; fewer arms room_fd. */
size_t vial_pipe_put(struct vial_pipe *pipe, const void *data, size_t length);
/* Whether `length` bytes fit; if not, room_fd is armed in the same step. */
bool vial_pipe_has_room(struct vial_pipe *pipe, size_t length);
/* All or nothing. */
bool vial_pipe_put_whole(struct vial_pipe *pipe, const void *head, size_t head_length, const void *data, size_t length);
size_t vial_pipe_take(struct vial_pipe *pipe, void *out, size_t length);
size_t vial_pipe_used(struct vial_pipe *pipe);
void vial_pipe_clear_events(int fd);
