/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit_private.h"

#include <string.h>

#include "util/error.h"
#include "util/fault.h"
#include "util/hash.h"
#include "util/id.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"
#include "util/worker.h"

/* What an operation's end may add to its record, beyond what it says itself (more_bytes). */
#define END_BYTES (32 * 1024)
#define URGENT_END_BYTES (4 * 1024)
/* A body beyond this is left out: callers keep to limits far below (operations/entry.c), escaping may make six bytes of one. */
#define MAX_BODY_BYTES (VIAL_SPOOL_MAX_ENTRY_BYTES - 256 * 1024)
#define SALT_DIGITS 32
/* Records that wait for the database while it cannot be written; then even refusals are only logged. */
#define MAX_BEHIND 10000
/* How long the database may fail before code is refused. */
#define FAILURE_GRACE_MS 5000
/* Smaller steps are what time servers do every day. */
#define CLOCK_BACK_MS 1000

/* Records as bytes */

typedef struct {
	gint64 seq;
	VialLedgerHash hash;
	guint32 header_size, body_size;
} Packed;

GByteArray *vial_audit_item_pack(const VialAuditItem *item)
{
	Packed packed = { item->seq, item->hash, (guint32)item->header_size, (guint32)item->body_size };
	GByteArray *bytes = g_byte_array_sized_new((guint)(sizeof(packed) + item->header_size + item->body_size));

	g_byte_array_append(bytes, (const guint8 *)&packed, sizeof(packed));
	g_byte_array_append(bytes, (const guint8 *)item->header, (guint)item->header_size);
	g_byte_array_append(bytes, (const guint8 *)item->body, (guint)item->body_size);
	return bytes;
}

gboolean vial_audit_item_unpack(const char *bytes, gsize size, VialAuditItem *out)
{
	Packed packed;

	if (size < sizeof(packed))
		return FALSE;
	memcpy(&packed, bytes, sizeof(packed));
	if ((gsize)packed.header_size + packed.body_size != size - sizeof(packed))
		return FALSE;
	bytes += sizeof(packed);
	*out = (VialAuditItem){
		.seq = packed.seq,
		.hash = packed.hash,
		.header = g_strndup(bytes, packed.header_size),
		.body = g_strndup(bytes + packed.header_size, packed.body_size),
		.header_size = packed.header_size,
		.body_size = packed.body_size,
	};
	return TRUE;
}

void vial_audit_item_clear(VialAuditItem *item)
{
	g_clear_pointer(&item->header, g_free);
	g_clear_pointer(&item->body, g_free);
}

/* Making records */

/* The fields of an object without its brackets; what it stands in may have others. */
static char *dump_fields(const json_t *object, gsize *out_size)
{
	char *text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII);
	gsize size = strlen(text);

	memmove(text, text + 1, size - 2);
	text[size - 2] = '\0';
	*out_size = size - 2;
	return text;
}

/* The salt keeps a short body from being guessed from its hash once it has been removed. */
static GString *write_body(const json_t *body)
{
	g_autofree char *salt = vial_secret_new("", SALT_DIGITS);
	gsize size;
	g_autofree char *fields = dump_fields(body, &size);
	GString *text = g_string_sized_new(size + SALT_DIGITS + 32);

	g_string_append_printf(text, "{\"salt\":\"%s\"", salt);
	if (size > MAX_BODY_BYTES)
		g_string_append_printf(text, ",\"omitted_bytes\":%" G_GSIZE_FORMAT, size);
	else if (size > 0) {
		g_string_append_c(text, ',');
		g_string_append_len(text, fields, (gssize)size);
	}
	g_string_append_c(text, '}');
	return text;
}

