/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue, and the thread that empties it. The main thread adds under a lock that nobody holds while anything slow happens; the thread takes a
 * batch out, encodes it, frees its records, and from then on has one text, which it sends until the collector has answered for it. So an outage costs
 * the queue and one request, whatever its length.
 *
 * A batch is sent again when the collector could not be reached or said "later". It is given up when the collector was reached MAX_ATTEMPTS times and
 * would not take it: with back-off that is over five minutes, and it may be the batch that it cannot digest, while the ones behind it wait. A
 * collector that cannot be reached at all is waited for without end; the queue forgets its oldest meanwhile. An answer that got lost means that a
 * batch arrives twice, with the same ids; OTLP leaves that to the receiver.
 */
#include "telemetry/otlp_private.h"

#include "telemetry/otlp_post.h"
#include "telemetry/span_json.h"
#include "util/log.h"

#define BATCH_SPANS 512
/* As records. Escaped in JSON (six bytes for one, at the very worst) this stays well below the 20 MiB that receivers are asked to take. */
#define BATCH_BYTES (1024 * 1024)
#define MAX_ATTEMPTS 16

const VialOtlpTimes vial_otlp_usual_times = {
	.gather_ms = 1000,
	.first_retry_ms = 1000,
	.last_retry_ms = 30000,
	.connect_timeout_ms = 2000,
	.total_timeout_ms = 10000,
	.farewell_ms = 1900, /* of the two seconds that are promised */
	.complaint_ms = 60000,
};

struct VialOtlp {
	VialOtlpTimes times;
	VialOtlpPost *post;
	char *head;
	GThread *thread;

	GMutex lock; /* of all up to the next gap */
	GCond has_changed;
	VialSpanRecord *first, *last;
	guint n_waiting;
	gsize waiting_bytes;
	guint n_sending; /* in the batch that the thread has */
	gboolean is_stopping;
	guint64 exported, dropped, failed_requests;

	gint64 complained_us; /* of the thread alone, as what follows */
	guint64 dropped_told;
	gboolean is_in_trouble; /* and the log says so */
};

/* ---- the queue, under the lock ---- */

static VialSpanRecord *pop(VialOtlp *otlp)
{
	VialSpanRecord *record = otlp->first;

	otlp->first = record->next;
	if (!otlp->first)
		otlp->last = NULL;
	otlp->n_waiting--;
	otlp->waiting_bytes -= record->size_bytes;
	record->next = NULL;
	return record;
}

static void push(VialOtlp *otlp, VialSpanRecord *record)
{
	while (otlp->first &&
	       (otlp->n_waiting + otlp->n_sending >= VIAL_OTLP_QUEUE_SPANS || otlp->waiting_bytes + record->size_bytes > VIAL_OTLP_QUEUE_BYTES)) {
		g_free(pop(otlp));
		otlp->dropped++;
	}
	if (otlp->last)
		otlp->last->next = record;
	else
		otlp->first = record;
	otlp->last = record;
	otlp->n_waiting++;
	otlp->waiting_bytes += record->size_bytes;
}

static gboolean is_full_batch(const VialOtlp *otlp)
{
	return otlp->n_waiting >= BATCH_SPANS || otlp->waiting_bytes >= BATCH_BYTES;
}

static VialSpanRecord *take_batch(VialOtlp *otlp)
{
	VialSpanRecord *batch = NULL, **end = &batch;
	gsize bytes = 0;

	do {
		*end = pop(otlp);
		bytes += (*end)->size_bytes;
		end = &(*end)->next;
		otlp->n_sending++;
	} while (otlp->first && otlp->n_sending < BATCH_SPANS && bytes + otlp->first->size_bytes <= BATCH_BYTES);
	return batch;
}

/* ---- the thread ---- */

/* Waits for a batch. NULL when there is none and will be none. */
static VialSpanRecord *await_batch(VialOtlp *otlp)
{
	VialSpanRecord *batch = NULL;

	g_mutex_lock(&otlp->lock);
	for (;;) {
		if (otlp->first && (otlp->is_stopping || is_full_batch(otlp)))
			break;
		if (otlp->is_stopping)
			break;
		if (!otlp->first)
			g_cond_wait(&otlp->has_changed, &otlp->lock); /* idle is silent */
		else if (!g_cond_wait_until(&otlp->has_changed, &otlp->lock, otlp->first->added_us + (gint64)otlp->times.gather_ms * 1000))
			break;
	}
	if (otlp->first)
		batch = take_batch(otlp);
	g_mutex_unlock(&otlp->lock);
	return batch;
}

