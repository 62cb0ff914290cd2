/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's life: takes the data directory's lock, opens store, keys, engine and templates, adopts the sandboxes
 * that outlived the last viald, listens, and bakes what is not baked. SIGTERM drains and leaves sandboxes running for the
 * next viald; SIGINT (Ctrl-C) drains and ends them, but puts persistent ones to sleep (drain.c). A second signal stops at once.
 */
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "auth/oidc.h"
#include "drain.h"
#include "http/server.h"
#include "net/wall.h"
#include "operations/announced.h"
#include "operations/strangers.h"
#include "operations/uploads.h"
#include "operations/watchers.h"
#include "service/agents.h"
#include "service/app.h"
#include "service/build_files.h"
#include "service/builds.h"
#include "service/manifest.h"
#include "service/meter.h"
#include "service/pool.h"
#include "service/project.h"
#include "service/prune.h"
#include "service/quota.h"
#include "service/sandbox.h"
#include "service/sessions.h"
#include "service/engine_select.h"
#include "service/installation.h"
#include "service/slots.h"
#include "service/snapshot.h"
#include "service/template.h"
#include "service/webhook.h"
#include "surfaces/native/routes.h"
#include "surfaces/shared/surface.h"
#include "surfaces/shared/tables.h"
#include "telemetry/otlp.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"
#include "util/worker.h"

/* How long after a key has ended what it has open is cut. */
#define CUT_MS 250

typedef struct {
	VialApp app;
	VialFront front; /* the surfaces, once it listens */
	const VialSurface *surface;
	gpointer surface_state;
	GMainLoop *loop;
	GPtrArray *records; /* of the sandboxes, until they are adopted */
	guint cutting;      /* connections of those who have ended, in a moment */
	gboolean is_adopting;
	gboolean is_stopping;
	gboolean ends_sandboxes; /* when it stops */
	int exit_status;
} Daemon;

static int complain(const GError *error)
{
	g_printerr("viald: %s\n", error->message);
	return 1;
}

/* A viald that was killed while it started a process has lent that process its lock, for the moment until the process is the other program. */
#define LOCK_TRIES 60
#define LOCK_PAUSE_USEC 50000

static gboolean lock(int fd)
{
	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
		if (i == LOCK_TRIES)
			return FALSE;
		g_usleep(LOCK_PAUSE_USEC);
	}
	return TRUE;
}

/* Two daemons on one data directory would each believe to own every sandbox. The lock dies with its holder. */
static int take_lock(const char *data_dir, GError **error)
{
	g_autofree char *path = g_build_filename(data_dir, "viald.lock", NULL);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot open %s: %s", path, g_strerror(errno));
		return -1;
	}
	if (!lock(fd)) {
		close(fd);
		vial_fail(error, VIAL_ERROR_CONFLICT, "another viald already uses %s; stop it, or give this one another data_dir", data_dir);
		return -1;
	}
	return fd;
}

static gboolean make_folders(const VialConfig *config, GError **error)
{
	g_autofree char *sandboxes = g_build_filename(config->data_dir, "sandboxes", NULL);
	const char *const folders[] = { config->data_dir, sandboxes, config->run_dir };

	for (gsize i = 0; i < G_N_ELEMENTS(folders); i++)
		if (g_mkdir_with_parents(folders[i], 0700) < 0)
			return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot make %s: %s", folders[i], g_strerror(errno));
	return TRUE;
}

/* Each sandbox costs viald a few descriptors, each client one. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static gboolean is_empty_file(const char *path)
{
	struct stat info;

	return stat(path, &info) < 0 || info.st_size == 0;
}

static gboolean is_empty_folder(const char *path)
{
	g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);

	return !dir || !g_dir_read_name(dir);
}

/* Beside a database that has just been made, everything would be nobody's and be swept away. */
static gboolean check_database(const char *data_dir, const char *database, GError **error)
{
	static const char *const folders[] = { "sandboxes", "hibernated", "snapshots", "layers" };
	g_autofree char *log = g_strconcat(database, "-wal", NULL);

	if (!is_empty_file(database) || !is_empty_file(log))
		return TRUE;
	for (gsize i = 0; i < G_N_ELEMENTS(folders); i++) {
		g_autofree char *folder = g_build_filename(data_dir, folders[i], NULL);

		if (!is_empty_folder(folder))
			return vial_fail(
				error, VIAL_ERROR_CONFLICT,
				"%s is missing or empty, but %s is not: put the database back from a backup, or remove the folder if what is in "
				"it may be lost",
				database, folder);
	}
	return TRUE;
}