void vial_audit_make_record(VialAudit *audit, json_t *header, json_t *body, VialAuditItem *out)
{
	gint64 now_ms = vial_time_now_ms(), seq = audit->seq + 1;
	char time[VIAL_TIME_TEXT_SIZE];
	GString *text = g_string_sized_new(1024), *body_text;
	g_autofree char *fields = NULL;
	VialLedgerHash hash;
	gsize size;

	vial_redact(audit->redactor, header);
	vial_redact(audit->redactor, body);
	fields = dump_fields(header, &size);
	body_text = write_body(body);
	vial_ledger_hash(body_text->str, body_text->len, &hash);
	vial_time_fill(time, now_ms);
	vial_ledger_header_begin(text, audit->chain, seq);
	g_string_append_printf(text, ",\"time\":\"%s\"", time);
	if (size > 0) {
		g_string_append_c(text, ',');
		g_string_append_len(text, fields, (gssize)size);
	}
	vial_ledger_header_end(text, &hash);
	*out = (VialAuditItem){ .seq = seq, .header_size = text->len, .body_size = body_text->len };
	vial_ledger_hash(text->str, text->len, &hash);
	vial_ledger_link(&audit->last, &hash, &out->hash);
	out->header = g_string_free(text, FALSE);
	out->body = g_string_free(body_text, FALSE);
	audit->last_time_ms = MAX(audit->last_time_ms, now_ms);
}

/* Writing them */

static void note_segment(VialAudit *audit, guint number)
{
	VialAuditSegment now = { number, audit->seq, audit->charge };
	VialAuditSegment *last = &g_array_index(audit->segments, VialAuditSegment, audit->segments->len - 1);

	if (last->number == number)
		*last = now;
	else
		g_array_append_val(audit->segments, now);
}

gboolean vial_audit_append(VialAudit *audit, VialAuditItem *item, GError **error)
{
	g_autoptr(GByteArray) bytes = vial_audit_item_pack(item);
	guint segment;

	if (!vial_spool_append(audit->spool, VIAL_SPOOL_RECORD, (const char *)bytes->data, bytes->len, &segment, error)) {
		vial_audit_item_clear(item);
		return FALSE;
	}
	audit->seq = item->seq;
	audit->last = item->hash;
	note_segment(audit, segment);
	if (audit->sync)
		vial_audit_sync_request(audit->sync, item->seq, segment != audit->sync_segment ? vial_spool_dup(audit->spool) : -1);
	audit->sync_segment = segment;
	vial_audit_writer_push(audit->writer, item);
	return TRUE;
}

static gboolean write_record(VialAudit *audit, json_t *header, json_t *body, GError **error)
{
	VialAuditItem item;

	vial_audit_make_record(audit, header, body, &item);
	return vial_audit_append(audit, &item, error);
}

/* A clock that is set back makes later records look older than earlier ones: whoever reads them should know. */
static void note_clock(VialAudit *audit)
{
	gint64 now_ms = vial_time_now_ms(), last_ms = audit->last_time_ms;
	char from[VIAL_TIME_TEXT_SIZE];

	if (now_ms >= last_ms - CLOCK_BACK_MS)
		return;
	audit->last_time_ms = now_ms;
	vial_time_fill(from, last_ms);
	vial_log_warning("audit", "the clock was set back", "from", from);
	if (!vial_audit_add(audit,
	                    json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s}, s:I}", "action", "clock.back", "outcome", "done", "project", "default",
	                              "principal", "kind", "system", "id", "system", "name", "viald", "clock_back_ms",
	                              (json_int_t)(last_ms - now_ms)),
	                    json_object(), TRUE, NULL))
		audit->last_time_ms = last_ms; /* the next one says it: search.c relies on it */
}

gboolean vial_audit_add(VialAudit *audit, json_t *header, json_t *body, gboolean is_urgent, GError **error)
{
	g_autoptr(json_t) owned_header = header, owned_body = body;
	VialAuditItem item;
	gsize cost;

	if (!audit->is_on)
		return TRUE;
	if (!is_urgent && audit->seq - audit->in_database > MAX_BEHIND && !vial_audit_check_room(audit, error))
		return FALSE;
	note_clock(audit);
	vial_audit_make_record(audit, header, body, &item);
	cost = vial_spool_cost(sizeof(Packed) + item.header_size + item.body_size);
	if (!vial_spool_reserve(audit->spool, cost, is_urgent, error)) {
		vial_audit_item_clear(&item);
		return FALSE;
	}
	vial_spool_unreserve(audit->spool, cost);
	return vial_audit_append(audit, &item, error);
}

