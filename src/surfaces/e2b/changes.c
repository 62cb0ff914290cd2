/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/e2b/changes.h"

#include <string.h>

#include "operations/files.h"
#include "surfaces/e2b/entry.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

static const char *name_of(const char *root, const char *path)
{
	gsize length = strlen(root);
	const char *slash;

	while (length > 0 && root[length - 1] == '/')
		length--;
	if (strncmp(path, root, length) != 0)
		return path;
	if (path[length] == '/')
		return path + length + 1;
	if (path[length])
		return path;
	slash = strrchr(path, '/'); /* the folder itself; what a guest says need not have one */
	return slash ? slash + 1 : path;
}

static void add(json_t *events, const char *root, const char *path, const char *type)
{
	json_array_append_new(events, json_pack("{s:s, s:s}", "name", name_of(root, path), "type", type));
}

/*
 * The agent writes beside a file and puts that in its place (docs/wire.md, fs.write): to E2B's clients a file was written, and before that
 * created, if it was not there.
 */
static gboolean is_half_written(const char *path)
{
	const char *name = strrchr(path, '/');

	return name && g_str_has_prefix(name, "/.vial-") && g_str_has_suffix(name, ".tmp");
}

static gboolean is_of_new_file(const char *path)
{
	return is_half_written(path) && g_str_has_suffix(path, "-new.tmp");
}

void vial_e2b_changes_add(json_t *events, const char *root, const char *event, const char *path, const char *from)
{
	if (is_half_written(path))
		return;
	if (from && is_of_new_file(from))
		add(events, root, path, "EVENT_TYPE_CREATE");
	if (strcmp(event, "create") == 0)
		add(events, root, path, "EVENT_TYPE_CREATE");
	else if (strcmp(event, "modify") == 0 || (from && is_half_written(from)))
		add(events, root, path, "EVENT_TYPE_WRITE");
	else if (strcmp(event, "delete") == 0)
		add(events, root, path, "EVENT_TYPE_REMOVE");
	else if (strcmp(event, "move") == 0 && from) {
		add(events, root, from, "EVENT_TYPE_RENAME");
		add(events, root, path, "EVENT_TYPE_CREATE");
	}
}

/* Entries */

typedef struct {
	VialRequest *request;
	json_t *events;
	gsize next;
	char *root, *user;
	VialE2bChangesFilled filled;
	gpointer data;
} Filling;

static void go_on(Filling *filling);

static void on_entry(json_t *entry, const GError *error, gpointer data)
{
	Filling *filling = data;

	if (!error)
		json_object_set_new(json_array_get(filling->events, filling->next), "entry", vial_e2b_entry_json(entry));
	filling->next++;
	go_on(filling);
}

static gboolean ask(Filling *filling)
{
	VialCaller caller = vial_surface_caller(filling->request);
	const char *name = json_string_value(json_object_get(json_array_get(filling->events, filling->next), "name"));
	g_autofree char *path = g_strdup_printf("%s/%s", filling->root, name);
	VialFileRequest file = { .path = path, .user = filling->user, .wants_metadata = TRUE };

	return vial_op_file_stat(&caller, vial_surface_sandbox(filling->request), &file, on_entry, filling, NULL);
}

static gboolean is_there(const json_t *event)
{
	const char *type = json_string_value(json_object_get(event, "type"));

	return strcmp(type, "EVENT_TYPE_REMOVE") != 0 && strcmp(type, "EVENT_TYPE_RENAME") != 0;
}

static void go_on(Filling *filling)
{
	for (; filling->next < json_array_size(filling->events); filling->next++)
		if (is_there(json_array_get(filling->events, filling->next)) && ask(filling))
			return;
	filling->filled(filling->events, filling->data);
	vial_request_unref(filling->request);
	json_decref(filling->events);
	g_free(filling->root);
	g_free(filling->user);
	g_free(filling);
}

void vial_e2b_changes_fill(VialRequest *request, json_t *events, const char *root, const char *user, VialE2bChangesFilled filled, gpointer data)
{
	Filling *filling = g_new0(Filling, 1);

	*filling = (Filling){ .request = vial_request_ref(request),
		              .events = json_incref(events),
		              .root = g_strdup(root),
		              .user = g_strdup(user),
		              .filled = filled,
		              .data = data };
	go_on(filling);
}
