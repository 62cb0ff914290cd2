/* SPDX-License-Identifier: Apache-2.0 */
/* The small leaves of util: errors, ids, time, hashes, files, arena, workers. */
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

#include "util/arena.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/hash.h"
#include "util/id.h"
#include "util/time.h"
#include "util/worker.h"

static void test_error_meanings(void)
{
	g_autoptr(GError) full = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_NO_SPACE, "full");
	g_autoptr(GError) foreign = g_error_new_literal(G_FILE_ERROR, G_FILE_ERROR_NOENT, "x");

	g_assert_cmpuint(vial_error_http_status(full), ==, 507);
	g_assert_cmpstr(vial_error_type(full), ==, "quota");
	g_assert_cmpuint(vial_error_http_status(foreign), ==, 500);
	g_assert_null(vial_error_detail(foreign));
	g_assert_false(vial_fail(NULL, VIAL_ERROR_INVALID, "nobody listens"));
}

static void test_error_detail(void)
{
	g_autoptr(GError) error = NULL, plain = NULL, copy = NULL;

	g_assert_false(vial_fail_with(&error, VIAL_ERROR_QUOTA, json_pack("{s:i}", "retry_after", 7), "come again in %d s", 7));
	g_assert_cmpstr(error->message, ==, "come again in 7 s");
	g_prefix_error(&error, "too soon: ");
	copy = g_error_copy(error);
	g_clear_error(&error);
	g_assert_true(g_error_matches(copy, VIAL_ERROR, VIAL_ERROR_QUOTA));
	g_assert_cmpstr(copy->message, ==, "too soon: come again in 7 s");
	g_assert_cmpint(json_integer_value(json_object_get(vial_error_detail(copy), "retry_after")), ==, 7);

	vial_fail(&plain, VIAL_ERROR_FORBIDDEN, "no");
	g_assert_cmpstr(vial_error_type(plain), ==, "forbidden");
	g_assert_null(vial_error_detail(plain));
	g_assert_null(vial_error_detail(NULL));
	g_assert_false(vial_fail_with(NULL, VIAL_ERROR_QUOTA, json_object(), "nobody listens"));
}

static void test_ids(void)
{
	g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	gboolean letters[256] = { FALSE };
	int n_letters = 0;

	for (int i = 0; i < 2000; i++) {
		char *id = vial_id_new();
		g_assert_true(vial_id_is_valid(id));
		for (char *c = id; *c; c++)
			letters[(guchar)*c] = TRUE;
		g_assert_true(g_hash_table_add(seen, id));
	}
	for (int i = 0; i < 256; i++)
		n_letters += letters[i];
	g_assert_cmpint(n_letters, ==, 36);
	g_assert_false(vial_id_is_valid(NULL));
	g_assert_false(vial_id_is_valid("abcdefghij012345678"));
	g_assert_false(vial_id_is_valid("abcdefghij0123456789x"));
	g_assert_false(vial_id_is_valid("Abcdefghij0123456789"));
	g_autofree char *secret = vial_secret_new("vial_", 40);
	g_assert_cmpuint(strlen(secret), ==, 45);
	g_assert_true(g_str_has_prefix(secret, "vial_"));
}

static void test_time(void)
{
	gint64 ms = 0;
	g_autofree char *text = vial_time_format(1738367999123);

	g_assert_cmpstr(text, ==, "2025-01-31T23:59:59.123Z");
	g_assert_true(vial_time_parse(text, &ms));
	g_assert_cmpint(ms, ==, 1738367999123);
	g_assert_false(vial_time_parse("yesterday", &ms));
	g_autofree char *before = vial_time_format(-1);
	g_assert_cmpstr(before, ==, "1969-12-31T23:59:59.999Z");
}