/* Entries */

static void entry_free(VialAuditEntry *entry)
{
	json_decref(entry->header);
	json_decref(entry->body);
	g_free(entry);
}

static char *make_note(VialAudit *audit, VialAuditEntry *entry)
{
	g_autoptr(json_t) note = NULL;
	char *text;

	vial_redact(audit->redactor, entry->header);
	vial_redact(audit->redactor, entry->body);
	note = json_pack("{s:s, s:s, s:O, s:O}", "id", entry->id, "began", entry->began, "header", entry->header, "body", entry->body);
	text = json_dumps(note, JSON_COMPACT | JSON_ENSURE_ASCII);
	if (vial_spool_cost(strlen(text)) <= MAX_BODY_BYTES)
		return text;
	/* Only what is nothing but control characters becomes so long; nothing is left undone on that account. */
	json_object_clear(entry->body);
	json_object_set_new(entry->body, "omitted_bytes", json_integer((json_int_t)strlen(text)));
	free(text);
	return make_note(audit, entry);
}

/* Beyond what is reserved for the entry's end. */
static gboolean write_note(VialAudit *audit, VialAuditEntry *entry, const char *text, GError **error)
{
	gsize size = strlen(text), cost = vial_spool_cost(size);

	if (!vial_spool_reserve(audit->spool, cost, entry->is_urgent, error))
		return FALSE;
	vial_spool_unreserve(audit->spool, cost);
	return vial_spool_append(audit->spool, VIAL_SPOOL_NOTE, text, size, &entry->segment, error);
}

/* Its note, and room for its end: what is in the note, and what comes to it. */
static gboolean write_first_note(VialAudit *audit, VialAuditEntry *entry, gsize more_bytes, GError **error)
{
	g_autofree char *text = make_note(audit, entry);
	gsize reserved = vial_spool_cost(strlen(text)) + (entry->is_urgent ? URGENT_END_BYTES : END_BYTES) + more_bytes;

	if (!vial_spool_reserve(audit->spool, reserved, entry->is_urgent, error))
		return FALSE;
	entry->reserved = reserved;
	return write_note(audit, entry, text, error);
}

VialAuditEntry *vial_audit_begin(VialAudit *audit, json_t *header, json_t *body, gsize more_bytes, gboolean is_urgent, GError **error)
{
	VialAuditEntry *entry = g_new0(VialAuditEntry, 1);

	vial_id_fill(entry->id);
	entry->header = header;
	entry->body = body;
	if (!audit->is_on)
		return entry;
	vial_time_fill(entry->began, vial_time_now_ms());
	json_object_set_new(header, "operation", json_string(entry->id));
	entry->is_urgent = is_urgent;
	if ((!is_urgent && !vial_audit_check_room(audit, error)) || !write_first_note(audit, entry, more_bytes, error)) {
		vial_spool_unreserve(audit->spool, entry->reserved);
		entry_free(entry);
		return NULL;
	}
	g_hash_table_insert(audit->open, entry->id, entry);
	return entry;
}

gboolean vial_audit_end(VialAudit *audit, VialAuditEntry *entry, GError **error)
{
	gboolean is_written = TRUE;

	if (audit->is_on) {
		g_hash_table_remove(audit->open, entry->id);
		vial_spool_unreserve(audit->spool, entry->reserved);
		note_clock(audit);
		is_written = write_record(audit, entry->header, entry->body, error);
	}
	entry_free(entry);
	return is_written;
}

const char *vial_audit_entry_id(const VialAuditEntry *entry)
{
	return entry->id;
}

json_t *vial_audit_entry_header(VialAuditEntry *entry)
{
	return entry->header;
}

json_t *vial_audit_entry_body(VialAuditEntry *entry)
{
	return entry->body;
}

/* What the database has */

