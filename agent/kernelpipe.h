/* SPDX-License-Identifier: Apache-2.0 */
/* The two directions of a kernel's pipes: a writer that never blocks and a reader that finds the messages. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "kernelmsg.h"
#include "loop.h"

/* Bytes on their way into a pipe whose reader may be busy. Start it zeroed with fd -1 and its limit. */
struct vial_pipe_writer {
	int fd;
	size_t max_pending_bytes;
	struct vial_watch watch;
	uint8_t *bytes;
	size_t start, end, capacity;
};

/* 0, -ENOBUFS (the reader is too far behind) or another errno. */
int vial_pipe_write(struct vial_pipe_writer *writer, const void *bytes, size_t size_bytes);
/* As a message. */
int vial_pipe_write_json(struct vial_pipe_writer *writer, json_t *message);
void vial_pipe_writer_close(struct vial_pipe_writer *writer);

/* What has been read of the message pipe and not been handed over. */
struct vial_message_reader {
	char *bytes;
	size_t start, end, capacity;
};

/* One read(2). The count, 0 at the end, -EAGAIN, or another errno. */
ssize_t vial_message_read(struct vial_message_reader *reader, int fd);
/* 1: *out_message is the next one, to be cleared; 0: more is needed; -EPROTO: garbage, and what follows cannot be understood. */
int vial_message_next(struct vial_message_reader *reader, struct vial_message *out_message);
bool vial_message_is_complete(const struct vial_message_reader *reader);
bool vial_message_reader_is_empty(const struct vial_message_reader *reader);
void vial_message_reader_clear(struct vial_message_reader *reader);
