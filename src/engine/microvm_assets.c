/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What microVMs are made of besides the monitor: the guest kernel (scripts/build-guest puts it into images_dir) and disk images, which lie
 * beside the folders they were made of and change only with them: those folders' names have their contents' hash in them.
 */
#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/microvm_private.h"
#include "util/log.h"

#define KERNEL_LINK "guest-kernel"

char *vial_microvm_kernel(const char *images_dir, GError **error)
{
	g_autofree char *link = g_build_filename(images_dir, KERNEL_LINK, NULL);
	/* The folder itself: a newer kernel moves the link, and must not change under what is running. */
	char *folder = realpath(link, NULL);
	g_autofree char *initrd = folder ? g_build_filename(folder, "initrd", NULL) : NULL;
	g_autofree char *found = g_strdup(folder);

	free(folder);
	if (initrd && access(initrd, R_OK) == 0)
		return g_steal_pointer(&found);
	vial_fail(error, VIAL_ERROR_UNAVAILABLE, "there is no guest kernel for microVMs in %s; scripts/build-guest makes one", images_dir);
	return NULL;
}

char *vial_microvm_disk_builder(const char *program_dir, GError **error)
{
	/* In a build tree it lies beside the build folder, once installed under share. */
	const char *const places[] = { "../vmm/guest/build-disk", "../share/vial/build-disk", "build-disk" };

	for (gsize i = 0; i < G_N_ELEMENTS(places); i++) {
		g_autofree char *path = g_build_filename(program_dir, places[i], NULL);

		if (access(path, X_OK) == 0)
			return g_canonicalize_filename(path, "/");
	}
	vial_fail(error, VIAL_ERROR_INTERNAL, "the program build-disk is missing beside %s", program_dir);
	return NULL;
}

/* `source` is a folder, or --empty=SIZE_MB. */
static gboolean build(const char *builder, const char *source, const char *image, GError **error)
{
	char *arguments[] = { (char *)builder, (char *)source, (char *)image, NULL };
	char *environment[] = { "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL };
	g_autofree char *words = NULL;
	g_autoptr(GError) problem = NULL;
	int status;

	vial_log_info("microvm", "making a disk image, which happens once", "path", image);
	if (!g_spawn_sync(NULL, arguments, environment, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL, &words, &status, &problem))
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot run %s: %s", builder, problem->message);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return TRUE;
	return vial_fail(error, VIAL_ERROR_INTERNAL, "the disk image %s could not be made: %s", image,
	                 words && *words ? g_strstrip(words) : "no reason was given");
}

static char *find_or_build(const char *builder, const char *source, char *image, GError **error)
{
	static GMutex lock; /* two sandboxes of a new template want the same image */
	g_autofree char *path = image;
	gboolean is_ok;

	g_mutex_lock(&lock);
	is_ok = access(path, R_OK) == 0 || build(builder, source, path, error);
	g_mutex_unlock(&lock);
	return is_ok ? g_steal_pointer(&path) : NULL;
}

char *vial_microvm_disk(const char *builder, const char *folder, GError **error)
{
	return find_or_build(builder, folder, g_strconcat(folder, ".ext4", NULL), error);
}

char *vial_microvm_empty_disk(const char *builder, const char *folder, gint64 size_mb, GError **error)
{
	g_autofree char *source = g_strdup_printf("--empty=%" G_GINT64_FORMAT, size_mb);

	return find_or_build(builder, source, g_strdup_printf("%s/empty-%" G_GINT64_FORMAT ".ext4", folder, size_mb), error);
}
