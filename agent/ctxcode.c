/* SPDX-License-Identifier: Apache-2.0 */
/* See ctxcode.h. */
#include "ctxcode.h"

#include <stdlib.h>
#include <string.h>

#include "ops.h"
#include "wire/wire.h"

#define FIRST_BYTES (256u * 1024u)

struct upload {
	json_t *request;
	void (*fn)(struct vial_stream *stream, json_t *request);
	char *bytes;
	size_t size, capacity, expected;
};

static size_t waiting_bytes;
/* Between us and whoever takes the stream over. */
static const struct vial_stream_handlers no_handlers;

bool vial_code_take_budget(struct vial_stream *stream, size_t size_bytes)
{
	if (size_bytes > VIAL_MAX_WAITING_CODE_BYTES - waiting_bytes) {
		vial_stream_close_error(stream, VIAL_LIMIT, "%u MiB of code are waiting to run in this sandbox already; try again when they have run",
		                        (unsigned)(waiting_bytes >> 20));
		return false;
	}
	waiting_bytes += size_bytes;
	return true;
}

void vial_code_give_budget(size_t size_bytes)
{
	waiting_bytes -= size_bytes;
}

static void free_upload(struct upload *upload)
{
	vial_code_give_budget(upload->expected);
	json_decref(upload->request);
	free(upload->bytes);
	free(upload);
}

static void refuse(struct vial_stream *stream, const char *problem)
{
	free_upload(vial_stream_data(stream));
	vial_stream_close_error(stream, VIAL_INVALID, "%s; nothing ran", problem);
}

static bool make_space(struct upload *upload, size_t more)
{
	size_t capacity = upload->capacity ? upload->capacity : FIRST_BYTES;
	char *bytes;

	while (capacity < upload->size + more)
		capacity *= 2;
	if (capacity > upload->expected)
		capacity = upload->expected;
	if (capacity == upload->capacity)
		return true;
	bytes = realloc(upload->bytes, capacity);
	if (!bytes)
		return false;
	upload->bytes = bytes;
	upload->capacity = capacity;
	return true;
}

static void on_data(struct vial_stream *stream, uint8_t channel, const uint8_t *bytes, size_t size_bytes)
{
	struct upload *upload = vial_stream_data(stream);

	if (channel != VIAL_WIRE_MAIN) {
		vial_stream_consumed(stream, size_bytes);
		return;
	}
	if (size_bytes > upload->expected - upload->size) {
		refuse(stream, "more code came than \"code_bytes\" says");
		return;
	}
	if (size_bytes > 0 && !make_space(upload, size_bytes)) {
		free_upload(upload);
		vial_stream_close_error(stream, VIAL_LIMIT, "the sandbox has no memory for code of that size; nothing ran");
		return;
	}
	if (size_bytes > 0)
		memcpy(upload->bytes + upload->size, bytes, size_bytes);
	upload->size += size_bytes;
	vial_stream_consumed(stream, size_bytes);
}

static void on_eof(struct vial_stream *stream, uint8_t channel)
{
	struct upload *upload = vial_stream_data(stream);
	void (*fn)(struct vial_stream *, json_t *) = upload->fn;
	json_t *request, *code;

	if (channel != VIAL_WIRE_MAIN)
		return;
	if (upload->size < upload->expected) {
		refuse(stream, "less code came than \"code_bytes\" says");
		return;
	}
	if (upload->size > 0 && memchr(upload->bytes, '\0', upload->size)) {
		refuse(stream, "the code has a NUL character in it");
		return;
	}
	code = json_stringn(upload->size > 0 ? upload->bytes : "", upload->size);
	if (!code) {
		refuse(stream, "the code is not valid UTF-8");
		return;
	}
	request = json_incref(upload->request);
	free_upload(upload);
	vial_stream_set_handlers(stream, &no_handlers, NULL);
	json_object_set_new(request, "code", code);
	fn(stream, request);
	json_decref(request);
}

static void on_cancel(struct vial_stream *stream)
{
	free_upload(vial_stream_data(stream));
	vial_stream_close_error(stream, VIAL_UNAVAILABLE, "cancelled before it began");
}

static void on_drop(struct vial_stream *stream)
{
	free_upload(vial_stream_data(stream));
}

static const struct vial_stream_handlers handlers = {
	.on_data = on_data,
	.on_eof = on_eof,
	.on_cancel = on_cancel,
	.on_drop = on_drop,
};

void vial_code_receive(struct vial_stream *stream, json_t *request, void (*fn)(struct vial_stream *stream, json_t *request))
{
	struct upload *upload;
	json_int_t size;

	if (json_object_get(request, "code")) {
		vial_stream_close_error(stream, VIAL_INVALID, "give either \"code\" or \"code_bytes\"");
		return;
	}
	if (!vial_request_integer(stream, request, "code_bytes", 0, VIAL_MAX_CODE_BYTES, 0, &size))
		return;
	if (!vial_code_take_budget(stream, (size_t)size))
		return;
	upload = calloc(1, sizeof(*upload));
	if (!upload) {
		vial_code_give_budget((size_t)size);
		vial_stream_close_error(stream, VIAL_INTERNAL, "out of memory");
		return;
	}
	*upload = (struct upload){ .request = json_incref(request), .fn = fn, .expected = (size_t)size };
	vial_stream_set_handlers(stream, &handlers, upload);
}
