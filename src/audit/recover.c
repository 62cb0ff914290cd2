/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the last viald left: records that were still on their way into the database, and notes of operations that it died in, which are recorded as
 * interrupted now. What was kept of calls before there was an audit becomes the beginning of the chain.
 *
 * It is also looked whether the database still is what was signed, as far as that costs nothing: the newest head's record must be there, and what is
 * newer must be signed as the tip or in the spool. The rest is looked at once viald is at work (verify.c). If something is wrong, viald starts all
 * the same (an installation must not be stopped by whoever can write a byte), says so loudly, goes on behind the last number that was signed, so that
 * the gap stays a gap, and records what it found: the next viald still knows.
 */
#include <string.h>

#include "audit/audit_private.h"
#include "audit/query.h"
#include "util/error.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"

typedef struct {
	VialAudit *audit;
	GHashTable *notes;               /* id -> json_t: without a record so far */
	GPtrArray *order;                /* their ids as they came */
	GArray *items;                   /* VialAuditItem: records of the spool */
	GPtrArray *charges;              /* VialCharges of the spool */
	gint64 spooled_from, spooled_to; /* records: none when the first is greater */
} Recovery;

static void complain(VialAudit *audit, char *complaint)
{
	vial_log_error("audit", "the record of what was done has been tampered with, or is damaged", "detail", complaint);
	if (audit->complaint)
		g_free(complaint);
	else
		audit->complaint = complaint;
}

/* In the chain, where it cannot be taken back. Once for each thing that is found, not for every start that finds it again. */
static void record_complaint(VialAudit *audit, const char *known)
{
	g_autoptr(GError) error = NULL;

	if (g_strcmp0(audit->complaint, known) == 0)
		return;
	if (!vial_audit_add(audit,
	                    json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s}, s:s}", "action", VIAL_AUDIT_TAMPERED, "outcome", "done", "project",
	                              "default", "principal", "kind", "system", "id", "system", "name", "viald", "detail", audit->complaint),
	                    json_object(), TRUE, &error))
		vial_log_error("audit", "what was found wrong with the record could not be recorded", "error", error->message);
}

static void on_checked(json_t *verdict, const GError *error, gpointer data)
{
	VialAudit *audit = data;
	const char *finding = json_string_value(json_object_get(verdict, "finding"));

	if (audit->is_leaving)
		return;
	if (error)
		vial_log_warning("audit", "the record could not be looked through", "error", error->message);
	else if (strcmp(finding, "good") != 0 && !audit->complaint) {
		complain(audit, g_strdup(json_string_value(json_object_get(verdict, "sentence"))));
		record_complaint(audit, NULL);
	}
}

/* All of it, in small turns, while viald is at work already. */
static gboolean check_all(gpointer data)
{
	((VialAudit *)data)->checking = 0;
	vial_audit_verify(data, on_checked, data);
	return G_SOURCE_REMOVE;
}

/* The spool */

static void take_note(Recovery *recovery, const char *bytes, gsize size)
{
	json_t *note = json_loadb(bytes, size, 0, NULL);
	const char *id = json_string_value(json_object_get(note, "id"));

	if (!id || !json_is_object(json_object_get(note, "header")) || !json_is_object(json_object_get(note, "body"))) {
		json_decref(note);
		return;
	}
	if (!g_hash_table_contains(recovery->notes, id))
		g_ptr_array_add(recovery->order, g_strdup(id));
	g_hash_table_replace(recovery->notes, g_strdup(id), note);
}

/* An operation whose end is on record was not interrupted. */
static void drop_note(Recovery *recovery, const char *text, gsize size)
{
	g_autoptr(json_t) header = json_loadb(text, size, 0, NULL);
	const char *operation = json_string_value(json_object_get(header, "operation"));
	const char *outcome = json_string_value(json_object_get(header, "outcome"));

	/* What was only told to have begun has not ended. */
	if (operation && g_strcmp0(outcome, "begun") != 0)
		g_hash_table_remove(recovery->notes, operation);
}

static void take_record(Recovery *recovery, const char *bytes, gsize size)
{
	VialAuditItem item;

	if (!vial_audit_item_unpack(bytes, size, &item))
		return;
	drop_note(recovery, item.header, item.header_size);
	recovery->spooled_from = MIN(recovery->spooled_from, item.seq);
	recovery->spooled_to = MAX(recovery->spooled_to, item.seq);
	g_array_append_val(recovery->items, item);
}

static gboolean on_ended(const VialLedgerRecord *record, gpointer data)
{
	drop_note(data, record->header, record->header_size);
	return TRUE;
}

