/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/e2b/entry.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "util/json.h"
#include "util/time.h"

static const char *text(const json_t *entry, const char *field)
{
	const char *value = json_string_value(json_object_get(entry, field));

	return value ? value : "";
}

/* As Go writes a mode: a link's first letter is "L", whatever it leads to. */
static char *permissions(unsigned mode, gboolean is_dir, gboolean is_link)
{
	static const char letters[] = "rwxrwxrwx";
	char *out = g_strdup_printf("%c%s", is_link ? 'L' : is_dir ? 'd' : '-', letters);

	for (unsigned i = 0; i < 9; i++)
		if (!(mode & (1u << (8 - i))))
			out[1 + i] = '-';
	return out;
}

/* Where a link leads, from the root; the path is text of the guest's and stays text. */
static char *resolve(const char *path, const char *target)
{
	g_autofree char *folder = g_path_get_dirname(path);

	return g_canonicalize_filename(target, folder);
}

json_t *vial_e2b_entry_json(const json_t *entry)
{
	const char *path = text(entry, "path"), *target = json_string_value(json_object_get(entry, "target"));
	gboolean is_dir = json_is_true(json_object_get(entry, "is_dir")), is_link = strcmp(text(entry, "type"), "symlink") == 0;
	unsigned mode = (unsigned)strtoul(text(entry, "mode"), NULL, 8);
	g_autofree char *rights = permissions(mode, is_dir, is_link);
	g_autofree char *time = vial_time_format((gint64)(json_number_value(json_object_get(entry, "mtime")) * 1000));
	g_autofree char *size = g_strdup_printf("%" JSON_INTEGER_FORMAT, json_integer_value(json_object_get(entry, "size")));
	json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:s}", "name", text(entry, "name"), "type",
	                         is_dir ? "FILE_TYPE_DIRECTORY" : "FILE_TYPE_FILE", "path", path, "size", size, "mode", (int)mode, "permissions",
	                         rights, "owner", text(entry, "user"), "group", text(entry, "group"), "modifiedTime", time);
	json_t *metadata = json_object_get(entry, "metadata");

	if (is_link)
		json_object_set_new(json, "isSymlink", json_true());
	if (is_link && target) {
		g_autofree char *resolved = resolve(path, target);

		json_object_set_new(json, "symlinkTarget", json_string(resolved));
	}
	if (json_object_size(metadata) > 0)
		json_object_set(json, "metadata", metadata);
	return json;
}
