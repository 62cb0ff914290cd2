/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse files: holes are hashed as the zeros they are, wherever they lie, and a changed byte is found wherever it lies. What is known to be good is
 * not hashed. */
#include "service/manifest.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "util/error.h"
#include "util/tree.h"

#define MIB (1024 * 1024)
#define SIZE (33LL * MIB + 100)

static const off_t places[] = { 0, 4096 * 3, 8 * MIB - 10, 8 * MIB + 4096, 20 * MIB + 17, 33LL * MIB + 50 };

static void put(const char *path, off_t at, const char *bytes, gsize size)
{
	int fd = g_open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	g_assert_cmpint(pwrite(fd, bytes, size, at), ==, (gssize)size);
	g_assert_cmpint(ftruncate(fd, SIZE), ==, 0);
	close(fd);
}

static void make(const char *path)
{
	for (gsize i = 0; i < G_N_ELEMENTS(places); i++)
		put(path, places[i], "something", 9);
}

/* The same bytes without a single hole. */
static void fill_holes(const char *path)
{
	g_autofree char *content = NULL;
	gsize size;

	g_assert_true(g_file_get_contents(path, &content, &size, NULL));
	g_assert_cmpint((gint64)size, ==, SIZE);
	g_unlink(path);
	g_assert_true(g_file_set_contents(path, content, (gssize)size, NULL));
}

static gboolean is_whole(VialManifests *manifests, const char *dir)
{
	g_autoptr(GError) error = NULL;
	gboolean needs_deep;

	if (!vial_manifest_check(manifests, dir, &needs_deep, NULL, &error))
		return FALSE;
	return !needs_deep || vial_manifest_check_deep(manifests, dir, &error);
}

static void test_holes_are_zeros(void)
{
	g_autofree char *top = g_dir_make_tmp("vial-manifest-XXXXXX", NULL), *dir = g_build_filename(top, "image", NULL);
	g_autofree char *path = g_build_filename(dir, "memory", NULL);
	g_autoptr(GError) error = NULL;
	json_t *facts = json_pack("{s:s}", "kind", "test");
	VialManifests *manifests = vial_manifests_open(top, "test", "1", &error);

	g_assert_no_error(error);
	g_assert_cmpint(g_mkdir(dir, 0700), ==, 0);
	make(path);
	g_assert_true(vial_manifest_seal(manifests, dir, facts, &error));
	g_assert_true(is_whole(manifests, dir));
	fill_holes(path);
	g_assert_true(is_whole(manifests, dir));
	for (gsize i = 0; i < G_N_ELEMENTS(places); i++) {
		put(path, places[i] + 3, "X", 1);
		g_assert_false(is_whole(manifests, dir));
		put(path, places[i] + 3, "e", 1);
		g_assert_true(is_whole(manifests, dir));
	}
	/* Where nothing was: in a hole, in the middle of a run, at the very end. */
	put(path, 12 * MIB + 1, "X", 1);
	g_assert_false(is_whole(manifests, dir));
	put(path, 12 * MIB + 1, "\0", 1);
	put(path, SIZE - 1, "X", 1);
	g_assert_false(is_whole(manifests, dir));
	json_decref(facts);
	vial_manifests_free(manifests);
	vial_tree_remove(top);
}

/* What we have sealed ourselves, or found good, is not read again until it is touched; whatever order its folder lists it in. */
static void test_what_is_known_is_not_hashed_again(void)
{
	g_autofree char *top = g_dir_make_tmp("vial-manifest-XXXXXX", NULL), *dir = g_build_filename(top, "image", NULL),
			*moved = g_build_filename(top, "moved", NULL);
	g_autofree char *path = g_build_filename(moved, "file-07", NULL);
	g_autoptr(GError) error = NULL;
	json_t *facts = json_pack("{s:s}", "kind", "test");
	VialManifests *manifests = vial_manifests_open(top, "test", "1", &error);
	gboolean needs_deep = TRUE;

	g_assert_no_error(error);
	g_assert_cmpint(g_mkdir(dir, 0700), ==, 0);
	for (int i = 0; i < 20; i++) {
		g_autofree char *name = g_strdup_printf("%s/file-%02d", dir, i * 7 % 20);

		g_assert_true(g_file_set_contents(name, name, -1, NULL));
	}
	g_assert_true(vial_manifest_seal(manifests, dir, facts, &error));
	g_assert_cmpint(g_rename(dir, moved), ==, 0);
	vial_manifest_moved(manifests, dir, moved);
	g_assert_true(vial_manifest_check(manifests, moved, &needs_deep, NULL, &error));
	g_assert_false(needs_deep);
	g_assert_cmpint(g_chmod(path, 0640), ==, 0);
	g_assert_true(vial_manifest_check(manifests, moved, &needs_deep, NULL, &error));
	g_assert_true(needs_deep);
	g_assert_true(vial_manifest_check_deep(manifests, moved, &error));
	g_assert_true(vial_manifest_check(manifests, moved, &needs_deep, NULL, &error));
	g_assert_false(needs_deep);
	json_decref(facts);
	vial_manifests_free(manifests);
	vial_tree_remove(top);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/manifest/holes are zeros", test_holes_are_zeros);
	g_test_add_func("/manifest/what is known is not hashed again", test_what_is_known_is_not_hashed_again);
	return g_test_run();
}