/* What the database has, the spool has too, unless the spool was lost or damaged: a machine that died has the one flushed and the other not. */
static gboolean drop_ended(Recovery *recovery, VialAuditDb *db, GError **error)
{
	VialAudit *audit = recovery->audit;
	gint64 from = vial_spool_is_damaged(audit->spool) ? MIN(recovery->spooled_from, audit->seq) : recovery->spooled_to + 1;

	return g_hash_table_size(recovery->notes) == 0 || from > audit->seq || vial_audit_db_walk(db, from, G_MAXINT32, on_ended, recovery, error);
}

static void take_charges(Recovery *recovery, const char *bytes, gsize size)
{
	VialCharges *charges = vial_charges_parse(bytes, size);

	if (charges)
		g_ptr_array_add(recovery->charges, charges);
}

static void on_entry(VialSpoolKind kind, const char *bytes, gsize size, gpointer data)
{
	if (kind == VIAL_SPOOL_NOTE)
		take_note(data, bytes, size);
	else if (kind == VIAL_SPOOL_RECORD)
		take_record(data, bytes, size);
	else if (kind == VIAL_SPOOL_CHARGES)
		take_charges(data, bytes, size);
}

/* Follows the chain through what the spool has; those that the database has too are given to it again, which leaves them as they are. */
static void follow(Recovery *recovery)
{
	VialAudit *audit = recovery->audit;

	for (guint i = 0; i < recovery->items->len; i++) {
		VialAuditItem *item = &g_array_index(recovery->items, VialAuditItem, i);
		VialLedgerHash hash;

		if (item->seq > audit->seq + 1)
			complain(audit,
			         g_strdup_printf("records %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT " are missing", audit->seq + 1, item->seq - 1));
		if (item->seq > audit->seq) {
			vial_ledger_hash(item->header, item->header_size, &hash);
			vial_ledger_link(&audit->last, &hash, &hash);
			if (item->seq == audit->seq + 1 && !vial_ledger_hash_equal(&hash, &item->hash))
				complain(audit,
				         g_strdup_printf("record %" G_GINT64_FORMAT " in the spool does not fit to the one before it", item->seq));
			audit->seq = item->seq;
			audit->last = item->hash;
		}
		vial_audit_writer_push(audit->writer, item);
	}
}

/* The same for what was used: those that the database has are known by their number. */
static void follow_charges(Recovery *recovery)
{
	VialAudit *audit = recovery->audit;

	for (guint i = 0; i < recovery->charges->len; i++) {
		VialCharges *charges = recovery->charges->pdata[i];

		if (vial_charges_number(charges) > audit->charge) {
			vial_charges_apply(charges, audit->meters);
			audit->charge = vial_charges_number(charges);
			vial_audit_writer_charge(audit->writer, charges);
		} else {
			vial_charges_free(charges);
		}
	}
}

static void record_interrupted(VialAudit *audit, json_t *note)
{
	json_t *header = json_deep_copy(json_object_get(note, "header"));
	g_autoptr(GError) error = NULL;

	json_object_set_new(header, "outcome", json_string("interrupted"));
	json_object_set(header, "began", json_object_get(note, "began"));
	if (!vial_audit_add(audit, header, json_incref(json_object_get(note, "body")), TRUE, &error))
		vial_log_error("audit", "an interrupted operation could not be recorded; its note stays for the next start", "error", error->message);
}

/* Heads */

static gboolean keep_newest(VialLedgerHead *newest, const GArray *heads, const VialAudit *audit)
{
	const VialLedgerKey *keys = (const VialLedgerKey *)(gpointer)audit->keys->data;

	/* From the end: the first that is signed is the newest of this list, and the rest need not be looked at. */
	for (guint i = heads->len; i > 0; i--) {
		const VialLedgerHead *head = &g_array_index(heads, VialLedgerHead, i - 1);

		if (head->seq <= newest->seq || strcmp(head->chain, audit->chain) != 0)
			continue;
		for (guint k = 0; k < audit->keys->len; k++) {
			if (vial_ledger_head_is_signed(head, &keys[k])) {
				*newest = *head;
				return TRUE;
			}
		}
	}
	return FALSE;
}

typedef struct {
	gint64 seq;
	gboolean is_found;
	VialLedgerHash hash;
} Lookup;

static gboolean on_looked_up(const VialLedgerRecord *record, gpointer data)
{
	Lookup *lookup = data;

	lookup->is_found = record->seq == lookup->seq;
	lookup->hash = record->hash;
	return FALSE;
}

/* A head of another chain, signed with our key: the database was replaced, or taken away. */
static void look_for_another_chain(VialAudit *audit, const GArray *heads)
{
	const VialLedgerKey *keys = (const VialLedgerKey *)(gpointer)audit->keys->data;

	for (guint i = heads->len; i > 0; i--) {
		const VialLedgerHead *head = &g_array_index(heads, VialLedgerHead, i - 1);

		for (guint k = 0; strcmp(head->chain, audit->chain) != 0 && k < audit->keys->len; k++) {
			if (!vial_ledger_head_is_signed(head, &keys[k]))
				continue;
			complain(audit, g_strdup_printf("the record that was signed here up to number %" G_GINT64_FORMAT
			                                " (chain %s) is gone, and another (%s) in its place",
			                                head->seq, head->chain, audit->chain));
			return;
		}
	}
}

/* Of those that were published; and of all, with the tip, which is signed with every transaction. */
static gboolean find_newest_head(VialAudit *audit, VialAuditDb *db, VialLedgerHead *out_published, VialLedgerHead *out, GError **error)
{
	g_autoptr(GArray) kept = vial_audit_db_last_heads(db, 1, error), tips = g_array_new(FALSE, FALSE, sizeof(VialLedgerHead));
	g_autoptr(GArray) outside = vial_places_read_last(audit->config->data_dir);
	VialLedgerHead tip;

	*out_published = (VialLedgerHead){ 0 };
	if (!kept || !vial_audit_db_tip(db, &tip, error))
		return FALSE;
	keep_newest(out_published, kept, audit);
	keep_newest(out_published, outside, audit);
	look_for_another_chain(audit, outside);
	*out = *out_published;
	g_array_append_val(tips, tip);
	keep_newest(out, tips, audit);
	return TRUE;
}

/* Before the spool is followed: is the record of the newest head there, and what it was? */
static gboolean check_head(VialAudit *audit, VialAuditDb *db, const VialLedgerHead *head, GError **error)
{
	Lookup lookup = { .seq = head->seq };

	if (head->seq == 0 || head->seq > audit->seq)
		return TRUE;
	if (!vial_audit_db_walk(db, head->seq, 1, on_looked_up, &lookup, error))
		return FALSE;
	if (!lookup.is_found)
		complain(audit, g_strdup_printf("record %" G_GINT64_FORMAT ", which was signed, is missing", head->seq));
	else if (!vial_ledger_hash_equal(&lookup.hash, &head->hash))
		complain(audit, g_strdup_printf("record %" G_GINT64_FORMAT " is not the one that was signed", head->seq));
	return TRUE;
}

/* After it. */
static void check_ends(Recovery *recovery, const VialLedgerHead *head, gint64 in_database)
{
	VialAudit *audit = recovery->audit;

	if (head->seq > audit->seq) {
		complain(audit, g_strdup_printf("records %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT " were signed and are missing", audit->seq + 1,
		                                head->seq));
		audit->seq = head->seq;
		audit->last = head->hash;
	}
	if (in_database > head->seq && recovery->spooled_from > head->seq + 1)
		complain(audit,
		         g_strdup_printf("records from %" G_GINT64_FORMAT " on were never signed, and the spool does not know them", head->seq + 1));
}

/* Calls of older versions */

static json_t *call_body(const VialCallRecord *call)
{
	json_t *body = vial_json_parse_object(call->detail, strlen(call->detail), NULL);

	return body ? body : json_object();
}

static json_t *call_header(const VialCallRecord *call)
{
	g_autoptr(json_t) outcome = *call->outcome ? vial_json_parse_object(call->outcome, strlen(call->outcome), NULL) : NULL;
	gboolean is_running = strcmp(call->status, "running") == 0;
	char began[VIAL_TIME_TEXT_SIZE];

	vial_time_fill(began, call->started_at);
	return json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s}, s:s, s:s, s:s, s:b, s:O*, s:O*, s:O*}", "action", call->kind, "outcome",
	                 is_running ? "interrupted" : call->status, "project", "default", "principal", "kind", "system", "id", "import", "name",
	                 "before the audit", "sandbox", call->sandbox_id, "operation", call->id, "began", began, "imported", TRUE, "exit_code",
	                 json_object_get(outcome, "exit_code"), "duration_ms", json_object_get(outcome, "duration_ms"), "error",
	                 json_object_get(outcome, "error_name"));
}

