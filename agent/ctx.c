/* SPDX-License-Identifier: Apache-2.0 */
/* See ctx.h. */
#include "ctx.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>

#include "ctxlate.h"
#include "ctxresume.h"
#include "fspath.h"
#include "ctxrun.h"
#include "env.h"
#include "kernelspare.h"
#include "log.h"
#include "procfs.h"

/* A kernel that ends this often before it was ever ready will not come up. */
#define MAX_FAILURES 3
/* How much of what a kernel says on its stderr before it is ready goes into the reason. */
#define MAX_COMPLAINT 300
/* Far more than a cold start with every library takes on an emulated processor. */
#define START_MS 300000
/* A kernel that exits runs what the user's code has left for that moment; first it is asked to hurry, then it is killed. */
#define EXIT_TERM_MS 1000
#define EXIT_KILL_MS 900
#define DEFAULT_PREFIX "default-"

static struct vial_ctx *contexts;
static unsigned context_count;

struct vial_ctx *vial_ctx_first(void)
{
	return contexts;
}

struct vial_ctx *vial_ctx_find(const char *id)
{
	struct vial_ctx *ctx = contexts;

	while (ctx && strcmp(ctx->id, id) != 0)
		ctx = ctx->next;
	return ctx;
}

const char *vial_ctx_state_name(enum vial_ctx_state state)
{
	static const char *const names[] = { "starting", "idle", "busy", "dead" };

	return names[state];
}

/* --- waiting --- */

static void tell_waiters(struct vial_ctx *ctx, bool is_ready, const char *problem)
{
	struct vial_ctx_waiter **link = &ctx->waiters;

	while (*link) {
		struct vial_ctx_waiter *waiter = *link;

		if (problem || is_ready || !waiter->is_for_ready) {
			*link = waiter->next;
			waiter->fn(ctx, problem, waiter->data);
			free(waiter);
		} else {
			link = &waiter->next;
		}
	}
}

void vial_ctx_wait(struct vial_ctx *ctx, bool is_for_ready, void (*fn)(struct vial_ctx *, const char *, void *), void *data)
{
	struct vial_ctx_waiter *waiter;

	if (ctx->state == VIAL_CTX_DEAD) {
		fn(ctx, ctx->problem, data);
		return;
	}
	if ((ctx->state == VIAL_CTX_IDLE || ctx->state == VIAL_CTX_BUSY || (ctx->is_started && !is_for_ready)) && !ctx->is_touching) {
		fn(ctx, NULL, data);
		return;
	}
	waiter = calloc(1, sizeof(*waiter));
	if (!waiter) {
		fn(ctx, "out of memory", data);
		return;
	}
	*waiter = (struct vial_ctx_waiter){ .next = ctx->waiters, .is_for_ready = is_for_ready, .fn = fn, .data = data };
	ctx->waiters = waiter;
}

void vial_ctx_forget_waiter(struct vial_ctx *ctx, void *data)
{
	for (struct vial_ctx_waiter **link = &ctx->waiters; *link;) {
		struct vial_ctx_waiter *waiter = *link;

		if (waiter->data == data) {
			*link = waiter->next;
			free(waiter);
		} else {
			link = &waiter->next;
		}
	}
}

/* --- the kernel --- */

static void start_kernel(struct vial_ctx *ctx);

static void die(struct vial_ctx *ctx, const char *problem)
{
	vial_timer_clear(&ctx->limit);
	ctx->state = VIAL_CTX_DEAD;
	if (problem != ctx->problem)
		snprintf(ctx->problem, sizeof(ctx->problem), "%s", problem);
	while (ctx->first_queued) {
		struct vial_run *run = ctx->first_queued;

		ctx->first_queued = run->next;
		vial_run_refuse(run, VIAL_UNAVAILABLE, ctx->problem);
	}
	ctx->last_queued = &ctx->first_queued;
	ctx->queued_count = 0;
	tell_waiters(ctx, false, ctx->problem);
	vial_ctx_resumed(ctx);
}

