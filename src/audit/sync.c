/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/sync.h"

#include <errno.h>
#include <unistd.h>

#include "util/fault.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/worker.h"

struct VialAuditSync {
	GThread *thread;
	GMutex lock;
	GCond has_work;
	/* under the lock */
	gint64 asked;
	int next_fd; /* the file has changed; -1: not */
	gboolean is_stopping;
	/* the thread's */
	int fd;
	VialAuditSynced synced;
	gpointer data;
};

typedef struct {
	VialAuditSync *sync;
	gint64 seq;
	gboolean has_failed;
} Word;

static void clear(gpointer data)
{
	VialAuditSync *sync = data;

	vial_fd_clear(&sync->fd);
	vial_fd_clear(&sync->next_fd);
	g_mutex_clear(&sync->lock);
	g_cond_clear(&sync->has_work);
}

static void tell(gpointer data)
{
	g_autofree Word *word = data;

	if (word->sync->synced)
		word->sync->synced(word->seq, word->has_failed, word->sync->data);
	g_atomic_rc_box_release_full(word->sync, clear);
}

static gboolean flush(int fd)
{
	if (!vial_fault("audit.sync") && fdatasync(fd) == 0)
		return TRUE;
	vial_log_error("audit", "records could not be flushed to the disk", "error", g_strerror(errno));
	return FALSE;
}

/* What was written before the file changed is in the old one. */
static gboolean flush_all(VialAuditSync *sync, int next_fd)
{
	gboolean is_flushed = sync->fd < 0 ? next_fd >= 0 : flush(sync->fd);

	if (next_fd < 0)
		return is_flushed;
	vial_fd_clear(&sync->fd);
	sync->fd = next_fd;
	return flush(sync->fd) && is_flushed;
}

static gpointer run(gpointer data)
{
	VialAuditSync *sync = data;
	gint64 flushed = 0;

	g_mutex_lock(&sync->lock);
	while (!sync->is_stopping) {
		gint64 seq = sync->asked;
		int next_fd = vial_fd_steal(&sync->next_fd);

		if (seq == flushed) {
			sync->next_fd = next_fd;
			g_cond_wait(&sync->has_work, &sync->lock);
			continue;
		}
		g_mutex_unlock(&sync->lock);
		Word *word = g_new0(Word, 1);
		*word = (Word){ g_atomic_rc_box_acquire(sync), seq, !flush_all(sync, next_fd) };
		vial_main_loop_call(tell, word);
		flushed = seq;
		g_mutex_lock(&sync->lock);
	}
	g_mutex_unlock(&sync->lock);
	return NULL;
}

VialAuditSync *vial_audit_sync_new(VialAuditSynced synced, gpointer data)
{
	VialAuditSync *sync = g_atomic_rc_box_new0(VialAuditSync);

	sync->synced = synced;
	sync->data = data;
	sync->fd = sync->next_fd = -1;
	g_mutex_init(&sync->lock);
	g_cond_init(&sync->has_work);
	sync->thread = g_thread_new("audit-sync", run, sync);
	return sync;
}

void vial_audit_sync_free(VialAuditSync *sync)
{
	if (!sync)
		return;
	g_mutex_lock(&sync->lock);
	sync->is_stopping = TRUE;
	g_cond_signal(&sync->has_work);
	g_mutex_unlock(&sync->lock);
	g_thread_join(sync->thread);
	sync->synced = NULL;
	g_atomic_rc_box_release_full(sync, clear);
}

void vial_audit_sync_request(VialAuditSync *sync, gint64 seq, int fd)
{
	g_mutex_lock(&sync->lock);
	sync->asked = seq;
	if (fd >= 0) {
		/* Two changes before it came to look: the one in between is full, and no more is written to it. */
		if (sync->next_fd >= 0)
			flush(sync->next_fd);
		vial_fd_clear(&sync->next_fd);
		sync->next_fd = fd;
	}
	g_cond_signal(&sync->has_work);
	g_mutex_unlock(&sync->lock);
}
