/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/db.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "audit/schema.h"
#include "audit/words.h"
#include "util/error.h"
#include "util/fault.h"
#include "util/fd.h"
#include "util/id.h"

#define BUSY_TIMEOUT_MS 5000
#define MERGE_PAGES "200"

struct VialAuditDb {
	sqlite3 *handle;
	/* the writer's */
	sqlite3_stmt *add, *add_words, *add_usage, *add_head, *set_tip, *next_body, *forget_body, *forget_words;
};

static const char add_sql[] = "INSERT OR IGNORE INTO records (seq, hash, header, body) VALUES (?1, ?2, ?3, ?4)";

/* What ran and what moved, out of the header: whoever tells it twice would one day tell two things. */
static const char add_usage_sql[] =
	"INSERT INTO usage (day, project, template, agent, key_id, runs, bytes_in, bytes_out)"
	" SELECT substr(json_extract(?1, '$.time'), 1, 10), json_extract(?1, '$.project'), ifnull(json_extract(?1, '$.template'), ''),"
	" ifnull(json_extract(?1, '$.agent'), ''), json_extract(?1, '$.principal.id'), ifnull(json_extract(?1, '$.runs'), 0),"
	" ifnull(json_extract(?1, '$.bytes_in'), 0), ifnull(json_extract(?1, '$.bytes_out'), 0)"
	" WHERE json_extract(?1, '$.runs') > 0 OR json_extract(?1, '$.bytes_in') > 0 OR json_extract(?1, '$.bytes_out') > 0"
	" ON CONFLICT DO UPDATE SET runs = runs + excluded.runs, bytes_in = bytes_in + excluded.bytes_in, bytes_out = bytes_out + excluded.bytes_out";

gboolean vial_audit_db_fail(VialAuditDb *db, const char *what, GError **error)
{
	int code = sqlite3_errcode(db->handle) & 0xff;

	return vial_fail(error, code == SQLITE_FULL ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL, "the audit's database: %s: %s", what,
	                 sqlite3_errmsg(db->handle));
}

sqlite3 *vial_audit_db_handle(VialAuditDb *db)
{
	return db->handle;
}

static gboolean execute(VialAuditDb *db, const char *sql, GError **error)
{
	return sqlite3_exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK || vial_audit_db_fail(db, sql, error);
}

static gboolean prepare(VialAuditDb *db, const char *sql, sqlite3_stmt **out, GError **error)
{
	return sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) == SQLITE_OK || vial_audit_db_fail(db, sql, error);
}

static gboolean prepare_writer(VialAuditDb *db, GError **error)
{
	return prepare(db, add_sql, &db->add, error) && prepare(db, add_usage_sql, &db->add_usage, error) &&
	       prepare(db, "INSERT INTO words (rowid, code) VALUES (?1, ?2)", &db->add_words, error) &&
	       prepare(db, "INSERT INTO words (words, rowid, code) VALUES ('delete', ?1, ?2)", &db->forget_words, error) &&
	       prepare(db, "INSERT OR REPLACE INTO heads (seq, head) VALUES (?1, ?2)", &db->add_head, error) &&
	       prepare(db, "INSERT INTO meta (name, value) VALUES ('tip', ?1) ON CONFLICT DO UPDATE SET value = excluded.value", &db->set_tip,
	               error) &&
	       prepare(db,
	               "SELECT seq, body, time FROM records INDEXED BY records_bodies WHERE body IS NOT NULL AND time >= ?1 AND time < ?2"
	               " AND project NOT IN (SELECT value FROM json_each(?3)) ORDER BY time LIMIT ?4",
	               &db->next_body, error) &&
	       prepare(db, "UPDATE records SET body = NULL WHERE seq = ?1", &db->forget_body, error);
}

VialAuditDb *vial_audit_db_open(const char *path, gboolean is_reader, GError **error)
{
	VialAuditDb *db = g_new0(VialAuditDb, 1);
	int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | (is_reader ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);

	if (!is_reader) { /* SQLite would make the file with the umask's mode */
		vial_autofd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd < 0) {
			vial_fail(error, VIAL_ERROR_INTERNAL, "cannot open the audit's database %s: %s", path, g_strerror(errno));
			g_free(db);
			return NULL;
		}
	}
	if (sqlite3_open_v2(path, &db->handle, flags, NULL) != SQLITE_OK) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot open the audit's database %s: %s", path, sqlite3_errmsg(db->handle));
	} else {
		sqlite3_busy_timeout(db->handle, BUSY_TIMEOUT_MS);
		sqlite3_extended_result_codes(db->handle, 1);
		/* FULL: what was committed may be taken out of the spool, so it has to be on the disk. What retention removes is overwritten. */
		if (is_reader || (execute(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA secure_delete=ON", error) &&
		                  vial_audit_schema_apply(db->handle, path, error) && prepare_writer(db, error)))
			return db;
	}
	vial_audit_db_close(db);
	return NULL;
}

