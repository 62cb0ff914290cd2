/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/facts.h"

#define FILES_MAX 64
#define FILES_MAX_BYTES (16 * 1024)

void vial_facts_copy(json_t *body, const char *name, json_t *value)
{
	if (value)
		json_object_set(body, name, value);
}

void vial_facts_env(json_t *body, json_t *env)
{
	json_t *names, *value;
	const char *name;

	if (json_object_size(env) == 0)
		return;
	names = json_array();
	json_object_foreach (env, name, value)
		json_array_append_new(names, json_string(name));
	json_object_set_new(body, "env_names", names);
}

void vial_facts_files(json_t *body, const json_t *files, gboolean is_truncated)
{
	json_t *list, *file;
	gsize i, bytes = 0;

	if (!body || json_array_size(files) == 0)
		return;
	list = json_array();
	json_array_foreach (files, i, file) {
		bytes += json_string_length(json_object_get(file, "path")) + 128;
		if (i == FILES_MAX || bytes > FILES_MAX_BYTES)
			break;
		json_array_append(list, file);
	}
	if (json_array_size(list) < json_array_size(files) || is_truncated)
		json_object_set_new(body, "files_omitted", json_integer((json_int_t)(json_array_size(files) - json_array_size(list))));
	json_object_set_new(body, "files", list);
}