/* In one transaction with its head, so that a crash in the middle leaves nothing. */
static gboolean import_calls(VialAudit *audit, VialAuditDb *db, const GPtrArray *calls, GError **error)
{
	VialLedgerHead head = { .time_ms = vial_time_now_ms() };
	gboolean is_done = vial_audit_db_begin(db, error), is_new;

	for (guint i = 0; is_done && i < calls->len; i++) {
		g_autoptr(json_t) header = call_header(calls->pdata[i]), body = call_body(calls->pdata[i]);
		VialAuditItem item;
		VialLedgerRecord record;

		vial_audit_make_record(audit, header, body, &item);
		record = (VialLedgerRecord){ item.seq, item.header, item.header_size, { { 0 } }, item.body, item.body_size, item.hash };
		is_done = vial_audit_db_add(db, &record, &is_new, error);
		audit->seq = item.seq;
		audit->last = item.hash;
		vial_audit_item_clear(&item);
	}
	g_strlcpy(head.chain, audit->chain, sizeof(head.chain));
	head.seq = audit->seq;
	head.hash = audit->last;
	is_done = is_done && vial_ledger_sign(audit->signer, &head, error) && vial_audit_db_add_head(db, &head, error) &&
	          vial_audit_db_commit(db, error);
	if (is_done)
		vial_places_publish(audit->places, &head);
	else
		vial_audit_db_rollback(db);
	return is_done;
}

