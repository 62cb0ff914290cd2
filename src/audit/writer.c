/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/writer.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/error.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"
#include "util/worker.h"

#define GATHER_US (100 * 1000)
#define MAX_BATCH 2000
#define RETRY_US G_USEC_PER_SEC
#define RETENTION_INTERVAL_US ((gint64)3600 * G_USEC_PER_SEC)
#define RETENTION_FIRST_US (10 * G_USEC_PER_SEC)
#define RETENTION_BATCH 250
#define RETENTION_PAUSE_US (50 * 1000)
#define DAY_MS ((gint64)24 * 3600 * 1000)
#define NEVER G_MAXINT64

/* One of the two. */
typedef struct {
	VialAuditItem record;
	VialCharges *charges;
} Job;

struct VialAuditWriter {
	VialAuditWriterSpec spec;
	char *chain;
	GThread *thread;
	GMutex lock;
	GCond has_work;
	/* under the lock */
	GQueue jobs;
	gint64 first_us; /* when the first of them came */
	gboolean is_hurried, must_sign, is_stopping;
	json_t *held;
	/* the thread's */
	gint64 last_seq, last_charge;
	VialLedgerHash last;
	gint64 signed_seq, unsigned_records, unsigned_since_us;
	gint64 retention_us;   /* when it is next looked at */
	char *forgotten_until; /* in this sweep */
	guint forgotten;
	enum { MERGE_NOT, MERGE_FIRST, MERGE_REST } merging;
	gboolean has_failed;
};

static void job_free(gpointer data)
{
	Job *job = data;

	g_free(job->record.header);
	g_free(job->record.body);
	vial_charges_free(job->charges);
	g_free(job);
}

/* What the main loop is told */

typedef struct {
	VialAuditWriter *writer; /* a reference: it may be gone when the loop comes to it */
	VialAuditWritten written;
	GError *error;
} Word;

static void clear(gpointer data)
{
	VialAuditWriter *writer = data;

	g_queue_clear_full(&writer->jobs, job_free);
	json_decref(writer->held);
	g_mutex_clear(&writer->lock);
	g_cond_clear(&writer->has_work);
	g_free(writer->chain);
	g_free(writer->forgotten_until);
}

static void tell(gpointer data)
{
	Word *word = data;

	if (word->writer->spec.committed)
		word->writer->spec.committed(&word->written, word->error, word->writer->spec.data);
	g_atomic_rc_box_release_full(word->writer, clear);
	g_clear_error(&word->error);
	g_free(word);
}

static void tell_main(VialAuditWriter *writer, gboolean forgot, GError *error)
{
	Word *word = g_new0(Word, 1);

	*word = (Word){ g_atomic_rc_box_acquire(writer),
		        { writer->last_seq, writer->unsigned_records > 0 ? writer->signed_seq : writer->last_seq, writer->last_charge, forgot },
		        error };
	vial_main_loop_call(tell, word);
}

/* Heads */

static gboolean is_head_due(const VialAuditWriter *writer, gint64 now_us)
{
	return writer->unsigned_records > 0 && (writer->unsigned_records >= writer->spec.head_records ||
	                                        now_us - writer->unsigned_since_us >= writer->spec.head_seconds * G_USEC_PER_SEC);
}

/* What the transaction ends with: signed in any case, so that nobody can add to the database or take from its end while we are away. */
static gboolean sign_tip(VialAuditWriter *writer, gboolean is_head, VialLedgerHead *out, GError **error)
{
	*out = (VialLedgerHead){ .seq = writer->last_seq, .hash = writer->last, .time_ms = vial_time_now_ms() };
	g_strlcpy(out->chain, writer->chain, sizeof(out->chain));
	return vial_ledger_sign(writer->spec.signer, out, error) && vial_audit_db_set_tip(writer->spec.db, out, error) &&
	       (!is_head || vial_audit_db_add_head(writer->spec.db, out, error));
}

/* Batches */

