/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/spool.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/error.h"
#include "util/tree.h"

typedef struct {
	char *dir;
	VialSpool *spool;
	GPtrArray *seen; /* texts */
} Fixture;

static void see(VialSpoolKind kind, const char *bytes, gsize size, gpointer data)
{
	Fixture *f = data;

	g_ptr_array_add(f->seen, g_strdup_printf("%d:%.*s", kind, (int)MIN(size, 40), bytes));
}

static void open_spool(Fixture *f)
{
	g_ptr_array_set_size(f->seen, 0);
	f->spool = vial_spool_open(f->dir, see, f, NULL);
	g_assert_nonnull(f->spool);
}

static void reopen(Fixture *f)
{
	vial_spool_free(f->spool);
	open_spool(f);
}

static void set_up(Fixture *f, gconstpointer unused)
{
	f->dir = g_dir_make_tmp("vial-test-XXXXXX", NULL);
	f->seen = g_ptr_array_new_with_free_func(g_free);
	open_spool(f);
}

static void tear_down(Fixture *f, gconstpointer unused)
{
	vial_spool_free(f->spool);
	g_ptr_array_unref(f->seen);
	vial_tree_remove(f->dir);
	g_free(f->dir);
}

static guint append(Fixture *f, const char *text)
{
	guint segment = 0;

	g_assert_true(vial_spool_reserve(f->spool, vial_spool_cost(strlen(text)), FALSE, NULL));
	g_assert_true(vial_spool_append(f->spool, VIAL_SPOOL_RECORD, text, strlen(text), &segment, NULL));
	vial_spool_unreserve(f->spool, vial_spool_cost(strlen(text)));
	return segment;
}

static void test_remembers_in_order(Fixture *f, gconstpointer unused)
{
	for (int i = 0; i < 1000; i++) {
		g_autofree char *text = g_strdup_printf("entry %d", i);

		append(f, text);
	}
	reopen(f);
	g_assert_cmpuint(f->seen->len, ==, 1000);
	g_assert_cmpstr(f->seen->pdata[0], ==, "2:entry 0");
	g_assert_cmpstr(f->seen->pdata[999], ==, "2:entry 999");
	append(f, "one more");
	reopen(f);
	g_assert_cmpuint(f->seen->len, ==, 1001);
	g_assert_cmpstr(f->seen->pdata[1000], ==, "2:one more");
}

static char *only_file(Fixture *f)
{
	return g_build_filename(f->dir, "0000000001.spool", NULL);
}

/* Killed in the middle of a write, at any byte of it: what was whole is there, and the next one is written behind that. */
static void test_a_torn_entry_is_passed_over(Fixture *f, gconstpointer unused)
{
	g_autofree char *path = only_file(f);
	gsize whole = vial_spool_cost(strlen("first")), last = vial_spool_cost(strlen("the second one"));
	static const char zeros[64];

	append(f, "first");
	for (gsize kept = 0; kept < last; kept++) {
		vial_spool_free(g_steal_pointer(&f->spool));
		open_spool(f);
		append(f, "the second one");
		int fd = open(path, O_WRONLY);
		g_assert_cmpint(pwrite(fd, zeros, last - kept, (off_t)(whole + kept)), ==, (ssize_t)(last - kept));
		close(fd);
		reopen(f);
		g_assert_cmpuint(f->seen->len, ==, 1);
		append(f, "x");
		reopen(f);
		g_assert_cmpuint(f->seen->len, ==, 2);
		g_assert_cmpstr(f->seen->pdata[1], ==, "2:x");
		fd = open(path, O_WRONLY); /* back to one */
		g_assert_cmpint(pwrite(fd, zeros, sizeof(zeros), (off_t)whole), ==, sizeof(zeros));
		close(fd);
	}
}