void vial_ctx_next(struct vial_ctx *ctx)
{
	struct vial_run *run = ctx->first_queued;

	if (!run || ctx->current)
		return;
	if (ctx->state != VIAL_CTX_IDLE || ctx->owes_reseed)
		vial_run_await_kernel(run);
	if (ctx->state != VIAL_CTX_IDLE)
		return;
	if (ctx->owes_reseed) {
		vial_ctx_reseed_first(ctx);
		return;
	}
	ctx->is_untouched = false;
	ctx->first_queued = run->next;
	if (!ctx->first_queued)
		ctx->last_queued = &ctx->first_queued;
	ctx->queued_count--;
	ctx->current = run;
	ctx->state = VIAL_CTX_BUSY;
	/* Never 0: that is what a kernel calls "nothing is running". */
	run->number = ++ctx->run_number ? ctx->run_number : ++ctx->run_number;
	vial_run_begin(run);
}

static size_t on_room(void *data)
{
	struct vial_ctx *ctx = data;

	return ctx->current ? vial_run_room(ctx->current) : SIZE_MAX;
}

/* Before it is ready a kernel has nothing to say but why it will not be. */
static void note_complaint(struct vial_ctx *ctx, const uint8_t *bytes, size_t size_bytes)
{
	size_t used = strlen(ctx->problem), room = MAX_COMPLAINT;

	/* The end of a traceback is its point. */
	if (size_bytes >= room) {
		bytes += size_bytes - room + 1;
		size_bytes = room - 1;
		used = 0;
	} else if (used + size_bytes >= room) {
		size_t excess = used + size_bytes - room + 1;

		memmove(ctx->problem, ctx->problem + excess, used - excess);
		used -= excess;
	}
	for (size_t i = 0; i < size_bytes; i++)
		ctx->problem[used + i] = bytes[i] >= ' ' && bytes[i] < 0x7f ? (char)bytes[i] : ' ';
	ctx->problem[used + size_bytes] = '\0';
}

static void on_output(uint8_t channel, const uint8_t *bytes, size_t size_bytes, void *data)
{
	struct vial_ctx *ctx = data;

	if (ctx->current)
		vial_run_output(ctx->current, channel, bytes, size_bytes);
	else if (ctx->state == VIAL_CTX_STARTING && !ctx->is_ending)
		note_complaint(ctx, bytes, size_bytes);
	else
		vial_late_add(&ctx->late, channel, bytes, size_bytes);
}

static void on_too_long(struct vial_timer *timer, void *data)
{
	struct vial_ctx *ctx = data;

	if (ctx->kernel)
		vial_kernel_kill(ctx->kernel);
}

static void on_exit_slow(struct vial_timer *timer, void *data)
{
	struct vial_ctx *ctx = data;

	if (ctx->kernel)
		vial_kernel_signal(ctx->kernel, SIGTERM);
	vial_timer_set(&ctx->limit, EXIT_KILL_MS, on_too_long, ctx);
}

static void on_ready(struct vial_ctx *ctx)
{
	/* Only once, and not from a kernel that is on its way out. */
	if (ctx->state != VIAL_CTX_STARTING || ctx->is_ending)
		return;
	vial_timer_clear(&ctx->limit);
	ctx->state = VIAL_CTX_IDLE;
	ctx->failures = 0;
	ctx->problem[0] = '\0';
	tell_waiters(ctx, true, NULL);
	if (ctx->owes_reseed)
		vial_ctx_reseed_first(ctx); /* before somebody waits for it */
	vial_ctx_next(ctx);
}

