/* SPDX-License-Identifier: Apache-2.0 */
#include "service/call_log.h"

#include "util/log.h"
#include "util/time.h"

#define DAY_MS (24 * 3600 * (gint64)1000)
/* A transaction of so many takes some milliseconds; whoever stores something meanwhile waits for one of them at most. */
#define BATCH 250
#define PAUSE_MS 50

struct VialCallLog {
	VialStore *store;
	gint64 days;
	guint interval_ms;
	guint timer;
	guint forgotten; /* in this round */
};

static gboolean on_due(gpointer data);

static void on_pruned(guint pruned, const GError *error, gpointer data)
{
	VialCallLog *log = data;

	log->forgotten += pruned;
	if (error)
		vial_log_warning("calls", "old calls could not be forgotten", "error", error->message);
	if (pruned == BATCH) {
		log->timer = g_timeout_add(PAUSE_MS, on_due, log);
		return;
	}
	if (log->forgotten > 0) {
		g_autofree char *count = g_strdup_printf("%u", log->forgotten);

		vial_log_info("calls", "forgot calls older than call_log_days", "count", count);
	}
	log->forgotten = 0;
	log->timer = g_timeout_add(log->interval_ms, on_due, log);
}

static gboolean on_due(gpointer data)
{
	VialCallLog *log = data;

	log->timer = 0;
	vial_store_prune_calls(log->store, vial_time_now_ms() - log->days * DAY_MS, BATCH, on_pruned, log);
	return G_SOURCE_REMOVE;
}

VialCallLog *vial_call_log_new(VialStore *store, gint64 days, guint interval_ms)
{
	VialCallLog *log = g_new0(VialCallLog, 1);

	*log = (VialCallLog){ .store = store, .days = days, .interval_ms = interval_ms };
	if (days > 0)
		on_due(log);
	return log;
}

void vial_call_log_free(VialCallLog *log)
{
	if (!log)
		return;
	g_clear_handle_id(&log->timer, g_source_remove);
	g_free(log);
}
