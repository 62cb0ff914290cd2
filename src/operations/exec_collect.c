/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command as one bounded answer. The guest is told the bound, so that it cuts in time and keeps the whole in a file; a guest that does not keep to
 * it is cut here.
 */
#include "operations/exec_private.h"
#include "operations/limits.h"
#include "util/utf8.h"

/* What is no text grows on the way: each byte of it becomes a replacement character of three. */
#define TEXT_MAX_BYTES (3 * VIAL_ANSWER_OUTPUT_BYTES)

typedef struct {
	VialExecDone done;
	gpointer data;
	VialOutput output[2];
} Collection;

static void collection_free(gpointer data)
{
	Collection *collection = data;

	vial_output_clear(&collection->output[0]);
	vial_output_clear(&collection->output[1]);
	g_free(collection);
}

static gboolean on_output(VialOutputStream stream, GBytes *bytes, gpointer data)
{
	Collection *collection = data;

	vial_output_add(&collection->output[stream], g_bytes_get_data(bytes, NULL), g_bytes_get_size(bytes));
	return FALSE;
}

static void on_end(const VialExecEnd *end, const GError *error, gpointer data)
{
	Collection *collection = data;
	VialExecAnswer answer;

	if (error)
		return collection->done(NULL, error, collection->data);
	answer.end = *end;
	for (guint i = 0; i < 2; i++) {
		VialOutput *output = &collection->output[i];

		vial_output_finish(output);
		answer.output[i] = output->text->str;
		answer.output_size[i] = output->text->len;
		answer.end.truncated = answer.end.truncated || output->is_truncated;
	}
	collection->done(&answer, NULL, collection->data);
}

VialOperation *vial_op_exec_collected(const VialCaller *caller, const char *sandbox_id, const VialExecRequest *request, VialExecDone done,
                                      gpointer data, GError **error)
{
	static const VialExecSink sink = { .output = on_output, .end = on_end };
	Collection *collection = g_new0(Collection, 1);

	collection->done = done;
	collection->data = data;
	vial_output_init(&collection->output[0], TEXT_MAX_BYTES);
	vial_output_init(&collection->output[1], TEXT_MAX_BYTES);
	return vial_exec_start(caller, sandbox_id, request, VIAL_ANSWER_OUTPUT_BYTES, &sink, collection, collection_free, error);
}
