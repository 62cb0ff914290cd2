/* SPDX-License-Identifier: Apache-2.0 */
#include "service/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/error.h"
#include "util/fd.h"
#include "util/tree.h"

#define HASH_LENGTH 12

/* Relative paths of all files below `root`, sorted, so that the hash does not depend on the disk's order. */
static void list_files(const char *root, const char *relative, GPtrArray *out)
{
	g_autofree char *path = g_build_filename(root, relative, NULL);
	g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
	const char *name;

	if (!dir) {
		g_ptr_array_add(out, g_strdup(relative));
		return;
	}
	while ((name = g_dir_read_name(dir))) {
		g_autofree char *below = *relative ? g_build_filename(relative, name, NULL) : g_strdup(name);

		if (name[0] != '.' && strcmp(name, "__pycache__") != 0)
			list_files(root, below, out);
	}
}

static int compare_names(gconstpointer a, gconstpointer b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static gboolean add_to_hash(GChecksum *sum, const char *label, const char *path, GError **error)
{
	g_autofree char *content = NULL;
	gsize size;

	if (!g_file_get_contents(path, &content, &size, NULL))
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot read %s; build Vial first with `make build`", path);
	g_checksum_update(sum, (const guchar *)label, (gssize)strlen(label) + 1);
	g_checksum_update(sum, (const guchar *)content, (gssize)size);
	return TRUE;
}

static gboolean copy_file(const char *from, const char *to, GError **error)
{
	g_autofree char *content = NULL, *folder = g_path_get_dirname(to);
	struct stat info;
	gsize size;

	if (g_mkdir_with_parents(folder, 0755) < 0 || g_stat(from, &info) < 0 || !g_file_get_contents(from, &content, &size, error) ||
	    !g_file_set_contents(to, content, (gssize)size, error) || g_chmod(to, (info.st_mode & 0111) ? 0755 : 0644) < 0) {
		g_clear_error(error);
		return vial_fail(error, VIAL_ERROR_NO_SPACE, "cannot copy %s to %s: %s", from, to, g_strerror(errno));
	}
	return TRUE;
}

/* In a build tree the kernels lie beside the build folder, once installed under share. */
static char *find_kernels(const char *program_dir)
{
	const char *const places[] = { "../guest/kernels", "../share/vial/kernels", "kernels" };

	for (gsize i = 0; i < G_N_ELEMENTS(places); i++) {
		g_autofree char *path = g_build_filename(program_dir, places[i], NULL);

		if (g_file_test(path, G_FILE_TEST_IS_DIR))
			return g_steal_pointer(&path);
	}
	return NULL;
}

static gboolean copy_all(const char *agent, const char *kernels, GPtrArray *files, const char *target, GError **error)
{
	g_autofree char *temporary = g_strdup_printf("%s.tmp", target);
	g_autofree char *agent_copy = g_build_filename(temporary, "vial-agent", NULL);
	gboolean is_ok;

	vial_tree_remove(temporary);
	is_ok = copy_file(agent, agent_copy, error);
	for (guint i = 0; is_ok && i < files->len; i++) {
		g_autofree char *from = g_build_filename(kernels, files->pdata[i], NULL);
		g_autofree char *to = g_build_filename(temporary, "kernels", files->pdata[i], NULL);

		is_ok = copy_file(from, to, error);
	}
	if (is_ok && rename(temporary, target) < 0 && errno != ENOTEMPTY && errno != EEXIST)
		is_ok = vial_fail(error, VIAL_ERROR_INTERNAL, "cannot rename %s: %s", temporary, g_strerror(errno));
	vial_tree_remove(temporary);
	return is_ok;
}

/* Images may be shared: of those that start beside each other one copies, and the others wait for it. */
static gboolean install(const char *images_dir, const char *agent, const char *kernels, GPtrArray *files, const char *target, GError **error)
{
	vial_autofd int dir_fd = open(images_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir_fd < 0 || TEMP_FAILURE_RETRY(flock(dir_fd, LOCK_EX)) < 0)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "%s cannot be locked: %s", images_dir, g_strerror(errno));
	return g_file_test(target, G_FILE_TEST_IS_DIR) || copy_all(agent, kernels, files, target, error);
}

gboolean vial_runtime_install(const char *program_dir, const char *images_dir, char **out_dir, char **out_hash, GError **error)
{
	g_autofree char *agent = g_build_filename(program_dir, "vial-agent", NULL);
	g_autofree char *kernels = find_kernels(program_dir);
	g_autoptr(GPtrArray) files = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
	g_autofree char *hash = NULL, *target = NULL;

	if (!kernels)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "the language kernels are missing beside %s", program_dir);
	list_files(kernels, "", files);
	g_ptr_array_sort(files, compare_names);
	if (!add_to_hash(sum, "vial-agent", agent, error))
		return FALSE;
	for (guint i = 0; i < files->len; i++) {
		g_autofree char *path = g_build_filename(kernels, files->pdata[i], NULL);

		if (!add_to_hash(sum, files->pdata[i], path, error))
			return FALSE;
	}
	hash = g_strndup(g_checksum_get_string(sum), HASH_LENGTH);
	target = g_strdup_printf("%s/runtime-%s", images_dir, hash);
	if (!g_file_test(target, G_FILE_TEST_IS_DIR) && !install(images_dir, agent, kernels, files, target, error))
		return FALSE;
	*out_dir = g_steal_pointer(&target);
	*out_hash = g_steal_pointer(&hash);
	return TRUE;
}
