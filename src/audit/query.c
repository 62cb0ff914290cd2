/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/query.h"

#include <string.h>

#include "audit/query_private.h"
#include "util/error.h"
#include "util/json.h"
#include "util/worker.h"

/* A page ends early when its records are large. */
#define PAGE_BYTES (4 * 1024 * 1024)

/* Waiting for the database */

typedef struct {
	gint64 seq, charge;
	gboolean is_signed;
	VialAuditReady ready;
	gpointer data;
} Waiter;

static gboolean is_there(const VialAudit *audit, const Waiter *waiter)
{
	return audit->in_database >= waiter->seq && audit->charge_in_database >= waiter->charge &&
	       (!waiter->is_signed || audit->signed_through >= waiter->seq);
}

static GError *leaving_error(void)
{
	return g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "this Vial is shutting down");
}

void vial_audit_wait(VialAudit *audit, gboolean is_signed, VialAuditReady ready, gpointer data)
{
	Waiter waiter = { audit->seq, audit->charge, is_signed, ready, data };

	if (is_there(audit, &waiter))
		return ready(NULL, data);
	/* While nothing gets there, and when nobody will be left to say so, what is there is told at once. */
	if (audit->failure || audit->is_leaving) {
		g_autoptr(GError) error = audit->failure ? g_error_copy(audit->failure) : leaving_error();

		return ready(error, data);
	}
	g_queue_push_tail(&audit->waiters, g_memdup2(&waiter, sizeof(waiter)));
	if (is_signed)
		vial_audit_writer_sign(audit->writer);
	else
		vial_audit_writer_hurry(audit->writer);
}

void vial_audit_settle_waiters(VialAudit *audit, const GError *error)
{
	GQueue waiting = audit->waiters;
	Waiter *waiter;
	gboolean must_sign = FALSE;

	g_queue_init(&audit->waiters);
	while ((waiter = g_queue_pop_head(&waiting))) {
		if (error || is_there(audit, waiter)) {
			waiter->ready(error, waiter->data);
			g_free(waiter);
		} else {
			must_sign |= waiter->is_signed && audit->in_database >= waiter->seq;
			g_queue_push_tail(&audit->waiters, waiter);
		}
	}
	if (must_sign)
		vial_audit_writer_sign(audit->writer);
}

void vial_audit_drop_waiters(VialAudit *audit)
{
	g_autoptr(GError) error = leaving_error();

	vial_audit_settle_waiters(audit, error);
}

VialAuditDb *vial_audit_reader(VialAudit *audit, GError **error)
{
	if (!audit->reader)
		audit->reader = vial_audit_db_open(audit->database, TRUE, error);
	return audit->reader;
}

/* Questions in general */

typedef struct Question Question;
struct Question {
	VialAudit *audit;
	json_t *(*answer)(Question *question, VialAuditDb *db, GError **error); /* in the query lane */
	json_t *document;
	GError *error;
	VialAuditAnswer done;
	gpointer data;
	/* what is asked */
	VialAuditFilter *filter;
	VialUsageQuestion usage;
	gint64 seq;
	guint limit;
};

static void question_free(Question *question)
{
	json_decref(question->document);
	g_clear_error(&question->error);
	vial_audit_filter_free(question->filter);
	g_free((char *)question->usage.project);
	g_free((char *)question->usage.from);
	g_free((char *)question->usage.to);
	g_free(question);
}

static void answer_work(gpointer data)
{
	Question *question = data;
	VialAuditDb *db = vial_audit_reader(question->audit, &question->error);

	if (db)
		question->document = question->answer(question, db, &question->error);
}

static void answer_done(gpointer data)
{
	Question *question = data;

	question->done(question->error ? NULL : question->document, question->error, question->data);
	question_free(question);
}

/* What could not be written yet is missing from the answer; what is there is better than nothing. */
static void on_ready(const GError *error, gpointer data)
{
	vial_worker_run_in(VIAL_LANE_QUERY, answer_work, answer_done, data);
}

typedef struct {
	VialAuditAnswer done;
	gpointer data;
} Off;

static void tell_off(gpointer data)
{
	g_autofree Off *off = data;
	g_autoptr(GError) error = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "nothing is recorded here: the setting `audit` is off");

	off->done(NULL, error, off->data);
}

/* Later, as every answer: whoever asks need not be ready for one at once. */
gboolean vial_audit_refuse_when_off(VialAudit *audit, VialAuditAnswer done, gpointer data)
{
	Off *off;

	if (audit->is_on)
		return FALSE;
	off = g_new0(Off, 1);
	*off = (Off){ done, data };
	vial_main_loop_call(tell_off, off);
	return TRUE;
}

static void ask(Question question)
{
	if (!vial_audit_refuse_when_off(question.audit, question.done, question.data))
		vial_audit_wait(question.audit, FALSE, on_ready, g_memdup2(&question, sizeof(question)));
	else
		vial_audit_filter_free(question.filter);
}

/* Records */

VialAuditFilter *vial_audit_filter_copy(const VialAuditFilter *filter)
{
	VialAuditFilter *copy = g_memdup2(filter, sizeof(*filter));

	copy->project = g_strdup(filter->project);
	copy->from = g_strdup(filter->from);
	copy->to = g_strdup(filter->to);
	copy->principal = g_strdup(filter->principal);
	copy->agent = g_strdup(filter->agent);
	copy->session = g_strdup(filter->session);
	copy->sandbox = g_strdup(filter->sandbox);
	copy->action = g_strdup(filter->action);
	copy->trace_id = g_strdup(filter->trace_id);
	copy->text = g_strdup(filter->text);
	return copy;
}

