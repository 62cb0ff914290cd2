/* SPDX-License-Identifier: Apache-2.0 */
/* The store and, on top of it, the keys. */
#include "store/store.h"

#include <glib/gstdio.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>

#include "auth/keys.h"
#include "util/error.h"
#include "util/log.h"

typedef struct {
	char *dir;
	char *path;
	VialStore *store;
	int n_pending;
	guint n_listed;
	guint n_pruned;
	int n_failed;
} Fixture;

static void set_up(Fixture *f, gconstpointer unused)
{
	f->dir = g_dir_make_tmp("vial-test-XXXXXX", NULL);
	f->path = g_build_filename(f->dir, "db.sqlite", NULL);
	f->store = vial_store_open(f->path, NULL);
	g_assert_nonnull(f->store);
}

static void remove_all(const char *path)
{
	g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
	const char *name;

	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *child = g_build_filename(path, name, NULL);
		remove_all(child);
	}
	g_remove(path);
}

static void tear_down(Fixture *f, gconstpointer unused)
{
	vial_store_close(f->store);
	while (g_main_context_iteration(NULL, FALSE))
		;
	remove_all(f->dir);
	g_free(f->dir);
	g_free(f->path);
}

static void reopen(Fixture *f)
{
	vial_store_close(f->store);
	f->store = vial_store_open(f->path, NULL);
	g_assert_nonnull(f->store);
}

static void done(const GError *error, gpointer data)
{
	Fixture *f = data;

	f->n_pending--;
	f->n_failed += error != NULL;
}

static void settle(Fixture *f)
{
	while (f->n_pending > 0)
		g_main_context_iteration(NULL, TRUE);
}

static VialSandboxRecord sandbox(const char *id, const char *status)
{
	return (VialSandboxRecord){ .id = (char *)id,
		                    .project = (char *)"default",
		                    .key_id = (char *)"k",
		                    .template_name = (char *)"base",
		                    .engine = (char *)"gvisor",
		                    .status = (char *)status,
		                    .document = (char *)"{\"a\":\"'; DROP TABLE sandboxes; --\"}",
		                    .created_at = 1,
		                    .updated_at = 2 };
}

static void test_remembers(Fixture *f, gconstpointer unused)
{
	VialSandboxRecord one = sandbox("one", "running"), two = sandbox("two", "running");

	two.expires_at = G_MAXINT64;
	f->n_pending = 4;
	vial_store_put_sandbox(f->store, &one, done, f);
	vial_store_put_sandbox(f->store, &two, done, f);
	one.status = (char *)"paused";
	vial_store_put_sandbox(f->store, &one, done, f);
	vial_store_delete_sandbox(f->store, "absent", done, f);
	settle(f);
	g_assert_cmpint(f->n_failed, ==, 0);
	reopen(f);
	g_autoptr(GPtrArray) records = vial_store_load_sandboxes(f->store, NULL);
	g_assert_cmpuint(records->len, ==, 2);
	gboolean first_is_one = strcmp(((VialSandboxRecord *)records->pdata[0])->id, "one") == 0;
	VialSandboxRecord *loaded_one = records->pdata[first_is_one ? 0 : 1], *loaded_two = records->pdata[first_is_one ? 1 : 0];
	g_assert_cmpstr(loaded_one->status, ==, "paused");
	g_assert_cmpstr(loaded_one->document, ==, one.document);
	g_assert_cmpint(loaded_two->expires_at, ==, G_MAXINT64);
}

static void test_keeps_the_order_under_load(Fixture *f, gconstpointer unused)
{
	f->n_pending = 2000;
	for (int i = 0; i < 1000; i++) {
		g_autofree char *id = g_strdup_printf("s%d", i % 100);
		VialSandboxRecord record = sandbox(id, "running");
		record.updated_at = i;
		vial_store_put_sandbox(f->store, &record, done, f);
		if (i % 2)
			vial_store_delete_sandbox(f->store, id, done, f);
		else
			vial_store_put_sandbox(f->store, &record, done, f);
	}
	settle(f);
	g_assert_cmpint(f->n_failed, ==, 0);
	reopen(f);
	g_autoptr(GPtrArray) records = vial_store_load_sandboxes(f->store, NULL);
	g_assert_cmpuint(records->len, ==, 50);
	for (guint i = 0; i < records->len; i++)
		g_assert_cmpint(((VialSandboxRecord *)records->pdata[i])->updated_at, >=, 900);
}