static void on_done(struct vial_ctx *ctx, json_t *message)
{
	struct vial_run *run = ctx->current;

	ctx->current = NULL;
	ctx->is_ending = json_object_get(message, "exit_status") != NULL;
	ctx->state = ctx->is_ending ? VIAL_CTX_STARTING : VIAL_CTX_IDLE;
	if (ctx->is_ending)
		vial_timer_set(&ctx->limit, EXIT_TERM_MS, on_exit_slow, ctx);
	vial_run_done(run, message);
	vial_ctx_next(ctx);
}

static void on_touched(struct vial_ctx *ctx)
{
	if (!ctx->is_touching)
		return;
	ctx->is_touching = false;
	ctx->state = VIAL_CTX_IDLE;
	tell_waiters(ctx, true, NULL);
	vial_ctx_next(ctx);
}

void vial_ctx_touch(struct vial_ctx *ctx)
{
	if (ctx->state != VIAL_CTX_IDLE || !ctx->is_untouched || ctx->first_queued || !vial_kernel_touch(ctx->kernel))
		return;
	ctx->is_touching = true;
	ctx->state = VIAL_CTX_BUSY;
	if (ctx->owes_reseed)
		vial_ctx_reseed_first(ctx); /* that way has its pages too */
}

/* A message about the run under way; those about one that is over are nobody's. */
static void on_run_message(struct vial_ctx *ctx, const struct vial_message *message)
{
	const char *id = json_string_value(json_object_get(message->json, "id"));

	if (!ctx->current || strcmp(id, ctx->current->id) != 0)
		return;
	switch (message->type) {
	case VIAL_MESSAGE_RESULT:
		vial_run_result(ctx->current, message->json);
		break;
	case VIAL_MESSAGE_ERROR:
		vial_run_kernel_error(ctx->current, message->json);
		break;
	case VIAL_MESSAGE_ENDING:
		vial_run_ending(ctx->current);
		break;
	case VIAL_MESSAGE_CLEAR:
		vial_run_clear(ctx->current, json_is_true(json_object_get(message->json, "wait")));
		break;
	default:
		on_done(ctx, message->json);
	}
}

static void on_message(const struct vial_message *message, void *data)
{
	struct vial_ctx *ctx = data;

	switch (message->type) {
	case VIAL_MESSAGE_READY:
		on_ready(ctx);
		break;
	case VIAL_MESSAGE_RESEEDED:
		vial_ctx_reseeded(ctx, (unsigned)json_integer_value(json_object_get(message->json, "number")),
		                  !json_is_true(json_object_get(message->json, "is_incomplete")));
		break;
	case VIAL_MESSAGE_TOUCHED:
		on_touched(ctx);
		break;
	case VIAL_MESSAGE_REFUSED:
		if (ctx->current)
			vial_run_result_refused(ctx->current, message->problem);
		break;
	case VIAL_MESSAGE_SYNC: /* kernel.c's */
		break;
	case VIAL_MESSAGE_RESULT:
	case VIAL_MESSAGE_ERROR:
	case VIAL_MESSAGE_ENDING:
	case VIAL_MESSAGE_DONE:
	case VIAL_MESSAGE_CLEAR:
		on_run_message(ctx, message);
		break;
	}
}

static void on_broken(const char *reason, void *data)
{
	struct vial_ctx *ctx = data;

	if (ctx->current && !ctx->current->kill_name) {
		ctx->current->kill_name = "KernelDied";
		ctx->current->kill_reason = reason;
	}
}

static void on_started(void *data)
{
	struct vial_ctx *ctx = data;

	ctx->is_started = true;
	ctx->is_new = false;
	tell_waiters(ctx, false, NULL);
}

