/* SPDX-License-Identifier: Apache-2.0 */
#include "fsnotes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "text.h"

#define PREFIX "user.e2b."
/* All that is told of one file: a stat's answer is one frame, and a guest's program may have set any number. */
#define MAX_NAMES_BYTES 4096
#define MAX_VALUES_BYTES (16 * 1024)
#define MAX_NAME_BYTES 255 /* Linux's */
#define MAX_NOTES 64

int vial_fs_notes_set(int fd, const json_t *notes)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)notes, key, value) {
		char name[MAX_NAME_BYTES + 1];

		if (!json_is_string(value) || snprintf(name, sizeof(name), PREFIX "%s", key) >= (int)sizeof(name))
			return -EINVAL;
		if (fsetxattr(fd, name, json_string_value(value), json_string_length(value), 0) < 0)
			return -errno;
	}
	return 0;
}

json_t *vial_fs_notes(const char *path)
{
	static char names[MAX_NAMES_BYTES], value[MAX_VALUES_BYTES + 1];
	ssize_t size = listxattr(path, names, sizeof(names)), length;
	size_t left = MAX_VALUES_BYTES;
	json_t *notes = NULL;

	for (const char *name = names; size > 0 && name < names + size; name += strlen(name) + 1) {
		if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || (length = getxattr(path, name, value, left)) < 0)
			continue;
		left -= (size_t)length;
		value[length] = '\0';
		if (!notes)
			notes = json_object();
		json_object_set_new(notes, name + strlen(PREFIX), vial_json_text(value));
		if (json_object_size(notes) == MAX_NOTES || left == 0)
			break;
	}
	return notes;
}