/* Not what a crash does: the rest is read all the same, and it is told. */
static void test_a_changed_byte_costs_one_entry_and_is_told(Fixture *f, gconstpointer unused)
{
	g_autofree char *path = only_file(f);

	append(f, "first");
	append(f, "second");
	append(f, "third");
	for (gsize at = 0; at < vial_spool_cost(6); at++) {
		int fd = open(path, O_RDWR);
		off_t place = (off_t)(vial_spool_cost(5) + at);
		char byte, other;

		g_assert_cmpint(pread(fd, &byte, 1, place), ==, 1);
		other = (char)(byte ^ 0x20);
		g_assert_cmpint(pwrite(fd, &other, 1, place), ==, 1);
		reopen(f);
		g_assert_cmpuint(f->seen->len, ==, 2);
		g_assert_cmpstr(f->seen->pdata[0], ==, "2:first");
		g_assert_cmpstr(f->seen->pdata[1], ==, "2:third");
		g_assert_true(vial_spool_is_damaged(f->spool));
		g_assert_cmpint(pwrite(fd, &byte, 1, place), ==, 1);
		close(fd);
	}
	reopen(f);
	g_assert_cmpuint(f->seen->len, ==, 3);
	g_assert_false(vial_spool_is_damaged(f->spool));
}

/* What is there of it is read, and there is room for all that may come again. */
static void test_a_file_cut_at_any_byte_is_gone_on_with(Fixture *f, gconstpointer unused)
{
	g_autofree char *path = only_file(f);
	gsize first = vial_spool_cost(strlen("first")), both = first + vial_spool_cost(strlen("second"));
	struct stat before, after;

	g_assert_cmpint(stat(path, &before), ==, 0);
	for (gsize size = 0; size <= both; size++) {
		append(f, "first");
		append(f, "second");
		g_assert_cmpint(truncate(path, (off_t)size), ==, 0);
		reopen(f);
		g_assert_cmpuint(f->seen->len, ==, size == both ? 2 : size >= first ? 1 : 0);
		g_assert_false(vial_spool_is_damaged(f->spool));
		append(f, "next");
		reopen(f);
		g_assert_cmpstr(f->seen->pdata[f->seen->len - 1], ==, "2:next");
		g_assert_cmpint(stat(path, &after), ==, 0);
		g_assert_cmpint(after.st_size, ==, before.st_size);
		g_assert_cmpint(after.st_blocks, >=, before.st_blocks);
		g_assert_cmpint(truncate(path, 0), ==, 0);
		reopen(f);
	}
}

/* A segment that the last viald made and died before it had allocated it: it is no room until it is. */
static void test_a_segment_without_room_is_none(Fixture *f, gconstpointer unused)
{
	g_autofree char *next = g_build_filename(f->dir, "0000000002.spool", NULL), *faults = g_build_filename(f->dir, "faults", NULL);
	struct stat info;

	append(f, "first");
	g_assert_true(g_file_set_contents(next, "", 0, NULL));
	g_assert_true(g_file_set_contents(faults, "audit.allocate\n", -1, NULL));
	g_setenv("VIAL_FAULTS", faults, TRUE);
	reopen(f);
	g_assert_false(vial_spool_reserve(f->spool, 1024, FALSE, NULL));
	g_unsetenv("VIAL_FAULTS");
	g_assert_cmpint(stat(next, &info), !=, 0);
	append(f, "second");
	reopen(f);
	g_assert_cmpuint(f->seen->len, ==, 2);
}

static void test_goes_on_in_segments_and_lets_the_oldest_go(Fixture *f, gconstpointer unused)
{
	g_autofree char *large = g_strnfill(1024 * 1024, 'x');
	guint first = append(f, large), last = first;
	guint count = 1;

	while (last < first + 3) {
		last = append(f, large);
		count++;
	}
	reopen(f);
	g_assert_cmpuint(f->seen->len, ==, count);
	g_assert_cmpuint(vial_spool_current(f->spool), ==, last);
	vial_spool_release(f->spool, last);
	reopen(f);
	g_assert_cmpuint(f->seen->len, ==, 1); /* what is in the current one */
	g_assert_cmpuint(vial_spool_current(f->spool), ==, last);
	vial_spool_release(f->spool, last + 10);
	g_assert_cmpuint(vial_spool_current(f->spool), ==, last);
}