static void test_closing_writes_what_is_queued(Fixture *f, gconstpointer unused)
{
	VialSandboxRecord record = sandbox("one", "running");

	vial_store_put_sandbox(f->store, &record, NULL, NULL);
	reopen(f);
	g_autoptr(GPtrArray) records = vial_store_load_sandboxes(f->store, NULL);
	g_assert_cmpuint(records->len, ==, 1);
}

static void listed(GPtrArray *records, const GError *error, gpointer data)
{
	Fixture *f = data;

	g_assert_no_error((GError *)error);
	f->n_listed = records->len;
	if (records->len > 0)
		g_assert_cmpstr(((VialCallRecord *)records->pdata[0])->id, ==, "c9");
	f->n_pending--;
}

static void pruned(guint count, const GError *error, gpointer data)
{
	Fixture *f = data;

	g_assert_no_error((GError *)error);
	f->n_pruned = count;
	f->n_pending--;
}

static void prune(Fixture *f, gint64 before, guint limit)
{
	f->n_pending = 2;
	vial_store_prune_calls(f->store, before, limit, pruned, f);
	vial_store_list_calls(f->store, "one", 100, listed, f);
	settle(f);
}

static void test_lists_and_prunes_calls(Fixture *f, gconstpointer unused)
{
	f->n_pending = 1;
	for (int i = 0; i < 10; i++) {
		g_autofree char *id = g_strdup_printf("c%d", i);
		VialCallRecord call = { .id = id,
			                .sandbox_id = (char *)"one",
			                .kind = (char *)"exec",
			                .status = (char *)(i == 3 ? "running" : "done"),
			                .detail = (char *)"{}",
			                .started_at = i };
		vial_store_put_call(f->store, &call, NULL, NULL);
	}
	vial_store_list_calls(f->store, "one", 5, listed, f);
	settle(f);
	g_assert_cmpuint(f->n_listed, ==, 5);
	/* Not more than it is told to at a time; what runs stays, however old. */
	prune(f, 8, 5);
	g_assert_cmpuint(f->n_pruned, ==, 5);
	g_assert_cmpuint(f->n_listed, ==, 5);
	prune(f, 8, 5);
	g_assert_cmpuint(f->n_pruned, ==, 2);
	g_assert_cmpuint(f->n_listed, ==, 3);
	prune(f, 8, 5);
	g_assert_cmpuint(f->n_pruned, ==, 0);
	g_assert_cmpuint(f->n_listed, ==, 3);
}

static void ended(GPtrArray *records, const GError *error, gpointer data)
{
	Fixture *f = data;
	const VialCallRecord *call;

	g_assert_no_error((GError *)error);
	g_assert_cmpuint(records->len, ==, 1);
	call = records->pdata[0];
	g_assert_cmpstr(call->detail, ==, "{\"code\":\"1\"}");
	g_assert_cmpstr(call->kind, ==, "run");
	g_assert_cmpint(call->started_at, ==, 5);
	g_assert_cmpstr(call->status, ==, "done");
	g_assert_cmpstr(call->outcome, ==, "{\"exit_code\":0}");
	g_assert_cmpint(call->ended_at, ==, 7);
	f->n_pending--;
}

static void test_the_end_of_a_call_leaves_what_it_ran(Fixture *f, gconstpointer unused)
{
	VialCallRecord begun = { .id = (char *)"c",
		                 .sandbox_id = (char *)"one",
		                 .kind = (char *)"run",
		                 .status = (char *)"running",
		                 .detail = (char *)"{\"code\":\"1\"}",
		                 .started_at = 5 };
	VialCallRecord end = { .id = (char *)"c", .status = (char *)"done", .outcome = (char *)"{\"exit_code\":0}", .ended_at = 7 };

	f->n_pending = 1;
	vial_store_put_call(f->store, &begun, NULL, NULL);
	vial_store_end_call(f->store, &end, NULL, NULL);
	vial_store_list_calls(f->store, "one", 5, ended, f);
	settle(f);
}

