/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host processes, whatever the engine: spawn one and wait for its "ready", connect to its socket, or adopt one that
 * outlived the last viald. The first frame on the socket is its state; then the instance is handed out.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/engine.h"
#include "util/fault.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"
#include "util/worker.h"

#define SOCKET_NAME "shim.sock"
#define READY_TIMEOUT_MS 10000
/* runsc's commands move the whole memory of a sandbox to or from disk. */
#define VERB_TIMEOUT_MS 120000

struct VialInstance {
	VialEngine *engine;
	char *id;
	char *dir;
	VialChannel *channel;
	char *state;
	VialInstanceEvents events;
	gpointer data;
	gboolean has_ended;
	/* until it is handed out */
	VialInstanceReady ready;
	gpointer ready_data;
	guint ready_timer;
	guint ready_watch;
	int ready_fd;
	GError *prepare_error;
	VialLaunch launch; /* with copies of the strings */
};

static void launch_clear(VialLaunch *launch)
{
	g_free((char *)launch->id);
	g_free((char *)launch->dir);
	g_free((char *)launch->rootfs);
	g_free((char *)launch->runtime_dir);
	g_free((char *)launch->netns);
	*launch = (VialLaunch){ 0 };
}

void vial_instance_free(VialInstance *instance)
{
	if (!instance)
		return;
	g_clear_handle_id(&instance->ready_timer, g_source_remove);
	g_clear_handle_id(&instance->ready_watch, g_source_remove);
	if (instance->ready_fd >= 0)
		close(instance->ready_fd);
	vial_channel_free(instance->channel);
	launch_clear(&instance->launch);
	g_clear_error(&instance->prepare_error);
	g_free(instance->id);
	g_free(instance->dir);
	g_free(instance->state);
	g_free(instance);
}

static VialInstance *instance_new(VialEngine *engine, const char *id, const char *dir, VialInstanceReady ready, gpointer data)
{
	VialInstance *instance = g_new0(VialInstance, 1);

	instance->engine = engine;
	instance->id = g_strdup(id);
	instance->dir = g_strdup(dir);
	instance->ready = ready;
	instance->ready_data = data;
	instance->ready_fd = -1;
	return instance;
}

/* Ends the waiting, one way or the other. On failure the instance is freed here. */
static void hand_out(VialInstance *instance, VialErrorCode code, const char *problem)
{
	VialInstanceReady ready = instance->ready;
	g_autoptr(GError) error = problem ? g_error_new_literal(VIAL_ERROR, code, problem) : NULL;

	g_clear_handle_id(&instance->ready_timer, g_source_remove);
	g_clear_handle_id(&instance->ready_watch, g_source_remove);
	instance->ready = NULL;
	ready(problem ? NULL : instance, error, instance->ready_data);
	if (problem)
		vial_instance_free(instance);
}

static void end(VialInstance *instance, const char *reason)
{
	if (instance->ready)
		return hand_out(instance, VIAL_ERROR_UNAVAILABLE, reason);
	if (instance->has_ended)
		return;
	instance->has_ended = TRUE;
	if (instance->events.ended)
		instance->events.ended(instance, reason, instance->data);
}

static void on_host_event(VialChannel *channel, json_t *message, gpointer data)
{
	VialInstance *instance = data;
	const char *state = json_string_value(json_object_get(message, "state"));

	if (!state)
		return;
	g_free(instance->state);
	instance->state = g_strdup(state);
	if (strcmp(state, "exited") == 0)
		end(instance, "the sandbox process ended");
	else if (instance->ready)
		hand_out(instance, 0, NULL);
}

static void on_closed(VialChannel *channel, const GError *error, gpointer data)
{
	end(data, error->message);
}

static void on_hello(VialChannel *channel, json_t *message, gpointer data)
{
	VialInstance *instance = data;

	if (instance->events.hello)
		instance->events.hello(instance, message, instance->data);
}

static void on_frozen(VialChannel *channel, gpointer data)
{
	VialInstance *instance = data;

	if (instance->events.frozen)
		instance->events.frozen(instance, instance->data);
}

