/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue in front of the database. One writer thread takes whatever has gathered, runs it as one transaction (a burst of
 * a thousand sandboxes is a few commits, not a thousand), and posts the completions that somebody waits for to the main loop.
 */
#include "store/store.h"

#include "store/record.h"
#include "store/sqlite.h"
#include "util/error.h"
#include "util/log.h"
#include "util/worker.h"

/* Operations in one transaction: bounds how long the first of them waits for the last. */
#define MAX_BATCH 256
/* How long records that nobody waits for may wait for more: a short call's begin and end are one transaction then, and its processor is not taken
 * away in the middle. */
#define GATHER_US 3000

typedef enum {
	JOB_PUT,
	JOB_EXCHANGE, /* puts and deletions, all or none */
	JOB_DELETE,
	JOB_STOP,
} JobVerb;

typedef struct {
	JobVerb verb;
	VialRecordKind kind;
	gpointer record; /* JOB_PUT, JOB_EXCHANGE */
	char *id;        /* JOB_DELETE */
	/* JOB_EXCHANGE */
	VialRecordKind other_kind;
	gpointer other; /* a second record; NULL: none */
	char *gone[2];  /* a sandbox, a snapshot; NULL: none */
	VialStoreDone done;
	gpointer data;
	GError *error;
} Job;

struct VialStore {
	VialSqlite *db; /* the main thread's until the writer starts */
	GThread *writer;
	guint start_id;
	/* Not a GAsyncQueue, which would wake the writer for every record that only has to gather: twice in each call, on the caller's processor. */
	GMutex lock;
	GCond has_work;
	GQueue jobs;      /* under the lock, as what follows */
	gboolean is_idle; /* the writer will not look for more by itself */
};

static void job_free(gpointer pointer)
{
	Job *job = pointer;

	if (job->record)
		vial_record_types[job->kind].free(job->record);
	if (job->other)
		vial_record_types[job->other_kind].free(job->other);
	g_clear_error(&job->error);
	g_free(job->id);
	for (gsize i = 0; i < G_N_ELEMENTS(job->gone); i++)
		g_free(job->gone[i]);
	g_free(job);
}

/* On the main loop. */
static void complete_batch(gpointer pointer)
{
	g_autoptr(GPtrArray) batch = pointer;

	for (guint i = 0; i < batch->len; i++) {
		Job *job = batch->pdata[i];
		if (job->done)
			job->done(job->error, job->data);
		else if (job->error)
			vial_log_error("store", "a record was not stored", "table", vial_record_types[job->kind].table, "error", job->error->message);
	}
}

static gboolean is_awaited(const Job *job)
{
	return job->done || job->error;
}

/* Nobody waits for most records, and waking the main loop for them would cost each call two turns of it. */
static gboolean has_awaited(const GPtrArray *batch)
{
	for (guint i = 0; i < batch->len; i++) {
		if (is_awaited(batch->pdata[i]))
			return TRUE;
	}
	return FALSE;
}

static gboolean exchange(VialSqlite *db, Job *job)
{
	static const VialRecordKind kinds[] = { VIAL_RECORD_SANDBOX, VIAL_RECORD_SNAPSHOT };

	if (!vial_sqlite_put(db, job->kind, job->record, &job->error) ||
	    (job->other && !vial_sqlite_put(db, job->other_kind, job->other, &job->error)))
		return FALSE;
	for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
		if (job->gone[i] && !vial_sqlite_delete(db, kinds[i], job->gone[i], &job->error))
			return FALSE;
	return TRUE;
}

static void run_job(VialSqlite *db, Job *job)
{
	switch (job->verb) {
	case JOB_PUT:
		vial_sqlite_put(db, job->kind, job->record, &job->error);
		break;
	case JOB_EXCHANGE:
		if (vial_sqlite_mark(db, &job->error) && !exchange(db, job))
			vial_sqlite_back_to_mark(db);
		break;
	case JOB_DELETE:
		vial_sqlite_delete(db, job->kind, job->id, &job->error);
		break;
	case JOB_STOP:
		break;
	}
}

