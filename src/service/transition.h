/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transition of a sandbox at a time. Whatever changes the whole of a sandbox (creating, waking, pausing, freezing, hibernating, deleting, burying
 * a guest that died) is an entry of its queue: it waits for its turn, begins only in a state from which it may, and is settled exactly once,
 * whatever happens to the guest meanwhile. Main thread only.
 *
 *     push -> (turn comes, state is in `from`) begin -> ... -> vial_transition_end -> settle -> next
 *          \-> (state is not) ---------------------------------------------------------> settle with the refusal
 *
 * A guest that dies is buried by an entry that goes before all that wait (loss.c); a deletion goes before them too. So whoever waits finds a state
 * that says what became of the sandbox: running, hibernated, failed with its reason, or gone.
 */
#pragma once

#include "service/sandbox.h"

typedef struct VialTransition VialTransition;

#define VIAL_FROM(state) (1u << VIAL_STATE_##state)
#define VIAL_FROM_ANY (~0u)

typedef struct {
	const char *participle; /* "the sandbox is paused and cannot be <participle> now" */
	unsigned from;          /* states in which it may begin: VIAL_FROM(...) */
	gboolean suspends_use;  /* whoever wants to use the guest waits for its end */
	/* Its turn has come. May end it at once. */
	void (*begin)(VialTransition *transition);
	/* Exactly once, last: tells whoever asked and frees the transition. The sandbox is safe to use. */
	void (*settle)(VialTransition *transition, const GError *error);
} VialTransitionOps;

/* The first member of every concrete transition. */
struct VialTransition {
	const VialTransitionOps *ops;
	VialSandbox *sandbox; /* a reference, from push to settle */
	gboolean has_begun;
};

typedef enum { VIAL_QUEUE_LAST, VIAL_QUEUE_FIRST } VialQueuePlace;

/* Takes `transition`. Begins it right away when nothing is before it. */
void vial_transition_push(VialTransition *transition, const VialTransitionOps *ops, VialSandbox *sandbox, VialQueuePlace place);
/* `error` is borrowed; NULL is success. */
void vial_transition_end(VialTransition *transition, const GError *error);
/* Settles those of one kind that still wait: what they wait for has just failed for all of them. */
void vial_transition_refuse_waiting(VialSandbox *sandbox, const VialTransitionOps *ops, const GError *error);

/* The one under way, or NULL. */
VialTransition *vial_transition_current(const VialSandbox *sandbox);
gboolean vial_transition_is_pending(const VialSandbox *sandbox, const VialTransitionOps *ops);
gboolean vial_sandbox_is_busy(const VialSandbox *sandbox);
/* TRUE while the guest can be talked to right away. */
gboolean vial_sandbox_is_usable(const VialSandbox *sandbox);

/* What a caller gets whose wish does not fit the sandbox's state. */
GError *vial_sandbox_refusal(const VialSandbox *sandbox, const char *participle);
