/* SPDX-License-Identifier: Apache-2.0 */
#include "util/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/error.h"
#include "util/fd.h"
#include "util/worker.h"

#define OPEN_FOLDERS 16

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
	remove(path);
	return 0;
}

gboolean vial_tree_remove(const char *path)
{
	nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	return access(path, F_OK) < 0;
}

static void remove_work(gpointer path)
{
	vial_tree_remove(path);
}

/* Out of the way at once: somebody may put something new in its place before a worker comes to it. */
void vial_tree_remove_later(const char *path)
{
	static guint counter;
	g_autofree char *aside = g_strdup_printf("%s.gone-%u", path, counter++);

	if (rename(path, aside) == 0)
		vial_worker_run(remove_work, g_free, g_steal_pointer(&aside));
}

static _Thread_local gint64 measured;

static int measure_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
	if (type == FTW_F)
		measured += (gint64)info->st_blocks * 512;
	return 0;
}

gint64 vial_tree_size(const char *path)
{
	measured = 0;
	nftw(path, measure_one, OPEN_FOLDERS, FTW_PHYS | FTW_MOUNT);
	return measured;
}

static int sync_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
	vial_autofd int fd = -1;

	if (type != FTW_F && type != FTW_DP)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 || fsync(fd) < 0 ? errno : 0;
}

gboolean vial_tree_sync(const char *path, GError **error)
{
	int problem = nftw(path, sync_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);

	return problem == 0 ||
	       vial_fail(error, problem == ENOSPC ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL, "cannot flush %s: %s", path, g_strerror(problem));
}
