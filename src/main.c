/* SPDX-License-Identifier: Apache-2.0 */
/*
 * viald: reads its settings, takes the data directory's lock, opens store, keys, engine and templates, adopts the sandboxes
 * that outlived the last viald, listens, and bakes what is not baked. SIGTERM drains and leaves sandboxes running for the
 * next viald; SIGINT (Ctrl-C) drains and ends them, but puts persistent ones to sleep.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/routes.h"
#include "http/server.h"
#include "net/wall.h"
#include "service/app.h"
#include "service/manifest.h"
#include "service/pool.h"
#include "service/prune.h"
#include "service/sandbox.h"
#include "service/select.h"
#include "service/slots.h"
#include "service/snapshot.h"
#include "service/template.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"
#include "util/worker.h"

#define DRAIN_TIMEOUT_MS 10000
#define DRAIN_LOOK_MS 50

typedef struct {
	VialApp app;
	GMainLoop *loop;
	gint64 drain_deadline_ms;
	gboolean ends_sandboxes;
	guint ending;
	int exit_status;
} Daemon;

static int complain(const GError *error)
{
	g_printerr("viald: %s\n", error->message);
	return 1;
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
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
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

static gboolean open_parts(Daemon *daemon, GError **error)
{
	VialApp *app = &daemon->app;
	g_autofree char *database = g_build_filename(app->config->data_dir, "db.sqlite", NULL);
	g_autofree char *tag = vial_installation_tag(app->config);

	app->store = vial_store_open(database, error);
	if (!app->store)
		return FALSE;
	if (!vial_store_interrupt_calls(app->store, vial_time_now_ms(), error))
		return FALSE;
	app->keys = vial_keys_open(app->store, app->config->data_dir, error);
	if (!app->keys)
		return FALSE;
	app->engine = vial_engine_select(app->config, tag, (char **)&app->engine_reason, error);
	if (!app->engine)
		return FALSE;
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
	app->sandboxes = vial_sandboxes_new(app);
	return TRUE;
}

static void close_parts(Daemon *daemon)
{
	VialApp *app = &daemon->app;

	vial_server_free(app->server);
	/* What is being swept up still has its network slot: that is given back when the sweep is done, and must be there then. */
	vial_worker_settle();
	/* Gives the free network slots back, and those still being made, on the workers that the next line waits for. */
	g_clear_pointer(&app->slots, vial_slots_free);
	vial_worker_shutdown();
	vial_wall_leave();
	vial_pool_free(app->pool);
	vial_sandboxes_free(app->sandboxes);
	vial_snapshots_free(app->snapshots);
	vial_templates_free(app->templates);
	vial_manifests_free(app->manifests);
	vial_engine_free(app->engine);
	vial_keys_free(app->keys);
	vial_store_close(app->store);
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

static void on_baked(guint failures, gpointer data)
{
	Daemon *daemon = data;
	const char *url = vial_server_url(daemon->app.server);
	g_autofree char *client = client_command();

	daemon->app.pool = vial_pool_new(&daemon->app);
	vial_templates_watch(&daemon->app);
	vial_images_prune(&daemon->app);
	g_print("\nVial is ready at %s  (engine: %s)\n", url, daemon->app.engine_reason);
	g_print("  the key is in %s\n", vial_keys_admin_file(daemon->app.keys));
	g_print("  try:  curl -s -H \"Authorization: Bearer $(cat %s)\" -d '{}' %s/v1/sandboxes\n", vial_keys_admin_file(daemon->app.keys), url);
	if (client)
		g_print("  or:   %s run -  <<< 'print(6 * 7)'\n", client);
}

static VialIdentity *authenticate(const char *key, gpointer data)
{
	return vial_keys_lookup(data, key);
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
		.authenticate = authenticate,
		.auth_data = app->keys,
		.host_route = &vial_host_route,
		.allowed_origins = (const char *const *)config->cors_origins,
	};

	app->server = vial_server_new(&server, vial_routes, vial_n_routes, app, error);
	return app->server != NULL;
}

static void on_adopted(guint adopted, guint reaped, gpointer data)
{
	Daemon *daemon = data;
	g_autoptr(GError) error = NULL;

	if (adopted + reaped > 0)
		g_print("  %u sandboxes adopted, %u reaped\n", adopted, reaped);
	if (!start_server(daemon, &error)) {
		quit(daemon, complain(error));
		return;
	}
	vial_templates_bake(&daemon->app, on_baked, daemon);
}

/* From the loop, so that whatever fails can stop it. */
static gboolean on_start(gpointer data)
{
	Daemon *daemon = data;

	vial_sandboxes_adopt(&daemon->app, on_adopted, daemon);
	return G_SOURCE_REMOVE;
}

/* Stopping */

static void on_one_ended(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Daemon *daemon = data;

	if (--daemon->ending == 0)
		quit(daemon, 0);
}