/* Until the time is over or we are to stop; TRUE in the latter case. */
static gboolean pause_for(VialOtlp *otlp, guint pause_ms)
{
	gint64 end_us = g_get_monotonic_time() + (gint64)pause_ms * 1000;
	gboolean is_stopping;

	g_mutex_lock(&otlp->lock);
	while (!otlp->is_stopping && g_cond_wait_until(&otlp->has_changed, &otlp->lock, end_us))
		;
	is_stopping = otlp->is_stopping;
	g_mutex_unlock(&otlp->lock);
	return is_stopping;
}

/* At most a line a minute, whatever happens: it says how many were lost since the last one. FALSE: not now. */
static gboolean complain(VialOtlp *otlp, const char *message, const char *reason)
{
	gint64 now_us = g_get_monotonic_time();
	char dropped[24], queued[24];
	VialOtlpStats stats;

	if (otlp->complained_us && now_us - otlp->complained_us < (gint64)otlp->times.complaint_ms * 1000)
		return FALSE;
	vial_otlp_stats(otlp, &stats);
	g_snprintf(dropped, sizeof(dropped), "%" G_GUINT64_FORMAT, stats.dropped - otlp->dropped_told);
	g_snprintf(queued, sizeof(queued), "%u", stats.queued);
	vial_log_warning("telemetry", message, "error", reason, "dropped", dropped, "queued", queued);
	otlp->complained_us = now_us;
	otlp->dropped_told = stats.dropped;
	return TRUE;
}

/* The end of a batch: `n_taken` of it are exported, the rest is dropped. */
static void settle(VialOtlp *otlp, guint n_taken)
{
	g_mutex_lock(&otlp->lock);
	otlp->exported += n_taken;
	otlp->dropped += otlp->n_sending - n_taken;
	otlp->n_sending = 0;
	g_mutex_unlock(&otlp->lock);
}

static void on_taken(VialOtlp *otlp, guint n_spans, guint64 rejected)
{
	VialOtlpStats stats;

	settle(otlp, n_spans - (guint)MIN(rejected, n_spans));
	vial_otlp_stats(otlp, &stats);
	if (otlp->is_in_trouble)
		vial_log_info("telemetry", "traces reach the collector again");
	otlp->is_in_trouble = FALSE;
	if (stats.dropped > otlp->dropped_told)
		complain(otlp, "spans were dropped", rejected > 0 ? "the collector rejected them" : NULL);
}

static void on_not_taken(VialOtlp *otlp, const char *reason)
{
	if (complain(otlp, "traces do not reach the collector", reason))
		otlp->is_in_trouble = TRUE;
}

/* Before the attempt after `n_failures`. The random part keeps several viald from coming back to a collector in step. */
static guint back_off_ms(const VialOtlpTimes *times, guint n_failures)
{
	guint64 base_ms = MIN((guint64)times->first_retry_ms << MIN(n_failures - 1, 16), times->last_retry_ms);

	return (guint)MIN(base_ms + (guint64)g_random_int_range(0, (gint32)base_ms / 4 + 1), times->last_retry_ms);
}

/* Sends until the batch is settled. FALSE when we are to stop and the collector does not take it: nor will it take the next. */
static gboolean deliver(VialOtlp *otlp, const GString *body, guint n_spans)
{
	gboolean is_last = pause_for(otlp, 0);
	guint n_failures = 0, n_attempts = 0;

	for (;;) {
		VialOtlpAnswer answer;

		vial_otlp_post_send(otlp->post, body, &answer);
		if (answer.verdict == VIAL_OTLP_TAKEN) {
			on_taken(otlp, n_spans, answer.rejected);
			return TRUE;
		}
		g_mutex_lock(&otlp->lock);
		otlp->failed_requests++;
		g_mutex_unlock(&otlp->lock);
		n_failures++;
		n_attempts += answer.was_reached;
		if (answer.verdict == VIAL_OTLP_REFUSED || is_last || n_attempts == MAX_ATTEMPTS) {
			settle(otlp, 0);
			on_not_taken(otlp, answer.reason);
			return answer.verdict == VIAL_OTLP_REFUSED || !is_last;
		}
		on_not_taken(otlp, answer.reason);
		is_last = pause_for(otlp, answer.retry_after_ms ? MIN(answer.retry_after_ms, otlp->times.last_retry_ms)
		                                                : back_off_ms(&otlp->times, n_failures));
	}
}