static gboolean has_durable(const GPtrArray *batch)
{
	for (guint i = 0; i < batch->len; i++) {
		const Job *job = batch->pdata[i];

		if (job->verb <= JOB_DELETE && vial_record_types[job->kind].is_durable)
			return TRUE;
	}
	return FALSE;
}

static void run_batch(VialSqlite *db, GPtrArray *batch)
{
	g_autoptr(GError) error = NULL;

	if (vial_sqlite_begin(db, has_durable(batch), &error)) {
		/* What came behind a rollback of SQLite's own would be stored all the same, each by itself, and reported as lost. */
		for (guint i = 0; i < batch->len && vial_sqlite_is_open(db); i++)
			run_job(db, batch->pdata[i]);
		vial_sqlite_commit(db, &error);
	}
	for (guint i = 0; error && i < batch->len; i++) {
		Job *job = batch->pdata[i];
		if (!job->error)
			job->error = g_error_copy(error);
	}
}

/* Moves jobs into the batch while there are any and it has room. */
static void take_jobs(VialStore *store, GPtrArray *batch)
{
	while (batch->len < MAX_BATCH && store->jobs.length > 0)
		g_ptr_array_add(batch, g_queue_pop_head(&store->jobs));
}

/* What has come; if nobody waits for it, with what comes in a while. */
static GPtrArray *gather_batch(VialStore *store)
{
	GPtrArray *batch = g_ptr_array_new_with_free_func(job_free);

	g_mutex_lock(&store->lock);
	store->is_idle = TRUE;
	while (store->jobs.length == 0)
		g_cond_wait(&store->has_work, &store->lock);
	store->is_idle = FALSE;
	gint64 until_us = g_get_monotonic_time() + GATHER_US;
	do
		take_jobs(store, batch);
	while (batch->len < MAX_BATCH && !has_awaited(batch) && g_cond_wait_until(&store->has_work, &store->lock, until_us));
	take_jobs(store, batch);
	g_mutex_unlock(&store->lock);
	return batch;
}

static gpointer write_queue(gpointer pointer)
{
	VialStore *store = pointer;
	gboolean is_stopping = FALSE;

	while (!is_stopping) {
		GPtrArray *batch = gather_batch(store);

		is_stopping = ((const Job *)batch->pdata[batch->len - 1])->verb == JOB_STOP;
		run_batch(store->db, batch);
		if (has_awaited(batch))
			vial_main_loop_call(complete_batch, batch);
		else
			g_ptr_array_unref(batch);
	}
	return NULL;
}

VialStore *vial_store_open(const char *path, GError **error)
{
	VialSqlite *db = vial_sqlite_open(path, error);

	if (!db)
		return NULL;
	VialStore *store = g_new0(VialStore, 1);
	store->db = db;
	g_mutex_init(&store->lock);
	g_cond_init(&store->has_work);
	g_queue_init(&store->jobs);
	return store;
}

static gboolean start_writer(gpointer pointer)
{
	VialStore *store = pointer;

	store->start_id = 0;
	store->writer = g_thread_new("store", write_queue, store);
	return G_SOURCE_REMOVE;
}

static void push(VialStore *store, Job job)
{
	gboolean is_idle;

	g_mutex_lock(&store->lock);
	g_queue_push_tail(&store->jobs, g_memdup2(&job, sizeof(job)));
	is_idle = store->is_idle;
	g_mutex_unlock(&store->lock);
	if (is_idle || is_awaited(&job))
		g_cond_signal(&store->has_work);
	/* Started by the main loop, not here: until that runs, everything can still be loaded without a lock. */
	if (!store->writer && !store->start_id)
		store->start_id = g_idle_add_full(G_PRIORITY_HIGH, start_writer, store, NULL);
}

