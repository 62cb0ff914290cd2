/* SPDX-License-Identifier: Apache-2.0 */
/* What is written is what others read: tar, and Python's tarfile. */
#include "util/tar.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "util/fd.h"

typedef struct {
	char *folder, *archive;
} Fixture;

static void set_up(Fixture *fixture, gconstpointer unused)
{
	fixture->folder = g_dir_make_tmp("vial-tar-XXXXXX", NULL);
	fixture->archive = g_build_filename(fixture->folder, "archive.tar", NULL);
	g_assert_nonnull(fixture->folder);
}

/* Runs a program there; what it printed. */
static char *run(const Fixture *fixture, const char *const *argv)
{
	g_autoptr(GError) error = NULL;
	char *printed = NULL;
	int status = -1;

	g_spawn_sync(fixture->folder, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &printed, NULL, &status, &error);
	g_assert_no_error(error);
	g_assert_cmpint(status, ==, 0);
	return printed;
}

static void tear_down(Fixture *fixture, gconstpointer unused)
{
	const char *const argv[] = { "rm", "-rf", "--", fixture->folder, NULL };
	g_autofree char *printed = run(fixture, argv);

	g_free(fixture->folder);
	g_free(fixture->archive);
}

static void write_archive(const Fixture *fixture, const GByteArray *bytes)
{
	g_autoptr(GError) error = NULL;

	g_file_set_contents(fixture->archive, (const char *)bytes->data, bytes->len, &error);
	g_assert_no_error(error);
}

static void add(GByteArray *out, const char *name, guint mode, const void *content, gsize size)
{
	vial_tar_add_file(out, name, mode, size);
	if (size > 0)
		g_byte_array_append(out, content, (guint)size);
	vial_tar_add_padding(out, size);
	g_assert_cmpuint(out->len % VIAL_TAR_BLOCK_BYTES, ==, 0);
}

/* Names around every limit: of ustar's field, and of the digits of a record's length. */
static GPtrArray *add_names(GByteArray *out)
{
	static const gsize lengths[] = { 1, 99, 100, 101, 155, 255 };
	GPtrArray *names = g_ptr_array_new_with_free_func(g_free);

	for (gsize i = 0; i < G_N_ELEMENTS(lengths); i++)
		g_ptr_array_add(names, g_strnfill(lengths[i], (char)('a' + i)));
	for (gsize i = 80; i < 100; i++) { /* "101 path=…" and its like */
		g_autofree char *fill = g_strnfill(i, 'x');

		g_ptr_array_add(names, g_strconcat("sub/", fill, "ü", NULL));
	}
	g_ptr_array_add(names, g_strdup("sub/Grüße \360\237\230\200 日本\n = 12 path=x"));
	for (guint i = 0; i < names->len; i++)
		add(out, names->pdata[i], 0644, names->pdata[i], strlen(names->pdata[i]));
	return names;
}

static void expect_content(const Fixture *fixture, const char *name, const void *content, gsize size)
{
	g_autofree char *path = g_build_filename(fixture->folder, "out", name, NULL), *found = NULL;
	g_autoptr(GError) error = NULL;
	gsize found_size;

	g_file_get_contents(path, &found, &found_size, &error);
	g_assert_no_error(error);
	g_assert_cmpmem(found, found_size, content, size);
}

static void test_tar_unpacks_it(Fixture *fixture, gconstpointer unused)
{
	const char *const make[] = { "mkdir", "out", NULL };
	const char *const unpack[] = { "tar", "-x", "-p", "-f", "archive.tar", "-C", "out", NULL };
	const char *const modes[] = { "stat", "-c", "%a %Y %n", "out/hollow", "out/empty", "out/program", NULL };
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	g_autoptr(GPtrArray) names = NULL;
	g_autofree char *made = NULL, *unpacked = NULL, *shown = NULL;
	guint8 binary[1025];

	for (gsize i = 0; i < sizeof(binary); i++)
		binary[i] = (guint8)(i * 7);
	vial_tar_add_folder(bytes, "hollow", 0750);
	add(bytes, "empty", 0600, NULL, 0);
	add(bytes, "program", 0755, binary, sizeof(binary));
	add(bytes, "block", 0644, binary, VIAL_TAR_BLOCK_BYTES);
	names = add_names(bytes);
	vial_tar_add_end(bytes);
	write_archive(fixture, bytes);

	made = run(fixture, make);
	unpacked = run(fixture, unpack);
	expect_content(fixture, "empty", "", 0);
	expect_content(fixture, "program", binary, sizeof(binary));
	expect_content(fixture, "block", binary, VIAL_TAR_BLOCK_BYTES);
	for (guint i = 0; i < names->len; i++)
		expect_content(fixture, names->pdata[i], names->pdata[i], strlen(names->pdata[i]));
	shown = run(fixture, modes);
	g_assert_cmpstr(shown, ==, "750 946684800 out/hollow\n600 946684800 out/empty\n755 946684800 out/program\n");
}