static void test_running_calls_are_interrupted_by_a_restart(Fixture *f, gconstpointer unused)
{
	VialCallRecord running = { .id = (char *)"r",
		                   .sandbox_id = (char *)"one",
		                   .kind = (char *)"exec",
		                   .status = (char *)"running",
		                   .detail = (char *)"{}",
		                   .started_at = 1 };
	VialCallRecord ended = running;
	sqlite3_stmt *statement;
	sqlite3 *db;

	ended.id = (char *)"e";
	ended.status = (char *)"done";
	ended.ended_at = 2;
	vial_store_put_call(f->store, &running, NULL, NULL);
	vial_store_put_call(f->store, &ended, NULL, NULL);
	vial_store_close(f->store);
	f->store = vial_store_open(f->path, NULL);
	g_assert_true(vial_store_interrupt_calls(f->store, 3, NULL));
	g_assert_cmpint(sqlite3_open(f->path, &db), ==, SQLITE_OK);
	g_assert_cmpint(
		sqlite3_prepare_v2(db, "SELECT group_concat(id || status || ended_at) FROM (SELECT * FROM calls ORDER BY id)", -1, &statement, NULL),
		==, SQLITE_OK);
	g_assert_cmpint(sqlite3_step(statement), ==, SQLITE_ROW);
	g_assert_cmpstr((const char *)sqlite3_column_text(statement, 0), ==, "edone2,rinterrupted3");
	sqlite3_finalize(statement);
	sqlite3_close(db);
}

static void test_a_failing_record_does_not_take_others_with_it(Fixture *f, gconstpointer unused)
{
	VialKeyRecord first = { .id = (char *)"a", .project = (char *)"p", .role = (char *)"user", .hash = (char *)"h1" };
	VialSandboxRecord good = sandbox("good", "running");
	sqlite3 *db;

	/* A trigger makes the database refuse one of them. */
	g_assert_cmpint(sqlite3_open(f->path, &db), ==, SQLITE_OK);
	g_assert_cmpint(sqlite3_exec(db, "CREATE TRIGGER t BEFORE INSERT ON keys BEGIN SELECT RAISE(ABORT, 'no'); END", NULL, NULL, NULL), ==,
	                SQLITE_OK);
	sqlite3_close(db);
	f->n_pending = 2;
	vial_store_put_key(f->store, &first, done, f);
	vial_store_put_sandbox(f->store, &good, done, f);
	settle(f);
	g_assert_cmpint(f->n_failed, ==, 1);
	reopen(f);
	g_autoptr(GPtrArray) records = vial_store_load_sandboxes(f->store, NULL);
	g_assert_cmpuint(records->len, ==, 1);
}

/* As a backup does: what it began to read must stay readable, so nothing can be moved out of the log over it. */
static void test_what_is_committed_is_no_failure_while_somebody_reads(Fixture *f, gconstpointer unused)
{
	VialSnapshotRecord snapshot = { .id = (char *)"s",
		                        .project = (char *)"p",
		                        .sandbox_id = (char *)"one",
		                        .template_name = (char *)"base",
		                        .name = (char *)"",
		                        .document = (char *)"{}" };
	sqlite3 *db;

	f->n_pending = 1;
	vial_store_put_snapshot(f->store, &snapshot, done, f);
	settle(f);
	g_assert_cmpint(sqlite3_open(f->path, &db), ==, SQLITE_OK);
	g_assert_cmpint(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM snapshots", NULL, NULL, NULL), ==, SQLITE_OK);
	for (int i = 0; i < 3; i++) {
		g_autofree char *id = g_strdup_printf("s%d", i);

		snapshot.id = id;
		f->n_pending = 1;
		vial_store_put_snapshot(f->store, &snapshot, done, f);
		settle(f);
	}
	g_assert_cmpint(f->n_failed, ==, 0);
	sqlite3_close(db);
	reopen(f);
	g_autoptr(GPtrArray) records = vial_store_load_snapshots(f->store, NULL);
	g_assert_cmpuint(records->len, ==, 4);
}

static gint64 query_int(const char *path, const char *sql)
{
	sqlite3_stmt *statement;
	sqlite3 *db;
	gint64 value;

	g_assert_cmpint(sqlite3_open(path, &db), ==, SQLITE_OK);
	g_assert_cmpint(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), ==, SQLITE_OK);
	g_assert_cmpint(sqlite3_step(statement), ==, SQLITE_ROW);
	value = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	sqlite3_close(db);
	return value;
}

