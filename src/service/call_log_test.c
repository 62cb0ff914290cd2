/* SPDX-License-Identifier: Apache-2.0 */
#include "service/call_log.h"

#include <glib/gstdio.h>

#include "util/log.h"
#include "util/time.h"

#define DAY_MS (24 * 3600 * (gint64)1000)
#define OLD_CALLS 1000
#define INTERVAL_MS 20

typedef struct {
	char *dir;
	char *path;
	VialStore *store;
	guint n_left;
	gboolean is_listed;
} Fixture;

static void set_up(Fixture *f, gconstpointer unused)
{
	f->dir = g_dir_make_tmp("vial-test-XXXXXX", NULL);
	f->path = g_build_filename(f->dir, "db.sqlite", NULL);
	f->store = vial_store_open(f->path, NULL);
	g_assert_nonnull(f->store);
}

static void tear_down(Fixture *f, gconstpointer unused)
{
	g_autofree char *wal = g_strconcat(f->path, "-wal", NULL), *shm = g_strconcat(f->path, "-shm", NULL);

	vial_store_close(f->store);
	g_unlink(wal);
	g_unlink(shm);
	g_unlink(f->path);
	g_rmdir(f->dir);
	g_free(f->dir);
	g_free(f->path);
}

static void put(Fixture *f, const char *prefix, guint count, gint64 started_at)
{
	for (guint i = 0; i < count; i++) {
		g_autofree char *id = g_strdup_printf("%s%u", prefix, i);
		VialCallRecord call = { .id = id,
			                .sandbox_id = (char *)"one",
			                .kind = (char *)"exec",
			                .status = (char *)"done",
			                .detail = (char *)"{}",
			                .started_at = started_at };

		vial_store_put_call(f->store, &call, NULL, NULL);
	}
}

static void on_listed(GPtrArray *records, const GError *error, gpointer data)
{
	Fixture *f = data;

	f->n_left = records->len;
	f->is_listed = TRUE;
}

static guint count_left(Fixture *f)
{
	f->is_listed = FALSE;
	vial_store_list_calls(f->store, "one", OLD_CALLS * 2, on_listed, f);
	while (!f->is_listed)
		g_main_context_iteration(NULL, TRUE);
	return f->n_left;
}

static void expect_left(Fixture *f, guint expected)
{
	gint64 end = g_get_monotonic_time() + 30 * G_USEC_PER_SEC;

	while (count_left(f) != expected)
		g_assert_cmpint(g_get_monotonic_time(), <, end);
}

static void test_forgets_old_calls_at_start_and_again_later(Fixture *f, gconstpointer unused)
{
	VialCallLog *log;

	put(f, "old", OLD_CALLS, vial_time_now_ms() - 31 * DAY_MS);
	put(f, "young", 3, vial_time_now_ms() - 29 * DAY_MS);
	g_assert_cmpuint(count_left(f), ==, OLD_CALLS + 3);
	log = vial_call_log_new(f->store, 30, INTERVAL_MS);
	expect_left(f, 3);
	/* And the next time round, without a restart. */
	put(f, "later", 2, vial_time_now_ms() - 31 * DAY_MS);
	expect_left(f, 3);
	vial_call_log_free(log);
}

static void on_time(gpointer data)
{
	*(gboolean *)data = TRUE;
}

static void test_keeps_everything_when_told_to(Fixture *f, gconstpointer unused)
{
	VialCallLog *log;
	gboolean is_over = FALSE;

	put(f, "old", 10, 1);
	log = vial_call_log_new(f->store, 0, INTERVAL_MS);
	g_timeout_add_once(INTERVAL_MS * 5, on_time, &is_over);
	while (!is_over)
		g_main_context_iteration(NULL, TRUE);
	g_assert_cmpuint(count_left(f), ==, 10);
	vial_call_log_free(log);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	vial_log_setup(VIAL_LOG_ERROR, VIAL_LOG_TEXT);
	g_test_add("/call-log/forgets-old-calls-at-start-and-again-later", Fixture, NULL, set_up, test_forgets_old_calls_at_start_and_again_later,
	           tear_down);
	g_test_add("/call-log/keeps-everything-when-told-to", Fixture, NULL, set_up, test_keeps_everything_when_told_to, tear_down);
	return g_test_run();
}
