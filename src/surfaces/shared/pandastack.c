/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/shared/pandastack.h"

#include <string.h>

#include "operations/limits.h"
#include "util/json.h"

GError *vial_pandastack_timeout(void)
{
	return g_error_new_literal(VIAL_ERROR, VIAL_ERROR_TIMEOUT, "timeout: it did not end within the time that it was given, and was stopped");
}

json_t *vial_pandastack_results(const json_t *results)
{
	json_t *list = json_array(), *bundle, *value;
	const char *type;
	gsize i;

	json_array_foreach (results, i, bundle) {
		json_t *texts = json_object();

		json_object_foreach (bundle, type, value) {
			g_autofree char *text = json_is_string(value) ? NULL : vial_json_dump(value);

			/* A key "type" would make the client take the bundle for something else. */
			if (strcmp(type, "type") != 0)
				json_object_set_new(texts, type, text ? json_string(text) : json_incref(value));
		}
		json_array_append_new(list, texts);
	}
	return list;
}

json_t *vial_pandastack_sandbox(json_t *sandbox)
{
	json_t *tree = json_object_get(sandbox, "tree_id"), *parent = json_object_get(sandbox, "parent");
	json_t *metadata = json_copy(json_object_get(sandbox, "metadata")); /* the document's is the sandbox's own */

	if (tree && !json_object_get(metadata, "fork_tree_id"))
		json_object_set(metadata, "fork_tree_id", tree);
	if (parent && !json_object_get(metadata, "fork_parent_id"))
		json_object_set(metadata, "fork_parent_id", parent);
	if (metadata)
		json_object_set_new(sandbox, "metadata", metadata);
	return sandbox;
}

gint64 vial_pandastack_trial_seconds(const json_t *metadata)
{
	const char *text = json_string_value(json_object_get(metadata, "explore_ttl"));
	gint64 seconds;

	return text && g_ascii_string_to_signed(text, 10, 1, VIAL_LIFETIME_MAX_SECONDS, &seconds, NULL) ? seconds : VIAL_UNSAID;
}

static void set_of(json_t *document, const char *name, const json_t *from, const char *field)
{
	json_t *value = json_object_get(from, field);

	if (value)
		json_object_set(document, name, value);
}

json_t *vial_pandastack_build(const json_t *build)
{
	static const char *const fields[] = { "error", "started_at",  "ended_at",  "created_at", "phase",
		                              "step",  "steps_total", "exit_code", "last_lines" };
	const char *status = json_string_value(json_object_get(build, "status"));
	json_t *document = json_object();

	set_of(document, "id", build, "build_id");
	set_of(document, "name", build, "template");
	/* It knows of a queue, and of two ends. */
	json_object_set_new(document, "status",
	                    json_string(g_strcmp0(status, "ready") == 0     ? "done"
	                                : g_strcmp0(status, "pending") == 0 ? "queued"
	                                                                    : status));
	for (gsize i = 0; i < G_N_ELEMENTS(fields); i++)
		set_of(document, fields[i], build, fields[i]);
	set_of(document, "size_mb", build, "disk_mb");
	set_of(document, "bytes", build, "layer_bytes");
	return document;
}
