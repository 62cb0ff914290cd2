/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: each is a language kernel with an id, a queue of runs and a life that outlasts its kernel.
 *
 *             on_started, "ready"           run                    "done"
 *   starting ────────────────────▶ idle ─────────▶ busy ──────────────────▶ idle
 *      ▲                                             │ kernel exits or is killed
 *      └─────────────────────────────────────────────┘ (kernel_restarted)
 *   starting ──▶ dead       it could not be started, or ended too often before it was ready; a restart begins again
 *
 * No wait is without end: a kernel that has said that it exits is ended after two seconds, one that does not come up after some minutes, and a run's
 * time limit covers the waiting for its kernel.
 *
 * ctx.c owns the table and the states, ctxrun.c one run, ctxops.c the operations, ctxresume.c the reseeding. Loop thread only.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include <jansson.h>

#include "kernel.h"
#include "loop.h"
#include "stream.h"
#include "users.h"

#define VIAL_CTX_MAX 32
#define VIAL_CTX_MAX_QUEUE 64
#define VIAL_CTX_ID_BYTES 64

enum vial_ctx_state { VIAL_CTX_STARTING, VIAL_CTX_IDLE, VIAL_CTX_BUSY, VIAL_CTX_DEAD };

struct vial_run;
struct vial_ctx;

/* Somebody who waits until a context's kernel exists (`is_for_ready` false) or is ready. */
struct vial_ctx_waiter {
	struct vial_ctx_waiter *next;
	bool is_for_ready;
	/* problem NULL: it is so. Called once; the waiter is gone after it. Must not delete the context. */
	void (*fn)(struct vial_ctx *ctx, const char *problem, void *data);
	void *data;
};

struct vial_ctx {
	struct vial_ctx *next;
	char id[VIAL_CTX_ID_BYTES];
	const struct vial_language *language;
	struct vial_user user;
	char cwd[PATH_MAX];
	enum vial_ctx_state state;
	struct vial_kernel *kernel; /* NULL when dead, and for a moment between two */
	bool is_new;                /* no kernel of it has ever existed */
	bool is_started;            /* the kernel's process exists */
	bool is_ending;             /* the kernel has said that it exits */
	bool is_warm;               /* the next kernel is started warm */
	bool is_untouched;          /* nobody's code has run in the kernel: it was started while a template was baked */
	bool is_touching;           /* the kernel walks through a run of ours */
	bool has_restarted;         /* since the last run's answer: it must be told */
	bool must_enter;            /* the kernel was started elsewhere: the next run has it enter `cwd` */
	unsigned failures;          /* kernels in a row that ended before they were ready */
	unsigned run_number;
	json_int_t execution_count;
	json_t *environment; /* what the kernel was started with, or has been told since */
	char problem[512];   /* why it is dead */
	struct vial_run *current;
	struct vial_run *first_queued, **last_queued;
	unsigned queued_count;
	struct vial_ctx_waiter *waiters;
	/* Output between runs: the latest 64 KiB, for the next run. */
	struct vial_late *late;
	/* Reseeding: the number that we wait for; 0 when not. One that is owed comes before the next run. */
	unsigned awaited_reseed;
	bool owes_reseed;
	struct vial_timer patience;
	/* For a kernel that must come up, or that must go. */
	struct vial_timer limit;
};

struct vial_ctx *vial_ctx_first(void);
struct vial_ctx *vial_ctx_find(const char *id);
/* The language's default context, made if needed; `user` NULL: the sandbox's, else one of that user's own. NULL with *out_error: the table is full,
 * or it cannot be started. */
struct vial_ctx *vial_ctx_default(const struct vial_language *language, const struct vial_user *user, bool is_warm, const char **out_error);
/* `id` NULL: a new one. -EEXIST, -ENOSPC (VIAL_CTX_MAX), or what starting a kernel says. */
int vial_ctx_create(const char *id, const struct vial_language *language, const char *cwd, const struct vial_user *user, bool is_warm,
                    struct vial_ctx **out_ctx);
/* Where a context begins whose kernel was started before anybody could say so: nothing once code of somebody's has come for it. */
void vial_ctx_begin_in(struct vial_ctx *ctx, const char *cwd);
/* Kills its kernel, ends its runs, frees it. */
void vial_ctx_delete(struct vial_ctx *ctx);
/* A new kernel under the same id. The run under way ends with it, those in the queue stay. */
void vial_ctx_restart(struct vial_ctx *ctx);
/*
 * Has an untouched kernel walk the way of a run once. After a restore every page that is needed for the first time costs a fault; those that wait in
 * a pool have the time. vial_ctx_wait() waits for the end of it.
 */
void vial_ctx_touch(struct vial_ctx *ctx);
/* True when something was running. */
bool vial_ctx_interrupt(struct vial_ctx *ctx);
/* Takes the waiter over. Calls at once when it is so already. */
void vial_ctx_wait(struct vial_ctx *ctx, bool is_for_ready, void (*fn)(struct vial_ctx *, const char *, void *), void *data);
void vial_ctx_forget_waiter(struct vial_ctx *ctx, void *data);
json_t *vial_ctx_describe(const struct vial_ctx *ctx);
const char *vial_ctx_state_name(enum vial_ctx_state state);

/* For ctxrun.c: starts the next run if there is one and the kernel is idle. */
void vial_ctx_next(struct vial_ctx *ctx);
/* What must change in the kernel's environment since it was last told; NULL when nothing. */
json_t *vial_ctx_environment_changes(struct vial_ctx *ctx);
