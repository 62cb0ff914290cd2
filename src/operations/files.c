/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/files.h"

#include <string.h>

#include "operations/files_private.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "util/json.h"

#define ENTRIES_PER_EVENT 65536
/* What an entry takes in memory besides its texts. */
#define ENTRY_OVERHEAD_BYTES 128
/* What is kept with one file: what the agent tells at most, with replacement characters in place of what was no text. */
#define NOTES_MAX_BYTES (64 * 1024)

VIAL_SHAPE(entry_shape, { "name", VIAL_SHAPE_TEXT, TRUE, 0, 1024, NULL, 0 }, { "path", VIAL_SHAPE_TEXT, TRUE, 0, 3 * VIAL_PATH_MAX_BYTES, NULL, 0 },
           { "is_dir", VIAL_SHAPE_BOOL, TRUE, 0, 0, NULL, 0 }, { "type", VIAL_SHAPE_TOKEN, TRUE, 0, 16, NULL, 0 },
           { "size", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, 0 }, { "mode", VIAL_SHAPE_TOKEN, TRUE, 0, 8, NULL, 0 },
           { "mtime", VIAL_SHAPE_NUMBER, TRUE, 0, 0, NULL, 0 }, { "user", VIAL_SHAPE_TEXT, FALSE, 0, 256, NULL, 0 },
           { "group", VIAL_SHAPE_TEXT, FALSE, 0, 256, NULL, 0 }, { "target", VIAL_SHAPE_TEXT, FALSE, 0, 3 * VIAL_PATH_MAX_BYTES, NULL, 0 },
           { "metadata", VIAL_SHAPE_TEXTS, FALSE, 0, NOTES_MAX_BYTES, NULL, 0 });

VIAL_SHAPE(stat_shape, { "entry", VIAL_SHAPE_OBJECT, TRUE, 0, 0, &entry_shape, 0 });

json_t *vial_file_question(const VialCaller *caller, VialVerb verb, const char *sandbox_id, const char *op, const VialFileRequest *request,
                           VialSandbox **out_sandbox, GError **error)
{
	if (!vial_operation_admit(caller, verb, sandbox_id, 0, out_sandbox, error) || !vial_check_path("path", request->path, error) ||
	    !vial_check_user(request->user, error))
		return NULL;
	return json_pack("{s:s, s:s, s:s*}", "op", op, "path", request->path, "user", request->user);
}

static void tell_wish(json_t *question, const VialFileRequest *request)
{
	if (request->wants_metadata)
		json_object_set_new(question, "metadata", json_true());
}

json_t *vial_file_record(const VialFileRequest *request)
{
	return json_pack("{s:s, s:s*, s:s*}", "path", request->path, "to", request->to, "user", request->user);
}

/* Listing */

typedef struct {
	VialDocumentDone done;
	gpointer data;
	json_t *entries;
	gsize size_bytes;
	gboolean is_truncated;
} Listing;

typedef struct {
	json_t *entries;
	gboolean truncated;
} Batch;

VIAL_SHAPE(batch_shape, { "entries", VIAL_SHAPE_LIST, TRUE, 0, ENTRIES_PER_EVENT, &entry_shape, G_STRUCT_OFFSET(Batch, entries) });
VIAL_SHAPE(list_end_shape, { "truncated", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, G_STRUCT_OFFSET(Batch, truncated) });

static void listing_free(gpointer data)
{
	Listing *listing = data;

	json_decref(listing->entries);
	g_free(listing);
}

static gsize entry_size(const json_t *entry)
{
	gsize size =
		ENTRY_OVERHEAD_BYTES + 2 * json_string_length(json_object_get(entry, "path")) + json_string_length(json_object_get(entry, "target"));
	const char *name;
	json_t *note;

	json_object_foreach (json_object_get(entry, "metadata"), name, note)
		size += ENTRY_OVERHEAD_BYTES + strlen(name) + json_string_length(note);
	return size;
}

static gboolean on_entries(VialOperation *operation, json_t *event)
{
	Listing *listing = vial_guest_state(operation);
	g_autoptr(GError) problem = NULL;
	g_autoptr(json_t) entries = NULL;
	Batch batch = { NULL, FALSE };
	json_t *entry;
	gsize i;

	if (!vial_shape_read(&batch_shape, event, &batch, &problem))
		return vial_guest_reject(operation, problem);
	entries = batch.entries;
	json_array_foreach (entries, i, entry) {
		listing->size_bytes += entry_size(entry);
		listing->is_truncated = listing->is_truncated || listing->size_bytes > VIAL_ANSWER_ENTRIES_BYTES;
		if (!listing->is_truncated)
			json_array_append(listing->entries, entry);
	}
	/* The rest would only be counted. */
	if (listing->is_truncated)
		vial_guest_conclude(operation);
	return FALSE;
}

