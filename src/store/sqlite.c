/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

#include "store/migrations.h"
#include "util/error.h"
#include "util/fd.h"

/* Another program (a backup, the sqlite3 shell) may hold the lock for a moment. */
#define BUSY_TIMEOUT_MS 5000

typedef enum {
	STATEMENT_PUT,
	STATEMENT_DELETE,
	STATEMENT_LOAD,
	N_STATEMENTS,
} Statement;

struct VialSqlite {
	sqlite3 *handle;
	gboolean is_durable; /* commits wait for the disk */
	sqlite3_stmt *statements[VIAL_N_RECORD_TYPES][N_STATEMENTS];
};

static gboolean fail(VialSqlite *db, GError **error, const char *what)
{
	int code = sqlite3_errcode(db->handle) & 0xff;

	return vial_fail(error, code == SQLITE_FULL ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL, "the database: %s: %s", what,
	                 sqlite3_errmsg(db->handle));
}

/* At start: tells its keeper what to do. */
static gboolean unusable(VialSqlite *db, GError **error)
{
	g_prefix_error(error, "%s cannot be used, and nothing was started; repair it (sqlite3 FILE .recover) or put a backup in its place: ",
	               sqlite3_db_filename(db->handle, NULL));
	return FALSE;
}

static gboolean execute(VialSqlite *db, const char *sql, GError **error)
{
	return sqlite3_exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK || fail(db, error, sql);
}

static gboolean prepare(VialSqlite *db, const char *sql, sqlite3_stmt **out, GError **error)
{
	return sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) == SQLITE_OK || fail(db, error, sql);
}

static char *list_columns(const VialRecordType *type)
{
	GString *list = g_string_new(NULL);

	for (gsize i = 0; i < type->n_columns; i++)
		g_string_append_printf(list, "%s%s", i ? ", " : "", type->columns[i].name);
	return g_string_free(list, FALSE);
}

static gboolean prepare_type(VialSqlite *db, VialRecordKind kind, GError **error)
{
	const VialRecordType *type = &vial_record_types[kind];
	sqlite3_stmt **out = db->statements[kind];
	g_autofree char *columns = list_columns(type);
	g_autoptr(GString) marks = g_string_new("?");

	for (gsize i = 1; i < type->n_columns; i++)
		g_string_append(marks, ", ?");
	g_autofree char *put = g_strdup_printf("INSERT OR REPLACE INTO %s (%s) VALUES (%s)", type->table, columns, marks->str);
	g_autofree char *remove = g_strdup_printf("DELETE FROM %s WHERE id = ?", type->table);
	g_autofree char *load = g_strdup_printf("SELECT %s FROM %s ORDER BY rowid", columns, type->table);
	return prepare(db, put, &out[STATEMENT_PUT], error) && prepare(db, remove, &out[STATEMENT_DELETE], error) &&
	       prepare(db, load, &out[STATEMENT_LOAD], error);
}

static gboolean prepare_all(VialSqlite *db, GError **error)
{
	for (int kind = 0; kind < VIAL_N_RECORD_TYPES; kind++)
		if (!prepare_type(db, (VialRecordKind)kind, error))
			return FALSE;
	return TRUE;
}

/* SQLite would create the file with the umask's mode; it holds every tenant's data. The -wal and -shm files follow it. */
static gboolean create_private(const char *path, GError **error)
{
	vial_autofd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd >= 0 || vial_fail(error, VIAL_ERROR_INTERNAL, "cannot open the database %s: %s", path, g_strerror(errno));
}

VialSqlite *vial_sqlite_open(const char *path, GError **error)
{
	VialSqlite *db = g_new0(VialSqlite, 1);
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;

	if (!create_private(path, error)) {
		g_free(db);
		return NULL;
	}
	if (sqlite3_open_v2(path, &db->handle, flags, NULL) != SQLITE_OK) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot open the database %s: %s", path, sqlite3_errmsg(db->handle));
	} else {
		sqlite3_busy_timeout(db->handle, BUSY_TIMEOUT_MS);
		sqlite3_extended_result_codes(db->handle, 1);
		/*
		 * WAL with synchronous=NORMAL: a commit reaches the kernel but is not awaited on the disk, so the daemon's
		 * death loses nothing and creating a sandbox waits for no disk. The machine's death may lose the last
		 * commits, never the database's integrity; records that must outlive it are committed with
		 * synchronous=FULL (vial_sqlite_begin).
		 */
		if (execute(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON", error) &&
		    vial_migrations_apply(db->handle, path, error) && prepare_all(db, error))
			return db;
		if (!error || !g_error_matches(*error, VIAL_ERROR, VIAL_ERROR_UNAVAILABLE)) /* a newer one is in order */
			unusable(db, error);
	}
	vial_sqlite_close(db);
	return NULL;
}

void vial_sqlite_close(VialSqlite *db)
{
	if (!db)
		return;
	for (int kind = 0; kind < VIAL_N_RECORD_TYPES; kind++)
		for (int i = 0; i < N_STATEMENTS; i++)
			sqlite3_finalize(db->statements[kind][i]);
	sqlite3_close(db->handle);
	g_free(db);
}

