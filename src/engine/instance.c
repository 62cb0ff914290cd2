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
#include "engine/host_process.h"
#include "util/fault.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"
#include "util/worker.h"

#define SOCKET_NAME "shim.sock"
#define READY_TIMEOUT_MS 10000
/* A fork that nobody has reached by then is not going to be. */
#define REACH_MS 120000
/* runsc's commands move the whole memory of a sandbox to or from disk. */
#define VERB_TIMEOUT_MS 120000

/* Where children of one fork come from. Each of them holds a reference until it is in its own place, or is known never to be. */
typedef struct {
	guint refs;
	VialEngine *engine;
	char *parent_id;
	char *parent_dir;
	gboolean has_lost; /* one was not reached: it may still live in its parent's place */
	guint timer;
} Origin;

struct VialInstance {
	VialEngine *engine;
	char *id;
	char *dir;
	VialChannel *channel;
	const char *state; /* static */
	VialInstanceEvents events;
	gpointer data;
	gboolean has_ended;
	guint late_end; /* it ended while nobody listened */
	/* until it is handed out */
	VialInstanceReady ready;
	gpointer ready_data;
	guint ready_timer;
	gboolean was_busy;
	guint ready_watch;
	int ready_fd;
	GError *prepare_error;
	VialLaunch launch; /* with copies of the strings */
	Origin *origin;    /* of a fork that has not said yet who it is */
	/* while a worker puts it into its place nobody may free it */
	gboolean is_joining;
	pid_t joining_pid;
	int host_fd; /* of the process we started; -1 for one we adopted */
	GError *join_error;
	char *end_reason; /* it has ended, and nobody was there to hear it */
};

/* Forks on the way to their own place */

static void origin_unref(Origin *origin, gboolean is_lost)
{
	const VialEngineOps *ops = origin->engine->ops;

	origin->has_lost |= is_lost;
	if (--origin->refs > 0)
		return;
	if (origin->has_lost && ops->adopted)
		ops->adopted(origin->engine, origin->parent_id, origin->parent_dir);
	g_clear_handle_id(&origin->timer, g_source_remove);
	g_free(origin->parent_id);
	g_free(origin->parent_dir);
	g_free(origin);
}

static void origin_lost(gpointer origin)
{
	origin_unref(origin, TRUE);
}

static gboolean is_of(gpointer id, gpointer origin, gpointer wanted)
{
	return origin == wanted;
}

static gboolean on_unreached(gpointer data)
{
	Origin *origin = data;

	origin->timer = 0;
	g_hash_table_foreach_remove(origin->engine->forked, is_of, origin);
	return G_SOURCE_REMOVE;
}

static Origin *origin_new(VialInstance *parent)
{
	Origin *origin = g_new0(Origin, 1);

	origin->refs = 1;
	origin->engine = parent->engine;
	origin->parent_id = g_strdup(parent->id);
	origin->parent_dir = g_strdup(parent->dir);
	if (!parent->engine->forked)
		parent->engine->forked = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, origin_lost);
	return origin;
}

static void origin_add(Origin *origin, const char *child_id)
{
	origin->refs++;
	g_hash_table_replace(origin->engine->forked, g_strdup(child_id), origin);
}

/* NULL: it is no fork. The reference is the caller's. */
static Origin *origin_take(VialEngine *engine, const char *id)
{
	gpointer name, origin;

	if (!engine->forked || !g_hash_table_steal_extended(engine->forked, id, &name, &origin))
		return NULL;
	g_free(name);
	return origin;
}

static void launch_clear(VialLaunch *launch)
{
	g_free((char *)launch->id);
	g_free((char *)launch->dir);
	g_free((char *)launch->rootfs);
	g_free((char *)launch->runtime_dir);
	g_strfreev((char **)launch->layers);
	g_free((char *)launch->netns);
	*launch = (VialLaunch){ 0 };
}

void vial_instance_free(VialInstance *instance)
{
	if (!instance)
		return;
	g_clear_handle_id(&instance->ready_timer, g_source_remove);
	g_clear_handle_id(&instance->ready_watch, g_source_remove);
	g_clear_handle_id(&instance->late_end, g_source_remove);
	vial_fd_clear(&instance->ready_fd);
	vial_fd_clear(&instance->host_fd);
	vial_channel_free(instance->channel);
	g_clear_pointer(&instance->origin, origin_lost);
	launch_clear(&instance->launch);
	g_clear_error(&instance->prepare_error);
	g_clear_error(&instance->join_error);
	g_free(instance->end_reason);
	g_free(instance->id);
	g_free(instance->dir);
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
	instance->host_fd = -1;
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
	/* Whatever it wrote into its record: the process that we started and that is of no use ends. */
	if (problem && instance->host_fd >= 0)
		vial_host_process_end(instance->host_fd);
	ready(problem ? NULL : instance, error, instance->ready_data);
	if (problem)
		vial_instance_free(instance);
}