static gboolean write_job(VialAuditWriter *writer, const Job *job, gint64 *records, GError **error)
{
	const VialAuditItem *item = &job->record;
	VialLedgerRecord record = { .seq = item->seq,
		                    .header = item->header,
		                    .header_size = item->header_size,
		                    .body = item->body,
		                    .body_size = item->body_size,
		                    .hash = item->hash };
	gboolean is_new;

	if (job->charges) {
		writer->last_charge = vial_charges_number(job->charges);
		return vial_charges_write(job->charges, writer->spec.db, error);
	}
	if (!vial_audit_db_add(writer->spec.db, &record, &is_new, error))
		return FALSE;
	*records += is_new;
	/* After a crash the spool gives again what the database has; a damaged one may even give less. */
	if (item->seq > writer->last_seq) {
		writer->last_seq = item->seq;
		writer->last = item->hash;
	}
	return TRUE;
}

/* All of it, or nothing: then the thread's state is as it was. */
static gboolean write_batch(VialAuditWriter *writer, GPtrArray *batch, gboolean must_sign, GError **error)
{
	gint64 last_seq = writer->last_seq, last_charge = writer->last_charge, records = 0, unsigned_records = writer->unsigned_records,
	       now_us = g_get_monotonic_time();
	VialLedgerHash last = writer->last;
	VialLedgerHead head;
	gboolean is_done = vial_audit_db_begin(writer->spec.db, error), is_signed = FALSE;

	for (guint i = 0; is_done && i < batch->len; i++)
		is_done = write_job(writer, batch->pdata[i], &records, error);
	if (records > 0 && writer->unsigned_records == 0)
		writer->unsigned_since_us = now_us;
	writer->unsigned_records += records;
	is_signed = is_head_due(writer, now_us) || (must_sign && writer->unsigned_records > 0);
	if (is_done && (records > 0 || is_signed))
		is_done = sign_tip(writer, is_signed, &head, error);
	if (is_done && vial_audit_db_commit(writer->spec.db, error)) {
		if (is_signed) {
			writer->unsigned_records = 0;
			writer->signed_seq = head.seq;
			vial_places_publish(writer->spec.places, &head);
		}
		return TRUE;
	}
	vial_audit_db_rollback(writer->spec.db);
	writer->last_seq = last_seq;
	writer->last_charge = last_charge;
	writer->last = last;
	writer->unsigned_records = unsigned_records;
	return FALSE;
}

/* Retention */

static gboolean forget_some(VialAuditWriter *writer, json_t *held, GError **error)
{
	char before[VIAL_TIME_TEXT_SIZE];
	guint count = 0;
	gint64 now_us = g_get_monotonic_time();

	vial_time_fill(before, vial_time_now_ms() - writer->spec.retention_days * DAY_MS);
	if (!vial_audit_db_begin(writer->spec.db, error) ||
	    !vial_audit_db_forget_bodies(writer->spec.db, &writer->forgotten_until, before, held, RETENTION_BATCH, &count, error) ||
	    !vial_audit_db_commit(writer->spec.db, error)) {
		vial_audit_db_rollback(writer->spec.db);
		writer->retention_us = now_us + RETENTION_INTERVAL_US;
		return FALSE;
	}
	writer->forgotten += count;
	writer->retention_us = now_us + (count == RETENTION_BATCH ? RETENTION_PAUSE_US : RETENTION_INTERVAL_US);
	if (count == RETENTION_BATCH)
		return TRUE;
	g_clear_pointer(&writer->forgotten_until, g_free);
	if (writer->forgotten > 0) {
		g_autofree char *text = g_strdup_printf("%u", writer->forgotten);

		vial_log_info("audit", "bodies of records older than audit_retention_days were removed; their hashes stay", "count", text);
		writer->forgotten = 0;
		writer->merging = MERGE_FIRST;
		writer->retention_us = now_us + RETENTION_PAUSE_US;
	}
	return TRUE;
}