/* `result` is NULL when we had enough. */
static void on_listed(VialOperation *operation, json_t *result, const GError *error)
{
	Listing *listing = vial_guest_state(operation);
	g_autoptr(GError) problem = NULL, refusal = NULL;
	g_autoptr(json_t) document = NULL;
	Batch batch = { NULL, FALSE };

	if (result && !vial_shape_read(&list_end_shape, result, &batch, &problem)) {
		vial_guest_distrust(operation, problem, &refusal);
		error = refusal;
	}
	if (!error)
		document = json_pack("{s:O}", "entries", listing->entries);
	if (document && (batch.truncated || listing->is_truncated))
		json_object_set_new(document, "truncated", json_true());
	vial_guest_end(operation, "done", NULL, error, NULL);
	listing->done(document, error, listing->data);
}

VialOperation *vial_op_file_list(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, VialDocumentDone done,
                                 gpointer data, GError **error)
{
	static const VialGuestEvents events = { .event = on_entries, .closed = on_listed };
	VialSandbox *sandbox;
	g_autoptr(json_t) question = vial_file_question(caller, VIAL_VERB_FILE_LIST, sandbox_id, "fs.list", request, &sandbox, error);
	Listing *listing;

	if (!question || !vial_check_int("depth", request->depth, 1, VIAL_LIST_MAX_DEPTH, error))
		return NULL;
	json_object_set_new(question, "depth", json_integer(request->depth));
	tell_wish(question, request);
	listing = g_new0(Listing, 1);
	*listing = (Listing){ .done = done, .data = data, .entries = json_array() };
	return vial_guest_start(caller, VIAL_VERB_FILE_LIST, sandbox, g_steal_pointer(&question), NULL, &events, listing, listing_free, error);
}

/* The small ones */

typedef struct {
	VialDocumentDone done;
	gpointer data;
} Stat;

static void on_stat(json_t *document, const GError *error, gpointer data)
{
	g_autofree Stat *stat = data;

	stat->done(json_object_get(document, "entry"), error, stat->data);
}

gboolean vial_op_file_stat(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, VialDocumentDone done, gpointer data,
                           GError **error)
{
	VialSandbox *sandbox;
	json_t *question = vial_file_question(caller, VIAL_VERB_FILE_LIST, sandbox_id, "fs.stat", request, &sandbox, error);
	Stat *stat;

	if (!question)
		return FALSE;
	tell_wish(question, request);
	stat = g_new0(Stat, 1);
	*stat = (Stat){ done, data };
	if (vial_guest_ask(caller, VIAL_VERB_FILE_LIST, sandbox, question, NULL, &stat_shape, on_stat, stat, error))
		return TRUE;
	g_free(stat);
	return FALSE;
}

gboolean vial_op_file_mkdir(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, VialDocumentDone done, gpointer data,
                            GError **error)
{
	VialSandbox *sandbox;
	json_t *question = vial_file_question(caller, VIAL_VERB_FILE_MKDIR, sandbox_id, "fs.mkdir", request, &sandbox, error);

	return question && vial_guest_ask(caller, VIAL_VERB_FILE_MKDIR, sandbox, question, vial_file_record(request), NULL, done, data, error);
}

gboolean vial_op_file_move(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, VialDocumentDone done, gpointer data,
                           GError **error)
{
	VialSandbox *sandbox;
	g_autoptr(json_t) question = vial_file_question(caller, VIAL_VERB_FILE_MOVE, sandbox_id, "fs.move", request, &sandbox, error);

	if (!question || !vial_check_path("to", request->to, error))
		return FALSE;
	json_object_set_new(question, "to", json_string(request->to));
	return vial_guest_ask(caller, VIAL_VERB_FILE_MOVE, sandbox, g_steal_pointer(&question), vial_file_record(request), NULL, done, data, error);
}

gboolean vial_op_file_remove(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, VialDocumentDone done, gpointer data,
                             GError **error)
{
	VialSandbox *sandbox;
	json_t *question = vial_file_question(caller, VIAL_VERB_FILE_REMOVE, sandbox_id, "fs.remove", request, &sandbox, error);

	if (!question)
		return FALSE;
	json_object_set_new(question, "recursive", json_boolean(request->recursive));
	return vial_guest_ask(caller, VIAL_VERB_FILE_REMOVE, sandbox, question, vial_file_record(request), NULL, done, data, error);
}
