/* SPDX-License-Identifier: Apache-2.0 */
/* Messages from a kernel, whole, in pieces, broken and absurd; and what late output keeps. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bundle.h"
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

static void expect(struct vial_message_reader *reader, enum vial_message_type type)
{
	struct vial_message message;

	assert(vial_message_is_complete(reader));
	assert(vial_message_next(reader, &message) == 1);
	assert(message.type == type);
	vial_message_clear(&message);
}

static void test_messages_in_pieces(void)
{
	struct vial_message_reader reader = { 0 };
	struct vial_message message;

	feed(&reader, "1");
	assert(!vial_message_is_complete(&reader) && vial_message_next(&reader, &message) == 0);
	feed(&reader, "6\n{\"type\"");
	assert(!vial_message_is_complete(&reader));
	feed(&reader, ":\"ready\"}18\n{\"type\":\"touched\"}1");
	expect(&reader, VIAL_MESSAGE_READY);
	expect(&reader, VIAL_MESSAGE_TOUCHED);
	assert(vial_message_next(&reader, &message) == 0);
	feed(&reader, "6\n{\"type\":\"ready\"}16 {\"type\":\"ready\"}");
	expect(&reader, VIAL_MESSAGE_READY);
	expect(&reader, VIAL_MESSAGE_READY);
	vial_message_reader_clear(&reader);
}

static void test_broken(const char *text)
{
	struct vial_message_reader reader = { 0 };
	struct vial_message message;

	feed(&reader, text);
	assert(vial_message_is_complete(&reader));
	assert(vial_message_next(&reader, &message) == -EPROTO);
	vial_message_reader_clear(&reader);
}

static void test_writing(void)
{
	struct vial_pipe_writer writer = { .fd = fds[1], .max_pending_bytes = 100 };
	struct vial_message_reader reader = { 0 };
	json_t *message = json_pack("{s:s}", "type", "ready");

	assert(vial_pipe_write_json(&writer, message) == 0);
	json_decref(message);
	assert(vial_message_read(&reader, fds[0]) > 0);
	expect(&reader, VIAL_MESSAGE_READY);
	assert(vial_pipe_write(&writer, (char[101]){ 0 }, 101) == -ENOBUFS);
	assert(vial_pipe_write(&(struct vial_pipe_writer){ .fd = -1 }, "x", 1) == -EPIPE);
	free(writer.bytes);
	vial_message_reader_clear(&reader);
}

/* --- what a message may be --- */

static int decode(const char *text, struct vial_message *out_message)
{
	return vial_message_decode(text, strlen(text), out_message);
}

static void test_every_shape(void)
{
	static const char *const good[] = {
		"{\"type\":\"ready\",\"pid\":1}",
		"{\"type\":\"result\",\"id\":\"x\",\"data\":{},\"is_main_result\":true}",
		"{\"type\":\"error\",\"id\":\"x\",\"name\":\"E\",\"value\":\"\",\"traceback\":\"\"}",
		"{\"type\":\"ending\",\"id\":\"x\"}",
		"{\"type\":\"done\",\"id\":\"x\",\"status\":\"ok\",\"execution_count\":1,\"exit_status\":-1}",
		"{\"type\":\"sync\",\"number\":1}",
		"{\"type\":\"reseeded\",\"number\":4294967295}",
		"{\"type\":\"touched\"}",
		"{\"type\":\"clear\",\"id\":\"x\",\"wait\":true}",
	};
	static const char *const bad[] = {
		"{}",
		"{\"type\":1}",
		"{\"type\":\"other\"}",
		"{\"type\":\"result\",\"data\":{}}",
		"{\"type\":\"result\",\"id\":1,\"data\":{}}",
		"{\"type\":\"result\",\"id\":\"x\",\"data\":[]}",
		"{\"type\":\"result\",\"id\":\"x\",\"data\":{},\"is_main_result\":1}",
		"{\"type\":\"result\",\"id\":\"x\",\"data\":{},\"display_id\":{}}",
		"{\"type\":\"error\",\"id\":\"x\",\"name\":\"E\",\"value\":\"\"}",
		"{\"type\":\"error\",\"id\":\"x\",\"name\":[],\"value\":\"\",\"traceback\":\"\"}",
		"{\"type\":\"done\",\"id\":\"x\",\"execution_count\":1.5}",
		"{\"type\":\"done\",\"id\":\"x\",\"execution_count\":99999999999999999999}",
		"{\"type\":\"done\",\"id\":\"x\",\"exit_status\":null}",
		"{\"type\":\"sync\",\"number\":-1}",
		"{\"type\":\"sync\",\"number\":\"1\"}",
		"{\"type\":\"reseeded\",\"number\":4294967296}",
		"{\"type\":\"clear\"}",
		"{\"type\":\"clear\",\"id\":\"x\",\"wait\":1}",
	};
	struct vial_message message;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert(decode(good[i], &message) == 0 && message.type == (enum vial_message_type)i);
		vial_message_clear(&message);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert(decode(bad[i], &message) == -EPROTO);
}