static void overwrite(const char *path, gint64 offset, const void *bytes, gsize size)
{
	FILE *file = fopen(path, "r+b");

	g_assert_nonnull(file);
	g_assert_cmpint(fseek(file, (long)offset, SEEK_SET), ==, 0);
	g_assert_cmpuint(fwrite(bytes, 1, size, file), ==, size);
	g_assert_cmpint(fclose(file), ==, 0);
}

/* The number of cells of a page of the b-tree is in its bytes 3 and 4: with fewer of them, reading the table "succeeds". */
static void test_a_damaged_table_is_not_one_with_fewer_records(Fixture *f, gconstpointer unused)
{
	static const guint8 one_cell[2] = { 0, 1 };
	gint64 page, page_size;

	for (int i = 0; i < 3; i++) {
		g_autofree char *id = g_strdup_printf("s%d", i);
		VialSandboxRecord record = sandbox(id, "running");

		vial_store_put_sandbox(f->store, &record, NULL, NULL);
	}
	vial_store_close(f->store);
	page = query_int(f->path, "SELECT rootpage FROM sqlite_master WHERE name = 'sandboxes'");
	page_size = query_int(f->path, "PRAGMA page_size");
	overwrite(f->path, (page - 1) * page_size + 3, one_cell, sizeof(one_cell));
	f->store = vial_store_open(f->path, NULL);
	g_assert_nonnull(f->store);
	g_autoptr(GError) error = NULL;
	g_assert_null(vial_store_load_sandboxes(f->store, &error));
	g_assert_nonnull(strstr(error->message, "sandboxes"));
	g_assert_nonnull(strstr(error->message, "backup"));
	g_autoptr(GPtrArray) others = vial_store_load_snapshots(f->store, NULL);
	g_assert_nonnull(others);
}

static void test_is_private(Fixture *f, gconstpointer unused)
{
	struct stat status;

	g_assert_cmpint(stat(f->path, &status), ==, 0);
	g_assert_cmpint(status.st_mode & 077, ==, 0);
}

static void test_refuses_a_newer_schema(Fixture *f, gconstpointer unused)
{
	g_autoptr(GError) error = NULL;
	sqlite3 *db;

	vial_store_close(f->store);
	f->store = NULL;
	g_assert_cmpint(sqlite3_open(f->path, &db), ==, SQLITE_OK);
	g_assert_cmpint(sqlite3_exec(db, "INSERT INTO migrations VALUES (999, 'future', 'now')", NULL, NULL, NULL), ==, SQLITE_OK);
	sqlite3_close(db);
	g_assert_null(vial_store_open(f->path, &error));
	g_assert_nonnull(strstr(error->message, "newer Vial"));
}

static void test_refuses_what_is_no_database(Fixture *f, gconstpointer unused)
{
	g_autofree char *other = g_build_filename(f->dir, "text", NULL);
	g_autoptr(GError) error = NULL;

	g_assert_true(g_file_set_contents(other, "this is just some text, long enough to be looked at", -1, NULL));
	g_assert_null(vial_store_open(other, &error));
	g_assert_nonnull(strstr(error->message, "database"));
}

/* ---- keys ---- */

static char *read_admin_key(Fixture *f)
{
	g_autofree char *path = g_build_filename(f->dir, "keys", "admin.key", NULL);
	char *text = NULL;
	struct stat status;

	g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
	g_assert_cmpint(stat(path, &status), ==, 0);
	g_assert_cmpint(status.st_mode & 0777, ==, 0600);
	return g_strchomp(text);
}

static gboolean works(VialKeys *keys, const char *key)
{
	g_autoptr(VialIdentity) identity = vial_keys_lookup(keys, key);

	return identity != NULL;
}

static VialKeys *open_keys(Fixture *f)
{
	reopen(f);
	VialKeys *keys = vial_keys_open(f->store, f->dir, NULL);
	g_assert_nonnull(keys);
	return keys;
}

static void test_the_admin_key_is_made_once_and_replaced_when_deleted(Fixture *f, gconstpointer unused)
{
	VialKeys *keys = open_keys(f);
	g_autofree char *first = read_admin_key(f), *path = g_strdup(vial_keys_admin_file(keys));

	g_assert_true(vial_keys_admin_file_is_new(keys));
	g_assert_true(works(keys, first));
	g_assert_false(works(keys, "vial_wrong"));
	g_assert_false(works(keys, ""));
	vial_keys_free(keys);

	keys = open_keys(f);
	g_autofree char *second = read_admin_key(f);
	g_assert_cmpstr(first, ==, second);
	g_assert_false(vial_keys_admin_file_is_new(keys));
	g_assert_true(works(keys, first));
	vial_keys_free(keys);

	g_unlink(path);
	for (int start = 0; start < 2; start++) {
		keys = open_keys(f);
		g_autofree char *third = read_admin_key(f);
		g_assert_cmpstr(third, !=, first);
		g_assert_true(works(keys, third));
		g_assert_false(works(keys, first));
		vial_keys_free(keys);
	}
}