/* First of all, and all of it: whoever cannot read what there is must not touch anything. */
static gboolean read_store(Daemon *daemon, GError **error)
{
	VialApp *app = &daemon->app;
	g_autofree char *database = g_build_filename(app->config->data_dir, "db.sqlite", NULL);

	if (!check_database(app->config->data_dir, database, error))
		return FALSE;
	app->store = vial_store_open(database, error);
	daemon->records = app->store ? vial_store_load_sandboxes(app->store, error) : NULL;
	return daemon->records != NULL;
}

/* What an older version kept of calls becomes the audit's, once. */
static gboolean open_audit(VialApp *app, GError **error)
{
	g_autoptr(GPtrArray) calls = vial_store_load_calls(app->store, error);

	if (!calls)
		return FALSE;
	app->audit = vial_audit_open(app->config, calls, error);
	if (!app->audit)
		return FALSE;
	return calls->len == 0 || !vial_audit_is_on(app->audit) || vial_store_forget_calls(app->store, error);
}

static gboolean open_governance(VialApp *app, GError **error)
{
	g_autoptr(GError) problem = NULL;

	app->keys = vial_keys_open(app->store, app->config->data_dir, error);
	if (!app->keys || !open_audit(app, error) || !vial_projects_load(app, error) || !(app->quota_book = vial_quota_book_load(app, error)) ||
	    !(app->agents = vial_agents_load(app, error)))
		return FALSE;
	app->meter = vial_meter_new(app);
	app->strangers = vial_strangers_new(app);
	app->announced = vial_announced_new();
	app->uploads = vial_uploads_new();
	app->watchers = vial_watchers_new();
	app->otlp = vial_otlp_new(app->config, &problem);
	if (!problem)
		app->oidc = vial_oidc_new(app->config, &problem);
	if (!problem)
		app->webhook = vial_webhook_new(app->config, &problem);
	if (!problem)
		return TRUE;
	g_propagate_error(error, g_steal_pointer(&problem));
	return FALSE;
}

static gboolean open_parts(Daemon *daemon, GError **error)
{
	VialApp *app = &daemon->app;
	g_autofree char *tag = vial_installation_tag(app->config);

	if (!read_store(daemon, error) || !open_governance(app, error))
		return FALSE;
	app->engine = vial_engine_select(app->config, tag, (char **)&app->engine_reason, error);
	if (!app->engine)
		return FALSE;
	app->engine_warning = app->engine->ops->warning ? app->engine->ops->warning(app->engine) : NULL;
	app->manifests = vial_manifests_open(app->config->data_dir, app->engine->ops->name, app->engine->ops->version(app->engine), error);
	if (!app->manifests)
		return FALSE;
	app->slots = vial_slots_new(app->config, error);
	if (!app->slots)
		return FALSE;
	app->templates = vial_templates_load(app, error);
	if (!app->templates)
		return FALSE;
	app->snapshots = vial_snapshots_load(app, error);
	if (!app->snapshots)
		return FALSE;
	app->custom_templates = vial_custom_templates_load(app, error);
	if (!app->custom_templates)
		return FALSE;
	app->build_files = vial_build_files_load(app);
	app->builds = vial_builds_load(app, error);
	if (!app->builds)
		return FALSE;
	app->sandboxes = vial_sandboxes_new(app);
	return TRUE;
}

static void close_parts(Daemon *daemon)
{
	VialApp *app = &daemon->app;

	g_clear_handle_id(&daemon->cutting, g_source_remove);
	if (daemon->surface_state)
		daemon->surface->stop(daemon->surface_state);
	g_clear_pointer(&daemon->front.server, vial_server_free);
	vial_watchers_free(g_steal_pointer(&app->watchers));
	/*
	 * What is being swept up gives its network slot back when that is done, and a boot that was under way may still ask for one: the slots stay
	 * until the last job is over, but closed.
	 */
	vial_audit_leave(app->audit);
	vial_worker_settle();
	vial_slots_close(app->slots);
	vial_worker_shutdown();
	vial_slots_free(app->slots);
	vial_wall_leave();
	vial_pool_free(app->pool);
	vial_meter_free(app->meter);
	vial_sandboxes_free(app->sandboxes);
	vial_agents_free(app->agents);
	vial_build_files_free(app->build_files);
	vial_builds_free(app->builds);
	vial_custom_templates_free(app->custom_templates);
	vial_snapshots_free(app->snapshots);
	vial_templates_free(app->templates);
	vial_manifests_free(app->manifests);
	vial_engine_free(app->engine);
	vial_oidc_free(app->oidc);
	vial_webhook_free(app->webhook);
	vial_strangers_free(app->strangers);
	vial_announced_free(app->announced);
	vial_uploads_free(app->uploads);
	vial_keys_free(app->keys);
	vial_quota_book_free(app->quota_book);
	vial_projects_free(app->projects);
	vial_otlp_free(app->otlp);
	vial_audit_close(app->audit);
	vial_store_close(app->store);
	g_clear_pointer(&daemon->records, g_ptr_array_unref);
	g_free((char *)app->engine_reason);
}

