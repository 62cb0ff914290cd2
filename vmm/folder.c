/* SPDX-License-Identifier: Apache-2.0 */
/* See folder.h. */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int vial_folder_enter(const char *path, json_t **out_config, const char **out_error)
{
	*out_error = "the sandbox's folder cannot be entered";
	if (chdir(path) < 0)
		return -errno;
	*out_error = "vmm.json cannot be read";
	*out_config = json_load_file("vmm.json", JSON_REJECT_DUPLICATES, NULL);
	return *out_config ? 0 : -EINVAL;
}

int vial_folder_announce(void)
{
	int fd = open("exit.json", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		return -EPIPE;
	return fd;
}

void vial_folder_write_exit(int fd, const char *reason)
{
	char text[160];
	int length = snprintf(text, sizeof(text), "{\"reason\":\"%s\"}\n", reason ? reason : "");

	if (fd >= 0)
		(void)!write(fd, text, (size_t)length);
}

int vial_folder_use_image(json_t *config, const char *image)
{
	json_t *disks = json_object_get(config, "disks"), *disk;
	char path[4096];
	size_t i;

	json_array_foreach (disks, i, disk) {
		if (json_is_true(json_object_get(disk, "writable")))
			json_object_set_new(disk, "layer", json_sprintf("%s/disk", image));
	}
	json_object_set_new(config, "restore",
	                    json_pack("{s:o,s:o,s:b}", "state", json_sprintf("%s/state", image), "memory", json_sprintf("%s/memory", image),
	                              "record_hot", json_is_true(json_object_get(config, "record_hot"))));
	snprintf(path, sizeof(path), "%s/hot", image);
	if (access(path, R_OK) == 0)
		json_object_set_new(json_object_get(config, "restore"), "hot", json_string(path));
	return 0;
}