static void test_python_reads_it(Fixture *fixture, gconstpointer unused)
{
	static const char script[] = "import sys, tarfile\n"
				     "archive = tarfile.open('archive.tar', errorlevel=2)\n"
				     "for one in archive:\n"
				     "    assert (one.uid, one.gid, one.mtime) == (0, 0, 946684800), one.get_info()\n"
				     "    kind = 'folder' if one.isdir() else 'file'\n"
				     "    content = archive.extractfile(one).read().decode() if one.isfile() else ''\n"
				     "    sys.stdout.write(f'{kind} {one.mode:o} {one.name}={content}\\1')\n";
	const char *const argv[] = { "python3", "-I", "-X", "utf8", "-c", script, NULL };
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	g_autoptr(GPtrArray) names = NULL;
	g_autofree char *printed = NULL;
	const char *at;

	vial_tar_add_folder(bytes, "ein Ordner für Söhne", 0755);
	names = add_names(bytes);
	vial_tar_add_end(bytes);
	write_archive(fixture, bytes);
	at = printed = run(fixture, argv);
	g_assert_true(g_str_has_prefix(at, "folder 755 ein Ordner für Söhne=\001"));
	at = strchr(at, '\001') + 1;
	for (guint i = 0; i < names->len; i++) {
		g_autofree char *wanted = g_strdup_printf("file 644 %s=%s\001", (char *)names->pdata[i], (char *)names->pdata[i]);

		g_assert_true(g_str_has_prefix(at, wanted));
		at += strlen(wanted);
	}
	g_assert_cmpstr(at, ==, "");
}

/* The largest that a header has room for, and one more: files with holes, which take no space. */
static void test_sizes_that_need_a_record(Fixture *fixture, gconstpointer unused)
{
	static const guint64 sizes[] = { (G_GUINT64_CONSTANT(1) << 33) - 1, G_GUINT64_CONSTANT(1) << 33 };
	static const char script[] = "import tarfile; print([(one.name, one.size) for one in tarfile.open('archive.tar', errorlevel=2)])";
	const char *const argv[] = { "python3", "-I", "-c", script, NULL };
	g_autofree char *printed = NULL;
	vial_autofd int fd = open(fixture->archive, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	off_t end = 0;

	g_assert_cmpint(fd, >=, 0);
	for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++) {
		g_autoptr(GByteArray) header = g_byte_array_new(), padding = g_byte_array_new();

		vial_tar_add_file(header, "large", 0644, sizes[i]);
		vial_tar_add_padding(padding, sizes[i]);
		g_assert_cmpint(pwrite(fd, header->data, header->len, end), ==, header->len);
		end += (off_t)(header->len + sizes[i] + padding->len);
	}
	g_assert_cmpint(ftruncate(fd, end + VIAL_TAR_END_BYTES), ==, 0);
	printed = run(fixture, argv);
	g_assert_cmpstr(printed, ==, "[('large', 8589934591), ('large', 8589934592)]\n");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add("/tar/tar unpacks it", Fixture, NULL, set_up, test_tar_unpacks_it, tear_down);
	g_test_add("/tar/Python reads it", Fixture, NULL, set_up, test_python_reads_it, tear_down);
	g_test_add("/tar/sizes that need a record", Fixture, NULL, set_up, test_sizes_that_need_a_record, tear_down);
	return g_test_run();
}
