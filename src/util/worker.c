/* SPDX-License-Identifier: Apache-2.0 */
#include "util/worker.h"

#include "util/log.h"
#include "util/time.h"

/*
 * Enough that one slow job does not hold up its like; more only adds contention for the same disk. Those who wait for others take no processor, so
 * there may be more of them.
 */
static const int lane_threads[VIAL_LANE_COUNT] = {
	[VIAL_LANE_BULK] = 4, [VIAL_LANE_BOOT] = 4, [VIAL_LANE_WAIT] = 8, [VIAL_LANE_LIMIT] = 2, [VIAL_LANE_NET] = 1, [VIAL_LANE_QUERY] = 1,
};

typedef struct {
	VialWorkFunc work;
	VialWorkFunc done;
	gpointer data;
} Job;

/*
 * At exit: jobs may submit jobs, and one that never ends must not keep the daemon. Counted from the last one that ended: on a machine with much else
 * to do, sweeping up after twenty sandboxes takes longer than after one, and whoever is given up leaves groups and namespaces to the next viald.
 */
#define STUCK_MS 10000

static GThreadPool *lanes[VIAL_LANE_COUNT];
static GMutex lanes_lock;
static gint outstanding; /* submitted, and its `done` not yet over */

static gboolean run_on_main(gpointer pointer)
{
	Job *job = pointer;

	job->done(job->data);
	if (job->work)
		g_atomic_int_dec_and_test(&outstanding);
	return G_SOURCE_REMOVE;
}

/* Not g_main_context_invoke(): while nobody runs the loop yet, that would run `done` on the calling thread. */
static void post_to_main(Job *job)
{
	GSource *source = g_idle_source_new();

	g_source_set_priority(source, G_PRIORITY_DEFAULT);
	g_source_set_callback(source, run_on_main, job, g_free);
	g_source_attach(source, NULL);
	g_source_unref(source);
}

static void run_on_worker(gpointer pointer, gpointer unused)
{
	Job *job = pointer;

	job->work(job->data);
	if (job->done) {
		post_to_main(job);
		return;
	}
	g_free(job);
	g_atomic_int_dec_and_test(&outstanding);
}

void vial_worker_run_in(VialLane lane, VialWorkFunc work, VialWorkFunc done, gpointer data)
{
	Job *job = g_new(Job, 1);

	*job = (Job){ .work = work, .done = done, .data = data };
	g_atomic_int_inc(&outstanding);
	g_mutex_lock(&lanes_lock);
	if (!lanes[lane])
		lanes[lane] = g_thread_pool_new(run_on_worker, NULL, lane_threads[lane], FALSE, NULL);
	/* A thread that could not be started leaves the job in the queue for the others; GLib reports it, nothing is lost. */
	g_thread_pool_push(lanes[lane], job, NULL);
	g_mutex_unlock(&lanes_lock);
}

void vial_worker_run(VialWorkFunc work, VialWorkFunc done, gpointer data)
{
	vial_worker_run_in(VIAL_LANE_BULK, work, done, data);
}

void vial_main_loop_call(VialWorkFunc func, gpointer data)
{
	Job *job = g_new(Job, 1);

	*job = (Job){ .done = func, .data = data };
	post_to_main(job);
}

void vial_worker_settle(void)
{
	const gint64 patience_us = (gint64)vial_time_scaled_ms(STUCK_MS) * 1000;
	gint64 end_us = g_get_monotonic_time() + patience_us;
	gint left, before = 0;

	while ((left = g_atomic_int_get(&outstanding)) && g_get_monotonic_time() < end_us) {
		if (left != before)
			end_us = g_get_monotonic_time() + patience_us;
		before = left;
		if (!g_main_context_iteration(NULL, FALSE))
			g_usleep(1000);
	}
	if (left) {
		g_autofree char *jobs = g_strdup_printf("%d", left);

		vial_log_warning("worker", "work that does not end is left to the next viald", "jobs", jobs);
	}
}

void vial_worker_shutdown(void)
{
	vial_worker_settle();
	for (int lane = 0; lane < VIAL_LANE_COUNT; lane++) {
		GThreadPool *old;

		g_mutex_lock(&lanes_lock);
		old = g_steal_pointer(&lanes[lane]);
		g_mutex_unlock(&lanes_lock);
		if (old)
			g_thread_pool_free(old, FALSE, TRUE);
	}
}