/* Once: the first listener hears it. */
static void tell_end(VialInstance *instance)
{
	g_autofree char *reason = NULL;

	if (!instance->events.ended)
		return;
	reason = g_steal_pointer(&instance->end_reason);
	instance->events.ended(instance, reason, instance->data);
}

static gboolean on_late_end(gpointer data)
{
	VialInstance *instance = data;

	instance->late_end = 0;
	tell_end(instance);
	return G_SOURCE_REMOVE;
}

static void end(VialInstance *instance, const char *reason)
{
	if (instance->is_joining) {
		if (!instance->end_reason)
			instance->end_reason = g_strdup(reason);
		return;
	}
	if (instance->ready)
		return hand_out(instance, VIAL_ERROR_UNAVAILABLE, reason);
	if (instance->has_ended)
		return;
	instance->has_ended = TRUE;
	instance->end_reason = g_strdup(reason);
	tell_end(instance);
}

/* Its own place: a control group, a record. Blocking on the kernel's locks, so not here. */
static void join_work(gpointer data)
{
	VialInstance *instance = data;
	const Origin *origin = instance->origin;

	instance->engine->ops->joined(instance->engine, instance->id, instance->dir, instance->joining_pid, origin ? origin->parent_id : NULL,
	                              &instance->join_error);
}

static void join(VialInstance *instance, pid_t pid, VialWorkFunc joined)
{
	instance->is_joining = TRUE;
	instance->joining_pid = pid;
	vial_worker_run_in(VIAL_LANE_BOOT, join_work, joined, instance);
}

static void fork_joined(gpointer data)
{
	VialInstance *instance = data;

	instance->is_joining = FALSE;
	if (instance->end_reason)
		return hand_out(instance, VIAL_ERROR_UNAVAILABLE, instance->end_reason);
	if (instance->join_error)
		return hand_out(instance, instance->join_error->code, instance->join_error->message);
	origin_unref(g_steal_pointer(&instance->origin), FALSE);
	hand_out(instance, 0, NULL);
}

void vial_instance_condemn(VialInstance *instance, const char *reason)
{
	if (!instance->has_ended)
		vial_host_note_reason(instance->dir, reason);
}

void vial_instance_give_up(VialInstance *instance, const char *reason)
{
	end(instance, reason);
}

/* Who is at the other end, by the kernel's word: a fork gets its own place now, anybody else must be the one on record. */
static void identify(VialInstance *instance)
{
	pid_t peer = vial_channel_peer(instance->channel);

	g_clear_handle_id(&instance->ready_timer, g_source_remove);
	if (instance->origin && instance->engine->ops->joined)
		join(instance, peer, fork_joined);
	else if (peer == vial_host_process_find(instance->dir))
		hand_out(instance, 0, NULL);
	else
		hand_out(instance, VIAL_ERROR_UNAVAILABLE, "the process that answers for the sandbox is not the one that was started for it");
}

static gboolean on_ready_timeout(gpointer data)
{
	VialInstance *instance = data;

	instance->ready_timer = 0;
	hand_out(instance, VIAL_ERROR_TIMEOUT, "the sandbox's host process did not get ready in time");
	return G_SOURCE_REMOVE;
}

/* The viald before us asked for a checkpoint, say: until it is written the guest stands still, and a HELLO would find nobody. Granted once. */
static void await_last_command(VialInstance *instance)
{
	if (!instance->ready || instance->is_joining || instance->was_busy)
		return;
	instance->was_busy = TRUE;
	g_clear_handle_id(&instance->ready_timer, g_source_remove);
	instance->ready_timer = vial_time_add_deadline(VERB_TIMEOUT_MS, on_ready_timeout, instance);
}

static void on_host_state(VialChannel *channel, const char *state, gpointer data)
{
	VialInstance *instance = data;

	if (strcmp(state, "busy") == 0)
		return await_last_command(instance);
	instance->state = state;
	if (strcmp(state, "exited") == 0)
		end(instance, "the sandbox process ended");
	else if (instance->ready && !instance->is_joining)
		identify(instance);
}

static void on_closed(VialChannel *channel, const GError *error, gpointer data)
{
	VialInstance *instance = data;
	g_autofree char *reason = NULL;

	if (error->code != VIAL_ERROR_GATEWAY)
		return end(instance, error->message);
	reason = g_strconcat(VIAL_REASON_VIOLATION, error->message, NULL);
	vial_host_note_reason(instance->dir, reason);
	end(instance, reason);
}