void vial_store_close(VialStore *store)
{
	if (!store)
		return;
	if (store->writer || store->start_id) {
		push(store, (Job){ .verb = JOB_STOP });
		if (store->start_id) {
			g_source_remove(store->start_id);
			start_writer(store);
		}
		g_thread_join(store->writer);
	}
	vial_sqlite_close(store->db);
	g_queue_clear_full(&store->jobs, job_free);
	g_cond_clear(&store->has_work);
	g_mutex_clear(&store->lock);
	g_free(store);
}

static GPtrArray *load(VialStore *store, VialRecordKind kind, GError **error)
{
	g_return_val_if_fail(!store->writer, NULL);
	return vial_sqlite_load(store->db, kind, error);
}

static void put(VialStore *store, VialRecordKind kind, gconstpointer record, VialStoreDone done, gpointer data)
{
	push(store, (Job){
			    .verb = JOB_PUT,
			    .kind = kind,
			    .record = vial_record_copy(&vial_record_types[kind], record),
			    .done = done,
			    .data = data,
		    });
}

static void delete (VialStore *store, VialRecordKind kind, const char *id, VialStoreDone done, gpointer data)
{
	push(store, (Job){ .verb = JOB_DELETE, .kind = kind, .id = g_strdup(id), .done = done, .data = data });
}

GPtrArray *vial_store_load_projects(VialStore *store, GError **error)
{
	return load(store, VIAL_RECORD_PROJECT, error);
}

GPtrArray *vial_store_load_key_uses(VialStore *store, GError **error)
{
	return load(store, VIAL_RECORD_KEY_USE, error);
}

GPtrArray *vial_store_load_creations(VialStore *store, GError **error)
{
	return load(store, VIAL_RECORD_CREATION, error);
}

GPtrArray *vial_store_load_calls(VialStore *store, GError **error)
{
	return load(store, VIAL_RECORD_CALL, error);
}

GPtrArray *vial_store_load_keys(VialStore *store, GError **error)
{
	return load(store, VIAL_RECORD_KEY, error);
}

GPtrArray *vial_store_load_sandboxes(VialStore *store, GError **error)
{
	return load(store, VIAL_RECORD_SANDBOX, error);
}

GPtrArray *vial_store_load_snapshots(VialStore *store, GError **error)
{
	return load(store, VIAL_RECORD_SNAPSHOT, error);
}

GPtrArray *vial_store_load_agents(VialStore *store, GError **error)
{
	return load(store, VIAL_RECORD_AGENT, error);
}

GPtrArray *vial_store_load_agent_versions(VialStore *store, GError **error)
{
	return load(store, VIAL_RECORD_AGENT_VERSION, error);
}

GPtrArray *vial_store_load_templates(VialStore *store, GError **error)
{
	return load(store, VIAL_RECORD_TEMPLATE, error);
}

GPtrArray *vial_store_load_builds(VialStore *store, GError **error)
{
	return load(store, VIAL_RECORD_BUILD, error);
}

gboolean vial_store_forget_calls(VialStore *store, GError **error)
{
	g_return_val_if_fail(!store->writer, FALSE);
	return vial_sqlite_empty(store->db, VIAL_RECORD_CALL, error);
}

void vial_store_put_project(VialStore *store, const VialProjectRecord *record, VialStoreDone done, gpointer data)
{
	put(store, VIAL_RECORD_PROJECT, record, done, data);
}

void vial_store_put_key(VialStore *store, const VialKeyRecord *record, VialStoreDone done, gpointer data)
{
	put(store, VIAL_RECORD_KEY, record, done, data);
}

void vial_store_put_sandbox(VialStore *store, const VialSandboxRecord *record, VialStoreDone done, gpointer data)
{
	put(store, VIAL_RECORD_SANDBOX, record, done, data);
}

