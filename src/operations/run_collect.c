/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run as one answer. The guest is told the budget, so that it cuts in time and keeps the rest in a file; a guest that does not keep to it is cut
 * here. Either way the answer says so. It is what a notebook would show at the end: what was cleared is not in it, what was replaced is replaced.
 */
#include "operations/limits.h"
#include "operations/run_private.h"
#include "util/json.h"
#include "util/utf8.h"

typedef struct {
	char *display_id; /* or NULL */
	gsize size_bytes;
} Shown;

typedef struct {
	VialRunDone done;
	gpointer data;
	VialOutput output[2];
	json_t *results;
	GArray *shown; /* a Shown for each of them */
	gsize results_bytes;
	gboolean is_clearing; /* when the next thing comes */
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
	g_array_unref(collection->shown);
	g_free(collection->name);
	g_free(collection->value);
	g_free(collection->traceback);
	g_free(collection);
}

static void shown_clear(gpointer data)
{
	g_free(((Shown *)data)->display_id);
}

static void clear(Collection *collection)
{
	for (guint i = 0; i < 2; i++) {
		vial_output_clear(&collection->output[i]);
		vial_output_init(&collection->output[i], VIAL_ANSWER_OUTPUT_BYTES);
	}
	json_array_clear(collection->results);
	g_array_set_size(collection->shown, 0);
	collection->results_bytes = 0;
	collection->is_clearing = FALSE;
}

static gboolean on_clear(gboolean is_waiting, gpointer data)
{
	Collection *collection = data;

	if (is_waiting)
		collection->is_clearing = TRUE;
	else
		clear(collection);
	return FALSE;
}

static gboolean on_output(VialOutputStream stream, const char *text, gsize size, gpointer data)
{
	Collection *collection = data;

	if (collection->is_clearing)
		clear(collection);
	vial_output_add(&collection->output[stream], text, size);
	return FALSE;
}

/* Everything that was shown under the id is replaced, as in a notebook. FALSE: nothing was in this run, or it would not fit. */
static gboolean replace(Collection *collection, const VialRunResult *result)
{
	gboolean is_found = FALSE;

	for (guint i = 0; i < collection->shown->len; i++) {
		Shown *shown = &g_array_index(collection->shown, Shown, i);

		if (g_strcmp0(shown->display_id, result->display_id) != 0 ||
		    collection->results_bytes - shown->size_bytes + result->size_bytes > VIAL_ANSWER_RESULTS_BYTES)
			continue;
		collection->results_bytes = collection->results_bytes - shown->size_bytes + result->size_bytes;
		shown->size_bytes = result->size_bytes;
		json_array_set(collection->results, i, result->bundle);
		is_found = TRUE;
	}
	return is_found;
}

static gboolean on_result(const VialRunResult *result, gpointer data)
{
	Collection *collection = data;
	Shown shown = { .size_bytes = result->size_bytes };

	if (collection->is_clearing)
		clear(collection);
	/* What an earlier run has shown cannot be replaced any more: the new state is told in its own place. */
	if (result->is_update && result->display_id && replace(collection, result))
		return FALSE;
	if (collection->results_bytes + result->size_bytes > VIAL_ANSWER_RESULTS_BYTES ||
	    json_array_size(collection->results) >= VIAL_ANSWER_RESULTS_MAX) {
		collection->omitted++;
		return FALSE;
	}
	collection->results_bytes += result->size_bytes;
	json_array_append(collection->results, result->bundle);
	shown.display_id = g_strdup(result->display_id);
	g_array_append_val(collection->shown, shown);
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
	static const VialRunSink sink = { .output = on_output, .result = on_result, .clear = on_clear, .error = on_error, .end = on_end };
	static const VialRunBudget budget = {
		.default_output_bytes = VIAL_OUTPUT_DEFAULT_BYTES,
		.max_output_bytes = VIAL_ANSWER_OUTPUT_BYTES,
		.max_results_bytes = VIAL_ANSWER_RESULTS_BYTES,
	};
	Collection *collection = g_new0(Collection, 1);

	collection->done = done;
	collection->data = data;
	collection->results = json_array();
	collection->shown = g_array_new(FALSE, FALSE, sizeof(Shown));
	g_array_set_clear_func(collection->shown, shown_clear);
	vial_output_init(&collection->output[0], VIAL_ANSWER_OUTPUT_BYTES);
	vial_output_init(&collection->output[1], VIAL_ANSWER_OUTPUT_BYTES);
	return vial_run_start(caller, sandbox_id, request, &budget, &sink, collection, collection_free, error);
}