/* Operations that go on for hours do not keep hours of the spool: their notes are written again. */
static gboolean move_notes(VialAudit *audit, guint before)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, audit->open);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		VialAuditEntry *entry = value;
		g_autofree char *text = NULL;

		if (entry->segment >= before)
			continue;
		text = make_note(audit, entry);
		if (!write_note(audit, entry, text, NULL))
			return FALSE;
	}
	return TRUE;
}

/* Segments go when all they hold is in the database and under a head: what is newer than the last head is always in the spool (recover.c relies on
 * it). */
static void release_segments(VialAudit *audit)
{
	guint before = 0, n = 0;

	for (; n + 1 < audit->segments->len; n++) {
		const VialAuditSegment *segment = &g_array_index(audit->segments, VialAuditSegment, n);

		if (segment->last_seq > MIN(audit->in_database, audit->signed_through) || segment->last_charge > audit->charge_in_database)
			break;
		before = segment[1].number;
	}
	if (n == 0 || !move_notes(audit, before))
		return;
	vial_spool_release(audit->spool, before);
	g_array_remove_range(audit->segments, 0, n);
}

/* What was removed from the database is not to live on in the spool of a viald that has little to do. */
static void leave_segment(VialAudit *audit)
{
	if (!vial_spool_turn(audit->spool, NULL))
		return; /* for want of room: the next time */
	note_segment(audit, vial_spool_current(audit->spool));
	vial_audit_writer_sign(audit->writer); /* whose word lets the old one go */
}

void vial_audit_on_written(const VialAuditWritten *written, const GError *error, gpointer data)
{
	VialAudit *audit = data;

	if (!audit->failure)
		audit->failing_since_ms = vial_time_monotonic_ms();
	g_clear_error(&audit->failure);
	audit->in_database = MAX(audit->in_database, written->seq);
	audit->signed_through = MAX(audit->signed_through, written->signed_seq);
	audit->charge_in_database = MAX(audit->charge_in_database, written->charge);
	if (error)
		audit->failure = g_error_copy(error);
	else
		release_segments(audit);
	if (written->forgot)
		leave_segment(audit);
	vial_audit_settle_waiters(audit, error);
}

/*
 * A disk that is full for a moment, because somebody tries to keep more on it than fits, stops nobody: until the writer has tried again the records
 * are in the spool, whose room was allocated before.
 */
static gboolean is_patient(const VialAudit *audit)
{
	gint64 grace_ms = vial_fault_measure("audit.grace_ms", FAILURE_GRACE_MS);

	return vial_time_monotonic_ms() - audit->failing_since_ms < grace_ms && audit->seq - audit->in_database <= MAX_BEHIND;
}

gboolean vial_audit_check_room(VialAudit *audit, GError **error)
{
	if (!audit->failure || is_patient(audit))
		return TRUE;
	return vial_fail_with(error, audit->failure->code == VIAL_ERROR_NO_SPACE ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_UNAVAILABLE,
	                      json_pack("{s:i}", "retry_after", 5), "what is done cannot be recorded, so nothing more is done: %s",
	                      audit->failure->message);
}

guint64 vial_audit_uncommitted(const VialAudit *audit)
{
	return audit->sync && audit->seq > audit->synced ? (guint64)audit->seq : 0;
}

void vial_audit_on_committed(VialAudit *audit, VialAuditCommitted committed, gpointer data)
{
	audit->committed = committed;
	audit->committed_data = data;
}

void vial_audit_hold(VialAudit *audit, json_t *projects)
{
	if (audit->is_on)
		vial_audit_writer_hold(audit->writer, projects);
	else
		json_decref(projects);
}

void vial_audit_charge(VialAudit *audit, VialCharges *charges)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *text = NULL;
	guint segment;
	gsize cost;

	if (!audit->is_on || vial_charges_count(charges) == 0)
		return vial_charges_free(charges);
	vial_charges_set_number(charges, ++audit->charge);
	text = vial_charges_text(charges);
	cost = vial_spool_cost(strlen(text));
	if (vial_spool_reserve(audit->spool, cost, TRUE, &error)) {
		vial_spool_unreserve(audit->spool, cost);
		if (vial_spool_append(audit->spool, VIAL_SPOOL_CHARGES, text, strlen(text), &segment, &error))
			note_segment(audit, segment);
	}
	if (error) /* the database may still take it */
		vial_log_error("audit", "what sandboxes have used is not in the spool", "error", error->message);
	vial_audit_writer_charge(audit->writer, charges);
}