gboolean vial_sqlite_begin(VialSqlite *db, gboolean is_durable, GError **error)
{
	/*
	 * FULL makes the commit itself wait until the log is on the disk. A checkpoint would do that too, but it can be kept from its work by
	 * whoever reads (a backup), and then something committed would be reported as failed.
	 */
	if (is_durable != db->is_durable && !execute(db, is_durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", error))
		return FALSE;
	db->is_durable = is_durable;
	return execute(db, "BEGIN IMMEDIATE", error);
}

gboolean vial_sqlite_is_open(const VialSqlite *db)
{
	return !sqlite3_get_autocommit(db->handle);
}

static gboolean rolled_back(GError **error)
{
	return vial_fail(error, VIAL_ERROR_NO_SPACE, "the database: the changes were rolled back; is the disk full?");
}

gboolean vial_sqlite_commit(VialSqlite *db, GError **error)
{
	if (!vial_sqlite_is_open(db))
		return rolled_back(error);
	if (execute(db, "COMMIT", error))
		return TRUE;
	execute(db, "ROLLBACK", NULL);
	return FALSE;
}

gboolean vial_sqlite_mark(VialSqlite *db, GError **error)
{
	/* Outside of a transaction it would begin one, and the commit could not tell any more that the first was lost. */
	return vial_sqlite_is_open(db) ? execute(db, "SAVEPOINT together", error) : rolled_back(error);
}

/* Where SQLite has rolled back the whole transaction by itself there is no mark any more, and the commit says so. */
void vial_sqlite_back_to_mark(VialSqlite *db)
{
	execute(db, "ROLLBACK TO together", NULL);
}

static gboolean run_once(VialSqlite *db, sqlite3_stmt *statement, const char *what, GError **error)
{
	int status = sqlite3_step(statement);
	gboolean is_done = status == SQLITE_DONE || fail(db, error, what);

	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	return is_done;
}

gboolean vial_sqlite_put(VialSqlite *db, VialRecordKind kind, gpointer record, GError **error)
{
	const VialRecordType *type = &vial_record_types[kind];
	sqlite3_stmt *statement = db->statements[kind][STATEMENT_PUT];

	for (gsize i = 0; i < type->n_columns; i++) {
		const VialColumn *column = &type->columns[i];
		if (column->type == VIAL_COLUMN_TEXT)
			sqlite3_bind_text(statement, (int)i + 1, *vial_record_text(record, column), -1, SQLITE_STATIC);
		else
			sqlite3_bind_int64(statement, (int)i + 1, *vial_record_int(record, column));
	}
	return run_once(db, statement, type->table, error);
}

gboolean vial_sqlite_delete(VialSqlite *db, VialRecordKind kind, const char *id, GError **error)
{
	sqlite3_stmt *statement = db->statements[kind][STATEMENT_DELETE];

	sqlite3_bind_text(statement, 1, id, -1, SQLITE_STATIC);
	return run_once(db, statement, vial_record_types[kind].table, error);
}

static gpointer read_record(sqlite3_stmt *statement, const VialRecordType *type)
{
	gpointer record = g_malloc0(type->size_bytes);

	for (gsize i = 0; i < type->n_columns; i++) {
		const VialColumn *column = &type->columns[i];
		if (column->type == VIAL_COLUMN_TEXT) {
			const char *text = (const char *)sqlite3_column_text(statement, (int)i);
			*vial_record_text(record, column) = g_strdup(text ? text : "");
		} else {
			*vial_record_int(record, column) = sqlite3_column_int64(statement, (int)i);
		}
	}
	return record;
}

static GPtrArray *read_all(VialSqlite *db, sqlite3_stmt *statement, const VialRecordType *type, GError **error)
{
	g_autoptr(GPtrArray) records = g_ptr_array_new_with_free_func(type->free);
	int status;

	while ((status = sqlite3_step(statement)) == SQLITE_ROW)
		g_ptr_array_add(records, read_record(statement, type));
	gboolean is_done = status == SQLITE_DONE || fail(db, error, type->table);
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	return is_done ? g_steal_pointer(&records) : NULL;
}

/* A damaged page may as well hide rows as make reading fail, and a row that is not seen costs a sandbox its life: everything is compared first. */
static gboolean check_table(VialSqlite *db, const char *table, GError **error)
{
	g_autofree char *sql = g_strdup_printf("PRAGMA integrity_check(%s)", table);
	sqlite3_stmt *statement = NULL;
	g_autofree char *verdict = NULL;
	gboolean is_whole;

	if (!prepare(db, sql, &statement, error))
		return FALSE;
	if (sqlite3_step(statement) == SQLITE_ROW) /* the first of its findings is enough */
		verdict = g_strdelimit(g_strchomp(g_strdup((const char *)sqlite3_column_text(statement, 0))), "\n", ' ');
	if (verdict)
		is_whole = strcmp(verdict, "ok") == 0 || vial_fail(error, VIAL_ERROR_INTERNAL, "the database: %s is damaged: %s", table, verdict);
	else
		is_whole = fail(db, error, table);
	sqlite3_finalize(statement);
	return is_whole;
}

GPtrArray *vial_sqlite_load(VialSqlite *db, VialRecordKind kind, GError **error)
{
	const VialRecordType *type = &vial_record_types[kind];
	GPtrArray *records = NULL;

	if (check_table(db, type->table, error))
		records = read_all(db, db->statements[kind][STATEMENT_LOAD], type, error);
	if (!records)
		unusable(db, error);
	return records;
}

gboolean vial_sqlite_empty(VialSqlite *db, VialRecordKind kind, GError **error)
{
	g_autofree char *sql = g_strdup_printf("DELETE FROM %s", vial_record_types[kind].table);

	return execute(db, sql, error) || unusable(db, error);
}
