/* SPDX-License-Identifier: Apache-2.0 */
/* filesystem.Filesystem: what is asked about files, each with one answer. Where E2B answers with an entry, it is asked for afterwards. */
#include <string.h>

#include "operations/files.h"
#include "surfaces/e2b/data.h"
#include "surfaces/e2b/entry.h"
#include "util/json.h"

typedef struct {
	VialRequest *request;
	char *user, *path, *to;
} Call;

static Call *call_new(VialRequest *request)
{
	const json_t *body = vial_request_json(request);
	Call *call = g_new0(Call, 1);
	const char *path = json_string_value(json_object_get(body, "path")), *source = json_string_value(json_object_get(body, "source")),
		   *to = json_string_value(json_object_get(body, "destination"));

	call->request = vial_request_ref(request);
	call->user = vial_e2b_user(request);
	call->path = vial_e2b_path(call->user, source ? source : path);
	call->to = to ? vial_e2b_path(call->user, to) : NULL;
	return call;
}

static void call_free(Call *call)
{
	vial_request_unref(call->request);
	g_free(call->user);
	g_free(call->path);
	g_free(call->to);
	g_free(call);
}

static void call_fail(Call *call, const GError *error)
{
	vial_e2b_reply_error(call->request, error);
	call_free(call);
}

static void call_begun(Call *call, gboolean is_begun, GError **error)
{
	if (!is_begun)
		call_fail(call, *error);
}

static VialFileRequest file_of(const Call *call)
{
	return (VialFileRequest){ .path = call->path, .to = call->to, .user = call->user };
}

typedef gboolean (*Question)(const VialCaller *caller, const char *sandbox_id, const VialFileRequest *request, VialDocumentDone done, gpointer data,
                             GError **error);

static void ask(Call *call, Question question, const VialFileRequest *file, VialDocumentDone done)
{
	VialCaller caller = vial_surface_caller(call->request);
	g_autoptr(GError) error = NULL;

	call_begun(call, question(&caller, vial_surface_sandbox(call->request), file, done, call, &error), &error);
}

/* Stat, and the end of what answers with an entry */

static void on_entry(json_t *entry, const GError *error, gpointer data)
{
	Call *call = data;

	if (error)
		return call_fail(call, error);
	vial_request_reply_json(call->request, 200, json_pack("{s:o}", "entry", vial_e2b_entry_json(entry)));
	call_free(call);
}

static void ask_entry(Call *call, const char *path)
{
	VialFileRequest file = { .path = path, .user = call->user, .wants_metadata = TRUE };

	ask(call, vial_op_file_stat, &file, on_entry);
}

void vial_e2b_file_stat(VialRequest *request)
{
	Call *call;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	call = call_new(request);
	ask_entry(call, call->path);
}

/* Making a folder: one that is there already is told so */

static void on_made(json_t *document, const GError *error, gpointer data)
{
	Call *call = data;

	if (error)
		return call_fail(call, error);
	ask_entry(call, call->path);
}

static void on_looked(json_t *entry, const GError *error, gpointer data)
{
	Call *call = data;
	VialFileRequest file = file_of(call);
	g_autoptr(GError) refusal = NULL;

	if (error && g_error_matches(error, VIAL_ERROR, VIAL_ERROR_NOT_FOUND))
		return ask(call, vial_op_file_mkdir, &file, on_made);
	if (error)
		return call_fail(call, error);
	if (json_is_true(json_object_get(entry, "is_dir")))
		vial_fail_with(&refusal, VIAL_ERROR_CONFLICT, json_pack("{s:s}", "connect", "already_exists"), "directory already exists: %s",
		               call->path);
	else
		vial_fail(&refusal, VIAL_ERROR_INVALID, "path already exists but it is not a directory: %s", call->path);
	call_fail(call, refusal);
}

void vial_e2b_file_make_dir(VialRequest *request)
{
	Call *call;
	VialFileRequest file;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	call = call_new(request);
	file = file_of(call);
	ask(call, vial_op_file_stat, &file, on_looked);
}

/* Moving */

static void on_moved(json_t *document, const GError *error, gpointer data)
{
	Call *call = data;

	if (error)
		return call_fail(call, error);
	ask_entry(call, call->to);
}

void vial_e2b_file_move(VialRequest *request)
{
	Call *call;
	VialFileRequest file;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	call = call_new(request);
	file = file_of(call);
	ask(call, vial_op_file_move, &file, on_moved);
}

/* Removing: what is not there need not be removed */

static void on_removed(json_t *document, const GError *error, gpointer data)
{
	Call *call = data;

	if (error && !g_error_matches(error, VIAL_ERROR, VIAL_ERROR_NOT_FOUND))
		return call_fail(call, error);
	vial_request_reply_json(call->request, 200, json_object());
	call_free(call);
}

void vial_e2b_file_remove(VialRequest *request)
{
	Call *call;
	VialFileRequest file;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	call = call_new(request);
	file = file_of(call);
	file.recursive = TRUE;
	ask(call, vial_op_file_remove, &file, on_removed);
}

/* Listing: sorted, each folder followed by what is in it */

static int compare_paths(gconstpointer a, gconstpointer b)
{
	const guchar *left = (const guchar *)json_string_value(json_object_get(*(json_t *const *)a, "path")),
		     *right = (const guchar *)json_string_value(json_object_get(*(json_t *const *)b, "path"));

	while (*left && *left == *right) {
		left++;
		right++;
	}
	/* A slash is before everything else: below "a" comes before "a.txt". */
	return (*left == '/' ? 1 : *left) - (*right == '/' ? 1 : *right);
}

static json_t *sorted(const json_t *entries)
{
	g_autoptr(GPtrArray) array = g_ptr_array_new();
	json_t *list = json_array(), *entry;
	gsize i;

	json_array_foreach (entries, i, entry)
		g_ptr_array_add(array, entry);
	g_ptr_array_sort(array, compare_paths);
	for (i = 0; i < array->len; i++)
		json_array_append_new(list, vial_e2b_entry_json(array->pdata[i]));
	return list;
}

static void on_listed(json_t *document, const GError *error, gpointer data)
{
	VialExchange *exchange = data;
	g_autoptr(GError) refusal = NULL;

	if (error && g_error_matches(error, VIAL_ERROR, VIAL_ERROR_CONFLICT)) { /* it is no folder */
		vial_fail(&refusal, VIAL_ERROR_INVALID, "%s", error->message);
		error = refusal;
	}
	if (error)
		return vial_e2b_exchange_fail(exchange, error);
	vial_request_reply_json(exchange->request, 200, json_pack("{s:o}", "entries", sorted(json_object_get(document, "entries"))));
	vial_exchange_end(exchange);
}

void vial_e2b_file_list_dir(VialRequest *request)
{
	g_autofree char *user = NULL, *path = NULL;
	VialOperation *operation = NULL;
	g_autoptr(GError) error = NULL;
	VialFileRequest file = { .depth = 1, .wants_metadata = TRUE };
	VialExchange *exchange;
	VialCaller caller;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	caller = vial_surface_caller(request);
	exchange = vial_exchange_new(request, NULL, NULL);
	file.user = user = vial_e2b_user(request);
	file.path = path = vial_e2b_path(user, json_string_value(json_object_get(vial_request_json(request), "path")));
	if (vial_decode_int(vial_request_json(request), "depth", &file.depth, &error)) {
		file.depth = file.depth == 0 ? 1 : file.depth; /* nobody said */
		operation = vial_op_file_list(&caller, vial_surface_sandbox(request), &file, on_listed, exchange, &error);
	}
	vial_e2b_exchange_begin(exchange, operation, &error);
}