static void on_failed(enum vial_spawn_stage stage, int error, void *data)
{
	struct vial_ctx *ctx = data;
	char problem[sizeof(ctx->problem)];

	ctx->kernel = NULL;
	vial_timer_clear(&ctx->limit);
	if (stage == VIAL_SPAWN_CWD)
		snprintf(problem, sizeof(problem), "the working directory %.300s cannot be entered: %s", ctx->cwd,
		         strerror(error < 0 ? -error : error));
	else if (stage == VIAL_SPAWN_EXEC)
		snprintf(problem, sizeof(problem), "this sandbox's image has no %s (%s)", ctx->language->name, strerror(error < 0 ? -error : error));
	else
		snprintf(problem, sizeof(problem), "the %s kernel cannot be started: %s", ctx->language->name, strerror(error < 0 ? -error : error));
	die(ctx, problem);
	/* A context whose first kernel cannot even be started was never made. The default ones are tried again at their next run. */
	if (ctx->is_new && strncmp(ctx->id, DEFAULT_PREFIX, strlen(DEFAULT_PREFIX)) != 0)
		vial_ctx_delete(ctx);
}

static void fail_to_come_up(struct vial_ctx *ctx, const struct vial_exit *how)
{
	if (++ctx->failures >= MAX_FAILURES) {
		char problem[sizeof(ctx->problem)];

		snprintf(problem, sizeof(problem), "the %s kernel does not come up: it ended with status %d%s%.*s", ctx->language->name,
		         how->exit_code, *ctx->problem ? ", saying: " : "", MAX_COMPLAINT, ctx->problem);
		die(ctx, problem);
		return;
	}
	ctx->problem[0] = '\0';
	start_kernel(ctx);
}

static void on_kernel_exit(const struct vial_exit *how, void *data)
{
	struct vial_ctx *ctx = data;
	struct vial_run *run = ctx->current;
	bool was_ready = ctx->state != VIAL_CTX_STARTING || ctx->is_ending;
	bool was_told = ctx->is_ending;

	ctx->kernel = NULL;
	vial_timer_clear(&ctx->limit);
	ctx->is_started = false;
	ctx->is_ending = false;
	ctx->state = VIAL_CTX_STARTING;
	ctx->current = NULL;
	vial_ctx_resumed(ctx);
	if (!was_ready) {
		fail_to_come_up(ctx, how);
		return;
	}
	ctx->problem[0] = '\0';
	if (run)
		vial_run_kernel_lost(run, how);
	else if (!was_told)
		ctx->has_restarted = true;
	start_kernel(ctx);
	vial_ctx_next(ctx);
}

static const struct vial_kernel_handlers kernel_handlers = {
	.room = on_room,
	.on_output = on_output,
	.on_message = on_message,
	.on_broken = on_broken,
	.on_started = on_started,
	.on_failed = on_failed,
	.on_exit = on_kernel_exit,
};

/* One that waits for somebody like us: it is ready. All that were started for one template would draw the same numbers. */
static bool take_spare(struct vial_ctx *ctx)
{
	json_t *environment = NULL;

	ctx->kernel = vial_spare_take(ctx->language, &ctx->user, ctx->cwd, &kernel_handlers, ctx, &environment);
	if (!ctx->kernel)
		return false;
	json_decref(ctx->environment);
	ctx->environment = environment;
	ctx->is_untouched = true;
	ctx->owes_reseed = true;
	ctx->is_warm = false;
	on_started(ctx);
	on_ready(ctx);
	return true;
}

static int spawn_kernel(struct vial_ctx *ctx)
{
	struct vial_kernel_options options = { .language = ctx->language, .user = &ctx->user, .cwd = ctx->cwd };
	char **env;
	int result = vial_env_build(&ctx->user, NULL, false, &env);

	if (result < 0)
		return result;
	json_decref(ctx->environment);
	ctx->environment = vial_env_object(env);
	options.env = (const char *const *)env;
	options.warmth = ctx->is_warm ? VIAL_WARM : VIAL_COLD;
	ctx->must_enter = false;
	result = vial_kernel_start(&options, &kernel_handlers, ctx, &ctx->kernel);
	vial_env_free(env);
	return result;
}

