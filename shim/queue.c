/* SPDX-License-Identifier: Apache-2.0 */
/* A byte queue between a fast and a slow file descriptor. Its bound is kept by the callers, who stop reading. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

size_t shim_queue_size(const struct shim_queue *queue)
{
	return queue->end - queue->start;
}

void shim_queue_clear(struct shim_queue *queue)
{
	free(queue->bytes);
	*queue = (struct shim_queue){ 0 };
}

int shim_queue_push(struct shim_queue *queue, const void *bytes, size_t size)
{
	if (queue->start == queue->end)
		queue->start = queue->end = 0;
	if (queue->capacity - queue->end < size && queue->start > 0) {
		memmove(queue->bytes, queue->bytes + queue->start, shim_queue_size(queue));
		queue->end -= queue->start;
		queue->start = 0;
	}
	if (queue->capacity - queue->end < size) {
		size_t capacity = (queue->end + size) * 2;
		uint8_t *grown = realloc(queue->bytes, capacity);

		if (!grown)
			return -ENOMEM;
		queue->bytes = grown;
		queue->capacity = capacity;
	}
	memcpy(queue->bytes + queue->end, bytes, size);
	queue->end += size;
	return 0;
}

int shim_queue_flush(struct shim_queue *queue, int fd)
{
	while (queue->start < queue->end) {
		ssize_t written = write(fd, queue->bytes + queue->start, queue->end - queue->start);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return errno == EAGAIN ? 0 : -errno;
		queue->start += (size_t)written;
	}
	return 0;
}
