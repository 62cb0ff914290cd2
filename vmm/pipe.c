/* SPDX-License-Identifier: Apache-2.0 */
/* See pipe.h. */
#include "pipe.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files.h"

static int open_events(struct vial_pipe *pipe)
{
	pipe->data_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	pipe->room_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return pipe->data_fd < 0 || pipe->room_fd < 0 ? -errno : 0;
}

int vial_pipe_init(struct vial_pipe *pipe)
{
	*pipe = (struct vial_pipe){ .data_fd = -1, .room_fd = -1 };
	pthread_mutex_init(&pipe->lock, NULL);
	pipe->bytes = mmap(NULL, VIAL_PIPE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pipe->bytes == MAP_FAILED) {
		pipe->bytes = NULL;
		return -ENOMEM;
	}
	return open_events(pipe);
}

static void close_events(struct vial_pipe *pipe)
{
	vial_file_close(&pipe->data_fd);
	vial_file_close(&pipe->room_fd);
}

void vial_pipe_close(struct vial_pipe *pipe)
{
	close_events(pipe);
	if (pipe->bytes)
		munmap(pipe->bytes, VIAL_PIPE_BYTES);
	pipe->bytes = NULL;
}

int vial_pipe_renew(struct vial_pipe *pipe)
{
	int result;

	close_events(pipe);
	pthread_mutex_init(&pipe->lock, NULL);
	result = open_events(pipe);
	/* Both ends look once: what was posted to the old descriptors is lost. */
	if (result == 0) {
		vial_file_post(pipe->data_fd);
		vial_file_post(pipe->room_fd);
	}
	return result;
}

static void copy_in(struct vial_pipe *pipe, const uint8_t *data, size_t length)
{
	size_t end = (pipe->start + pipe->used) % VIAL_PIPE_BYTES;
	size_t first = length < VIAL_PIPE_BYTES - end ? length : VIAL_PIPE_BYTES - end;

	if (length == 0)
		return;
	memcpy(pipe->bytes + end, data, first);
	memcpy(pipe->bytes, data + first, length - first);
	pipe->used += length;
}

size_t vial_pipe_put(struct vial_pipe *pipe, const void *data, size_t length)
{
	size_t room;

	pthread_mutex_lock(&pipe->lock);
	room = VIAL_PIPE_BYTES - pipe->used;
	if (length > room) {
		length = room;
		pipe->is_writer_waiting = true;
	}
	copy_in(pipe, data, length);
	pthread_mutex_unlock(&pipe->lock);
	if (length > 0)
		vial_file_post(pipe->data_fd);
	return length;
}

bool vial_pipe_has_room(struct vial_pipe *pipe, size_t length)
{
	bool fits;

	pthread_mutex_lock(&pipe->lock);
	fits = length <= VIAL_PIPE_BYTES - pipe->used;
	if (!fits)
		pipe->is_writer_waiting = true;
	pthread_mutex_unlock(&pipe->lock);
	return fits;
}

bool vial_pipe_put_whole(struct vial_pipe *pipe, const void *head, size_t head_length, const void *data, size_t length)
{
	bool fits;

	pthread_mutex_lock(&pipe->lock);
	fits = head_length + length <= VIAL_PIPE_BYTES - pipe->used;
	if (fits) {
		copy_in(pipe, head, head_length);
		copy_in(pipe, data, length);
	} else {
		pipe->is_writer_waiting = true;
	}
	pthread_mutex_unlock(&pipe->lock);
	if (fits)
		vial_file_post(pipe->data_fd);
	return fits;
}

size_t vial_pipe_take(struct vial_pipe *pipe, void *out, size_t length)
{
	size_t first;
	bool is_waiting;

	pthread_mutex_lock(&pipe->lock);
	if (length > pipe->used)
		length = pipe->used;
	first = length < VIAL_PIPE_BYTES - pipe->start ? length : VIAL_PIPE_BYTES - pipe->start;
	memcpy(out, pipe->bytes + pipe->start, first);
	memcpy((uint8_t *)out + first, pipe->bytes, length - first);
	pipe->start = (pipe->start + length) % VIAL_PIPE_BYTES;
	pipe->used -= length;
	/* Three quarters empty before the writer is woken: no ping-pong over single bytes. */
	is_waiting = pipe->is_writer_waiting && pipe->used <= VIAL_PIPE_BYTES / 4;
	if (is_waiting)
		pipe->is_writer_waiting = false;
	pthread_mutex_unlock(&pipe->lock);
	if (is_waiting)
		vial_file_post(pipe->room_fd);
	return length;
}

size_t vial_pipe_used(struct vial_pipe *pipe)
{
	size_t used;

	pthread_mutex_lock(&pipe->lock);
	used = pipe->used;
	pthread_mutex_unlock(&pipe->lock);
	return used;
}

void vial_pipe_clear_events(int fd)
{
	uint64_t count;

	(void)!read(fd, &count, sizeof(count));
}