/* The folder's path may be longer than sun_path, so the socket is reached through a descriptor of the folder. */
static int connect_socket(const char *dir, GError **error)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	vial_autofd int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	vial_autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" SOCKET_NAME, dir_fd);
	if (dir_fd < 0 || fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "the sandbox's host process does not answer: %s", g_strerror(errno));
		return -1;
	}
	return vial_fd_steal(&fd);
}

static gboolean attach(VialInstance *instance, GError **error)
{
	static const VialChannelEvents events = {
		.hello = on_hello, .frozen = on_frozen, .host_event = on_host_event, .closed = on_closed,
	};
	int fd = connect_socket(instance->dir, error);

	if (fd < 0)
		return FALSE;
	instance->channel = vial_channel_new(fd, &events, instance);
	return TRUE;
}

static gboolean on_ready_timeout(gpointer data)
{
	VialInstance *instance = data;

	instance->ready_timer = 0;
	hand_out(instance, VIAL_ERROR_TIMEOUT, "the sandbox's host process did not get ready in time");
	return G_SOURCE_REMOVE;
}

static gboolean on_ready_readable(int fd, GIOCondition condition, gpointer data)
{
	VialInstance *instance = data;
	g_autoptr(GError) error = NULL;
	char text[16] = "";

	instance->ready_watch = 0;
	if (read(fd, text, sizeof text - 1) <= 0 || !g_str_has_prefix(text, "ready"))
		hand_out(instance, VIAL_ERROR_INTERNAL, "the sandbox's host process could not start; its folder has its log");
	else if (!attach(instance, &error))
		hand_out(instance, VIAL_ERROR_UNAVAILABLE, error->message);
	return G_SOURCE_REMOVE;
}

static void on_host_exit(GPid pid, int status, gpointer data)
{
	g_spawn_close_pid(pid); /* the socket tells us of the end; here the zombie is only buried */
}

static gboolean spawn_host(VialInstance *instance, GError **error)
{
	const char *program = instance->engine->ops->host_program(instance->engine);
	char *arguments[] = { (char *)program, instance->dir, NULL };
	char *environment[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	g_autofree char *log_path = g_build_filename(instance->dir, "host.log", NULL);
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, pipe_default;
	int ready[2], result;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot make a pipe: %s", g_strerror(errno));
	sigemptyset(&none);
	sigemptyset(&pipe_default);
	sigaddset(&pipe_default, SIGPIPE);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &pipe_default);
	/* A session of its own: Ctrl-C in viald's terminal must not reach sandboxes. */
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, ready[1], 1);
	posix_spawn_file_actions_addopen(&actions, 2, log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	result = posix_spawn(&pid, program, &actions, &attributes, arguments, environment);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	close(ready[1]);
	if (result != 0) {
		close(ready[0]);
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot start %s: %s", program, g_strerror(result));
	}
	g_child_watch_add(pid, on_host_exit, NULL);
	vial_fault("engine.spawned");
	if (instance->engine->ops->joined && !instance->engine->ops->joined(instance->engine, instance->id, instance->dir, pid, error)) {
		kill(pid, SIGKILL);
		close(ready[0]);
		return FALSE;
	}
	instance->ready_fd = ready[0];
	instance->ready_watch = g_unix_fd_add(ready[0], G_IO_IN | G_IO_HUP, on_ready_readable, instance);
	instance->ready_timer = vial_time_add_verdict(READY_TIMEOUT_MS, on_ready_timeout, instance);
	return TRUE;
}

static void prepare_work(gpointer data)
{
	VialInstance *instance = data;

	instance->engine->ops->prepare(instance->engine, &instance->launch, &instance->prepare_error);
}

static void prepare_done(gpointer data)
{
	VialInstance *instance = data;
	g_autoptr(GError) error = g_steal_pointer(&instance->prepare_error);

	if (error || !spawn_host(instance, &error))
		hand_out(instance, error->code, error->message);
}