static void test_hashes(void)
{
	guint8 digest[VIAL_SHA256_BYTES], again[VIAL_SHA256_BYTES];

	vial_sha256("abc", 3, digest);
	g_autofree char *hex = vial_hex_encode(digest, sizeof(digest));
	g_assert_cmpstr(hex, ==, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	g_assert_true(vial_hex_decode(hex, again, sizeof(again)));
	g_assert_true(vial_constant_time_equal(digest, again, sizeof(digest)));
	again[31] ^= 1;
	g_assert_false(vial_constant_time_equal(digest, again, sizeof(digest)));
	g_assert_false(vial_hex_decode("zz", again, 1));
	g_assert_false(vial_hex_decode("abc", again, 1));
	vial_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, digest); /* RFC 4231, case 2 */
	g_autofree char *mac = vial_hex_encode(digest, sizeof(digest));
	g_assert_cmpstr(mac, ==, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

static void test_files(void)
{
	g_autofree char *dir = g_dir_make_tmp("vial-test-XXXXXX", NULL);
	g_autofree char *nested = g_build_filename(dir, "a", "b", NULL);
	g_autofree char *link = g_build_filename(dir, "link", NULL);
	g_autofree char *file = g_build_filename(nested, "f", NULL);
	g_autofree char *parent = g_build_filename(dir, "a", NULL);
	g_autoptr(GError) error = NULL;
	struct stat status;
	gsize size;

	vial_autofd int fd = vial_dir_open(nested, 0700, NULL);
	g_assert_cmpint(fd, >=, 0);
	g_assert_true(vial_file_write_at(fd, "f", "one", 3, 0600, NULL));
	g_assert_true(vial_file_write_at(fd, "f", "second", 6, 0600, NULL));
	g_autofree char *text = vial_file_read_at(fd, "f", 100, &size, NULL);
	g_assert_cmpstr(text, ==, "second");
	g_assert_cmpuint(size, ==, 6);
	g_assert_cmpint(stat(file, &status), ==, 0);
	g_assert_cmpint(status.st_mode & 0777, ==, 0600);
	g_assert_null(vial_file_read_at(fd, "f", 3, NULL, &error));
	g_assert_error(error, VIAL_ERROR, VIAL_ERROR_TOO_LARGE);
	g_clear_error(&error);
	g_assert_null(vial_file_read_at(fd, "absent", 3, NULL, &error));
	g_assert_error(error, VIAL_ERROR, VIAL_ERROR_NOT_FOUND);
	g_assert_cmpint(symlink("/tmp", link), ==, 0);
	g_assert_cmpint(vial_dir_open(link, 0700, NULL), ==, -1);
	/* Nothing but the file itself is left. */
	g_autoptr(GDir) listing = g_dir_open(nested, 0, NULL);
	g_assert_cmpstr(g_dir_read_name(listing), ==, "f");
	g_assert_null(g_dir_read_name(listing));
	g_unlink(file);
	g_unlink(link);
	g_rmdir(nested);
	g_rmdir(parent);
	g_rmdir(dir);
}

static void test_arena(void)
{
	VialArena arena;

	vial_arena_init(&arena);
	char *first = vial_arena_copy(&arena, "abc", 3);
	for (gsize size = 1; size < 10000; size = size * 2 + 1) {
		guint8 *bytes = vial_arena_alloc(&arena, size);
		g_assert_cmpuint((guintptr)bytes % 16, ==, 0);
		memset(bytes, 0xff, size);
		char *text = vial_arena_copy(&arena, "xyz", 2);
		g_assert_cmpstr(text, ==, "xy");
	}
	g_assert_cmpstr(first, ==, "abc");
	vial_arena_clear(&arena);
}

typedef struct {
	GThread *main_thread;
	GMainLoop *loop;
	int n_worked, n_done;
} Jobs;

static void work(gpointer data)
{
	Jobs *jobs = data;

	g_assert_true(g_thread_self() != jobs->main_thread);
	g_atomic_int_inc(&jobs->n_worked);
}

static void done(gpointer data)
{
	Jobs *jobs = data;

	g_assert_true(g_thread_self() == jobs->main_thread);
	if (++jobs->n_done == 100)
		g_main_loop_quit(jobs->loop);
}

static void test_workers(void)
{
	Jobs jobs = { .main_thread = g_thread_self(), .loop = g_main_loop_new(NULL, FALSE) };

	for (int i = 0; i < 100; i++)
		vial_worker_run(work, done, &jobs);
	g_main_loop_run(jobs.loop);
	g_assert_cmpint(jobs.n_worked, ==, 100);
	vial_worker_run(work, NULL, &jobs);
	vial_worker_shutdown();
	g_assert_cmpint(jobs.n_worked, ==, 101);
	g_main_loop_unref(jobs.loop);
}

/* Jobs that wait in one lane hold up nobody in another; the network's lane keeps its order. */

typedef struct {
	GMutex lock;
	GCond opened;
	gboolean is_open;
	guint order[50];
	guint n_ordered;
	gboolean has_booted;
} Lanes;

typedef struct {
	Lanes *lanes;
	guint number;
} Numbered;

static void wait_for_others(gpointer data)
{
	Lanes *lanes = data;

	g_mutex_lock(&lanes->lock);
	while (!lanes->is_open)
		g_cond_wait(&lanes->opened, &lanes->lock);
	g_mutex_unlock(&lanes->lock);
}

static void take_number(gpointer data)
{
	Numbered *job = data;

	job->lanes->order[job->lanes->n_ordered++] = job->number;
}

static void boot(gpointer data)
{
}

static void on_boot(gpointer data)
{
	Lanes *lanes = data;

	lanes->has_booted = TRUE;
	g_mutex_lock(&lanes->lock);
	lanes->is_open = TRUE;
	g_cond_broadcast(&lanes->opened);
	g_mutex_unlock(&lanes->lock);
}

static void test_lanes(void)
{
	Lanes lanes = { 0 };

	for (int i = 0; i < 100; i++) {
		vial_worker_run_in(VIAL_LANE_WAIT, wait_for_others, NULL, &lanes);
		vial_worker_run(wait_for_others, NULL, &lanes);
	}
	for (guint i = 0; i < G_N_ELEMENTS(lanes.order); i++) {
		Numbered *job = g_new(Numbered, 1);

		*job = (Numbered){ &lanes, i };
		vial_worker_run_in(VIAL_LANE_NET, take_number, g_free, job);
	}
	vial_worker_run_in(VIAL_LANE_BOOT, boot, on_boot, &lanes);
	vial_worker_shutdown(); /* would give up on them after a while, had the boot waited for their end */
	g_assert_true(lanes.has_booted);
	g_assert_cmpuint(lanes.n_ordered, ==, G_N_ELEMENTS(lanes.order));
	for (guint i = 0; i < lanes.n_ordered; i++)
		g_assert_cmpuint(lanes.order[i], ==, i);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/util/error-meanings", test_error_meanings);
	g_test_add_func("/util/error-detail", test_error_detail);
	g_test_add_func("/util/ids", test_ids);
	g_test_add_func("/util/time", test_time);
	g_test_add_func("/util/hashes", test_hashes);
	g_test_add_func("/util/files", test_files);
	g_test_add_func("/util/arena", test_arena);
	g_test_add_func("/util/workers", test_workers);
	g_test_add_func("/util/lanes", test_lanes);
	return g_test_run();
}
