/* SPDX-License-Identifier: Apache-2.0 */
/* See kernelpipe.h. */
#include "kernelpipe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a writer or reader may keep when it has nothing to do. */
#define IDLE_BYTES (256u * 1024u)
#define READ_BYTES (64u * 1024u)
#define MAX_LENGTH_DIGITS 8

/* --- writing --- */

static int grow(struct vial_pipe_writer *writer, size_t more)
{
	size_t used = writer->end - writer->start;
	uint8_t *bytes;

	if (used + more > writer->max_pending_bytes)
		return -ENOBUFS;
	if (writer->start > 0) {
		memmove(writer->bytes, writer->bytes + writer->start, used);
		writer->start = 0;
		writer->end = used;
	}
	if (used + more <= writer->capacity)
		return 0;
	bytes = realloc(writer->bytes, used + more);
	if (!bytes)
		return -ENOMEM;
	writer->bytes = bytes;
	writer->capacity = used + more;
	return 0;
}

static void flush(struct vial_pipe_writer *writer);

static void on_writable(struct vial_watch *watch, uint32_t events, void *data)
{
	flush(data);
}

static void flush(struct vial_pipe_writer *writer)
{
	while (writer->start < writer->end) {
		ssize_t count = write(writer->fd, writer->bytes + writer->start, writer->end - writer->start);

		if (count > 0) {
			writer->start += (size_t)count;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN) {
			if (!writer->watch.is_added)
				vial_watch_add(&writer->watch, writer->fd, EPOLLOUT, on_writable, writer);
			return;
		}
		/* The reader is gone; whoever waits for its answer hears of its end. */
		writer->start = writer->end;
	}
	vial_watch_remove(&writer->watch);
	writer->start = writer->end = 0;
	/* A large cell must not keep its memory for the life of the context. */
	if (writer->capacity > IDLE_BYTES) {
		free(writer->bytes);
		writer->bytes = NULL;
		writer->capacity = 0;
	}
}

/* There is room for it. */
static void put(struct vial_pipe_writer *writer, const void *bytes, size_t size_bytes)
{
	memcpy(writer->bytes + writer->end, bytes, size_bytes);
	writer->end += size_bytes;
}

int vial_pipe_write(struct vial_pipe_writer *writer, const void *bytes, size_t size_bytes)
{
	int result;

	if (writer->fd < 0)
		return -EPIPE;
	result = grow(writer, size_bytes);
	if (result < 0)
		return result;
	put(writer, bytes, size_bytes);
	flush(writer);
	return 0;
}

int vial_pipe_write_json(struct vial_pipe_writer *writer, json_t *message)
{
	char *body = message ? json_dumps(message, JSON_COMPACT) : NULL;
	char head[24];
	size_t length;
	int result;

	if (!body)
		return -ENOMEM;
	length = strlen(body);
	snprintf(head, sizeof(head), "%zu\n", length);
	/* In one piece: a system call in a guest costs what a hundred instructions of ours do not, and the kernel wakes once. */
	result = writer->fd < 0 ? -EPIPE : grow(writer, strlen(head) + length);
	if (result == 0) {
		put(writer, head, strlen(head));
		put(writer, body, length);
		flush(writer);
	}
	free(body);
	return result;
}

void vial_pipe_writer_close(struct vial_pipe_writer *writer)
{
	vial_watch_remove(&writer->watch);
	if (writer->fd >= 0)
		close(writer->fd);
	free(writer->bytes);
	*writer = (struct vial_pipe_writer){ .fd = -1 };
}

/* --- reading --- */

ssize_t vial_message_read(struct vial_message_reader *reader, int fd)
{
	ssize_t count;

	if (reader->start > 0) {
		memmove(reader->bytes, reader->bytes + reader->start, reader->end - reader->start);
		reader->end -= reader->start;
		reader->start = 0;
	}
	if (reader->capacity - reader->end < READ_BYTES) {
		size_t capacity = reader->capacity * 2 > reader->end + READ_BYTES ? reader->capacity * 2 : reader->end + READ_BYTES;
		char *bytes = realloc(reader->bytes, capacity);

		if (!bytes)
			return -ENOMEM;
		reader->bytes = bytes;
		reader->capacity = capacity;
	}
	count = read(fd, reader->bytes + reader->end, reader->capacity - reader->end);
	if (count < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	reader->end += (size_t)count;
	return count;
}

/* Where the first message's body is. 1, 0 or -EPROTO. */
static int find_body(const struct vial_message_reader *reader, size_t *out_start, size_t *out_length)
{
	size_t length = 0, position = reader->start;

	for (; position < reader->end && reader->bytes[position] != '\n' && reader->bytes[position] != ' '; position++) {
		char digit = reader->bytes[position];

		if (digit < '0' || digit > '9' || position - reader->start >= MAX_LENGTH_DIGITS)
			return -EPROTO;
		length = length * 10 + (size_t)(digit - '0');
	}
	if (length > VIAL_MESSAGE_MAX_BYTES)
		return -EPROTO;
	if (position >= reader->end)
		return 0;
	*out_start = position + 1;
	*out_length = length;
	return reader->end - *out_start >= length;
}

bool vial_message_is_complete(const struct vial_message_reader *reader)
{
	size_t start, length;

	return find_body(reader, &start, &length) != 0;
}

int vial_message_next(struct vial_message_reader *reader, struct vial_message *out_message)
{
	size_t start, length;
	int result = find_body(reader, &start, &length);

	if (result <= 0)
		return result;
	result = vial_message_decode(reader->bytes + start, length, out_message);
	if (result < 0)
		return result;
	reader->start = start + length;
	/* Nor a large result. */
	if (reader->start == reader->end && reader->capacity > IDLE_BYTES)
		vial_message_reader_clear(reader);
	return 1;
}

bool vial_message_reader_is_empty(const struct vial_message_reader *reader)
{
	return reader->start == reader->end;
}

void vial_message_reader_clear(struct vial_message_reader *reader)
{
	free(reader->bytes);
	*reader = (struct vial_message_reader){ 0 };
}
