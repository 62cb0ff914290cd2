/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of one microVM, docs/microvm.md's vmm.json. Everything but the size and the user is the same for every sandbox of a
 * template, because a snapshot is restored only into a machine of the same shape.
 */
#include <glib/gstdio.h>
#include <math.h>

#include "engine/microvm_private.h"

#define MIB (1024 * 1024)
#define MAX_VCPUS 8
/* What the guest's kernel takes for itself, so that programs find about memory_mb: its image, and a 64th for its page tables of pages. */
#define KERNEL_MB 40
/* Users of our own for the monitors, far above anybody's: which one, the sandbox's id says. */
#define FIRST_UID 0x70000000u
#define UID_MASK 0x0fffffffu

/*
 * No legacy hardware to look for, reboot instead of hanging when it panics (the monitor reports it), the paravirtual clock. Mitigations are off
 * inside: a guest has one tenant, and what keeps tenants apart is the host's.
 */
#define COMMAND_LINE                                                                                                                  \
	"quiet reboot=k panic=-1 clocksource=kvm-clock random.trust_cpu=on pci=off 8250.nr_uarts=0 no_timer_check cryptomgr.notests " \
	"mitigations=off"

VialMachineSize vial_microvm_size(const VialLimits *limits)
{
	gint64 memory_mb = limits->memory_mb + limits->memory_mb / 64 + KERNEL_MB;

	return (VialMachineSize){
		.vcpus = (guint)CLAMP(ceil(limits->cpu), 1, MAX_VCPUS),
		.memory_mb = (guint)((memory_mb + 1) / 2 * 2),
	};
}

static char *command_line(const VialLaunch *launch, gboolean is_layered)
{
	const VialGuestNet *net = launch->netns ? launch->net : NULL;
	GString *line = g_string_new(COMMAND_LINE);

	if (net)
		g_string_append_printf(line, " VIAL_IP=%s VIAL_GATEWAY=%s VIAL_IP6=%s VIAL_GATEWAY6=%s", net->v4, net->gateway_v4, net->v6,
		                       net->gateway_v6);
	if (is_layered)
		g_string_append_printf(line, " VIAL_LAYERS=%u", launch->layers ? g_strv_length((char **)launch->layers) : 0);
	return g_string_free(line, FALSE);
}

/*
 * The image and, beside it, about disk_mb to write to: an image may well be bigger than disk_mb. vmm/guest/build-disk leaves up to a quarter of it
 * empty. Taken from the file's length alone, because a snapshot is restored only onto a disk of the same size.
 */
static gint64 disk_size_mb(const char *image, gint64 disk_mb)
{
	GStatBuf info;
	gint64 image_mb = g_stat(image, &info) == 0 ? ((gint64)info.st_size + MIB - 1) / MIB : 0;

	return MAX(image_mb, image_mb * 3 / 4 + disk_mb);
}

/* The disks in the order in which the guest's init (vmm/guest/init.c) expects them: root, agent, what is written to, layers. */
static json_t *disks(const VialLaunch *launch, const char *root_disk, const char *runtime_disk, const char *upper_disk)
{
	json_t *list = json_pack("[{s:s, s:s}, {s:s, s:s}]", "image", root_disk, "serial", "root", "image", runtime_disk, "serial", "vial");
	json_t *written = json_array_get(list, 0);
	gint64 size_mb = disk_size_mb(root_disk, launch->limits.disk_mb);

	if (upper_disk) {
		written = json_pack("{s:s, s:s}", "image", upper_disk, "serial", "upper");
		size_mb = launch->limits.disk_mb;
		json_array_append_new(list, written);
	}
	json_object_set_new(written, "writable", json_true());
	json_object_set_new(written, "size_mb", json_integer(size_mb));
	for (guint i = 0; launch->layers && launch->layers[i]; i++) {
		g_autofree char *serial = g_strdup_printf("layer%u", i);

		json_array_append_new(list, json_pack("{s:s, s:s}", "image", launch->layers[i], "serial", serial));
	}
	return list;
}

json_t *vial_microvm_config(const VialLaunch *launch, const char *kernel, const char *root_disk, const char *runtime_disk, const char *upper_disk)
{
	VialMachineSize size = vial_microvm_size(&launch->limits);
	g_autofree char *line = command_line(launch, upper_disk != NULL);
	g_autofree char *image = g_build_filename(kernel, "vmlinux", NULL), *initrd = g_build_filename(kernel, "initrd", NULL);
	json_int_t uid = FIRST_UID + (g_str_hash(launch->id) & UID_MASK);
	json_t *config = json_pack("{s:s, s:s, s:s, s:i, s:i, s:o, s:s, s:I, s:I}", "kernel", image, "initrd", initrd, "command_line", line, "vcpus",
	                           (int)size.vcpus, "memory_mb", (int)size.memory_mb, "disks", disks(launch, root_disk, runtime_disk, upper_disk),
	                           "overlay_dir", launch->dir, "uid", uid, "gid", uid);

	if (launch->netns && launch->net)
		json_object_set_new(config, "net", json_pack("{s:s}", "mac", launch->net->mac));
	return config;
}
