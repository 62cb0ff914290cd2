/* SPDX-License-Identifier: Apache-2.0 */
#include "util/worker.h"

/* Enough that one slow disk operation does not hold up the others; more only adds contention for the same disk. */
#define WORKER_THREADS 4

typedef struct {
	VialWorkFunc work;
	VialWorkFunc done;
	gpointer data;
} Job;

static GThreadPool *pool;
static GMutex pool_lock;

static gboolean
run_on_main(gpointer pointer)
{
	Job *job = pointer;

	job->done(job->data);
	return G_SOURCE_REMOVE;
}

/* Not g_main_context_invoke(): while nobody runs the loop yet, that would run `done` on the calling thread. */
static void
post_to_main(Job *job)
{
	GSource *source = g_idle_source_new();

	g_source_set_priority(source, G_PRIORITY_DEFAULT);
	g_source_set_callback(source, run_on_main, job, g_free);
	g_source_attach(source, NULL);
	g_source_unref(source);
}

static void
run_on_worker(gpointer pointer, gpointer unused)
{
	Job *job = pointer;

	job->work(job->data);
	if (job->done)
		post_to_main(job);
	else
		g_free(job);
}

void
vial_worker_run(VialWorkFunc work, VialWorkFunc done, gpointer data)
{
	Job *job = g_new(Job, 1);

	*job = (Job){ .work = work, .done = done, .data = data };
	g_mutex_lock(&pool_lock);
	if (!pool)
		pool = g_thread_pool_new(run_on_worker, NULL, WORKER_THREADS, FALSE, NULL);
	/* A thread that could not be started leaves the job in the queue for the others; GLib reports it, nothing is lost. */
	g_thread_pool_push(pool, job, NULL);
	g_mutex_unlock(&pool_lock);
}

void
vial_main_loop_call(VialWorkFunc func, gpointer data)
{
	Job *job = g_new(Job, 1);

	*job = (Job){ .done = func, .data = data };
	post_to_main(job);
}

void
vial_worker_shutdown(void)
{
	g_mutex_lock(&pool_lock);
	GThreadPool *old = g_steal_pointer(&pool);
	g_mutex_unlock(&pool_lock);
	if (old)
		g_thread_pool_free(old, FALSE, TRUE);
}