void vial_audit_filter_free(VialAuditFilter *filter)
{
	if (!filter)
		return;
	const char *const texts[] = { filter->project, filter->from,    filter->to,     filter->principal, filter->agent,
		                      filter->session, filter->sandbox, filter->action, filter->trace_id,  filter->text };
	for (gsize i = 0; i < G_N_ELEMENTS(texts); i++)
		g_free((char *)texts[i]);
	g_free(filter);
}

json_t *vial_audit_record_json(const VialLedgerRecord *record)
{
	char hash[VIAL_LEDGER_HASH_TEXT + 1];
	json_t *json = json_loadb(record->header, record->header_size, 0, NULL);
	json_t *body = record->body ? json_loadb(record->body, record->body_size, 0, NULL) : NULL;

	/* Somebody has changed it so that it is no JSON any more: the check names it, here it is shown for what it is. */
	if (!json_is_object(json)) {
		json_decref(json);
		json = json_pack("{s:I, s:b}", "seq", (json_int_t)record->seq, "damaged", TRUE);
	}
	vial_ledger_hash_write(&record->hash, hash);
	json_object_set_new(json, "body", body ? body : json_null());
	json_object_set_new(json, "hash", json_string(hash));
	return json;
}

typedef struct {
	json_t *items;
	guint limit;
	gsize bytes;
	gint64 next; /* 0: no more */
	gint64 last;
} Page;

static gboolean on_found(const VialLedgerRecord *record, gpointer data)
{
	Page *page = data;

	if (json_array_size(page->items) == page->limit || page->bytes > PAGE_BYTES) {
		page->next = page->last;
		return FALSE;
	}
	json_array_append_new(page->items, vial_audit_record_json(record));
	page->bytes += record->header_size + record->body_size;
	page->last = record->seq;
	return TRUE;
}

static json_t *answer_find(Question *question, VialAuditDb *db, GError **error)
{
	Page page = { .items = json_array(), .limit = question->filter->limit };

	question->filter->limit++; /* one more than is shown: is there another page? */
	if (!vial_audit_db_find(db, question->filter, on_found, &page, error)) {
		json_decref(page.items);
		return NULL;
	}
	return json_pack("{s:o, s:o}", "items", page.items, "next", page.next ? json_integer(page.next) : json_null());
}

void vial_audit_find(VialAudit *audit, const VialAuditFilter *filter, VialAuditAnswer done, gpointer data)
{
	ask((Question){ .audit = audit, .answer = answer_find, .filter = vial_audit_filter_copy(filter), .done = done, .data = data });
}

typedef struct {
	gint64 seq;
	const char *project;
	json_t *record;
} Single;

static gboolean on_single(const VialLedgerRecord *record, gpointer data)
{
	Single *single = data;
	json_t *json;

	if (record->seq != single->seq)
		return FALSE;
	json = vial_audit_record_json(record);
	if (!single->project || g_strcmp0(json_string_value(json_object_get(json, "project")), single->project) == 0)
		single->record = json;
	else
		json_decref(json);
	return FALSE;
}

static json_t *answer_get(Question *question, VialAuditDb *db, GError **error)
{
	Single single = { question->seq, question->filter->project, NULL };

	if (vial_audit_db_walk(db, question->seq, 1, on_single, &single, error) && !single.record)
		vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no record %" G_GINT64_FORMAT, question->seq);
	return single.record;
}

void vial_audit_get(VialAudit *audit, gint64 seq, const char *project, VialAuditAnswer done, gpointer data)
{
	VialAuditFilter filter = { .project = project };

	ask((Question){ .audit = audit, .answer = answer_get, .filter = vial_audit_filter_copy(&filter), .seq = seq, .done = done, .data = data });
}

/* Heads */

static json_t *head_json(const VialLedgerHead *head)
{
	g_autoptr(GString) text = g_string_new(NULL);

	vial_ledger_head_write(head, text);
	return json_loadb(text->str, text->len, 0, NULL);
}

static json_t *answer_heads(Question *question, VialAuditDb *db, GError **error)
{
	g_autoptr(GArray) heads = vial_audit_db_last_heads(db, question->limit, error);
	char key[2 * VIAL_LEDGER_KEY_BYTES + 1];
	json_t *json;

	if (!heads)
		return NULL;
	vial_ledger_key_write(&g_array_index(question->audit->keys, VialLedgerKey, 0), key);
	json = json_pack("{s:s, s:s, s:[], s:I, s:[]}", "chain", question->audit->chain, "public_key", key, "former_keys", "records",
	                 (json_int_t)question->seq, "heads");
	for (guint i = 1; i < question->audit->keys->len; i++) {
		vial_ledger_key_write(&g_array_index(question->audit->keys, VialLedgerKey, i), key);
		json_array_append_new(json_object_get(json, "former_keys"), json_string(key));
	}
	for (guint i = 0; i < heads->len; i++)
		json_array_append_new(json_object_get(json, "heads"), head_json(&g_array_index(heads, VialLedgerHead, i)));
	return json;
}

void vial_audit_heads(VialAudit *audit, guint limit, VialAuditAnswer done, gpointer data)
{
	ask((Question){ .audit = audit, .answer = answer_heads, .limit = limit, .seq = audit->seq, .done = done, .data = data });
}

/* Usage */

static json_t *answer_usage(Question *question, VialAuditDb *db, GError **error)
{
	return vial_usage_read(db, &question->usage, error);
}

void vial_audit_usage(VialAudit *audit, const VialUsageQuestion *usage, VialAuditAnswer done, gpointer data)
{
	Question question = { .audit = audit, .answer = answer_usage, .usage = *usage, .done = done, .data = data };

	if (vial_audit_refuse_when_off(audit, done, data))
		return;
	question.usage.project = g_strdup(usage->project);
	question.usage.from = g_strdup(usage->from);
	question.usage.to = g_strdup(usage->to);
	ask(question);
}