static void quit(Daemon *daemon, int status)
{
	daemon->exit_status = status;
	g_main_loop_quit(daemon->loop);
}

/* Starting */

/* How whoever reads our greeting can call the client: by its name, or where it lies beside us; NULL if it does neither. */
static char *client_command(void)
{
	g_autofree char *installed = g_find_program_in_path("vial");
	g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
	g_autofree char *folder = self ? g_path_get_dirname(self) : NULL;
	char *beside = folder ? g_build_filename(folder, "vial", NULL) : NULL;

	if (!installed && beside && g_file_test(beside, G_FILE_TEST_IS_EXECUTABLE))
		return beside;
	g_free(beside);
	return installed ? g_strdup("vial") : NULL;
}

static void on_baked(guint failures, const char *problem, gpointer data)
{
	Daemon *daemon = data;
	const char *url = vial_server_url(daemon->front.server);
	g_autofree char *client = client_command();

	daemon->app.pool = vial_pool_new(&daemon->app);
	vial_templates_watch(&daemon->app);
	vial_images_prune(&daemon->app);
	vial_builds_resume(&daemon->app);
	vial_build_files_start(&daemon->app);
	vial_custom_templates_start(&daemon->app);
	g_print("\nVial is ready at %s  (engine: %s)\n", url, daemon->app.engine_reason);
	if (daemon->app.engine_warning)
		g_print("  note: %s (docs/gvisor.md)\n", daemon->app.engine_warning);
	g_print("  the key is in %s\n", vial_keys_admin_file(daemon->app.keys));
	g_print("  try:  curl -s -H \"Authorization: Bearer $(cat %s)\" -d '{}' %s/v1/sandboxes\n", vial_keys_admin_file(daemon->app.keys), url);
	if (client)
		g_print("  or:   %s run -  <<< 'print(6 * 7)'\n", client);
}

static gboolean cut_ended(gpointer data)
{
	Daemon *daemon = data;

	daemon->cutting = 0;
	if (daemon->front.server)
		vial_server_cut_ended(daemon->front.server);
	return G_SOURCE_REMOVE;
}

/* Soon, not now: whoever revokes his own key is still told so. */
static void on_key_ended(gpointer data)
{
	Daemon *daemon = data;

	if (!daemon->cutting)
		daemon->cutting = g_timeout_add(CUT_MS, cut_ended, daemon);
}

/* With audit_sync no answer leaves before its record is on the disk. */
static guint64 uncommitted(gpointer data)
{
	return vial_audit_uncommitted(data);
}

static void on_committed(guint64 seq, gboolean has_failed, gpointer data)
{
	Daemon *daemon = data;

	if (!daemon->front.server)
		return;
	if (has_failed)
		vial_server_commit_failed(daemon->front.server);
	else
		vial_server_committed(daemon->front.server, seq);
}

static gboolean start_server(Daemon *daemon, GError **error)
{
	VialApp *app = &daemon->app;
	const VialConfig *config = app->config;
	VialServerConfig server = {
		.listen = config->listen,
		.allow_public = config->allow_public,
		.tls_cert_file = *config->tls_cert ? config->tls_cert : NULL,
		.tls_key_file = *config->tls_key ? config->tls_key : NULL,
		.authenticate = vial_surface_authenticate,
		.auth_data = &daemon->front,
		.uncommitted = config->audit && config->audit_sync ? uncommitted : NULL,
		.commit_data = app->audit,
		.host_route = &vial_host_route,
		.preview_domain = config->preview_domain,
		.host_names = (const char *const *)config->host_names,
		.allowed_origins = (const char *const *)config->cors_origins,
	};

	daemon->front.app = app;
	vial_audit_on_committed(app->audit, on_committed, daemon);
	vial_keys_on_ended(app->keys, on_key_ended, daemon);
	if (app->oidc)
		vial_oidc_on_ended(app->oidc, on_key_ended, daemon);
	daemon->front.server = vial_server_new(&server, vial_surface_tables, &daemon->front, error);
	return daemon->front.server != NULL;
}