/* The words of what was forgotten go, too. */
static gboolean merge_some(VialAuditWriter *writer, GError **error)
{
	gboolean is_over = FALSE, is_done = vial_audit_db_begin(writer->spec.db, error) &&
	                                    vial_audit_db_merge_words(writer->spec.db, writer->merging == MERGE_FIRST, &is_over, error) &&
	                                    vial_audit_db_commit(writer->spec.db, error);

	if (!is_done)
		vial_audit_db_rollback(writer->spec.db);
	writer->merging = is_done && !is_over ? MERGE_REST : MERGE_NOT;
	writer->retention_us = g_get_monotonic_time() + (writer->merging ? RETENTION_PAUSE_US : RETENTION_INTERVAL_US);
	if (is_done && is_over)
		tell_main(writer, TRUE, NULL);
	return is_done && (!is_over || vial_audit_db_checkpoint(writer->spec.db, error));
}

static gboolean forget(VialAuditWriter *writer, json_t *held, GError **error)
{
	return writer->merging ? merge_some(writer, error) : forget_some(writer, held, error);
}

/* The thread */

/* When there is something to do, if nothing more comes. With the lock. */
static gint64 next_us(const VialAuditWriter *writer, gint64 now_us)
{
	gint64 due_us = writer->retention_us;

	if (writer->jobs.length > 0)
		due_us = MIN(due_us, writer->is_hurried || writer->is_stopping ? now_us : writer->first_us + GATHER_US);
	if (writer->must_sign || writer->is_stopping)
		due_us = now_us;
	if (writer->unsigned_records > 0)
		due_us = MIN(due_us, writer->unsigned_since_us + writer->spec.head_seconds * G_USEC_PER_SEC);
	return due_us;
}

static void wait_for_work(VialAuditWriter *writer)
{
	gint64 now_us = g_get_monotonic_time(), due_us;

	while ((due_us = next_us(writer, now_us)) > now_us && writer->jobs.length < MAX_BATCH) {
		if (due_us == NEVER)
			g_cond_wait(&writer->has_work, &writer->lock);
		else
			g_cond_wait_until(&writer->has_work, &writer->lock, due_us);
		now_us = g_get_monotonic_time();
	}
}

static GPtrArray *take_batch(VialAuditWriter *writer)
{
	GPtrArray *batch = g_ptr_array_new_with_free_func(job_free);

	while (batch->len < MAX_BATCH && writer->jobs.length > 0)
		g_ptr_array_add(batch, g_queue_pop_head(&writer->jobs));
	if (writer->jobs.length == 0)
		writer->is_hurried = FALSE;
	return batch;
}

static void give_back(VialAuditWriter *writer, GPtrArray *batch)
{
	g_ptr_array_set_free_func(batch, NULL);
	for (guint i = batch->len; i > 0; i--)
		g_queue_push_head(&writer->jobs, batch->pdata[i - 1]);
}

/* The disk may have room again; whoever hurries must not make us spin. */
static void wait_for_better_times(VialAuditWriter *writer)
{
	gint64 until_us = g_get_monotonic_time() + RETRY_US;

	while (!writer->is_stopping && g_cond_wait_until(&writer->has_work, &writer->lock, until_us))
		;
}

static void report(VialAuditWriter *writer, GError *error)
{
	if (error && !writer->has_failed)
		vial_log_error("audit",
		               "records could not be written to the database; they stay in the spool, and code is refused until it works again",
		               "error", error->message);
	else if (!error && writer->has_failed)
		vial_log_info("audit", "records are written to the database again");
	writer->has_failed = error != NULL;
	tell_main(writer, FALSE, error);
}