GHashTable *vial_audit_meters(VialAudit *audit)
{
	return audit->meters;
}

char *vial_audit_redact(const VialAudit *audit, const char *text, gsize size)
{
	return audit->is_on ? vial_redact_text(audit->redactor, text, size) : NULL;
}

gboolean vial_audit_is_on(const VialAudit *audit)
{
	return audit->is_on;
}

const char *vial_audit_complaint(const VialAudit *audit)
{
	return audit->complaint;
}

void vial_audit_stats(const VialAudit *audit, VialAuditStats *out)
{
	*out = (VialAuditStats){
		.records = audit->seq,
		.in_database = audit->in_database,
		.signed_through = audit->signed_through,
		.open = audit->open ? g_hash_table_size(audit->open) : 0,
		.is_failing = audit->failure != NULL,
	};
}

/* Beginning and end */

static void on_synced(gint64 seq, gboolean has_failed, gpointer data)
{
	VialAudit *audit = data;

	/* Who waited for these is told that they are lost; who comes later need not wait for them. */
	audit->synced = MAX(audit->synced, seq);
	if (has_failed)
		audit->failing_since_ms = 0; /* the spool itself is in doubt */
	if (has_failed && !audit->failure) {
		audit->failure = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "the disk does not take records");
		vial_audit_writer_sign(audit->writer); /* whose next success clears it, and who has word even when there is nothing to write */
	}
	if (audit->committed)
		audit->committed((guint64)seq, has_failed, audit->committed_data);
}

VialAudit *vial_audit_open(const VialConfig *config, const GPtrArray *calls, GError **error)
{
	VialAudit *audit = g_new0(VialAudit, 1);

	audit->config = config;
	audit->is_on = config->audit;
	audit->segments = g_array_new(FALSE, FALSE, sizeof(VialAuditSegment));
	audit->open = g_hash_table_new(g_str_hash, g_str_equal);
	g_queue_init(&audit->waiters);
	audit->database = g_build_filename(config->data_dir, "audit.sqlite", NULL);
	if (!audit->is_on) {
		vial_log_warning("audit", "nothing is recorded: the setting `audit` is off");
		return audit;
	}
	if ((audit->redactor = vial_redactor_new(config->audit_secrets_file, error)) && vial_audit_open_signer(audit, error) &&
	    (audit->places = vial_places_new(config->data_dir, (const char *const *)config->audit_heads_to, error))) {
		if (config->audit_sync)
			audit->sync = vial_audit_sync_new(on_synced, audit);
		if (vial_audit_recover(audit, calls, error))
			return audit;
	}
	vial_audit_close(audit);
	return NULL;
}

void vial_audit_leave(VialAudit *audit)
{
	if (!audit)
		return;
	g_clear_handle_id(&audit->checking, g_source_remove);
	audit->is_leaving = TRUE;
	/* While there are still threads to answer them. */
	vial_audit_drop_waiters(audit);
}

void vial_audit_close(VialAudit *audit)
{
	if (!audit)
		return;
	vial_audit_leave(audit);
	vial_audit_sync_free(audit->sync);
	vial_audit_writer_free(audit->writer);
	vial_audit_db_close(audit->reader);
	vial_places_free(audit->places);
	vial_spool_free(audit->spool);
	vial_redactor_free(audit->redactor);
	vial_ledger_signer_free(audit->signer);
	g_clear_pointer(&audit->keys, g_array_unref);
	g_clear_pointer(&audit->meters, g_hash_table_unref);
	g_hash_table_unref(audit->open); /* what is still under way is told by its note */
	g_array_unref(audit->segments);
	g_clear_error(&audit->failure);
	g_free(audit->complaint);
	g_free(audit->database);
	g_free(audit);
}
