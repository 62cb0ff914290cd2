/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "audit/query_private.h"
#include "ledger/lines.h"
#include "util/error.h"
#include "util/worker.h"

#define RECORDS_PER_PIECE 1000
#define PIECE_BYTES (1024 * 1024)

struct VialAuditExport {
	VialAudit *audit;
	VialAuditFilter *filter;
	gboolean is_begun, is_over, is_busy, is_freed;
	gint64 next, last; /* records from and through here */
	gint64 shown_last; /* behind this one only hashes, up to a head */
	GArray *heads;     /* from `next` on */
	guint head;        /* the next of them */
	GString *piece;
	GError *error;
	VialAuditPiece done;
	gpointer data;
};

static void export_unref(VialAuditExport *export)
{
	vial_audit_filter_free(export->filter);
	if (export->heads)
		g_array_unref(export->heads);
	if (export->piece)
		g_string_free(export->piece, TRUE);
	g_clear_error(&export->error);
	g_free(export);
}

/* Which records: a stretch without gaps, for the chain's sake. */

static gint64 find_seq(VialAuditDb *db, const char *sql, const char *time, gint64 fallback)
{
	sqlite3_stmt *statement = NULL;
	gint64 seq = fallback;

	if (sqlite3_prepare_v2(vial_audit_db_handle(db), sql, -1, &statement, NULL) == SQLITE_OK &&
	    sqlite3_bind_text(statement, 1, time, -1, SQLITE_STATIC) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW &&
	    sqlite3_column_type(statement, 0) == SQLITE_INTEGER)
		seq = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return seq;
}

static gboolean on_previous(const VialLedgerRecord *record, gpointer data)
{
	*(VialLedgerHash *)data = record->hash;
	return FALSE;
}

static gboolean begin(VialAuditExport *export, VialAuditDb *db, GError **error)
{
	VialAudit *audit = export->audit;
	const VialAuditFilter *filter = export->filter;
	VialLedgerTitle title = { .key = g_array_index(audit->keys, VialLedgerKey, 0) };

	export->next = filter->from ? find_seq(db, "SELECT min(seq) FROM records WHERE time >= ?1", filter->from, export->last + 1) : 1;
	if (filter->to)
		export->shown_last = MIN(export->last, find_seq(db, "SELECT max(seq) FROM records WHERE time < ?1", filter->to, 0));
	else
		export->shown_last = export->last;
	/* A stretch that nobody asked for cannot be told to follow from anything: it begins at the first record then. */
	export->next = MAX(export->next, 1);
	export->heads = vial_audit_db_heads(db, export->next, G_MAXINT32, error);
	if (!export->heads)
		return FALSE;
	g_strlcpy(title.chain, audit->chain, sizeof(title.chain));
	title.first = export->next;
	vial_ledger_begin(audit->chain, &title.previous);
	if (export->next > 1 && !vial_audit_db_walk(db, export->next - 1, 1, on_previous, &title.previous, error))
		return FALSE;
	vial_ledger_write_title(export->piece, &title);
	/* Up to the first head that covers all that is shown. */
	for (guint i = 0; i < export->heads->len; i++) {
		gint64 seq = g_array_index(export->heads, VialLedgerHead, i).seq;

		if (seq >= export->shown_last) {
			export->last = MIN(export->last, seq);
			break;
		}
	}
	if (export->shown_last < export->next)
		export->last = export->next - 1;
	return TRUE;
}

/* Lines */

static gboolean equals(const json_t *header, const char *field, const char *wanted)
{
	return !wanted || g_strcmp0(json_string_value(json_object_get(header, field)), wanted) == 0;
}

/* A stretch of records is not quite one of time: clocks are set back. */
static gboolean is_within(const json_t *time, const VialAuditFilter *filter)
{
	const char *text = json_is_string(time) ? json_string_value(time) : "";

	return (!filter->from || strcmp(text, filter->from) >= 0) && (!filter->to || strcmp(text, filter->to) < 0);
}

