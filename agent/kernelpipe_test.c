/* SPDX-License-Identifier: Apache-2.0 */
/* Messages from a kernel, whole, in pieces and broken; and what late output keeps. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctxlate.h"
#include "kernelpipe.h"
#include "mime.h"
#include "wire/wire.h"

/* The writer needs a loop only when a pipe is full, which it never is here. */
int vial_watch_add(struct vial_watch *watch, int fd, uint32_t events, vial_watch_fn *fn, void *data)
{
	abort();
}

void vial_watch_remove(struct vial_watch *watch)
{
}

static int fds[2];

static void feed(struct vial_message_reader *reader, const char *text)
{
	assert(write(fds[1], text, strlen(text)) == (ssize_t)strlen(text));
	assert(vial_message_read(reader, fds[0]) == (ssize_t)strlen(text));
}

static void expect(struct vial_message_reader *reader, const char *type)
{
	json_t *message;

	assert(vial_message_is_complete(reader));
	assert(vial_message_next(reader, &message) == 1);
	assert(strcmp(json_string_value(json_object_get(message, "type")), type) == 0);
	json_decref(message);
}

static void test_messages_in_pieces(void)
{
	struct vial_message_reader reader = { 0 };
	json_t *message;

	feed(&reader, "1");
	assert(!vial_message_is_complete(&reader) && vial_message_next(&reader, &message) == 0);
	feed(&reader, "2\n{\"type\"");
	assert(!vial_message_is_complete(&reader));
	feed(&reader, ":\"a\"}12\n{\"type\":\"b\"}1");
	expect(&reader, "a");
	expect(&reader, "b");
	assert(vial_message_next(&reader, &message) == 0);
	feed(&reader, "2\n{\"type\":\"c\"}");
	expect(&reader, "c");
	vial_message_reader_clear(&reader);
}

static void test_broken(const char *text)
{
	struct vial_message_reader reader = { 0 };
	json_t *message;

	feed(&reader, text);
	assert(vial_message_is_complete(&reader));
	assert(vial_message_next(&reader, &message) == -EPROTO);
	vial_message_reader_clear(&reader);
}

static void test_writing(void)
{
	struct vial_pipe_writer writer = { .fd = fds[1] };
	struct vial_message_reader reader = { 0 };
	json_t *message = json_pack("{s:s}", "type", "x");

	assert(vial_pipe_write_json(&writer, message) == 0);
	json_decref(message);
	assert(vial_message_read(&reader, fds[0]) > 0);
	expect(&reader, "x");
	assert(vial_pipe_write(&(struct vial_pipe_writer){ .fd = -1 }, "x", 1) == -EPIPE);
	free(writer.bytes);
	vial_message_reader_clear(&reader);
}

struct kept {
	char text[2 * VIAL_LATE_BYTES];
	size_t size, pieces;
};

static void keep(uint8_t channel, const uint8_t *bytes, size_t size_bytes, void *data)
{
	struct kept *kept = data;

	memcpy(kept->text + kept->size, bytes, size_bytes);
	kept->size += size_bytes;
	kept->pieces++;
}

static void test_late_output(void)
{
	static struct kept kept;
	struct vial_late *late = NULL;
	static uint8_t flood[100000];

	vial_late_take(&late, keep, &kept);
	assert(kept.pieces == 0);
	vial_late_add(&late, VIAL_WIRE_STDOUT, (const uint8_t *)"a", 1);
	vial_late_add(&late, VIAL_WIRE_STDOUT, (const uint8_t *)"b", 1);
	vial_late_add(&late, VIAL_WIRE_STDERR, (const uint8_t *)"c", 1);
	vial_late_take(&late, keep, &kept);
	assert(kept.pieces == 2 && memcmp(kept.text, "abc", 3) == 0 && !late);
	memset(flood, 'x', sizeof(flood));
	flood[sizeof(flood) - 1] = '!';
	vial_late_add(&late, VIAL_WIRE_STDOUT, flood, sizeof(flood));
	kept.size = 0;
	vial_late_take(&late, keep, &kept);
	assert(memcmp(kept.text, "[", 1) == 0 && kept.text[kept.size - 1] == '!');
	assert(kept.size <= VIAL_LATE_BYTES + 100 && kept.size > VIAL_LATE_BYTES / 2);
}

int main(void)
{
	assert(pipe(fds) == 0);
	test_messages_in_pieces();
	test_broken("x\n{}");
	test_broken("999999999\n");
	test_broken("99999999\n");
	test_broken("2\n[]");
	test_broken("3\n{x}");
	test_broken("4\n\"\xff\x61\"");
	test_writing();
	test_late_output();
	assert(strcmp(vial_mime_of("/a.b/c.PNG"), "image/png") == 0);
	assert(strcmp(vial_mime_of("/a.png/c"), "application/octet-stream") == 0);
	puts("ok");
	return 0;
}
