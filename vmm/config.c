/* SPDX-License-Identifier: Apache-2.0 */
/* See config.h. viald is trusted, but a mistake there should be a sentence here, not a crash. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "disk.h"
#include "memory.h"

#define MIB (1ull << 20)

static const char *get_string(const json_t *json, const char *key)
{
	return json_string_value(json_object_get(json, key));
}

static bool get_integer(const json_t *json, const char *key, json_int_t fallback, json_int_t minimum, json_int_t maximum, json_int_t *out)
{
	const json_t *value = json_object_get(json, key);

	if (value && !json_is_integer(value))
		return false;
	*out = value ? json_integer_value(value) : fallback;
	return *out >= minimum && *out <= maximum;
}

static int parse_disk(const json_t *json, struct vial_disk_config *disk, const char **out_error)
{
	json_int_t size_mb;

	disk->image = get_string(json, "image");
	disk->serial = get_string(json, "serial");
	disk->layer = get_string(json, "layer");
	disk->is_writable = json_is_true(json_object_get(json, "writable"));
	*out_error = "a disk needs an image, and size_mb must fit";
	if (!disk->image || !get_integer(json, "size_mb", 0, 0, (json_int_t)(VIAL_DISK_MAX_BYTES / MIB), &size_mb))
		return -EINVAL;
	disk->size_bytes = (uint64_t)size_mb * MIB;
	*out_error = "a layer belongs to a writable disk";
	return disk->layer && !disk->is_writable ? -EINVAL : 0;
}

static int parse_disks(const json_t *json, struct vial_config *config, const char **out_error)
{
	const json_t *disks = json_object_get(json, "disks"), *disk;
	size_t i;

	json_array_foreach (disks, i, disk) {
		if (config->disk_count == VIAL_MAX_DISKS) {
			*out_error = "too many disks";
			return -EINVAL;
		}
		if (parse_disk(disk, &config->disks[config->disk_count++], out_error) < 0)
			return -EINVAL;
		if (config->disks[i].is_writable && !config->overlay_dir) {
			*out_error = "a writable disk needs overlay_dir";
			return -EINVAL;
		}
	}
	return 0;
}

static int parse_net(const json_t *json, struct vial_config *config, const char **out_error)
{
	const json_t *net = json_object_get(json, "net");
	const char *mac = get_string(net, "mac");
	unsigned bytes[6];

	if (!net || json_is_null(net))
		return 0;
	*out_error = "net needs a mac like 02:00:00:00:00:01";
	if (!mac || sscanf(mac, "%2x:%2x:%2x:%2x:%2x:%2x", &bytes[0], &bytes[1], &bytes[2], &bytes[3], &bytes[4], &bytes[5]) != 6)
		return -EINVAL;
	for (int i = 0; i < 6; i++)
		config->mac[i] = (uint8_t)bytes[i];
	config->has_net = true;
	return 0;
}

static int parse_restore(const json_t *json, struct vial_config *config, const char **out_error)
{
	const json_t *restore = json_object_get(json, "restore");

	if (!restore) {
		*out_error = "start needs a kernel or a snapshot to restore";
		return config->kernel ? 0 : -EINVAL;
	}
	config->restore_state = get_string(restore, "state");
	config->restore_memory = get_string(restore, "memory");
	config->restore_hot = get_string(restore, "hot");
	config->records_hot = json_is_true(json_object_get(restore, "record_hot"));
	*out_error = "restore needs state and memory";
	return config->restore_state && config->restore_memory ? 0 : -EINVAL;
}

int vial_config_parse(json_t *json, struct vial_config *out_config, const char **out_error)
{
	struct vial_config config = { .runs = !json_is_false(json_object_get(json, "run")) };
	json_int_t vcpus, memory_mb;

	*out_error = "vcpus must be 1 to 8, memory_mb 32 to 65536 and even";
	if (!get_integer(json, "vcpus", 1, 1, VIAL_MAX_VCPUS, &vcpus) ||
	    !get_integer(json, "memory_mb", 512, 32, (json_int_t)(VIAL_MEMORY_MAX_BYTES / MIB), &memory_mb) || memory_mb % 2)
		return -EINVAL;
	config.vcpus = (unsigned)vcpus;
	config.memory_bytes = (uint64_t)memory_mb * MIB;
	config.kernel = get_string(json, "kernel");
	config.initrd = get_string(json, "initrd");
	config.command_line = get_string(json, "command_line");
	config.overlay_dir = get_string(json, "overlay_dir");
	config.serial_log = get_string(json, "serial_log");
	if (!config.command_line)
		config.command_line = "";
	*out_error = "command_line is too long";
	if (strlen(config.command_line) > VIAL_MAX_COMMAND_LINE)
		return -EINVAL;
	if (parse_disks(json, &config, out_error) < 0 || parse_net(json, &config, out_error) < 0 || parse_restore(json, &config, out_error) < 0)
		return -EINVAL;
	config.json = json_incref(json);
	*out_config = config;
	return 0;
}

void vial_config_clear(struct vial_config *config)
{
	json_decref(config->json);
	*config = (struct vial_config){ 0 };
}