static void test_keys_are_added_and_revoked_and_never_stored(Fixture *f, gconstpointer unused)
{
	VialKeys *keys = open_keys(f);
	g_autofree char *secret = vial_keys_add(keys, "other", VIAL_ROLE_USER, "ci", NULL, NULL), *content = NULL, *wal = NULL;
	gsize size = 0, wal_size = 0;

	g_autoptr(VialIdentity) identity = vial_keys_lookup(keys, secret);
	g_assert_cmpstr(identity->project, ==, "other");
	g_assert_cmpint(identity->role, ==, VIAL_ROLE_USER);
	vial_keys_free(keys);

	keys = open_keys(f);
	g_assert_true(works(keys, secret));
	g_assert_true(vial_keys_revoke(keys, identity->key_id, NULL, NULL));
	g_assert_false(vial_keys_revoke(keys, identity->key_id, NULL, NULL));
	g_assert_false(works(keys, secret));
	vial_keys_free(keys);

	keys = open_keys(f);
	g_assert_false(works(keys, secret));
	vial_keys_free(keys);
	g_autofree char *wal_path = g_strconcat(f->path, "-wal", NULL);
	g_assert_true(g_file_get_contents(f->path, &content, &size, NULL));
	g_assert_null(memmem(content, size, secret, strlen(secret)));
	if (g_file_get_contents(wal_path, &wal, &wal_size, NULL))
		g_assert_null(memmem(wal, wal_size, secret, strlen(secret)));
}

static void test_a_damaged_admin_key_is_told(Fixture *f, gconstpointer unused)
{
	VialKeys *keys = open_keys(f);
	g_autofree char *path = g_strdup(vial_keys_admin_file(keys));
	g_autoptr(GError) error = NULL;

	vial_keys_free(keys);
	g_assert_true(g_file_set_contents(path, "hello", -1, NULL));
	reopen(f);
	g_assert_null(vial_keys_open(f->store, f->dir, &error));
	g_assert_nonnull(strstr(error->message, "delete it"));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	vial_log_setup(VIAL_LOG_ERROR, VIAL_LOG_TEXT);
#define ADD(path, function) g_test_add(path, Fixture, NULL, set_up, function, tear_down)
	ADD("/store/remembers", test_remembers);
	ADD("/store/keeps-the-order-under-load", test_keeps_the_order_under_load);
	ADD("/store/closing-writes-what-is-queued", test_closing_writes_what_is_queued);
	ADD("/store/lists-and-prunes-calls", test_lists_and_prunes_calls);
	ADD("/store/the-end-of-a-call-leaves-what-it-ran", test_the_end_of_a_call_leaves_what_it_ran);
	ADD("/store/running-calls-are-interrupted-by-a-restart", test_running_calls_are_interrupted_by_a_restart);
	ADD("/store/a-failing-record-does-not-take-others-with-it", test_a_failing_record_does_not_take_others_with_it);
	ADD("/store/what-is-committed-is-no-failure-while-somebody-reads", test_what_is_committed_is_no_failure_while_somebody_reads);
	ADD("/store/a-damaged-table-is-not-one-with-fewer-records", test_a_damaged_table_is_not_one_with_fewer_records);
	ADD("/store/is-private", test_is_private);
	ADD("/store/refuses-a-newer-schema", test_refuses_a_newer_schema);
	ADD("/store/refuses-what-is-no-database", test_refuses_what_is_no_database);
	ADD("/keys/the-admin-key-is-made-once-and-replaced-when-deleted", test_the_admin_key_is_made_once_and_replaced_when_deleted);
	ADD("/keys/are-added-and-revoked-and-never-stored", test_keys_are_added_and_revoked_and_never_stored);
	ADD("/keys/a-damaged-admin-key-is-told", test_a_damaged_admin_key_is_told);
	return g_test_run();
}