static void start_kernel(struct vial_ctx *ctx)
{
	int result;

	ctx->state = VIAL_CTX_STARTING;
	ctx->is_started = false;
	ctx->is_touching = false;
	ctx->is_untouched = ctx->is_warm;
	ctx->owes_reseed = false;
	if (take_spare(ctx))
		return;
	result = spawn_kernel(ctx);
	/* A kernel that is started again is wanted soon, not hot. */
	ctx->is_warm = false;
	vial_timer_set(&ctx->limit, START_MS, on_too_long, ctx);
	if (result < 0) {
		char problem[sizeof(ctx->problem)];

		snprintf(problem, sizeof(problem), "the %s kernel cannot be started: %s", ctx->language->name, strerror(-result));
		die(ctx, problem);
	}
}

json_t *vial_ctx_environment_changes(struct vial_ctx *ctx)
{
	char **env;
	json_t *wanted, *changes, *value;
	const char *name;

	if (vial_env_build(&ctx->user, NULL, false, &env) < 0)
		return NULL;
	wanted = vial_env_object(env);
	vial_env_free(env);
	if (json_equal(wanted, ctx->environment)) {
		json_decref(wanted);
		return NULL;
	}
	changes = json_copy(wanted);
	json_object_foreach (ctx->environment, name, value) {
		if (!json_object_get(wanted, name))
			json_object_set_new(changes, name, json_null());
		else if (json_equal(json_object_get(wanted, name), value))
			json_object_del(changes, name);
	}
	json_decref(ctx->environment);
	ctx->environment = wanted;
	return changes;
}

/* --- the table --- */

static void new_id(char out_id[VIAL_CTX_ID_BYTES])
{
	static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	uint8_t random[20];
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, random, sizeof(random)) != sizeof(random))
		memset(random, 0, sizeof(random));
	if (fd >= 0)
		close(fd);
	for (size_t i = 0; i < sizeof(random); i++)
		out_id[i] = alphabet[random[i] % (sizeof(alphabet) - 1)];
	out_id[sizeof(random)] = '\0';
}

int vial_ctx_create(const char *id, const struct vial_language *language, const char *cwd, const struct vial_user *user, bool is_warm,
                    struct vial_ctx **out_ctx)
{
	struct vial_ctx *ctx;

	if (id && vial_ctx_find(id))
		return -EEXIST;
	if (context_count >= VIAL_CTX_MAX)
		return -ENOSPC;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return -ENOMEM;
	if (id)
		snprintf(ctx->id, sizeof(ctx->id), "%s", id);
	else
		new_id(ctx->id);
	ctx->language = language;
	ctx->user = *user;
	ctx->is_warm = is_warm;
	ctx->is_new = true;
	ctx->last_queued = &ctx->first_queued;
	snprintf(ctx->cwd, sizeof(ctx->cwd), "%s", cwd);
	ctx->next = contexts;
	contexts = ctx;
	context_count++;
	start_kernel(ctx);
	*out_ctx = ctx;
	return 0;
}

struct vial_ctx *vial_ctx_default(const struct vial_language *language, const struct vial_user *user, bool is_warm, const char **out_error)
{
	const struct vial_language *kernel = vial_language_find(language->kernel);
	struct vial_user usual;
	char id[VIAL_CTX_ID_BYTES];
	struct vial_ctx *ctx;
	int result;

	if (user && (vial_user_find(NULL, &usual) < 0 || user->uid != usual.uid))
		snprintf(id, sizeof(id), DEFAULT_PREFIX "%s-%u", kernel->name, (unsigned)user->uid);
	else
		snprintf(id, sizeof(id), DEFAULT_PREFIX "%s", kernel->name);
	ctx = vial_ctx_find(id);
	if (ctx && ctx->state == VIAL_CTX_DEAD && ctx->failures == 0)
		vial_ctx_restart(ctx);
	if (ctx)
		return ctx;
	if (!user && vial_user_find(NULL, &usual) < 0) {
		*out_error = "this sandbox has no user named \"user\"";
		return NULL;
	}
	result = vial_ctx_create(id, kernel, vial_workdir(), user ? user : &usual, is_warm, &ctx);
	if (result == 0)
		return ctx;
	*out_error = result == -ENOSPC ? "this sandbox has as many contexts as it may have; delete one" : "out of memory";
	return NULL;
}