void vial_instance_launch(VialEngine *engine, const VialLaunch *launch, VialInstanceReady ready, gpointer data)
{
	VialInstance *instance = instance_new(engine, launch->id, launch->dir, ready, data);

	instance->launch = *launch;
	instance->launch.id = g_strdup(launch->id);
	instance->launch.dir = g_strdup(launch->dir);
	instance->launch.rootfs = g_strdup(launch->rootfs);
	instance->launch.runtime_dir = g_strdup(launch->runtime_dir);
	instance->launch.netns = g_strdup(launch->netns);
	vial_worker_run(prepare_work, prepare_done, instance);
}

static gboolean adopt_failed(gpointer data)
{
	hand_out(data, VIAL_ERROR_UNAVAILABLE, "the sandbox's host process is gone");
	return G_SOURCE_REMOVE;
}

void vial_instance_adopt(VialEngine *engine, const char *id, const char *dir, VialInstanceReady ready, gpointer data)
{
	VialInstance *instance = instance_new(engine, id, dir, ready, data);

	if (attach(instance, NULL))
		instance->ready_timer = vial_time_add_verdict(READY_TIMEOUT_MS, on_ready_timeout, instance);
	else
		g_idle_add(adopt_failed, instance);
}

void vial_instance_set_events(VialInstance *instance, const VialInstanceEvents *events, gpointer data)
{
	instance->events = *events;
	instance->data = data;
}

VialChannel *vial_instance_channel(VialInstance *instance)
{
	return instance->channel;
}

const char *vial_instance_state(const VialInstance *instance)
{
	return instance->state;
}

/* What could not even be asked fails as an answer would: later, from the loop. */
typedef struct {
	GError *error;
	VialCallDone done;
	gpointer data;
} Refusal;

static gboolean refuse(gpointer data)
{
	Refusal *refusal = data;

	if (refusal->done)
		refusal->done(NULL, refusal->error, refusal->data);
	g_error_free(refusal->error);
	g_free(refusal);
	return G_SOURCE_REMOVE;
}

static void refuse_later(GError *error, VialCallDone done, gpointer data)
{
	Refusal *refusal = g_new0(Refusal, 1);

	*refusal = (Refusal){ error, done, data };
	g_idle_add(refuse, refusal);
}

/* Consumes request and fds. */
static void verb_with(VialInstance *instance, json_t *request, GArray *fds, VialCallDone done, gpointer data)
{
	const VialEngineOps *ops = instance->engine->ops;
	const char *name = json_string_value(json_object_get(request, "op"));
	GError *error = NULL;

	if (ops->complete && !ops->complete(instance->engine, instance->dir, name, request, fds, &error)) {
		json_decref(request);
		g_array_unref(fds);
		return refuse_later(error, done, data);
	}
	vial_channel_host_call(instance->channel, request, fds, vial_time_patience_ms(VERB_TIMEOUT_MS), done, data);
}

static void verb(VialInstance *instance, json_t *request, VialCallDone done, gpointer data)
{
	verb_with(instance, request, vial_fds_new(), done, data);
}

void vial_instance_create(VialInstance *instance, VialCallDone done, gpointer data)
{
	verb(instance, json_pack("{s:s}", "op", "create"), done, data);
}

void vial_instance_start(VialInstance *instance, const char *image, int tap_fd, gboolean records_hot, VialCallDone done, gpointer data)
{
	json_t *request = json_pack("{s:s, s:s*}", "op", "start", "image", image);
	GArray *fds = vial_fds_new();

	if (tap_fd >= 0)
		g_array_append_val(fds, tap_fd);
	if (records_hot)
		json_object_set_new(request, "record_hot", json_true());
	verb_with(instance, request, fds, done, data);
}

void vial_instance_record_hot(VialInstance *instance, const char *image, VialCallDone done, gpointer data)
{
	verb(instance, json_pack("{s:s, s:s}", "op", "hotset", "image", image), done, data);
}

