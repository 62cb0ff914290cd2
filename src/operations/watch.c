/* SPDX-License-Identifier: Apache-2.0 */
/* Watching files. A client that does not read gives no credit back: the agent then folds what it cannot send into one overflow. */
#include "operations/files_private.h"
#include "operations/limits.h"
#include "util/json.h"

typedef struct {
	const VialWatchSink *sink;
	gpointer data;
} Watching;

VIAL_SHAPE(change_shape, { "event", VIAL_SHAPE_TOKEN, TRUE, 0, 16, NULL, G_STRUCT_OFFSET(VialFileChange, event) },
           { "path", VIAL_SHAPE_TEXT, TRUE, 0, 3 * VIAL_PATH_MAX_BYTES, NULL, G_STRUCT_OFFSET(VialFileChange, path) },
           { "from", VIAL_SHAPE_TEXT, FALSE, 0, 3 * VIAL_PATH_MAX_BYTES, NULL, G_STRUCT_OFFSET(VialFileChange, from) },
           { "is_dir", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, G_STRUCT_OFFSET(VialFileChange, is_dir) });

static void on_opened(VialOperation *operation)
{
	Watching *watching = vial_guest_state(operation);

	watching->sink->begun(operation, watching->data);
}

static gboolean on_event(VialOperation *operation, json_t *event)
{
	Watching *watching = vial_guest_state(operation);
	g_autoptr(GError) problem = NULL;
	VialFileChange change = { NULL };

	if (!vial_shape_read(&change_shape, event, &change, &problem))
		return vial_guest_reject(operation, problem);
	return watching->sink->change(&change, watching->data);
}

static void on_closed(VialOperation *operation, json_t *result, const GError *error)
{
	Watching *watching = vial_guest_state(operation);
	g_autoptr(GError) ended = error ? NULL : g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "the watch ended");

	vial_guest_end(operation, "done", NULL, error, NULL);
	watching->sink->end(error ? error : ended, watching->data);
}

VialOperation *vial_op_file_watch(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, const VialWatchSink *sink,
                                  gpointer data, GError **error)
{
	static const VialGuestEvents events = { .opened = on_opened, .event = on_event, .closed = on_closed };
	VialSandbox *sandbox;
	json_t *question = vial_file_question(caller, VIAL_VERB_FILE_LIST, sandbox_id, "fs.watch", request, &sandbox, error);
	Watching *watching;

	if (!question)
		return NULL;
	json_object_set_new(question, "recursive", json_boolean(request->recursive));
	json_object_set_new(question, "only_directory", json_boolean(request->only_folder));
	watching = g_new0(Watching, 1);
	*watching = (Watching){ .sink = sink, .data = data };
	return vial_guest_start(caller, VIAL_VERB_FILE_LIST, sandbox, question, NULL, &events, watching, g_free, error);
}