static void end_sandboxes(Daemon *daemon)
{
	g_autoptr(GPtrArray) all = vial_sandboxes_all(daemon->app.sandboxes);

	daemon->ending = 1;
	for (guint i = 0; i < all->len; i++) {
		VialSandbox *sandbox = all->pdata[i];

		/* What sleeps takes nothing but disk, and what was to persist is put to sleep; the rest ends. */
		if (sandbox->state == VIAL_STATE_HIBERNATED)
			continue;
		daemon->ending++;
		if (sandbox->persistent)
			vial_sandbox_hibernate(sandbox, on_one_ended, daemon);
		else
			vial_sandbox_delete(sandbox, on_one_ended, daemon);
	}
	on_one_ended(NULL, NULL, daemon);
}

static void on_baking_ended(gpointer data)
{
	Daemon *daemon = data;

	if (daemon->ends_sandboxes)
		end_sandboxes(daemon);
	else
		quit(daemon, 0);
}

static void on_pool_drained(gpointer data)
{
	Daemon *daemon = data;

	vial_templates_end_baking(daemon->app.templates, on_baking_ended, daemon);
}

static gboolean on_drain_look(gpointer data)
{
	Daemon *daemon = data;
	VialServerStats stats = { 0 };

	if (daemon->app.server)
		vial_server_stats(daemon->app.server, &stats);
	if (stats.requests > 0 && vial_time_monotonic_ms() < daemon->drain_deadline_ms)
		return G_SOURCE_CONTINUE;
	if (daemon->app.pool)
		vial_pool_drain(daemon->app.pool, on_pool_drained, daemon);
	else
		on_pool_drained(daemon);
	return G_SOURCE_REMOVE;
}

static void drain(Daemon *daemon, gboolean ends_sandboxes)
{
	if (daemon->app.is_draining) {
		quit(daemon, 1); /* asked twice: now */
		return;
	}
	daemon->app.is_draining = TRUE;
	daemon->ends_sandboxes = ends_sandboxes;
	daemon->drain_deadline_ms = vial_time_monotonic_ms() + DRAIN_TIMEOUT_MS;
	if (daemon->app.server)
		vial_server_quiesce(daemon->app.server);
	g_timeout_add(DRAIN_LOOK_MS, on_drain_look, daemon);
}

static gboolean on_sigterm(gpointer data)
{
	vial_log_info("main", "draining; sandboxes stay for the next viald");
	drain(data, FALSE);
	return G_SOURCE_CONTINUE;
}

static gboolean on_sigint(gpointer data)
{
	g_print("\nStopping: waiting for requests, then ending the sandboxes. Ctrl-C again to stop at once.\n");
	drain(data, TRUE);
	return G_SOURCE_CONTINUE;
}

static int serve(const VialConfig *config)
{
	Daemon daemon = { .app = { .config = config, .started_ms = vial_time_monotonic_ms() } };
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
		/* Before the store's writer starts (an idle source of G_PRIORITY_HIGH): adopting reads the store directly. */
		g_idle_add_full(G_PRIORITY_HIGH - 1, on_start, &daemon, NULL);
		g_main_loop_run(daemon.loop);
	} else {
		daemon.exit_status = complain(error);
	}
	close_parts(&daemon);
	g_main_loop_unref(daemon.loop);
	return daemon.exit_status;
}

static int print_routes(void)
{
	for (gsize i = 0; i < vial_n_routes; i++)
		g_print("%s %s\n", vial_routes[i].flags & VIAL_ROUTE_ANY_METHOD ? "ANY" : vial_routes[i].method, vial_routes[i].pattern);
	return 0;
}

static int print_doctor(const VialConfig *config)
{
	json_t *report = vial_doctor(config);
	char *text = json_dumps(report, JSON_INDENT(2));

	g_print("%s\n", text);
	free(text);
	json_decref(report);
	return 0;
}

int main(int argc, char **argv)
{
	gboolean wants_routes = FALSE, wants_doctor = FALSE, wants_version = FALSE, as_json = FALSE;
	const GOptionEntry extra[] = {
		{ "print-routes", 0, 0, G_OPTION_ARG_NONE, &wants_routes, "list the API's routes and exit", NULL },
		{ "doctor", 0, 0, G_OPTION_ARG_NONE, &wants_doctor, "say as JSON what this host can do and exit", NULL },
		{ "json", 0, 0, G_OPTION_ARG_NONE, &as_json, "with --doctor: JSON, which is its only form", NULL },
		{ "version", 0, 0, G_OPTION_ARG_NONE, &wants_version, "print the version and exit", NULL },
		{ NULL },
	};
	g_autoptr(GError) error = NULL;
	g_autoptr(VialConfig) config = vial_config_load(&argc, &argv, extra, &error);
	VialLogLevel level;

	if (!config)
		return complain(error);
	if (argc > 1) {
		g_printerr("viald: I do not understand \"%s\"; see viald --help\n", argv[1]);
		return 2;
	}
	if (vial_log_level_parse(config->log_level, &level))
		vial_log_setup(level, strcmp(config->log_format, "json") == 0 ? VIAL_LOG_JSON : VIAL_LOG_TEXT);
	setvbuf(stdout, NULL, _IOLBF, 0);
	vial_time_set_scale((guint)config->time_scale);
	if (wants_version) {
		g_print("viald %s\n", VIAL_VERSION);
		return 0;
	}
	if (wants_routes)
		return print_routes();
	if (wants_doctor)
		return print_doctor(config);
	return serve(config);
}