void vial_instance_checkpoint(VialInstance *instance, const char *image, gboolean leave_running, VialCallDone done, gpointer data)
{
	verb(instance, json_pack("{s:s, s:s, s:b}", "op", "checkpoint", "image", image, "leave_running", leave_running), done, data);
}

void vial_instance_pause(VialInstance *instance, VialCallDone done, gpointer data)
{
	verb(instance, json_pack("{s:s}", "op", "pause"), done, data);
}

void vial_instance_resume(VialInstance *instance, VialCallDone done, gpointer data)
{
	verb(instance, json_pack("{s:s}", "op", "resume"), done, data);
}

void vial_instance_stop(VialInstance *instance)
{
	verb(instance, json_pack("{s:s}", "op", "stop"), NULL, NULL);
}

/* Forking */

typedef struct {
	VialEngine *engine;
	GPtrArray *ids;
	GPtrArray *dirs;
	VialCallDone done;
	gpointer data;
} Forking;

/* A child that cannot be put into its place is not told here: nobody will reach it, and its boot says so. */
static void on_forked(json_t *result, const GError *error, gpointer data)
{
	Forking *forking = data;
	json_t *pids = json_object_get(result, "pids");
	size_t index;
	json_t *pid;

	vial_fault("engine.forked");
	json_array_foreach (pids, index, pid) {
		g_autoptr(GError) problem = NULL;
		const char *id = index < forking->ids->len ? forking->ids->pdata[index] : NULL;

		if (id && forking->engine->ops->joined &&
		    !forking->engine->ops->joined(forking->engine, id, forking->dirs->pdata[index], (pid_t)json_integer_value(pid), &problem)) {
			vial_log_warning("engine", "a fork could not be put into its place", "host_id", id, "error", problem->message);
			kill((pid_t)json_integer_value(pid), SIGKILL);
		}
	}
	forking->done(result, error, forking->data);
	g_ptr_array_unref(forking->ids);
	g_ptr_array_unref(forking->dirs);
	g_free(forking);
}

void vial_instance_fork(VialInstance *instance, VialForkChild *children, guint n_children, VialCallDone done, gpointer data)
{
	const VialEngineOps *ops = instance->engine->ops;
	json_t *request = json_pack("{s:s, s:I}", "op", "fork", "count", (json_int_t)n_children);
	g_autoptr(GArray) of_children = vial_fds_new();
	GArray *fds = vial_fds_new();
	Forking *forking;
	GError *error = NULL;

	for (guint i = 0; i < n_children; i++) {
		int tap_fd = vial_fd_steal(&children[i].tap_fd);

		if (error && tap_fd >= 0)
			close(tap_fd);
		else if (!error)
			ops->add_child(instance->engine, children[i].dir, tap_fd, of_children, &error);
	}
	if (error || !ops->complete(instance->engine, instance->dir, "fork", request, fds, &error)) {
		json_decref(request);
		g_array_unref(fds);
		return refuse_later(error, done, data);
	}
	g_array_append_vals(fds, of_children->data, of_children->len);
	g_array_set_clear_func(of_children, NULL); /* they are in `fds` now */
	forking = g_new0(Forking, 1);
	forking->engine = instance->engine;
	forking->ids = g_ptr_array_new_with_free_func(g_free);
	forking->dirs = g_ptr_array_new_with_free_func(g_free);
	forking->done = done;
	forking->data = data;
	for (guint i = 0; i < n_children; i++) {
		g_ptr_array_add(forking->ids, g_strdup(children[i].id));
		g_ptr_array_add(forking->dirs, g_strdup(children[i].dir));
	}
	vial_channel_host_call(instance->channel, request, fds, vial_time_patience_ms(VERB_TIMEOUT_MS), on_forked, forking);
}

gboolean vial_engine_fits(const VialEngine *engine, const VialLimits *saved, const VialLimits *wanted)
{
	return !engine->ops->fits || engine->ops->fits(saved, wanted);
}

void vial_engine_free(VialEngine *engine)
{
	if (engine)
		engine->ops->free(engine);
}
