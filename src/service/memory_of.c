/* SPDX-License-Identifier: Apache-2.0 */
#include "service/memory_of.h"

#include <string.h>

static void add(GPtrArray *users, const char *user)
{
	if (user && *user && !g_ptr_array_find_with_equal_func(users, user, g_str_equal, NULL))
		g_ptr_array_add(users, g_strdup(user));
}

char **vial_snapshot_memory_of(const VialSnapshot *snapshot)
{
	g_autoptr(GPtrArray) users = g_ptr_array_new_null_terminated(4, g_free, TRUE);
	json_t *item;
	size_t index;

	json_array_foreach (json_object_get(snapshot->facts, "memory_of"), index, item)
		add(users, json_string_value(item));
	add(users, json_string_value(json_object_get(snapshot->facts, "user")));
	return users->len > 0 ? (char **)g_ptr_array_steal(users, NULL) : NULL;
}

json_t *vial_memory_of_json(char **users)
{
	json_t *list = users ? json_array() : NULL;

	for (; users && *users; users++)
		json_array_append_new(list, json_string(*users));
	return list;
}
