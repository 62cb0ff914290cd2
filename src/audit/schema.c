/* SPDX-License-Identifier: Apache-2.0 */
/* The audit's schema, as numbered steps, as store/migrations.c has them for the rest. A step that was released is never changed. */
#include "audit/schema.h"

#include "util/error.h"

/*
 * A record's body is NULL once retention has removed it. An index's last column is always the row's number, so each gives its records newest first
 * without sorting; records_bodies has those that still have a body, so that retention finds the oldest of them without looking at all. The words are
 * without the text itself, which is in the body. `usage` is sums by day, times in milliseconds, processors in thousandths; `meters` until when a
 * living sandbox is in them.
 */
static const char *const steps[] = {
	"CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT;"
	"CREATE TABLE records (seq INTEGER PRIMARY KEY, hash BLOB NOT NULL, header TEXT NOT NULL, body TEXT,"
	" time TEXT GENERATED ALWAYS AS (json_extract(header, '$.time')) VIRTUAL,"
	" project TEXT GENERATED ALWAYS AS (json_extract(header, '$.project')) VIRTUAL,"
	" action TEXT GENERATED ALWAYS AS (json_extract(header, '$.action')) VIRTUAL,"
	" principal TEXT GENERATED ALWAYS AS (json_extract(header, '$.principal.id')) VIRTUAL,"
	" principal_name TEXT GENERATED ALWAYS AS (json_extract(header, '$.principal.name')) VIRTUAL,"
	" agent TEXT GENERATED ALWAYS AS (json_extract(header, '$.agent')) VIRTUAL,"
	" session TEXT GENERATED ALWAYS AS (json_extract(header, '$.session')) VIRTUAL,"
	" sandbox TEXT GENERATED ALWAYS AS (json_extract(header, '$.sandbox')) VIRTUAL,"
	" trace_id TEXT GENERATED ALWAYS AS (json_extract(header, '$.origin.trace_id')) VIRTUAL) STRICT;"
	"CREATE INDEX records_time ON records (time);"
	"CREATE INDEX records_project ON records (project);"
	"CREATE INDEX records_action ON records (action);"
	"CREATE INDEX records_project_action ON records (project, action);"
	"CREATE INDEX records_principal ON records (principal);"
	"CREATE INDEX records_principal_name ON records (principal_name);"
	"CREATE INDEX records_agent ON records (agent) WHERE agent IS NOT NULL;"
	"CREATE INDEX records_session ON records (session) WHERE session IS NOT NULL;"
	"CREATE INDEX records_sandbox ON records (sandbox) WHERE sandbox IS NOT NULL;"
	"CREATE INDEX records_trace ON records (trace_id) WHERE trace_id IS NOT NULL;"
	"CREATE INDEX records_bodies ON records (time) WHERE body IS NOT NULL;"
	"CREATE VIRTUAL TABLE words USING fts5(code, content='', tokenize='unicode61');"
	"CREATE TABLE heads (seq INTEGER PRIMARY KEY, head TEXT NOT NULL) STRICT;"
	"CREATE TABLE usage (day TEXT NOT NULL, project TEXT NOT NULL, template TEXT NOT NULL, agent TEXT NOT NULL, key_id TEXT NOT NULL,"
	" sandbox_ms INTEGER NOT NULL DEFAULT 0, vcpu_ms INTEGER NOT NULL DEFAULT 0, memory_mb_ms INTEGER NOT NULL DEFAULT 0,"
	" runs INTEGER NOT NULL DEFAULT 0, bytes_in INTEGER NOT NULL DEFAULT 0, bytes_out INTEGER NOT NULL DEFAULT 0,"
	" PRIMARY KEY (project, day, template, agent, key_id)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE meters (sandbox TEXT PRIMARY KEY, until INTEGER NOT NULL) STRICT;",
};

static gboolean execute(sqlite3 *db, const char *sql, GError **error)
{
	return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ||
	       vial_fail(error, VIAL_ERROR_INTERNAL, "the audit's database: %s", sqlite3_errmsg(db));
}

static int version_of(sqlite3 *db)
{
	sqlite3_stmt *statement = NULL;
	int version = -1;

	if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
		version = sqlite3_column_int(statement, 0);
	sqlite3_finalize(statement);
	return version;
}

static gboolean apply(sqlite3 *db, int number, GError **error)
{
	g_autofree char *note = g_strdup_printf("PRAGMA user_version = %d", number);

	if (execute(db, "BEGIN IMMEDIATE", error) && execute(db, steps[number - 1], error) && execute(db, note, error) &&
	    execute(db, "COMMIT", error))
		return TRUE;
	if (!sqlite3_get_autocommit(db))
		execute(db, "ROLLBACK", NULL);
	return FALSE;
}

gboolean vial_audit_schema_apply(sqlite3 *db, const char *path, GError **error)
{
	int version = version_of(db);

	if (version < 0)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "the audit's database %s cannot be read: %s", path, sqlite3_errmsg(db));
	if (version > (int)G_N_ELEMENTS(steps))
		return vial_fail(
			error, VIAL_ERROR_UNAVAILABLE,
			"the audit's database %s was written by a newer Vial (schema %d, this program knows up to %d): start the newer program", path,
			version, (int)G_N_ELEMENTS(steps));
	for (int number = version + 1; number <= (int)G_N_ELEMENTS(steps); number++)
		if (!apply(db, number, error))
			return FALSE;
	return TRUE;
}