static void on_drained(gboolean is_complete, gpointer data);

static void on_adopted(guint adopted, guint reaped, gpointer data)
{
	Daemon *daemon = data;
	g_autoptr(GError) error = NULL;

	daemon->is_adopting = FALSE;
	if (adopted + reaped > 0)
		g_print("  %u sandboxes adopted, %u reaped\n", adopted, reaped);
	if (daemon->is_stopping)
		return vial_drain(&daemon->app, daemon->front.server, daemon->ends_sandboxes, on_drained, daemon);
	vial_sessions_adopted(&daemon->app);
	if (!start_server(daemon, &error) ||
	    (daemon->surface && !(daemon->surface_state = daemon->surface->start(&daemon->app, daemon->surface->data, &error)))) {
		quit(daemon, complain(error));
		return;
	}
	vial_projects_resume(&daemon->app);
	vial_agents_resume(&daemon->app);
	vial_templates_bake(&daemon->app, on_baked, daemon);
}

/* From the loop, so that whatever fails can stop it. */
static gboolean on_start(gpointer data)
{
	Daemon *daemon = data;

	vial_sandboxes_adopt(&daemon->app, daemon->records, on_adopted, daemon);
	g_clear_pointer(&daemon->records, g_ptr_array_unref);
	return G_SOURCE_REMOVE;
}

/* Stopping */

/*
 * Frees nothing and runs nothing more: what is under way in the loop and on other threads still points to every part. It is kill -9 by our own hand,
 * and the next viald adopts, sweeps and finishes as after any crash.
 */
static void quit_at_once(void)
{
	vial_log_warning("main", "stopping at once; what is under way is left for the next viald");
	fflush(NULL);
	_exit(1);
}

static void on_drained(gboolean is_complete, gpointer data)
{
	if (!is_complete)
		quit_at_once();
	quit(data, 0);
}

static void stop(Daemon *daemon, gboolean ends_sandboxes)
{
	if (daemon->is_stopping)
		quit_at_once(); /* asked twice */
	daemon->is_stopping = TRUE;
	daemon->ends_sandboxes = ends_sandboxes;
	if (!daemon->is_adopting) /* else on_adopted() goes on: half of them belong to nobody yet */
		vial_drain(&daemon->app, daemon->front.server, ends_sandboxes, on_drained, daemon);
}

static gboolean on_sigterm(gpointer data)
{
	vial_log_info("main", "draining; sandboxes stay for the next viald");
	stop(data, FALSE);
	return G_SOURCE_CONTINUE;
}

static gboolean on_sigint(gpointer data)
{
	g_print("\nStopping: waiting for requests, then ending the sandboxes. Ctrl-C again to stop at once.\n");
	stop(data, TRUE);
	return G_SOURCE_CONTINUE;
}

int vial_daemon_run(const VialConfig *config, const VialSurface *surface)
{
	Daemon daemon = { .app = { .config = config, .started_ms = vial_time_monotonic_ms() }, .surface = surface, .is_adopting = TRUE };
	g_autoptr(GError) error = NULL;
	vial_autofd int lock = -1;

	if (geteuid() != 0) {
		g_printerr("viald: run me as root: sandboxes need namespaces and cgroups\n");
		return 1;
	}
	signal(SIGPIPE, SIG_IGN);
	raise_descriptor_limit();
	if (!make_folders(config, &error) || (lock = take_lock(config->data_dir, &error)) < 0)
		return complain(error);
	daemon.loop = g_main_loop_new(NULL, FALSE);
	if (open_parts(&daemon, &error)) {
		g_unix_signal_add(SIGTERM, on_sigterm, &daemon);
		g_unix_signal_add(SIGINT, on_sigint, &daemon);
		g_unix_signal_add(SIGHUP, on_sigterm, &daemon); /* its terminal went away */
		g_idle_add(on_start, &daemon);
		g_main_loop_run(daemon.loop);
	} else {
		daemon.exit_status = complain(error);
	}
	close_parts(&daemon);
	g_main_loop_unref(daemon.loop);
	return daemon.exit_status;
}