static gboolean is_shown(const VialAuditExport *export, const VialLedgerRecord *record)
{
	const VialAuditFilter *filter = export->filter;
	json_t *header, *principal;
	gboolean fits;

	if (record->seq > export->shown_last)
		return FALSE;
	if (!filter->project && !filter->principal && !filter->agent && !filter->session && !filter->sandbox && !filter->action &&
	    !filter->trace_id && !filter->from && !filter->to)
		return TRUE;
	header = json_loadb(record->header, record->header_size, 0, NULL);
	principal = json_object_get(header, "principal");
	fits = header && is_within(json_object_get(header, "time"), filter) && equals(header, "project", filter->project) &&
	       equals(header, "agent", filter->agent) && equals(header, "session", filter->session) && equals(header, "sandbox", filter->sandbox) &&
	       equals(header, "action", filter->action) && equals(json_object_get(header, "origin"), "trace_id", filter->trace_id) &&
	       (equals(principal, "id", filter->principal) || equals(principal, "name", filter->principal));
	json_decref(header);
	return fits;
}

static void write_heads(VialAuditExport *export, gint64 seq)
{
	while (export->head < export->heads->len && g_array_index(export->heads, VialLedgerHead, export->head).seq <= seq) {
		const VialLedgerHead *head = &g_array_index(export->heads, VialLedgerHead, export->head++);

		if (head->seq == seq)
			vial_ledger_write_head(export->piece, head);
	}
}

static gboolean on_record(const VialLedgerRecord *record, gpointer data)
{
	VialAuditExport *export = data;
	VialLedgerRecord line = *record;

	if (record->seq > export->last || export->piece->len > PIECE_BYTES)
		return FALSE;
	if (!is_shown(export, record)) {
		vial_ledger_hash(record->header, record->header_size, &line.header_hash);
		line.header = line.body = NULL;
	}
	vial_ledger_write_record(export->piece, &line);
	export->next = record->seq + 1;
	write_heads(export, record->seq);
	return TRUE;
}

static void piece_work(gpointer data)
{
	VialAuditExport *export = data;
	VialAuditDb *db = vial_audit_reader(export->audit, &export->error);
	gint64 before;

	if (!db || (!export->is_begun && !begin(export, db, &export->error)))
		return;
	export->is_begun = TRUE;
	before = export->next;
	if (export->next <= export->last)
		vial_audit_db_walk(db, export->next, RECORDS_PER_PIECE, on_record, export, &export->error);
	/* Gaps are gaps: what is not there is not told, and whoever checks will see. */
	export->is_over = export->next > export->last || export->next == before;
}

static void piece_done(gpointer data)
{
	VialAuditExport *export = data;
	g_autoptr(GBytes) bytes = NULL;

	export->is_busy = FALSE;
	if (export->is_freed)
		return export_unref(export);
	if (!export->error && export->piece->len > 0)
		bytes = g_string_free_to_bytes(export->piece);
	else
		g_string_free(export->piece, TRUE);
	export->piece = NULL;
	export->done(bytes, export->error, export->data);
}

static void on_ready(const GError *error, gpointer data)
{
	vial_worker_run_in(VIAL_LANE_QUERY, piece_work, piece_done, data);
}

VialAuditExport *vial_audit_export_new(VialAudit *audit, const VialAuditFilter *filter)
{
	VialAuditExport *export = g_new0(VialAuditExport, 1);

	export->audit = audit;
	export->filter = vial_audit_filter_copy(filter);
	export->last = audit->seq;
	return export;
}

void vial_audit_export_next(VialAuditExport *export, VialAuditPiece done, gpointer data)
{
	export->done = done;
	export->data = data;
	if (!export->audit->is_on)
		vial_fail(&export->error, VIAL_ERROR_UNAVAILABLE, "nothing is recorded here: the setting `audit` is off");
	if (export->is_over || export->error) {
		done(NULL, export->error, data);
		return;
	}
	export->is_busy = TRUE;
	export->piece = g_string_new(NULL);
	if (export->is_begun)
		on_ready(NULL, export);
	else
		vial_audit_wait(export->audit, TRUE, on_ready, export);
}

void vial_audit_export_free(VialAuditExport *export)
{
	if (!export)
		return;
	if (export->is_busy)
		export->is_freed = TRUE;
	else
		export_unref(export);
}
