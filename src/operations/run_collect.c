/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run as one answer. The guest is told the budget, so that it cuts in time and keeps the rest in a file; a guest that does not keep to it is cut
 * here. Either way the answer says so.
 */
#include "operations/limits.h"
#include "operations/run_private.h"
#include "util/json.h"
#include "util/utf8.h"

typedef struct {
	VialRunDone done;
	gpointer data;
	VialOutput output[2];
	json_t *results;
	gsize results_bytes;
	gint64 omitted;
	gboolean has_error;
	char *name, *value, *traceback;
} Collection;

static void collection_free(gpointer data)
{
	Collection *collection = data;

	vial_output_clear(&collection->output[0]);
	vial_output_clear(&collection->output[1]);
	json_decref(collection->results);
	g_free(collection->name);
	g_free(collection->value);
	g_free(collection->traceback);
	g_free(collection);
}

static gboolean on_output(VialOutputStream stream, const char *text, gsize size, gpointer data)
{
	Collection *collection = data;

	vial_output_add(&collection->output[stream], text, size);
	return FALSE;
}

static gboolean on_result(const VialRunResult *result, gpointer data)
{
	Collection *collection = data;

	if (collection->results_bytes + result->size_bytes > VIAL_ANSWER_RESULTS_BYTES ||
	    json_array_size(collection->results) >= VIAL_ANSWER_RESULTS_MAX) {
		collection->omitted++;
		return FALSE;
	}
	collection->results_bytes += result->size_bytes;
	json_array_append(collection->results, result->bundle);
	return FALSE;
}

static gboolean on_error(const VialRunError *error, gpointer data)
{
	Collection *collection = data;

	g_free(collection->name);
	g_free(collection->value);
	g_free(collection->traceback);
	collection->name = g_strdup(error->name);
	collection->value = g_strdup(error->value);
	collection->traceback = g_strdup(error->traceback);
	collection->has_error = TRUE;
	return FALSE;
}

static void tell(Collection *collection, const VialRunEnd *end)
{
	VialRunError error = { collection->name, collection->value, collection->traceback };
	VialRunAnswer answer = { .results = collection->results, .error = collection->has_error ? &error : NULL, .end = *end };

	for (guint i = 0; i < 2; i++) {
		vial_output_finish(&collection->output[i]);
		answer.output[i] = collection->output[i].text->str;
		answer.output_size[i] = collection->output[i].text->len;
		answer.end.truncated = answer.end.truncated || collection->output[i].is_truncated;
	}
	answer.end.truncated = answer.end.truncated || collection->omitted > 0;
	answer.end.results_omitted += collection->omitted;
	answer.end.results_lost += collection->omitted;
	collection->done(&answer, NULL, collection->data);
}

static void on_end(const VialRunEnd *end, const GError *error, gpointer data)
{
	Collection *collection = data;

	if (error)
		collection->done(NULL, error, collection->data);
	else
		tell(collection, end);
}

VialOperation *vial_op_run_collected(const VialCaller *caller, const char *sandbox_id, const VialRunRequest *request, VialRunDone done, gpointer data,
                                     GError **error)
{
	static const VialRunSink sink = { .output = on_output, .result = on_result, .error = on_error, .end = on_end };
	static const VialRunBudget budget = {
		.default_output_bytes = VIAL_OUTPUT_DEFAULT_BYTES,
		.max_output_bytes = VIAL_ANSWER_OUTPUT_BYTES,
		.max_results_bytes = VIAL_ANSWER_RESULTS_BYTES,
	};
	Collection *collection = g_new0(Collection, 1);

	collection->done = done;
	collection->data = data;
	collection->results = json_array();
	vial_output_init(&collection->output[0], VIAL_ANSWER_OUTPUT_BYTES);
	vial_output_init(&collection->output[1], VIAL_ANSWER_OUTPUT_BYTES);
	return vial_run_start(caller, sandbox_id, request, &budget, &sink, collection, collection_free, error);
}
