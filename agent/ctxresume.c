/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ctxresume.h. A kernel that does not answer in time (a C library has held its interpreter for seconds) is killed: a sandbox that draws
 * another's numbers is worse than one that has to say that its variables are lost, and a sandbox that cannot be resumed is worse still.
 */
#include "ctxresume.h"

#include <string.h>
#include <sys/random.h>

#include "ctx.h"
#include "ctxrun.h"
#include "loop.h"

#define SEED_BYTES 32
/* Of the time the whole resume may take, in percent: then there is time left to end the kernel and answer. */
#define ANSWER_PERCENT 60
#define ENTROPY_BYTES 64

static struct vial_resume *current;
static unsigned last_number;
static unsigned awaited;
static uint8_t host_entropy[ENTROPY_BYTES];
static int64_t answer_ms = VIAL_RESUME_TIMEOUT_MS * ANSWER_PERCENT / 100;

static void finish(void)
{
	struct vial_resume *resume = current;

	current = NULL;
	if (resume)
		vial_resume_done(resume, NULL);
}

void vial_ctx_resumed(struct vial_ctx *ctx)
{
	if (ctx->awaited_reseed == 0)
		return;
	ctx->awaited_reseed = 0;
	vial_timer_clear(&ctx->patience);
	if (ctx->owes_reseed) {
		ctx->owes_reseed = false;
		vial_ctx_next(ctx);
	} else if (--awaited == 0) {
		finish();
	}
}

/* Its end counts as an answer: see ctx.c. */
static void give_up(struct vial_ctx *ctx)
{
	if (ctx->current) {
		ctx->current->kill_name = "KernelDied";
		ctx->current->kill_reason = "the kernel did not renew its random numbers after the sandbox was resumed, and was ended";
	}
	vial_kernel_kill(ctx->kernel);
}

void vial_ctx_reseeded(struct vial_ctx *ctx, unsigned number, bool is_complete)
{
	if (number != ctx->awaited_reseed)
		return;
	if (is_complete)
		vial_ctx_resumed(ctx);
	else if (ctx->kernel)
		give_up(ctx);
}

static void on_patience_over(struct vial_timer *timer, void *data)
{
	struct vial_ctx *ctx = data;

	if (ctx->kernel)
		give_up(ctx);
}

/* Each kernel its own seed: fresh bytes of the guest's kernel, and the host's entropy in case those are not fresh yet. */
static void make_seed(uint8_t out_seed[SEED_BYTES])
{
	if (getrandom(out_seed, SEED_BYTES, GRND_NONBLOCK) != SEED_BYTES)
		memset(out_seed, 0, SEED_BYTES);
	for (unsigned i = 0; i < SEED_BYTES; i++)
		out_seed[i] ^= (uint8_t)(host_entropy[(i + last_number) % ENTROPY_BYTES] + last_number);
}

/* False: it needs no waiting. */
static bool ask(struct vial_ctx *ctx)
{
	uint8_t seed[SEED_BYTES];

	if (++last_number == 0)
		last_number++;
	make_seed(seed);
	if (!vial_kernel_reseed(ctx->kernel, seed, sizeof(seed), last_number))
		return false;
	ctx->awaited_reseed = last_number;
	vial_timer_set(&ctx->patience, answer_ms, on_patience_over, ctx);
	return true;
}

void vial_ctx_reseed_first(struct vial_ctx *ctx)
{
	if (ctx->awaited_reseed || ask(ctx))
		return;
	ctx->owes_reseed = false;
	vial_ctx_next(ctx);
}

void vial_ctx_resume(struct vial_resume *resume, json_t *hello, bool is_new_generation)
{
	/* A newer HELLO has taken over; its kernels answer to newer numbers. */
	if (current)
		finish();
	if (!is_new_generation) {
		vial_resume_done(resume, NULL);
		return;
	}
	current = resume;
	awaited = 1; /* ours, so that it is not over before the last kernel was asked */
	answer_ms = vial_resume_timeout_ms(hello) * ANSWER_PERCENT / 100;
	memcpy(host_entropy, vial_resume_entropy(resume), sizeof(host_entropy));
	for (struct vial_ctx *ctx = vial_ctx_first(), *next; ctx; ctx = next) {
		next = ctx->next;
		ctx->awaited_reseed = 0;
		vial_timer_clear(&ctx->patience);
		ctx->owes_reseed = ctx->kernel && ctx->is_untouched;
		if (ctx->owes_reseed)
			vial_ctx_next(ctx);
		else if (ctx->kernel && ask(ctx))
			awaited++;
	}
	if (--awaited == 0)
		finish();
}