/* {"type":"result","id":"x","data":{"application/json": VALUE}} */
static int decode_result(const char *value, struct vial_message *out_message)
{
	static const char head[] = "{\"type\":\"result\",\"id\":\"x\",\"data\":{\"application/json\":";
	size_t size = strlen(head) + strlen(value) + 3;
	char *text = malloc(size);
	int result;

	snprintf(text, size, "%s%s}}", head, value);
	result = decode(text, out_message);
	free(text);
	return result;
}

static void test_depth(void)
{
	struct vial_message message;

	for (size_t depth = VIAL_RESULT_MAX_DEPTH - 1; depth <= VIAL_RESULT_MAX_DEPTH + 7; depth++) {
		bool is_refused = depth > VIAL_RESULT_MAX_DEPTH;
		char text[128] = "";

		memset(text, '[', depth);
		memset(text + depth, ']', depth);
		assert(decode_result(text, &message) == 0);
		assert(message.type == (is_refused ? VIAL_MESSAGE_REFUSED : VIAL_MESSAGE_RESULT) && !message.problem == !is_refused);
		vial_message_clear(&message);
	}
	assert(decode_result("\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[\"", &message) == 0 && message.type == VIAL_MESSAGE_RESULT);
	vial_message_clear(&message);
}

static void test_values(void)
{
	size_t count = VIAL_MESSAGE_MAX_VALUES + 10;
	char *text = malloc(2 * count + 2);
	struct vial_message message;

	for (size_t i = 0; i < count; i++)
		memcpy(text + 1 + 2 * i, "0,", 2);
	text[0] = '[';
	strcpy(text + 2 * count, "]");
	assert(decode_result(text, &message) == 0 && message.type == VIAL_MESSAGE_REFUSED);
	free(text);
}

static void test_long_names_and_texts_are_cut(void)
{
	size_t size = 3u << 20;
	char *text = malloc(size + 1);
	struct vial_message message;
	json_t *json;

	memset(text, 'x', size);
	text[size] = '\0';
	json = json_pack("{s:s,s:s,s:s,s:s,s:s}", "type", "error", "id", "x", "name", text, "value", text, "traceback", text);
	free(text);
	text = json_dumps(json, 0);
	json_decref(json);
	assert(decode(text, &message) == 0);
	free(text);
	assert(json_string_length(json_object_get(message.json, "name")) == VIAL_ERROR_NAME_BYTES);
	assert(json_string_length(json_object_get(message.json, "value")) < VIAL_ERROR_TEXT_BYTES + 100);
	assert(json_string_length(json_object_get(message.json, "traceback")) < VIAL_ERROR_TEXT_BYTES + 100);
	vial_message_clear(&message);
	assert(decode("{\"type\":\"error\",\"id\":\"x\",\"name\":\"a\\u001b[2J\\u009b\xc3\xa9\",\"value\":\"\",\"traceback\":\"\"}", &message) == 0);
	assert(strcmp(json_string_value(json_object_get(message.json, "name")), "a\xef\xbf\xbd[2J\xef\xbf\xbd\xc3\xa9") == 0);
	vial_message_clear(&message);
}

