/* SPDX-License-Identifier: Apache-2.0 */
#include "service/writebehind.h"

#include <fcntl.h>
#include <unistd.h>

#include "util/fd.h"

#define LOOK_US 3000

struct VialWriteBehind {
	gint stopped; /* atomic */
	char *dir;
};

static void write_out(const char *dir)
{
	g_autoptr(GDir) listing = g_dir_open(dir, 0, NULL);
	const char *name;

	while (listing && (name = g_dir_read_name(listing))) {
		g_autofree char *path = g_build_filename(dir, name, NULL);
		vial_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

		if (fd >= 0)
			(void)!sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	}
}

static gpointer work(gpointer data)
{
	VialWriteBehind *behind = data;

	while (!g_atomic_int_get(&behind->stopped)) {
		write_out(behind->dir);
		g_usleep(LOOK_US);
	}
	g_free(behind->dir);
	g_free(behind);
	return NULL;
}

VialWriteBehind *vial_write_behind_start(const char *dir)
{
	VialWriteBehind *behind = g_new0(VialWriteBehind, 1);

	behind->dir = g_strdup(dir);
	g_thread_unref(g_thread_new("write-behind", work, behind));
	return behind;
}

void vial_write_behind_stop(VialWriteBehind *behind)
{
	if (behind)
		g_atomic_int_set(&behind->stopped, 1);
}