static void test_a_segment_can_be_left_before_it_is_full(Fixture *f, gconstpointer unused)
{
	guint first = append(f, "first"), second;

	g_assert_true(vial_spool_turn(f->spool, NULL));
	g_assert_true(vial_spool_turn(f->spool, NULL)); /* which is nothing in an empty one */
	second = append(f, "second");
	g_assert_cmpuint(second, ==, first + 1);
	vial_spool_release(f->spool, second);
	reopen(f);
	g_assert_cmpuint(f->seen->len, ==, 1);
	g_assert_cmpstr(f->seen->pdata[0], ==, "2:second");
}

/* What was promised room has it, whatever else comes, and even if the disk has none any more. */
static void test_what_was_reserved_can_be_written(Fixture *f, gconstpointer unused)
{
	g_autofree char *faults = g_build_filename(f->dir, "faults", NULL), *large = g_strnfill(1024 * 1024, 'x');
	gsize cost = vial_spool_cost(1024 * 1024);
	g_autoptr(GError) error = NULL;

	for (int i = 0; i < 10; i++)
		g_assert_true(vial_spool_reserve(f->spool, cost, FALSE, NULL));
	g_assert_true(g_file_set_contents(faults, "audit.allocate\n", -1, NULL));
	g_setenv("VIAL_FAULTS", faults, TRUE);
	while (vial_spool_reserve(f->spool, cost, FALSE, &error))
		;
	g_assert_true(g_error_matches(error, VIAL_ERROR, VIAL_ERROR_NO_SPACE));
	g_assert_nonnull(strstr(error->message, "no room for records"));
	/* What stops something still has some. */
	g_assert_true(vial_spool_reserve(f->spool, VIAL_SPOOL_URGENT_BYTES / 2, TRUE, NULL));
	vial_spool_unreserve(f->spool, VIAL_SPOOL_URGENT_BYTES / 2);
	for (int i = 0; i < 10; i++) {
		g_assert_true(vial_spool_append(f->spool, VIAL_SPOOL_RECORD, large, strlen(large), NULL, NULL));
		vial_spool_unreserve(f->spool, cost);
	}
	g_unsetenv("VIAL_FAULTS");
	g_assert_true(vial_spool_reserve(f->spool, cost, FALSE, NULL));
	reopen(f);
	g_assert_cmpuint(f->seen->len, ==, 10);
}

static void test_is_private(Fixture *f, gconstpointer unused)
{
	g_autofree char *path = only_file(f);
	struct stat info;

	g_assert_cmpint(stat(path, &info), ==, 0);
	g_assert_cmpint(info.st_mode & 0777, ==, 0600);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(path, function) g_test_add(path, Fixture, NULL, set_up, function, tear_down)
	ADD("/spool/remembers-in-order", test_remembers_in_order);
	ADD("/spool/a-torn-entry-is-passed-over", test_a_torn_entry_is_passed_over);
	ADD("/spool/a-changed-byte-costs-one-entry-and-is-told", test_a_changed_byte_costs_one_entry_and_is_told);
	ADD("/spool/a-file-cut-at-any-byte-is-gone-on-with", test_a_file_cut_at_any_byte_is_gone_on_with);
	ADD("/spool/a-segment-without-room-is-none", test_a_segment_without_room_is_none);
	ADD("/spool/goes-on-in-segments-and-lets-the-oldest-go", test_goes_on_in_segments_and_lets_the_oldest_go);
	ADD("/spool/a-segment-can-be-left-before-it-is-full", test_a_segment_can_be_left_before_it_is_full);
	ADD("/spool/what-was-reserved-can-be-written", test_what_was_reserved_can_be_written);
	ADD("/spool/is-private", test_is_private);
	return g_test_run();
}
