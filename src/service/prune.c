/* SPDX-License-Identifier: Apache-2.0 */
#include "service/prune.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/installation.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/tree.h"
#include "util/worker.h"

#define UNUSED_SECONDS (24 * 3600)
#define REMOVED_SUFFIX ".gone"

typedef struct {
	char *images_dir;
	char *data_dir;
	char *tag;
	GPtrArray *users; /* data directories */
} Prune;

static int open_folder(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Between opening and locking somebody may have removed it. */
static gboolean is_still(int fd, const char *path)
{
	struct stat mine, there;

	return fstat(fd, &mine) == 0 && lstat(path, &there) == 0 && mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

int vial_images_hold(const char *path)
{
	vial_autofd int fd = open_folder(path);

	if (fd < 0 || flock(fd, LOCK_SH) < 0 || !is_still(fd, path))
		return -1;
	futimens(fd, NULL);
	return vial_fd_steal(&fd);
}

/* Who needs a runtime */

static gboolean is_named_in(const char *folder, const char *word)
{
	g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
	const char *name;

	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *path = g_build_filename(folder, name, NULL);
		g_autofree char *text = NULL;

		if (g_str_has_suffix(name, ".json") && g_file_get_contents(path, &text, NULL, NULL) && strstr(text, word))
			return TRUE;
	}
	return FALSE;
}

/* A sandbox's folder has the engine's description of it, a checkpoint's its manifest: both name the runtime. */
static gboolean is_named_below(const char *data_dir, const char *kind, const char *word)
{
	g_autofree char *parent = g_build_filename(data_dir, kind, NULL);
	g_autoptr(GDir) dir = g_dir_open(parent, 0, NULL);
	const char *name;

	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *folder = g_build_filename(parent, name, NULL);

		if (is_named_in(folder, word))
			return TRUE;
	}
	return FALSE;
}

static gboolean installation_needs(const char *data_dir, const char *word)
{
	return is_named_below(data_dir, "sandboxes", word) || is_named_below(data_dir, "hibernated", word) ||
	       is_named_below(data_dir, "snapshots", word);
}

/* The data directories of all installations that use these images, ours included; those that are no more are forgotten. */
static GPtrArray *list_users(const char *users)
{
	GPtrArray *list = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GDir) dir = g_dir_open(users, 0, NULL);
	const char *name;

	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *path = g_build_filename(users, name, NULL);
		g_autofree char *data_dir = NULL;

		if (!g_file_get_contents(path, &data_dir, NULL, NULL))
			continue;
		if (g_file_test(data_dir, G_FILE_TEST_IS_DIR))
			g_ptr_array_add(list, g_steal_pointer(&data_dir));
		else
			g_unlink(path);
	}
	return list;
}

static gboolean is_needed(const Prune *prune, const char *runtime)
{
	for (guint i = 0; i < prune->users->len; i++)
		if (installation_needs(prune->users->pdata[i], runtime))
			return TRUE;
	return FALSE;
}

/* FALSE: then nothing may be removed, since others could not know of us either. */
static gboolean register_user(Prune *prune)
{
	g_autofree char *users = g_build_filename(prune->images_dir, "users", NULL);
	g_autofree char *path = g_build_filename(users, prune->tag, NULL);
	g_autoptr(GError) error = NULL;

	if (g_mkdir_with_parents(users, 0700) < 0 || !g_file_set_contents(path, prune->data_dir, -1, &error)) {
		vial_log_warning("template", "this installation could not be noted beside the images", "path", path, "error",
		                 error ? error->message : g_strerror(errno));
		return FALSE;
	}
	prune->users = list_users(users);
	return TRUE;
}

/* Removing */

static gboolean is_ours(const char *name)
{
	return g_str_has_prefix(name, "baked-") || g_str_has_prefix(name, "baking-") || g_str_has_prefix(name, "runtime-");
}

static gboolean is_old(int fd)
{
	struct stat info;

	return fstat(fd, &info) == 0 && g_get_real_time() / G_USEC_PER_SEC - (gint64)info.st_mtime > UNUSED_SECONDS;
}

static void consider(const Prune *prune, const char *name)
{
	g_autofree char *path = g_build_filename(prune->images_dir, name, NULL);
	g_autofree char *gone = g_strconcat(path, g_str_has_suffix(path, REMOVED_SUFFIX) ? "" : REMOVED_SUFFIX, NULL);
	vial_autofd int fd = open_folder(path);

	if (fd < 0 || !is_old(fd) || flock(fd, LOCK_EX | LOCK_NB) < 0 || !is_still(fd, path))
		return;
	/* With the lock: who takes it up in this moment has touched it. */
	if (!is_old(fd) || (g_str_has_prefix(name, "runtime-") && is_needed(prune, name)))
		return;
	/* Renamed first: what is half removed must not look like a checkpoint. */
	if (strcmp(path, gone) != 0 && rename(path, gone) < 0)
		return;
	vial_log_info("template", "removed what no build uses any more", "path", path);
	vial_tree_remove(gone);
}

static void prune_work(gpointer data)
{
	Prune *prune = data;
	g_autoptr(GDir) dir = g_dir_open(prune->images_dir, 0, NULL);
	const char *name;

	if (!register_user(prune))
		return;
	while (dir && (name = g_dir_read_name(dir)))
		if (is_ours(name))
			consider(prune, name);
}

static void prune_done(gpointer data)
{
	Prune *prune = data;

	g_clear_pointer(&prune->users, g_ptr_array_unref);
	g_free(prune->images_dir);
	g_free(prune->data_dir);
	g_free(prune->tag);
	g_free(prune);
}

void vial_images_prune(VialApp *app)
{
	Prune *prune = g_new0(Prune, 1);

	prune->images_dir = g_strdup(app->config->images_dir);
	prune->data_dir = g_canonicalize_filename(app->config->data_dir, NULL);
	prune->tag = vial_installation_tag(app->config);
	vial_worker_run(prune_work, prune_done, prune);
}
