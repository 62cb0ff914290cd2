/* SPDX-License-Identifier: Apache-2.0 */
#include "service/build_command.h"

#include <string.h>

#include "engine/message.h"
#include "util/json.h"
#include "wire/wire.h"

#define PACE_MS 20
#define PACE_BYTES (1024 * 1024)

static gboolean on_pace(gpointer data)
{
	VialCommandOutput *output = data;
	gsize piece = MIN(output->owed, PACE_BYTES);

	output->owed -= piece;
	if (piece > 0)
		vial_stream_consumed(output->stream, piece);
	if (output->owed > 0)
		return G_SOURCE_CONTINUE;
	output->pace = 0;
	return G_SOURCE_REMOVE;
}

void vial_command_output_take(VialCommandOutput *output, VialStream *stream, unsigned channel, GBytes *bytes)
{
	gsize size;
	const void *printed = g_bytes_get_data(bytes, &size);

	if (output->log)
		vial_build_log_output(output->log, channel == VIAL_WIRE_STDERR, printed, size);
	if (output->log && !vial_build_log_is_full(output->log)) {
		vial_stream_consumed(stream, size);
		return;
	}
	output->stream = stream;
	output->owed += size;
	if (!output->pace)
		output->pace = g_timeout_add(PACE_MS, on_pace, output);
}

void vial_command_output_clear(VialCommandOutput *output)
{
	g_clear_handle_id(&output->pace, g_source_remove);
	output->stream = NULL;
	output->owed = 0;
}

void vial_command_tail_add(GString *tail, const void *bytes, gsize size)
{
	g_string_append_len(tail, bytes, (gssize)size);
	if (tail->len > VIAL_COMMAND_TAIL_BYTES)
		g_string_erase(tail, 0, (gssize)(tail->len - VIAL_COMMAND_TAIL_BYTES));
}

char *vial_command_tail_text(const GString *tail)
{
	gboolean is_cut = tail->len == VIAL_COMMAND_TAIL_BYTES;
	const char *newline = is_cut ? memchr(tail->str, '\n', tail->len) : NULL;
	const char *begin = newline ? newline + 1 : is_cut ? tail->str + tail->len : tail->str;

	return g_utf8_make_valid(begin, (gssize)(tail->len - (gsize)(begin - tail->str)));
}

gboolean vial_command_end_read(const json_t *result, int *out_exit_code, char **out_how)
{
	const json_t *code = json_object_get(result, "exit_code"), *signal = json_object_get(result, "signal");
	json_int_t value = json_integer_value(code);

	if (!json_is_integer(code) || value < -255 || value > 255 || (signal && !json_is_string(signal)))
		return FALSE;
	*out_exit_code = (int)value & 255;
	if (value == 0 && !signal) {
		*out_how = NULL;
	} else if (json_is_true(json_object_get(result, "oom"))) {
		*out_how = g_strdup("it was ended because memory ran out");
	} else if (json_is_true(json_object_get(result, "zone_lost"))) {
		*out_how = g_strdup("it ended all processes of its sandbox, itself too");
	} else if (signal) {
		g_autofree char *name = vial_message_text(signal, "?");

		*out_how = g_strdup_printf("it was ended by the signal %s", name);
	} else {
		*out_how = g_strdup_printf("it exited with %d", *out_exit_code);
	}
	return TRUE;
}
