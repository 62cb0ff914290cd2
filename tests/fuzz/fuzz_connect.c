/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: frames of the Connect protocol, as clients stream them. However they are cut, the same messages come out, and none beyond the limit.
 */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "surfaces/e2b/connect.h"
#include "surfaces/e2b/process.h"
#include "util/json.h"

#define MAX_BYTES 4096

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* What the handlers of streams do with each. */
static void look(json_t *message)
{
	g_autoptr(GBytes) input = vial_e2b_process_bytes(json_object_get(message, "data"), NULL);
	gint64 pid, rows = 0, cols = 0;
	gboolean is_terminal;

	assert(json_is_object(message));
	assert(!vial_e2b_process_pid(message, &pid, NULL) || pid > 0);
	vial_e2b_terminal_size(message, &is_terminal, &rows, &cols, NULL);
}

/* All messages, pushed in pieces of that size; *out_is_broken: they ended in an error. */
static json_t *read_all(const uint8_t *bytes, size_t size, size_t piece, gboolean *out_is_broken)
{
	VialConnectReader reader = { .max_bytes = MAX_BYTES };
	g_autoptr(GError) error = NULL;
	json_t *messages = json_array(), *message;

	for (size_t at = 0; at < size && !error; at += piece) {
		vial_connect_reader_push(&reader, bytes + at, MIN(piece, size - at));
		while (!error && (message = vial_connect_reader_next(&reader, &error))) {
			look(message);
			json_array_append_new(messages, message);
		}
		assert(error || reader.bytes->len < VIAL_CONNECT_FRAME_HEAD_BYTES + MAX_BYTES);
	}
	*out_is_broken = error != NULL;
	assert(!error || g_utf8_validate(error->message, -1, NULL));
	vial_connect_reader_clear(&reader);
	return messages;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	gboolean is_broken, is_broken_too;
	g_autoptr(json_t) whole = read_all(bytes, size, size ? size : 1, &is_broken);

	for (size_t piece = 1; piece <= 7; piece += 3) {
		g_autoptr(json_t) cut = read_all(bytes, size, piece, &is_broken_too);

		assert(json_equal(whole, cut) && is_broken == is_broken_too);
	}
	return 0;
}