static GString *encode(VialOtlp *otlp, VialSpanRecord *batch, guint *out_n_spans)
{
	GString *body = vial_span_json_encode(otlp->head, batch);

	*out_n_spans = 0;
	while (batch) {
		VialSpanRecord *next = batch->next;
		g_free(batch);
		batch = next;
		(*out_n_spans)++;
	}
	return body;
}

static void abandon(VialOtlp *otlp)
{
	g_mutex_lock(&otlp->lock);
	while (otlp->first) {
		g_free(pop(otlp));
		otlp->dropped++;
	}
	g_mutex_unlock(&otlp->lock);
}

static gpointer run(gpointer data)
{
	VialOtlp *otlp = data;
	gboolean goes_on = TRUE;
	VialSpanRecord *batch;
	guint n_spans;

	while (goes_on && (batch = await_batch(otlp))) {
		g_autoptr(GString) body = encode(otlp, batch, &n_spans);
		goes_on = deliver(otlp, body, n_spans);
	}
	abandon(otlp);
	return NULL;
}

/* ---- the main thread ---- */

VialOtlp *vial_otlp_new_timed(const VialConfig *config, const VialOtlpTimes *times, GError **error)
{
	g_auto(VialOtlpSettings) settings = { 0 };
	g_autofree char *instance_id = NULL;

	if (!config->otlp_endpoint[0])
		return NULL;
	if (!vial_otlp_settings_read(config, &settings, error))
		return NULL;
	VialOtlp *otlp = g_new0(VialOtlp, 1);
	instance_id = g_uuid_string_random(); /* a new one at every start: that is what tells restarts apart */
	otlp->times = *times;
	otlp->head = vial_span_json_head(config->otlp_service_name, instance_id, g_get_host_name());
	otlp->post = vial_otlp_post_new(&settings, times->connect_timeout_ms, times->total_timeout_ms);
	g_mutex_init(&otlp->lock);
	g_cond_init(&otlp->has_changed);
	otlp->thread = g_thread_new("otlp", run, otlp);
	return otlp;
}

VialOtlp *vial_otlp_new(const VialConfig *config, GError **error)
{
	return vial_otlp_new_timed(config, &vial_otlp_usual_times, error);
}

void vial_otlp_free(VialOtlp *otlp)
{
	VialOtlpStats stats;
	char lost[24];

	if (!otlp)
		return;
	vial_otlp_post_end_by(otlp->post, g_get_monotonic_time() + (gint64)otlp->times.farewell_ms * 1000);
	g_mutex_lock(&otlp->lock);
	otlp->is_stopping = TRUE;
	g_mutex_unlock(&otlp->lock);
	g_cond_signal(&otlp->has_changed);
	g_thread_join(otlp->thread);
	vial_otlp_stats(otlp, &stats);
	g_snprintf(lost, sizeof(lost), "%" G_GUINT64_FORMAT, stats.dropped - otlp->dropped_told);
	if (stats.dropped > otlp->dropped_told)
		vial_log_warning("telemetry", "spans were dropped until viald stopped", "dropped", lost);
	vial_otlp_post_free(otlp->post);
	g_cond_clear(&otlp->has_changed);
	g_mutex_clear(&otlp->lock);
	g_free(otlp->head);
	g_free(otlp);
}

void vial_otlp_add(VialOtlp *otlp, const VialSpan *span)
{
	gboolean was_empty, was_full, is_full;

	if (!otlp)
		return;
	VialSpanRecord *record = vial_span_record_new(span);
	record->added_us = g_get_monotonic_time();
	g_mutex_lock(&otlp->lock);
	was_empty = !otlp->first;
	was_full = is_full_batch(otlp);
	push(otlp, record);
	is_full = is_full_batch(otlp);
	g_mutex_unlock(&otlp->lock);
	/* The thread waits for the first of a batch and for its last; in between it need not be woken. */
	if (was_empty || (is_full && !was_full))
		g_cond_signal(&otlp->has_changed);
}

void vial_otlp_stats(const VialOtlp *otlp, VialOtlpStats *out)
{
	*out = (VialOtlpStats){ 0 };
	if (!otlp)
		return;
	g_mutex_lock((GMutex *)&otlp->lock);
	out->exported = otlp->exported;
	out->dropped = otlp->dropped;
	out->failed_requests = otlp->failed_requests;
	out->queued = otlp->n_waiting + otlp->n_sending;
	g_mutex_unlock((GMutex *)&otlp->lock);
}