void vial_store_exchange_sandbox(VialStore *store, const VialSandboxRecord *record, const char *gone_sandbox, const char *gone_snapshot,
                                 VialStoreDone done, gpointer data)
{
	push(store, (Job){
			    .verb = JOB_EXCHANGE,
			    .kind = VIAL_RECORD_SANDBOX,
			    .record = vial_record_copy(&vial_record_types[VIAL_RECORD_SANDBOX], record),
			    .gone = { g_strdup(gone_sandbox), g_strdup(gone_snapshot) },
			    .done = done,
			    .data = data,
		    });
}

void vial_store_put_agent(VialStore *store, const VialAgentRecord *record, VialStoreDone done, gpointer data)
{
	put(store, VIAL_RECORD_AGENT, record, done, data);
}

void vial_store_put_agent_version(VialStore *store, const VialAgentVersionRecord *record, VialStoreDone done, gpointer data)
{
	put(store, VIAL_RECORD_AGENT_VERSION, record, done, data);
}

void vial_store_put_active_version(VialStore *store, const VialAgentVersionRecord *version, const VialAgentRecord *agent, VialStoreDone done,
                                   gpointer data)
{
	push(store, (Job){
			    .verb = JOB_EXCHANGE,
			    .kind = VIAL_RECORD_AGENT_VERSION,
			    .record = vial_record_copy(&vial_record_types[VIAL_RECORD_AGENT_VERSION], version),
			    .other_kind = VIAL_RECORD_AGENT,
			    .other = vial_record_copy(&vial_record_types[VIAL_RECORD_AGENT], agent),
			    .done = done,
			    .data = data,
		    });
}

void vial_store_put_key_use(VialStore *store, const VialKeyUseRecord *record)
{
	put(store, VIAL_RECORD_KEY_USE, record, NULL, NULL);
}

void vial_store_put_creation(VialStore *store, const VialCreationRecord *record)
{
	put(store, VIAL_RECORD_CREATION, record, NULL, NULL);
}

void vial_store_put_snapshot(VialStore *store, const VialSnapshotRecord *record, VialStoreDone done, gpointer data)
{
	put(store, VIAL_RECORD_SNAPSHOT, record, done, data);
}

void vial_store_put_template(VialStore *store, const VialTemplateRecord *record, VialStoreDone done, gpointer data)
{
	put(store, VIAL_RECORD_TEMPLATE, record, done, data);
}

void vial_store_put_build(VialStore *store, const VialBuildRecord *record, VialStoreDone done, gpointer data)
{
	put(store, VIAL_RECORD_BUILD, record, done, data);
}

void vial_store_delete_key(VialStore *store, const char *id, VialStoreDone done, gpointer data)
{
	delete (store, VIAL_RECORD_KEY, id, done, data);
}

void vial_store_delete_sandbox(VialStore *store, const char *id, VialStoreDone done, gpointer data)
{
	delete (store, VIAL_RECORD_SANDBOX, id, done, data);
}

void vial_store_delete_snapshot(VialStore *store, const char *id, VialStoreDone done, gpointer data)
{
	delete (store, VIAL_RECORD_SNAPSHOT, id, done, data);
}

void vial_store_delete_key_use(VialStore *store, const char *id)
{
	delete (store, VIAL_RECORD_KEY_USE, id, NULL, NULL);
}

void vial_store_delete_creation(VialStore *store, const char *id)
{
	delete (store, VIAL_RECORD_CREATION, id, NULL, NULL);
}

void vial_store_delete_agent(VialStore *store, const char *id, VialStoreDone done, gpointer data)
{
	delete (store, VIAL_RECORD_AGENT, id, done, data);
}

void vial_store_delete_agent_version(VialStore *store, const char *id, VialStoreDone done, gpointer data)
{
	delete (store, VIAL_RECORD_AGENT_VERSION, id, done, data);
}

void vial_store_delete_template(VialStore *store, const char *id, VialStoreDone done, gpointer data)
{
	delete (store, VIAL_RECORD_TEMPLATE, id, done, data);
}

void vial_store_delete_build(VialStore *store, const char *id, VialStoreDone done, gpointer data)
{
	delete (store, VIAL_RECORD_BUILD, id, done, data);
}
