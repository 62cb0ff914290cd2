/* SPDX-License-Identifier: Apache-2.0 */
/* See kernelspare.h. */
#include "kernelspare.h"

#include <signal.h>
#include <string.h>
#include <sys/random.h>

#include "ctx.h"
#include "env.h"
#include "fspath.h"
#include "loop.h"
#include "memguard.h"

/* After one was taken its context has work to do first. */
#define REFILL_MS 1000
/* What one takes itself, at most (docs/performance.md). */
#define SPARE_KB (64u * 1024u)
#define SEED_BYTES 32

struct spare {
	const char *kernel_name;
	const struct vial_language *language; /* NULL: not asked for */
	struct vial_user user;
	struct vial_kernel *kernel;
	json_t *environment;
	bool is_ready, is_stopped;
	struct vial_timer refill;
	void (*done)(void *data);
	void *data;
};

/* Not bash: it starts in the time that taking one takes. */
static struct spare spares[] = { { .kernel_name = "python" }, { .kernel_name = "javascript" } };

static struct spare *find(const struct vial_language *language)
{
	for (size_t i = 0; i < sizeof(spares) / sizeof(*spares); i++) {
		if (strcmp(spares[i].kernel_name, language->kernel) == 0)
			return &spares[i];
	}
	return NULL;
}

static void tell(struct spare *spare)
{
	void (*done)(void *) = spare->done;

	spare->done = NULL;
	if (done)
		done(spare->data);
}

static void clear(struct spare *spare)
{
	spare->kernel = NULL;
	spare->is_ready = spare->is_stopped = false;
	json_decref(spare->environment);
	spare->environment = NULL;
	tell(spare);
}

/* --- its life before somebody takes it: what it says is nobody's --- */

static size_t on_room(void *data)
{
	return SIZE_MAX;
}

static void on_output(uint8_t channel, const uint8_t *bytes, size_t size_bytes, void *data)
{
}

static void on_message(const struct vial_message *message, void *data)
{
	struct spare *spare = data;

	if (message->type != VIAL_MESSAGE_READY && message->type != VIAL_MESSAGE_TOUCHED)
		return;
	spare->is_ready = true;
	tell(spare);
}

static void on_broken(const char *reason, void *data)
{
}

static void on_started(void *data)
{
}

static void on_failed(enum vial_spawn_stage stage, int error, void *data)
{
	clear(data);
}

static void on_exit_of_it(const struct vial_exit *how, void *data)
{
	clear(data);
}

static const struct vial_kernel_handlers handlers = {
	.room = on_room,
	.on_output = on_output,
	.on_message = on_message,
	.on_broken = on_broken,
	.on_started = on_started,
	.on_failed = on_failed,
	.on_exit = on_exit_of_it,
};

static int start(struct spare *spare)
{
	struct vial_kernel_options options = { .language = spare->language, .user = &spare->user, .cwd = vial_workdir(), .warmth = VIAL_LIGHT };
	char **env;
	int result = vial_env_build(&spare->user, NULL, false, &env);

	if (result < 0)
		return result;
	options.env = (const char *const *)env;
	result = vial_kernel_start(&options, &handlers, spare, &spare->kernel);
	if (result == 0)
		spare->environment = vial_env_object(env);
	vial_env_free(env);
	return result;
}

/* --- making another --- */

static bool is_quiet(void)
{
	for (struct vial_ctx *ctx = vial_ctx_first(); ctx; ctx = ctx->next) {
		if (ctx->state == VIAL_CTX_STARTING || ctx->state == VIAL_CTX_BUSY)
			return false;
	}
	return true;
}

static bool has_memory(void)
{
	uint64_t used_kb, limit_kb;

	vial_memguard_usage(&used_kb, &limit_kb);
	return used_kb + SPARE_KB + VIAL_SPARE_ROOM_KB < limit_kb;
}

static void on_refill(struct vial_timer *timer, void *data)
{
	struct spare *spare = data;

	if (!spare->kernel && !has_memory())
		return;
	if (!is_quiet()) {
		vial_timer_set(&spare->refill, REFILL_MS, on_refill, spare);
	} else if (!spare->kernel) {
		start(spare);
	} else if (spare->is_stopped) {
		spare->is_stopped = false;
		vial_kernel_signal(spare->kernel, SIGCONT);
	}
}

/* --- from outside --- */

void vial_spare_prepare(const struct vial_language *language, void (*done)(void *data), void *data)
{
	struct spare *spare = find(language);

	if (!spare || spare->kernel || vial_user_find(NULL, &spare->user) < 0) {
		done(data);
		return;
	}
	spare->language = vial_language_find(language->kernel);
	spare->done = done;
	spare->data = data;
	if (start(spare) < 0)
		tell(spare);
}

void vial_spare_touch(const struct vial_language *language, void (*done)(void *data), void *data)
{
	struct spare *spare = find(language);
	uint8_t seed[SEED_BYTES] = { 0 };

	if (!spare || !spare->kernel || !spare->is_ready || !vial_kernel_touch(spare->kernel)) {
		done(data);
		return;
	}
	/* Its way has pages too. The seed that counts comes when it is taken; nobody waits for this one. */
	(void)!getrandom(seed, sizeof(seed), GRND_NONBLOCK);
	vial_kernel_reseed(spare->kernel, seed, sizeof(seed), 0);
	/* Until it has answered nobody may take it. */
	spare->is_ready = false;
	spare->done = done;
	spare->data = data;
}

struct vial_kernel *vial_spare_take(const struct vial_language *language, const struct vial_user *user, const char *cwd,
                                    const struct vial_kernel_handlers *new_handlers, void *data, json_t **out_environment)
{
	struct spare *spare = find(language);
	struct vial_kernel *kernel;

	if (!spare || !spare->language || user->uid != spare->user.uid || strcmp(cwd, vial_workdir()) != 0)
		return NULL;
	vial_timer_set(&spare->refill, REFILL_MS, on_refill, spare);
	if (spare->kernel && !spare->is_ready) {
		spare->is_stopped = true;
		vial_kernel_signal(spare->kernel, SIGSTOP);
	}
	if (!spare->is_ready)
		return NULL;
	kernel = spare->kernel;
	*out_environment = json_incref(spare->environment);
	vial_kernel_hand_over(kernel, new_handlers, data);
	clear(spare);
	return kernel;
}

pid_t vial_spare_give_up(void)
{
	pid_t pid = 0;

	for (size_t i = 0; i < sizeof(spares) / sizeof(*spares); i++) {
		struct vial_kernel *kernel = spares[i].kernel;

		vial_timer_clear(&spares[i].refill);
		if (!kernel)
			continue;
		pid = vial_kernel_outer_pid(kernel);
		clear(&spares[i]);
		vial_kernel_free(kernel);
	}
	return pid;
}