void vial_audit_db_close(VialAuditDb *db)
{
	if (!db)
		return;
	sqlite3_stmt *const statements[] = { db->add,     db->add_words, db->add_usage,   db->add_head,
		                             db->set_tip, db->next_body, db->forget_body, db->forget_words };
	for (gsize i = 0; i < G_N_ELEMENTS(statements); i++)
		sqlite3_finalize(statements[i]);
	sqlite3_close(db->handle);
	g_free(db);
}

/* The state at the start */

static gboolean read_chain(VialAuditDb *db, char *out, gsize size, GError **error)
{
	g_autofree char *id = vial_id_new();
	g_autofree char *insert = g_strdup_printf("INSERT OR IGNORE INTO meta VALUES ('chain', '%s')", id);
	sqlite3_stmt *statement = NULL;
	gboolean is_read = execute(db, insert, error) && prepare(db, "SELECT value FROM meta WHERE name = 'chain'", &statement, error) &&
	                   (sqlite3_step(statement) == SQLITE_ROW || vial_audit_db_fail(db, "meta", error));

	if (is_read)
		g_strlcpy(out, (const char *)sqlite3_column_text(statement, 0), size);
	sqlite3_finalize(statement);
	return is_read;
}

static gboolean read_hash(sqlite3_stmt *statement, int column, VialLedgerHash *out)
{
	const void *bytes = sqlite3_column_blob(statement, column);

	if (!bytes || sqlite3_column_bytes(statement, column) != VIAL_LEDGER_HASH_BYTES)
		return FALSE;
	memcpy(out->bytes, bytes, VIAL_LEDGER_HASH_BYTES);
	return TRUE;
}

gboolean vial_audit_db_state(VialAuditDb *db, VialAuditState *out, GError **error)
{
	sqlite3_stmt *statement = NULL;
	int status;

	*out = (VialAuditState){ 0 };
	if (!read_chain(db, out->chain, sizeof(out->chain), error) ||
	    !prepare(db, "SELECT seq, hash, time FROM records ORDER BY seq DESC LIMIT 1", &statement, error))
		return FALSE;
	vial_ledger_begin(out->chain, &out->last);
	status = sqlite3_step(statement);
	if (status == SQLITE_ROW) {
		out->last_seq = sqlite3_column_int64(statement, 0);
		out->last_time = g_strdup((const char *)sqlite3_column_text(statement, 2));
		/* A hash that is none leads nowhere: the check will say so. */
		read_hash(statement, 1, &out->last);
	}
	sqlite3_finalize(statement);
	return status == SQLITE_ROW || status == SQLITE_DONE || vial_audit_db_fail(db, "records", error);
}

/* Writing */

gboolean vial_audit_db_begin(VialAuditDb *db, GError **error)
{
	return execute(db, "BEGIN IMMEDIATE", error);
}

gboolean vial_audit_db_commit(VialAuditDb *db, GError **error)
{
	if (vial_fault("audit.commit"))
		return vial_fail(error, VIAL_ERROR_NO_SPACE, "the audit's database: no space, says a test");
	/* A full disk makes SQLite roll back the transaction by itself. */
	if (sqlite3_get_autocommit(db->handle))
		return vial_fail(error, VIAL_ERROR_NO_SPACE, "the audit's database: the records were rolled back; is the disk full?");
	return execute(db, "COMMIT", error);
}

void vial_audit_db_rollback(VialAuditDb *db)
{
	if (!sqlite3_get_autocommit(db->handle))
		execute(db, "ROLLBACK", NULL);
}

static gboolean run(VialAuditDb *db, sqlite3_stmt *statement, const char *what, GError **error)
{
	gboolean is_done = sqlite3_step(statement) == SQLITE_DONE || vial_audit_db_fail(db, what, error);

	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	return is_done;
}

static gboolean change_words(VialAuditDb *db, sqlite3_stmt *statement, gint64 seq, const char *body, gsize size, GError **error)
{
	g_autofree char *words = vial_audit_words(body, size);

	if (!words)
		return TRUE;
	sqlite3_bind_int64(statement, 1, seq);
	sqlite3_bind_text(statement, 2, words, -1, SQLITE_STATIC);
	return run(db, statement, "words", error);
}