/* All together */

static gboolean read_database(VialAudit *audit, VialAuditDb *db, const GPtrArray *calls, VialLedgerHead *out_head, GError **error)
{
	VialLedgerHead published;
	VialAuditState state;

	if (!vial_audit_db_state(db, &state, error))
		return FALSE;
	g_strlcpy(audit->chain, state.chain, sizeof(audit->chain));
	audit->seq = state.last_seq;
	audit->last = state.last;
	if (state.last_time)
		vial_time_parse(state.last_time, &audit->last_time_ms);
	g_free(state.last_time);
	if (audit->seq == 0 && calls && calls->len > 0 && !import_calls(audit, db, calls, error))
		return FALSE;
	audit->in_database = audit->seq;
	if (!find_newest_head(audit, db, &published, out_head, error) || !check_head(audit, db, out_head, error))
		return FALSE;
	audit->signed_through = MIN(published.seq, audit->seq);
	/* Those who were not there when it was sent. */
	if (published.seq > 0)
		vial_places_send_again(audit->places, &published);
	audit->meters = vial_usage_meters(db, &audit->charge, error);
	audit->charge_in_database = audit->charge;
	return audit->meters != NULL;
}

static void start_writer(VialAudit *audit, VialAuditDb *db)
{
	VialAuditWriterSpec spec = {
		.db = db,
		.signer = audit->signer,
		.places = audit->places,
		.chain = audit->chain,
		.last_seq = audit->seq,
		.last = audit->last,
		.unsigned_records = audit->seq - audit->signed_through,
		.head_records = audit->config->audit_head_records,
		.head_seconds = audit->config->audit_head_seconds,
		.retention_days = audit->config->audit_retention_days,
		.committed = vial_audit_on_written,
		.data = audit,
	};

	audit->writer = vial_audit_writer_new(&spec);
}

static void finish(Recovery *recovery)
{
	g_hash_table_unref(recovery->notes);
	g_ptr_array_unref(recovery->order);
	g_array_unref(recovery->items);
	g_ptr_array_unref(recovery->charges);
}

gboolean vial_audit_recover(VialAudit *audit, const GPtrArray *calls, GError **error)
{
	g_autofree char *dir = g_build_filename(audit->config->data_dir, "audit", NULL), *known = NULL;
	Recovery recovery = { .audit = audit, .spooled_from = G_MAXINT64 };
	VialAuditDb *db = vial_audit_db_open(audit->database, FALSE, error);
	gint64 in_database;
	VialLedgerHead head;

	recovery.notes = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)json_decref);
	recovery.order = g_ptr_array_new_with_free_func(g_free);
	recovery.items = g_array_new(FALSE, FALSE, sizeof(VialAuditItem));
	recovery.charges = g_ptr_array_new();
	if (!db || !read_database(audit, db, calls, &head, error) || !vial_audit_db_last_complaint(db, &known, error) ||
	    !(audit->spool = vial_spool_open(dir, on_entry, &recovery, error)) || !drop_ended(&recovery, db, error)) {
		vial_audit_db_close(db);
		finish(&recovery);
		return FALSE;
	}
	in_database = audit->seq;
	if (vial_spool_is_damaged(audit->spool))
		complain(audit, g_strdup("the spool, which holds the newest records, is damaged; what can be read of it was taken"));
	start_writer(audit, db);
	follow(&recovery);
	follow_charges(&recovery);
	check_ends(&recovery, &head, in_database);
	audit->synced = audit->seq;
	g_array_append_val(audit->segments, ((VialAuditSegment){ vial_spool_current(audit->spool), audit->seq, audit->charge }));
	for (guint i = 0; i < recovery.order->len; i++) {
		json_t *note = g_hash_table_lookup(recovery.notes, recovery.order->pdata[i]);

		if (note)
			record_interrupted(audit, note);
	}
	if (audit->complaint)
		record_complaint(audit, known);
	else if (known)
		complain(audit, g_steal_pointer(&known));       /* it has not become true again by a start */
	if (recovery.items->len > 0 || recovery.order->len > 0) /* so that the spool can go */
		vial_audit_writer_sign(audit->writer);
	finish(&recovery);
	audit->checking = g_idle_add(check_all, audit);
	return TRUE;
}