static void test_mime_types(void)
{
	static const char *const good[] = { "text/plain", "image/svg+xml", "application/vnd.vial.data+json", "text/html; charset=utf-8",
		                            "x/y;a=\"b c\"" };
	static const char *const bad[] = { "",      "text",        "text/",          "/plain", "text/plain\n", "text/\x1b[31m",
		                           "a b/c", "text/pl ain", "text/html;\x1b", "a/b/c",  "\xc3\xa9/x" };
	char large[VIAL_BUNDLE_MIME_BYTES + 2] = "a/";

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert(vial_bundle_is_mime(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert(!vial_bundle_is_mime(bad[i]));
	memset(large + 2, 'x', sizeof(large) - 3);
	assert(!vial_bundle_is_mime(large));
}

static json_t *check(json_t *data, bool *out_is_cut)
{
	json_t *bundle = vial_bundle_check(data, out_is_cut);

	json_decref(data);
	return bundle;
}

static void test_bundles(void)
{
	char name[32], key[VIAL_BUNDLE_KEY_BYTES + 2];
	json_t *bundle, *object = json_object(), *many = json_object();
	bool is_cut;

	bundle = check(json_pack("{s:s,s:[i]}", "text/plain", "a", "application/json", 1), &is_cut);
	assert(!is_cut && json_object_size(bundle) == 2);
	json_decref(bundle);

	bundle = check(json_pack("{s:s,s:s}", "text/plain", "a", "x/\x1b[2J", "b"), &is_cut);
	assert(is_cut && json_object_size(bundle) == 1 &&
	       strncmp(json_string_value(json_object_get(bundle, "text/plain")), "a\n[left out: 1 ", 15) == 0);
	json_decref(bundle);

	for (unsigned i = 0; i <= VIAL_BUNDLE_MAX_KEYS; i++) {
		snprintf(name, sizeof(name), "%u", i);
		json_object_set_new(object, name, json_null());
	}
	bundle = check(json_pack("{s:s,s:[o]}", "image/png", "a", "application/json", object), &is_cut);
	assert(is_cut && json_object_get(bundle, "image/png") && !json_object_get(bundle, "application/json") &&
	       json_object_get(bundle, "text/plain"));
	json_decref(bundle);

	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	bundle = check(json_pack("{s:{s:{s:i}}}", "application/json", "a", key, 1), &is_cut);
	assert(is_cut && json_object_size(bundle) == 1);
	json_decref(bundle);

	for (unsigned i = 0; i < 2 * VIAL_BUNDLE_MAX_TYPES; i++) {
		snprintf(name, sizeof(name), "x/y%u", i);
		json_object_set_new(many, name, json_string(""));
	}
	bundle = check(many, &is_cut);
	assert(is_cut && json_object_size(bundle) == VIAL_BUNDLE_MAX_TYPES + 1);
	json_decref(bundle);

	bundle = check(json_pack("{s:{}}", "text/plain"), &is_cut);
	assert(is_cut && json_is_string(json_object_get(bundle, "text/plain")));
	json_decref(bundle);
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
	test_every_shape();
	test_depth();
	test_values();
	test_long_names_and_texts_are_cut();
	test_mime_types();
	test_bundles();
	test_late_output();
	assert(strcmp(vial_mime_of("/a.b/c.PNG"), "image/png") == 0);
	assert(strcmp(vial_mime_of("/a.png/c"), "application/octet-stream") == 0);
	puts("ok");
	return 0;
}