gboolean vial_audit_db_add(VialAuditDb *db, const VialLedgerRecord *record, gboolean *out_is_new, GError **error)
{
	sqlite3_bind_int64(db->add, 1, record->seq);
	sqlite3_bind_blob(db->add, 2, record->hash.bytes, VIAL_LEDGER_HASH_BYTES, SQLITE_STATIC);
	sqlite3_bind_text(db->add, 3, record->header, (int)record->header_size, SQLITE_STATIC);
	if (record->body)
		sqlite3_bind_text(db->add, 4, record->body, (int)record->body_size, SQLITE_STATIC);
	if (!run(db, db->add, "records", error))
		return FALSE;
	*out_is_new = sqlite3_changes(db->handle) > 0;
	if (!*out_is_new)
		return TRUE;
	sqlite3_bind_text(db->add_usage, 1, record->header, (int)record->header_size, SQLITE_STATIC);
	return run(db, db->add_usage, "usage", error) &&
	       (!record->body || change_words(db, db->add_words, record->seq, record->body, record->body_size, error));
}

gboolean vial_audit_db_add_head(VialAuditDb *db, const VialLedgerHead *head, GError **error)
{
	g_autoptr(GString) text = g_string_new(NULL);

	vial_ledger_head_write(head, text);
	sqlite3_bind_int64(db->add_head, 1, head->seq);
	sqlite3_bind_text(db->add_head, 2, text->str, (int)text->len, SQLITE_STATIC);
	return run(db, db->add_head, "heads", error);
}

gboolean vial_audit_db_set_tip(VialAuditDb *db, const VialLedgerHead *tip, GError **error)
{
	g_autoptr(GString) text = g_string_new(NULL);

	vial_ledger_head_write(tip, text);
	sqlite3_bind_text(db->set_tip, 1, text->str, (int)text->len, SQLITE_STATIC);
	return run(db, db->set_tip, "meta", error);
}

/* Retention */

typedef struct {
	gint64 seq;
	char *body, *time;
} Old;

static void old_clear(gpointer data)
{
	g_free(((Old *)data)->body);
	g_free(((Old *)data)->time);
}

static gboolean find_old(VialAuditDb *db, const char *from, const char *before, const char *held, guint limit, GArray *out, GError **error)
{
	int status;

	sqlite3_bind_text(db->next_body, 1, from, -1, SQLITE_STATIC);
	sqlite3_bind_text(db->next_body, 2, before, -1, SQLITE_STATIC);
	sqlite3_bind_text(db->next_body, 3, held, -1, SQLITE_STATIC);
	sqlite3_bind_int64(db->next_body, 4, limit);
	while ((status = sqlite3_step(db->next_body)) == SQLITE_ROW) {
		Old old = { sqlite3_column_int64(db->next_body, 0), g_strdup((const char *)sqlite3_column_text(db->next_body, 1)),
			    g_strdup((const char *)sqlite3_column_text(db->next_body, 2)) };

		g_array_append_val(out, old);
	}
	gboolean is_read = status == SQLITE_DONE || vial_audit_db_fail(db, "records", error);
	sqlite3_reset(db->next_body);
	sqlite3_clear_bindings(db->next_body);
	return is_read;
}

gboolean vial_audit_db_forget_bodies(VialAuditDb *db, char **from, const char *before, const json_t *held_projects, guint limit, guint *out_forgotten,
                                     GError **error)
{
	g_autoptr(GArray) olds = g_array_new(FALSE, FALSE, sizeof(Old));
	char *held = json_dumps(held_projects, JSON_COMPACT);
	gboolean is_done;

	g_array_set_clear_func(olds, old_clear);
	is_done = find_old(db, *from ? *from : "", before, held, limit, olds, error);
	free(held);
	for (guint i = 0; is_done && i < olds->len; i++) {
		const Old *old = &g_array_index(olds, Old, i);

		is_done = change_words(db, db->forget_words, old->seq, old->body, strlen(old->body), error);
		sqlite3_bind_int64(db->forget_body, 1, old->seq);
		is_done = is_done && run(db, db->forget_body, "records", error);
	}
	if (is_done && olds->len > 0) {
		g_free(*from);
		*from = g_strdup(g_array_index(olds, Old, olds->len - 1).time);
	}
	*out_forgotten = olds->len;
	return is_done;
}

gboolean vial_audit_db_merge_words(VialAuditDb *db, gboolean is_first, gboolean *out_is_over, GError **error)
{
	gint64 before = sqlite3_total_changes(db->handle);

	/* Negative: all parts, whatever their size; then on with it. Fewer than two changes: there is no more to do, says FTS5's documentation. */
	if (!execute(db,
	             is_first ? "INSERT INTO words (words, rank) VALUES ('merge', -" MERGE_PAGES ")"
	                      : "INSERT INTO words (words, rank) VALUES ('merge', " MERGE_PAGES ")",
	             error))
		return FALSE;
	*out_is_over = sqlite3_total_changes(db->handle) - before < 2;
	return TRUE;
}