static void on_hello(VialChannel *channel, const VialAgentHello *hello, gpointer data)
{
	VialInstance *instance = data;

	if (instance->events.hello)
		instance->events.hello(instance, hello, instance->data);
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
	/* Before anybody can write to it, so that even the first bytes come with their writer's number. */
	if (dir_fd < 0 || fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int)) < 0 ||
	    connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "the sandbox's host process does not answer: %s", g_strerror(errno));
		return -1;
	}
	return vial_fd_steal(&fd);
}

static gboolean attach(VialInstance *instance, GError **error)
{
	static const VialChannelEvents events = {
		.hello = on_hello,
		.frozen = on_frozen,
		.host_state = on_host_state,
		.closed = on_closed,
	};
	int fd = connect_socket(instance->dir, error);

	if (fd < 0)
		return FALSE;
	instance->channel = vial_channel_new(fd, &events, instance);
	return TRUE;
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

static void await_ready(VialInstance *instance)
{
	instance->ready_watch = g_unix_fd_add(instance->ready_fd, G_IO_IN | G_IO_HUP, on_ready_readable, instance);
	instance->ready_timer = vial_time_add_deadline(READY_TIMEOUT_MS, on_ready_timeout, instance);
}

/* Nobody has told it yet what to run: it is in its place before anything of a guest is. */
static void host_joined(gpointer data)
{
	VialInstance *instance = data;

	instance->is_joining = FALSE;
	if (!instance->join_error)
		return await_ready(instance);
	hand_out(instance, instance->join_error->code, instance->join_error->message);
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
	instance->host_fd = vial_host_process_open(pid); /* ours, and not waited for before the loop goes on */
	g_child_watch_add(pid, on_host_exit, NULL);
	vial_fault("engine.spawned");
	instance->ready_fd = ready[0];
	if (instance->engine->ops->joined)
		join(instance, pid, host_joined);
	else
		await_ready(instance);
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
	instance->launch.layers = (const char *const *)g_strdupv((char **)launch->layers);
	instance->launch.netns = g_strdup(launch->netns);
	vial_worker_run_in(VIAL_LANE_BOOT, prepare_work, prepare_done, instance);
}

static gboolean adopt_failed(gpointer data)
{
	hand_out(data, VIAL_ERROR_UNAVAILABLE, "the sandbox's host process is gone");
	return G_SOURCE_REMOVE;
}

void vial_instance_adopt(VialEngine *engine, const char *id, const char *dir, VialInstanceReady ready, gpointer data)
{
	VialInstance *instance = instance_new(engine, id, dir, ready, data);

	instance->origin = origin_take(engine, id);
	if (attach(instance, NULL))
		instance->ready_timer = vial_time_add_deadline(READY_TIMEOUT_MS, on_ready_timeout, instance);
	else
		g_idle_add(adopt_failed, instance);
}

void vial_instance_set_events(VialInstance *instance, const VialInstanceEvents *events, gpointer data)
{
	instance->events = *events;
	instance->data = data;
	g_clear_handle_id(&instance->late_end, g_source_remove);
	/* From the loop, as it would have been told. */
	if (instance->has_ended && instance->end_reason && events->ended)
		instance->late_end = g_idle_add_full(G_PRIORITY_DEFAULT, on_late_end, instance, NULL);
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
	vial_channel_host_call(instance->channel, request, fds, vial_time_scaled_ms(VERB_TIMEOUT_MS), done, data);
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
	Origin *origin;
	VialCallDone done;
	gpointer data;
} Forking;

/*
 * What the answer says of the children is not asked for: each is reached through the socket that was made for it, and one that is not there does not
 * answer. After a failure none will be reached, whether the monitor has made some or not.
 */
static void on_forked(json_t *result, const GError *error, gpointer data)
{
	g_autofree Forking *forking = data;
	Origin *origin = forking->origin;

	vial_fault("engine.forked");
	if (error)
		g_hash_table_foreach_remove(origin->engine->forked, is_of, origin);
	else
		origin->timer = g_timeout_add(vial_time_scaled_ms(REACH_MS), on_unreached, origin);
	forking->done(error ? NULL : result, error, forking->data);
	origin_unref(origin, FALSE);
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
	*forking = (Forking){ origin_new(instance), done, data };
	for (guint i = 0; i < n_children; i++)
		origin_add(forking->origin, children[i].id);
	vial_channel_host_call(instance->channel, request, fds, vial_time_scaled_ms(VERB_TIMEOUT_MS), on_forked, forking);
}

gboolean vial_engine_fits(const VialEngine *engine, const VialLimits *saved, const VialLimits *wanted)
{
	return !engine->ops->fits || engine->ops->fits(saved, wanted);
}

void vial_engine_free(VialEngine *engine)
{
	if (!engine)
		return;
	g_clear_pointer(&engine->forked, g_hash_table_unref);
	g_clear_pointer(&engine->limited, g_hash_table_unref);
	engine->ops->free(engine);
}
