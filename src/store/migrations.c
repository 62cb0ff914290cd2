/* SPDX-License-Identifier: Apache-2.0 */
#include "store/migrations.h"

#include "util/error.h"
#include "util/time.h"

/* STRICT makes SQLite keep to the declared types. */
static const struct {
	const char *name;
	const char *sql;
} migrations[] = {
	{ "keys, sandboxes, calls, snapshots",
	  "CREATE TABLE keys (id TEXT PRIMARY KEY, project TEXT NOT NULL, role TEXT NOT NULL, label TEXT NOT NULL,"
	  " hash TEXT NOT NULL UNIQUE, source TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;"
	  "CREATE TABLE sandboxes (id TEXT PRIMARY KEY, project TEXT NOT NULL, key_id TEXT NOT NULL,"
	  " template_name TEXT NOT NULL, engine TEXT NOT NULL, status TEXT NOT NULL, document TEXT NOT NULL,"
	  " created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, expires_at INTEGER NOT NULL) STRICT;"
	  "CREATE TABLE calls (id TEXT PRIMARY KEY, sandbox_id TEXT NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL,"
	  " detail TEXT NOT NULL, started_at INTEGER NOT NULL, ended_at INTEGER NOT NULL) STRICT;"
	  "CREATE INDEX calls_by_sandbox ON calls (sandbox_id, started_at);"
	  "CREATE INDEX calls_by_time ON calls (started_at);"
	  "CREATE TABLE snapshots (id TEXT PRIMARY KEY, project TEXT NOT NULL, sandbox_id TEXT NOT NULL,"
	  " template_name TEXT NOT NULL, name TEXT NOT NULL, document TEXT NOT NULL, size_bytes INTEGER NOT NULL,"
	  " created_at INTEGER NOT NULL) STRICT;" },
	{ "outcomes of calls", "ALTER TABLE calls ADD COLUMN outcome TEXT NOT NULL DEFAULT '';" },
	/* What was somebody's becomes its project's; the roles get their new names: who ruled the default project rules the installation. */
	{ "projects, roles, narrowed keys",
	  "CREATE TABLE projects (id TEXT PRIMARY KEY, state TEXT NOT NULL, document TEXT NOT NULL, created_at INTEGER NOT NULL,"
	  " updated_at INTEGER NOT NULL) STRICT;"
	  "INSERT INTO projects SELECT project, 'active', '{}', unixepoch() * 1000, unixepoch() * 1000 FROM"
	  " (SELECT 'default' AS project UNION SELECT project FROM keys UNION SELECT project FROM sandboxes UNION SELECT project FROM snapshots);"
	  "UPDATE keys SET role = 'operator' WHERE role = 'admin' AND project = 'default';"
	  "UPDATE keys SET role = 'developer' WHERE role = 'user';"
	  "ALTER TABLE keys ADD COLUMN document TEXT NOT NULL DEFAULT '{}';"
	  "ALTER TABLE keys ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0;"
	  "CREATE TABLE key_uses (id TEXT PRIMARY KEY, last_used_at INTEGER NOT NULL) STRICT;"
	  "CREATE TABLE creations (id TEXT PRIMARY KEY, project TEXT NOT NULL, key_id TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;" },
	{ "agents and their versions",
	  "CREATE TABLE agents (id TEXT PRIMARY KEY, project TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL, document TEXT NOT NULL,"
	  " active INTEGER NOT NULL, created_at INTEGER NOT NULL) STRICT;"
	  "CREATE TABLE agent_versions (id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, number INTEGER NOT NULL, document TEXT NOT NULL,"
	  " retired_at INTEGER NOT NULL, created_at INTEGER NOT NULL) STRICT;" },
	{ "custom templates and their builds",
	  "CREATE TABLE templates (id TEXT PRIMARY KEY, project TEXT NOT NULL, key_id TEXT NOT NULL, name TEXT NOT NULL, document TEXT NOT NULL,"
	  " created_at INTEGER NOT NULL) STRICT;"
	  "CREATE TABLE builds (id TEXT PRIMARY KEY, project TEXT NOT NULL, key_id TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL,"
	  " document TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;" },
};

static gboolean execute(sqlite3 *db, const char *sql, GError **error)
{
	g_autofree char *reason = NULL;
	char *message = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &message) == SQLITE_OK)
		return TRUE;
	reason = g_strdup(message ? message : sqlite3_errmsg(db));
	sqlite3_free(message);
	return vial_fail(error, VIAL_ERROR_INTERNAL, "the database: %s", reason);
}

static gboolean read_version(sqlite3 *db, gint64 *out, GError **error)
{
	sqlite3_stmt *statement = NULL;

	if (!execute(db,
	             "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL,"
	             " applied_at TEXT NOT NULL) STRICT",
	             error))
		return FALSE;
	gboolean is_read = sqlite3_prepare_v2(db, "SELECT coalesce(max(number), 0) FROM migrations", -1, &statement, NULL) == SQLITE_OK &&
	                   sqlite3_step(statement) == SQLITE_ROW;
	if (is_read)
		*out = sqlite3_column_int64(statement, 0);
	else
		vial_fail(error, VIAL_ERROR_INTERNAL, "the database: %s", sqlite3_errmsg(db));
	sqlite3_finalize(statement);
	return is_read;
}

static gboolean apply(sqlite3 *db, int number, GError **error)
{
	char now[VIAL_TIME_TEXT_SIZE];

	vial_time_fill(now, vial_time_now_ms());
	/* %Q quotes as SQL does; both values are ours. */
	char *record = sqlite3_mprintf("INSERT INTO migrations VALUES (%d, %Q, %Q)", number, migrations[number - 1].name, now);
	gboolean is_applied = execute(db, "BEGIN IMMEDIATE", error) && execute(db, migrations[number - 1].sql, error) && execute(db, record, error) &&
	                      execute(db, "COMMIT", error);
	sqlite3_free(record);
	if (!is_applied && !sqlite3_get_autocommit(db))
		execute(db, "ROLLBACK", NULL);
	if (!is_applied)
		g_prefix_error(error, "migration %d: ", number);
	return is_applied;
}

gboolean vial_migrations_apply(sqlite3 *db, const char *path, GError **error)
{
	gint64 version;

	if (!read_version(db, &version, error))
		return FALSE;
	if (version > (gint64)G_N_ELEMENTS(migrations))
		return vial_fail(error, VIAL_ERROR_UNAVAILABLE,
		                 "the database %s was written by a newer Vial (schema %d, this program knows up to %d): "
		                 "start the newer program, or restore a backup made before the upgrade",
		                 path, (int)version, (int)G_N_ELEMENTS(migrations));
	for (int number = (int)version + 1; number <= (int)G_N_ELEMENTS(migrations); number++)
		if (!apply(db, number, error))
			return FALSE;
	return TRUE;
}