gboolean vial_audit_db_checkpoint(VialAuditDb *db, GError **error)
{
	return execute(db, "PRAGMA wal_checkpoint(TRUNCATE)", error);
}

/* Reading */

static gboolean give(sqlite3_stmt *statement, VialAuditEach each, gpointer data)
{
	VialLedgerRecord record = {
		.seq = sqlite3_column_int64(statement, 0),
		.header = (const char *)sqlite3_column_text(statement, 2),
		.body = (const char *)sqlite3_column_text(statement, 3),
	};

	if (!record.header)
		record.header = "";
	record.header_size = (gsize)sqlite3_column_bytes(statement, 2);
	record.body_size = (gsize)sqlite3_column_bytes(statement, 3);
	/* One of another length can only be wrong, and looks so. */
	read_hash(statement, 1, &record.hash);
	return each(&record, data);
}

gboolean vial_audit_db_rows(VialAuditDb *db, sqlite3_stmt *statement, VialAuditEach each, gpointer data, GError **error)
{
	int status;

	while ((status = sqlite3_step(statement)) == SQLITE_ROW && give(statement, each, data))
		;
	gboolean is_read = status == SQLITE_DONE || status == SQLITE_ROW || vial_audit_db_fail(db, "records", error);
	sqlite3_finalize(statement);
	return is_read;
}

gboolean vial_audit_db_walk(VialAuditDb *db, gint64 seq, guint limit, VialAuditEach each, gpointer data, GError **error)
{
	sqlite3_stmt *statement = NULL;

	if (!prepare(db, "SELECT seq, hash, header, body FROM records WHERE seq >= ?1 ORDER BY seq LIMIT ?2", &statement, error))
		return FALSE;
	sqlite3_bind_int64(statement, 1, seq);
	sqlite3_bind_int64(statement, 2, limit);
	return vial_audit_db_rows(db, statement, each, data, error);
}

static GArray *read_heads(VialAuditDb *db, sqlite3_stmt *statement, GError **error)
{
	g_autoptr(GArray) heads = g_array_new(FALSE, FALSE, sizeof(VialLedgerHead));
	int status;

	while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(statement, 0);
		VialLedgerHead head;

		if (text && vial_ledger_head_read(text, strlen(text), &head))
			g_array_append_val(heads, head);
	}
	gboolean is_read = status == SQLITE_DONE || vial_audit_db_fail(db, "heads", error);
	sqlite3_finalize(statement);
	return is_read ? g_steal_pointer(&heads) : NULL;
}

GArray *vial_audit_db_heads(VialAuditDb *db, gint64 seq, guint limit, GError **error)
{
	sqlite3_stmt *statement = NULL;

	if (!prepare(db, "SELECT head FROM heads WHERE seq >= ?1 ORDER BY seq LIMIT ?2", &statement, error))
		return NULL;
	sqlite3_bind_int64(statement, 1, seq);
	sqlite3_bind_int64(statement, 2, limit);
	return read_heads(db, statement, error);
}

GArray *vial_audit_db_last_heads(VialAuditDb *db, guint limit, GError **error)
{
	sqlite3_stmt *statement = NULL;

	if (!prepare(db, "SELECT head FROM heads ORDER BY seq DESC LIMIT ?1", &statement, error))
		return NULL;
	sqlite3_bind_int64(statement, 1, limit);
	return read_heads(db, statement, error);
}

gboolean vial_audit_db_tip(VialAuditDb *db, VialLedgerHead *out, GError **error)
{
	sqlite3_stmt *statement = NULL;
	g_autoptr(GArray) tips = NULL;

	*out = (VialLedgerHead){ 0 };
	if (!prepare(db, "SELECT value FROM meta WHERE name = 'tip'", &statement, error) || !(tips = read_heads(db, statement, error)))
		return FALSE;
	if (tips->len > 0)
		*out = g_array_index(tips, VialLedgerHead, 0);
	return TRUE;
}

gboolean vial_audit_db_last_complaint(VialAuditDb *db, char **out, GError **error)
{
	sqlite3_stmt *statement = NULL;
	int status;

	*out = NULL;
	if (!prepare(db, "SELECT json_extract(header, '$.detail') FROM records WHERE action = '" VIAL_AUDIT_TAMPERED "' ORDER BY seq DESC LIMIT 1",
	             &statement, error))
		return FALSE;
	status = sqlite3_step(statement);
	if (status == SQLITE_ROW)
		*out = g_strdup((const char *)sqlite3_column_text(statement, 0));
	sqlite3_finalize(statement);
	return status == SQLITE_ROW || status == SQLITE_DONE || vial_audit_db_fail(db, "records", error);
}