void vial_ctx_begin_in(struct vial_ctx *ctx, const char *cwd)
{
	if (ctx->run_number > 0 || ctx->first_queued || strcmp(ctx->cwd, cwd) == 0)
		return;
	snprintf(ctx->cwd, sizeof(ctx->cwd), "%s", cwd);
	ctx->must_enter = true;
}

static void free_ctx(struct vial_ctx *ctx)
{
	vial_timer_clear(&ctx->limit);
	vial_timer_clear(&ctx->patience);
	vial_late_free(ctx->late);
	json_decref(ctx->environment);
	free(ctx);
}

void vial_ctx_delete(struct vial_ctx *ctx)
{
	struct vial_ctx **link = &contexts;
	struct vial_kernel *kernel = ctx->kernel;
	struct vial_run *run = ctx->current;

	while (*link != ctx)
		link = &(*link)->next;
	*link = ctx->next;
	context_count--;
	ctx->kernel = NULL;
	ctx->current = NULL;
	vial_kernel_free(kernel);
	if (run)
		vial_run_refuse(run, VIAL_CONFLICT, "the context was deleted");
	die(ctx, "the context was deleted");
	free_ctx(ctx);
}

void vial_ctx_restart(struct vial_ctx *ctx)
{
	struct vial_kernel *kernel = ctx->kernel;
	struct vial_run *run = ctx->current;

	ctx->kernel = NULL;
	ctx->current = NULL;
	ctx->failures = 0;
	ctx->execution_count = 0;
	ctx->has_restarted = false;
	ctx->is_ending = false;
	ctx->problem[0] = '\0';
	ctx->state = VIAL_CTX_STARTING;
	vial_kernel_free(kernel);
	vial_ctx_resumed(ctx);
	if (run) {
		run->kill_name = "KernelRestarted";
		run->kill_reason = "the context was restarted while the code ran";
		vial_run_kernel_lost(run, &(struct vial_exit){ 0 });
		ctx->execution_count = 0;
	}
	vial_late_free(ctx->late);
	ctx->late = NULL;
	start_kernel(ctx);
	vial_ctx_next(ctx);
}

bool vial_ctx_interrupt(struct vial_ctx *ctx)
{
	if (!ctx->current)
		return false;
	vial_run_interrupt(ctx->current);
	return true;
}

/* --- describing --- */

/* Where the kernel is now; where it began when that cannot be told. */
static void current_directory(const struct vial_ctx *ctx, char out_path[PATH_MAX])
{
	char link[64];
	ssize_t length;

	snprintf(link, sizeof(link), "%d/cwd", (int)vial_kernel_outer_pid(ctx->kernel));
	length = vial_kernel_outer_pid(ctx->kernel) > 0 ? readlinkat(vial_procfs_fd(), link, out_path, PATH_MAX - 1) : -1;
	if (length > 0 && out_path[0] == '/')
		out_path[length] = '\0';
	else
		snprintf(out_path, PATH_MAX, "%s", ctx->cwd);
}

json_t *vial_ctx_describe(const struct vial_ctx *ctx)
{
	char cwd[PATH_MAX];
	json_t *text;

	current_directory(ctx, cwd);
	text = json_string(cwd);
	return json_pack("{s:s,s:s,s:o,s:s,s:I,s:i,s:i}", "id", ctx->id, "language", ctx->language->name, "cwd", text ? text : json_string(ctx->cwd),
	                 "state", vial_ctx_state_name(ctx->state), "execution_count", ctx->execution_count, "pid", (int)vial_kernel_pid(ctx->kernel),
	                 "queued", (int)ctx->queued_count);
}
