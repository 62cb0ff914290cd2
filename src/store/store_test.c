/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <glib/gstdio.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/log.h"

typedef struct {
	char *dir;
	char *path;
	VialStore *store;
	int n_pending;
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

/* What an older program left: its keys, sandboxes and calls. */
static void test_an_older_database_is_taken_over(Fixture *f, gconstpointer unused)
{
	static const char *const old =
		"CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL) STRICT;"
		"INSERT INTO migrations VALUES (1, 'x', 'x'), (2, 'x', 'x');"
		"CREATE TABLE keys (id TEXT PRIMARY KEY, project TEXT NOT NULL, role TEXT NOT NULL, label TEXT NOT NULL,"
		" hash TEXT NOT NULL UNIQUE, source TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;"
		"INSERT INTO keys VALUES ('a', 'default', 'admin', 'admin', 'h1', 'file', 1), ('b', 'default', 'user', '', 'h2', 'api', 2),"
		" ('c', 'other', 'admin', '', 'h3', 'api', 3);"
		"CREATE TABLE sandboxes (id TEXT PRIMARY KEY, project TEXT NOT NULL, key_id TEXT NOT NULL, template_name TEXT NOT NULL, engine TEXT "
		"NOT NULL,"
		" status TEXT NOT NULL, document TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, expires_at INTEGER NOT "
		"NULL) STRICT;"
		"INSERT INTO sandboxes VALUES ('s', 'third', 'a', 'base', 'gvisor', 'running', '{}', 1, 2, 3);"
		"CREATE TABLE calls (id TEXT PRIMARY KEY, sandbox_id TEXT NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL, detail TEXT NOT NULL,"
		" started_at INTEGER NOT NULL, ended_at INTEGER NOT NULL, outcome TEXT NOT NULL DEFAULT '') STRICT;"
		"INSERT INTO calls VALUES ('c1', 's', 'run', 'done', '{}', 1, 2, ''), ('c2', 's', 'exec', 'running', '{}', 3, 0, '');"
		"CREATE TABLE snapshots (id TEXT PRIMARY KEY, project TEXT NOT NULL, sandbox_id TEXT NOT NULL, template_name TEXT NOT NULL, name "
		"TEXT NOT NULL,"
		" document TEXT NOT NULL, size_bytes INTEGER NOT NULL, created_at INTEGER NOT NULL) STRICT;";
	g_autoptr(GPtrArray) projects = NULL, keys = NULL, sandboxes = NULL, calls = NULL, none = NULL;
	static const char *const roles[] = { "operator", "developer", "admin" };
	static const char *const names[] = { "default", "other", "third" };
	sqlite3 *db;

	vial_store_close(g_steal_pointer(&f->store));
	g_assert_cmpint(g_unlink(f->path), ==, 0);
	g_assert_cmpint(sqlite3_open(f->path, &db), ==, SQLITE_OK);
	g_assert_cmpint(sqlite3_exec(db, old, NULL, NULL, NULL), ==, SQLITE_OK);
	sqlite3_close(db);
	f->store = vial_store_open(f->path, NULL);
	g_assert_nonnull(f->store);
	projects = vial_store_load_projects(f->store, NULL);
	g_assert_cmpuint(projects->len, ==, 3);
	for (guint i = 0; i < 3; i++) {
		g_assert_cmpstr(((VialProjectRecord *)projects->pdata[i])->id, ==, names[i]);
		g_assert_cmpstr(((VialProjectRecord *)projects->pdata[i])->state, ==, "active");
	}
	keys = vial_store_load_keys(f->store, NULL);
	g_assert_cmpuint(keys->len, ==, 3);
	for (guint i = 0; i < 3; i++)
		g_assert_cmpstr(((VialKeyRecord *)keys->pdata[i])->role, ==, roles[i]);
	sandboxes = vial_store_load_sandboxes(f->store, NULL);
	g_assert_cmpuint(sandboxes->len, ==, 1);
	calls = vial_store_load_calls(f->store, NULL);
	g_assert_cmpuint(calls->len, ==, 2);
	g_assert_true(vial_store_forget_calls(f->store, NULL));
	none = vial_store_load_calls(f->store, NULL);
	g_assert_cmpuint(none->len, ==, 0);
}

static void test_a_failing_record_does_not_take_others_with_it(Fixture *f, gconstpointer unused)
{
	VialKeyRecord first = { .id = (char *)"a", .project = (char *)"p", .role = (char *)"developer", .hash = (char *)"h1" };
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
static guint count_snapshots(Fixture *f)
{
	g_autoptr(GPtrArray) records = vial_store_load_snapshots(f->store, NULL);

	return records->len;
}

/* A deletion that the database refuses takes back the record that came with it, and nothing else of the batch. */
static void test_an_exchange_is_all_or_nothing(Fixture *f, gconstpointer unused)
{
	VialSandboxRecord one = sandbox("one", "running"), winner = sandbox("winner", "running"), other = sandbox("other", "running");
	VialSnapshotRecord undo = { .id = (char *)"undo",
		                    .project = (char *)"default",
		                    .sandbox_id = (char *)"one",
		                    .template_name = (char *)"base",
		                    .name = (char *)"",
		                    .document = (char *)"{}" };
	sqlite3 *db;

	f->n_pending = 3;
	vial_store_put_sandbox(f->store, &one, done, f);
	vial_store_put_sandbox(f->store, &winner, done, f);
	vial_store_put_snapshot(f->store, &undo, done, f);
	settle(f);
	reopen(f);
	g_assert_cmpint(sqlite3_open(f->path, &db), ==, SQLITE_OK);
	g_assert_cmpint(sqlite3_exec(db, "CREATE TRIGGER no BEFORE DELETE ON snapshots BEGIN SELECT RAISE(FAIL, 'no'); END", NULL, NULL, NULL), ==,
	                SQLITE_OK);
	one.status = (char *)"paused";
	f->n_pending = 2;
	vial_store_exchange_sandbox(f->store, &one, "winner", "undo", done, f);
	vial_store_put_sandbox(f->store, &other, done, f);
	settle(f);
	g_assert_cmpint(f->n_failed, ==, 1);
	reopen(f);
	g_autoptr(GPtrArray) before = vial_store_load_sandboxes(f->store, NULL);
	g_assert_cmpuint(before->len, ==, 3);
	for (guint i = 0; i < before->len; i++)
		g_assert_cmpstr(((VialSandboxRecord *)before->pdata[i])->status, ==, "running");
	g_assert_cmpuint(count_snapshots(f), ==, 1);
	g_assert_cmpint(sqlite3_exec(db, "DROP TRIGGER no", NULL, NULL, NULL), ==, SQLITE_OK);
	sqlite3_close(db);
	f->n_pending = 1;
	vial_store_exchange_sandbox(f->store, &one, "winner", "undo", done, f);
	settle(f);
	g_assert_cmpint(f->n_failed, ==, 1);
	reopen(f);
	g_autoptr(GPtrArray) after = vial_store_load_sandboxes(f->store, NULL);
	g_assert_cmpuint(after->len, ==, 2);
	for (guint i = 0; i < after->len; i++) {
		const VialSandboxRecord *record = after->pdata[i];

		g_assert_cmpstr(record->status, ==, strcmp(record->id, "one") == 0 ? "paused" : "running");
	}
	g_assert_cmpuint(count_snapshots(f), ==, 0);
}

static guint count_agents(Fixture *f)
{
	g_autoptr(GPtrArray) agents = vial_store_load_agents(f->store, NULL), versions = vial_store_load_agent_versions(f->store, NULL);

	return agents->len + versions->len;
}

static void test_a_version_and_its_agent_are_stored_both_or_neither(Fixture *f, gconstpointer refusing)
{
	VialAgentRecord agent = { .id = (char *)"a",
		                  .project = (char *)"default",
		                  .name = (char *)"analyst",
		                  .state = (char *)"active",
		                  .document = (char *)"{}",
		                  .active = 1 };
	VialAgentVersionRecord version = { .id = (char *)"a/1", .agent_id = (char *)"a", .number = 1, .document = (char *)"{}" };
	g_autofree char *refuse =
		g_strdup_printf("CREATE TRIGGER no BEFORE INSERT ON %s BEGIN SELECT RAISE(FAIL, 'no'); END", (const char *)refusing);
	sqlite3 *db;

	g_assert_cmpint(sqlite3_open(f->path, &db), ==, SQLITE_OK);
	g_assert_cmpint(sqlite3_exec(db, refuse, NULL, NULL, NULL), ==, SQLITE_OK);
	f->n_pending = 1;
	vial_store_put_active_version(f->store, &version, &agent, done, f);
	settle(f);
	g_assert_cmpint(f->n_failed, ==, 1);
	reopen(f);
	g_assert_cmpuint(count_agents(f), ==, 0);
	g_assert_cmpint(sqlite3_exec(db, "DROP TRIGGER no", NULL, NULL, NULL), ==, SQLITE_OK);
	sqlite3_close(db);
	f->n_pending = 1;
	vial_store_put_active_version(f->store, &version, &agent, done, f);
	settle(f);
	g_assert_cmpint(f->n_failed, ==, 1);
	reopen(f);
	g_assert_cmpuint(count_agents(f), ==, 2);
}

/* As SQLite does it by itself when the disk is full: the whole transaction is gone, also what came before. Whoever was in it is told so. */
static void test_what_a_rollback_took_with_it_is_reported_and_nothing_behind_it_is_stored(Fixture *f, gconstpointer unused)
{
	VialKeyRecord key = { .id = (char *)"a", .project = (char *)"p", .role = (char *)"developer", .hash = (char *)"h1" };
	VialSandboxRecord before = sandbox("before", "running"), behind = sandbox("behind", "running"), exchanged = sandbox("exchanged", "running");
	sqlite3 *db;

	g_assert_cmpint(sqlite3_open(f->path, &db), ==, SQLITE_OK);
	g_assert_cmpint(sqlite3_exec(db, "CREATE TRIGGER t BEFORE INSERT ON keys BEGIN SELECT RAISE(ROLLBACK, 'no'); END", NULL, NULL, NULL), ==,
	                SQLITE_OK);
	sqlite3_close(db);
	f->n_pending = 4; /* one batch: the writer begins with the main loop */
	vial_store_put_sandbox(f->store, &before, done, f);
	vial_store_put_key(f->store, &key, done, f);
	vial_store_put_sandbox(f->store, &behind, done, f);
	vial_store_exchange_sandbox(f->store, &exchanged, "nobody", "nothing", done, f);
	settle(f);
	g_assert_cmpint(f->n_failed, ==, 4);
	reopen(f);
	g_autoptr(GPtrArray) records = vial_store_load_sandboxes(f->store, NULL);
	g_assert_cmpuint(records->len, ==, 0);
	f->n_pending = 1;
	vial_store_put_sandbox(f->store, &before, done, f);
	settle(f);
	g_assert_cmpint(f->n_failed, ==, 4);
}

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

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	vial_log_setup(VIAL_LOG_ERROR, VIAL_LOG_TEXT);
#define ADD(path, function) g_test_add(path, Fixture, NULL, set_up, function, tear_down)
	ADD("/store/an-exchange-is-all-or-nothing", test_an_exchange_is_all_or_nothing);
	ADD("/store/what-a-rollback-took-with-it-is-reported", test_what_a_rollback_took_with_it_is_reported_and_nothing_behind_it_is_stored);
	g_test_add("/store/an-active-version/agent-refused", Fixture, "agents", set_up, test_a_version_and_its_agent_are_stored_both_or_neither,
	           tear_down);
	g_test_add("/store/an-active-version/version-refused", Fixture, "agent_versions", set_up,
	           test_a_version_and_its_agent_are_stored_both_or_neither, tear_down);
	ADD("/store/remembers", test_remembers);
	ADD("/store/keeps-the-order-under-load", test_keeps_the_order_under_load);
	ADD("/store/closing-writes-what-is-queued", test_closing_writes_what_is_queued);
	ADD("/store/an-older-database-is-taken-over", test_an_older_database_is_taken_over);
	ADD("/store/a-failing-record-does-not-take-others-with-it", test_a_failing_record_does_not_take_others_with_it);
	ADD("/store/what-is-committed-is-no-failure-while-somebody-reads", test_what_is_committed_is_no_failure_while_somebody_reads);
	ADD("/store/a-damaged-table-is-not-one-with-fewer-records", test_a_damaged_table_is_not_one_with_fewer_records);
	ADD("/store/is-private", test_is_private);
	ADD("/store/refuses-a-newer-schema", test_refuses_a_newer_schema);
	ADD("/store/refuses-what-is-no-database", test_refuses_what_is_no_database);
	return g_test_run();
}