static gpointer write_records(gpointer data)
{
	VialAuditWriter *writer = data;
	gboolean is_over = FALSE;

	/* What nobody waits for takes no processor from what somebody does. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
	g_mutex_lock(&writer->lock);
	while (!is_over) {
		g_autoptr(GError) error = NULL;
		g_autoptr(GPtrArray) batch = NULL;
		g_autoptr(json_t) held = NULL;
		gboolean must_sign, is_written, is_stopping;

		wait_for_work(writer);
		is_stopping = writer->is_stopping;
		batch = take_batch(writer);
		must_sign = writer->must_sign || (is_stopping && writer->jobs.length == 0);
		writer->must_sign = FALSE;
		held = json_incref(writer->held);
		g_mutex_unlock(&writer->lock);
		is_written = (batch->len == 0 && !must_sign && !is_head_due(writer, g_get_monotonic_time())) ||
		             write_batch(writer, batch, must_sign, &error);
		if (batch->len > 0 || must_sign || !is_written)
			report(writer, error ? g_error_copy(error) : NULL);
		if (is_written && !is_stopping && g_get_monotonic_time() >= writer->retention_us && !forget(writer, held, &error))
			vial_log_warning("audit", "old bodies could not be removed", "error", error->message);
		g_mutex_lock(&writer->lock);
		if (!is_written)
			give_back(writer, batch);
		/* What cannot be written now is in the spool, for the next viald. */
		is_over = is_stopping && (!is_written || writer->jobs.length == 0);
		if (!is_written && !is_over)
			wait_for_better_times(writer);
	}
	g_mutex_unlock(&writer->lock);
	return NULL;
}

/* From the main thread */

VialAuditWriter *vial_audit_writer_new(const VialAuditWriterSpec *spec)
{
	VialAuditWriter *writer = g_atomic_rc_box_new0(VialAuditWriter);
	gint64 now_us = g_get_monotonic_time();

	writer->spec = *spec;
	writer->chain = g_strdup(spec->chain);
	g_mutex_init(&writer->lock);
	g_cond_init(&writer->has_work);
	g_queue_init(&writer->jobs);
	writer->held = json_array();
	writer->last_seq = spec->last_seq;
	writer->last = spec->last;
	writer->unsigned_records = spec->unsigned_records;
	writer->unsigned_since_us = now_us;
	writer->retention_us = spec->retention_days > 0 ? now_us + RETENTION_FIRST_US : NEVER;
	writer->thread = g_thread_new("audit", write_records, writer);
	return writer;
}

void vial_audit_writer_free(VialAuditWriter *writer)
{
	if (!writer)
		return;
	g_mutex_lock(&writer->lock);
	writer->is_stopping = TRUE;
	g_cond_signal(&writer->has_work);
	g_mutex_unlock(&writer->lock);
	g_thread_join(writer->thread);
	writer->spec.committed = NULL;
	vial_audit_db_close(writer->spec.db);
	g_atomic_rc_box_release_full(writer, clear);
}

static void push(VialAuditWriter *writer, const Job *job)
{
	g_mutex_lock(&writer->lock);
	if (writer->jobs.length == 0) {
		writer->first_us = g_get_monotonic_time();
		g_cond_signal(&writer->has_work); /* it waits for something later */
	}
	g_queue_push_tail(&writer->jobs, g_memdup2(job, sizeof(*job)));
	g_mutex_unlock(&writer->lock);
}

void vial_audit_writer_push(VialAuditWriter *writer, VialAuditItem *item)
{
	push(writer, &(Job){ .record = *item });
}

void vial_audit_writer_charge(VialAuditWriter *writer, VialCharges *charges)
{
	push(writer, &(Job){ .charges = charges });
}

void vial_audit_writer_hurry(VialAuditWriter *writer)
{
	g_mutex_lock(&writer->lock);
	writer->is_hurried = TRUE;
	g_cond_signal(&writer->has_work);
	g_mutex_unlock(&writer->lock);
}

void vial_audit_writer_sign(VialAuditWriter *writer)
{
	g_mutex_lock(&writer->lock);
	writer->must_sign = writer->is_hurried = TRUE;
	g_cond_signal(&writer->has_work);
	g_mutex_unlock(&writer->lock);
}

void vial_audit_writer_hold(VialAuditWriter *writer, json_t *projects)
{
	g_mutex_lock(&writer->lock);
	json_decref(writer->held);
	writer->held = projects;
	g_mutex_unlock(&writer->lock);
}
