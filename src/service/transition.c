/* SPDX-License-Identifier: Apache-2.0 */
#include "service/transition.h"

#include "service/sandbox_private.h"

/* More than any client waits for; beyond it somebody asks without waiting for answers. */
#define MAX_WAITING 1024

GError *vial_sandbox_refusal(const VialSandbox *sandbox, const char *participle)
{
	switch (sandbox->state) {
	case VIAL_STATE_DELETED:
		return g_error_new(VIAL_ERROR, VIAL_ERROR_NOT_FOUND, "there is no sandbox %s", sandbox->id);
	case VIAL_STATE_FAILED:
		return g_error_new(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "the sandbox has failed: %s",
		                   sandbox->reason ? sandbox->reason : "no reason is known");
	case VIAL_STATE_PAUSED:
		return g_error_new(VIAL_ERROR, VIAL_ERROR_CONFLICT, "the sandbox is paused; resume it first");
	default:
		return g_error_new(VIAL_ERROR, VIAL_ERROR_CONFLICT, "the sandbox is %s and cannot be %s now", vial_state_name(sandbox->state),
		                   participle);
	}
}

VialTransition *vial_transition_current(const VialSandbox *sandbox)
{
	VialTransition *head = g_queue_peek_head((GQueue *)&sandbox->transitions);

	return head && head->has_begun ? head : NULL;
}

gboolean vial_sandbox_is_busy(const VialSandbox *sandbox)
{
	return !g_queue_is_empty((GQueue *)&sandbox->transitions);
}

gboolean vial_transition_is_pending(const VialSandbox *sandbox, const VialTransitionOps *ops)
{
	for (GList *item = sandbox->transitions.head; item; item = item->next)
		if (((VialTransition *)item->data)->ops == ops)
			return TRUE;
	return FALSE;
}

/* Only what is under way counts, not what still waits. */
gboolean vial_sandbox_is_usable(const VialSandbox *sandbox)
{
	VialTransition *current = vial_transition_current(sandbox);

	return sandbox->state == VIAL_STATE_RUNNING && sandbox->instance && !(current && current->ops->suspends_use);
}

/* The transition is out of the queue already: nobody who is told of its end can find it there. */
static void settle(VialTransition *transition, const GError *error)
{
	g_autoptr(VialSandbox) sandbox = transition->sandbox;

	transition->ops->settle(transition, error);
}

static void begin(VialTransition *transition)
{
	VialSandbox *sandbox = transition->sandbox;
	g_autoptr(GError) error = NULL;

	transition->has_begun = TRUE;
	if (transition->ops->from & (1u << sandbox->state))
		return transition->ops->begin(transition);
	error = vial_sandbox_refusal(sandbox, transition->ops->participle);
	vial_transition_end(transition, error);
}

/* From the loop, never from within the end of the one before: that may be in the middle of closing the guest's connection. */
static gboolean pump(gpointer data)
{
	g_autoptr(VialSandbox) sandbox = data;
	VialTransition *head = g_queue_peek_head(&sandbox->transitions);

	sandbox->pump = 0;
	if (head && !head->has_begun)
		begin(head);
	return G_SOURCE_REMOVE;
}

static void schedule(VialSandbox *sandbox)
{
	if (!sandbox->pump && !g_queue_is_empty(&sandbox->transitions))
		sandbox->pump = g_idle_add_full(G_PRIORITY_DEFAULT, pump, vial_sandbox_ref(sandbox), NULL);
}

void vial_transition_push(VialTransition *transition, const VialTransitionOps *ops, VialSandbox *sandbox, VialQueuePlace place)
{
	gboolean is_first = g_queue_is_empty(&sandbox->transitions) && !sandbox->pump;

	transition->ops = ops;
	transition->sandbox = vial_sandbox_ref(sandbox);
	if (place == VIAL_QUEUE_LAST && sandbox->transitions.length >= MAX_WAITING) {
		g_autoptr(GError) error = NULL;

		vial_fail_with(&error, VIAL_ERROR_UNAVAILABLE, json_pack("{s:i}", "retry_after", 1),
		               "%d requests already wait for this sandbox; try again later", MAX_WAITING);
		return settle(transition, error);
	}
	if (place == VIAL_QUEUE_LAST)
		g_queue_push_tail(&sandbox->transitions, transition);
	else
		g_queue_push_nth(&sandbox->transitions, transition, vial_transition_current(sandbox) ? 1 : 0);
	if (is_first)
		begin(transition);
	else
		schedule(sandbox);
}

void vial_transition_end(VialTransition *transition, const GError *error)
{
	g_autoptr(VialSandbox) sandbox = vial_sandbox_ref(transition->sandbox);

	g_assert(transition == g_queue_peek_head(&sandbox->transitions));
	g_queue_pop_head(&sandbox->transitions);
	/* Before anybody is told, so that what he asks for next cannot begin ahead of those that wait. */
	schedule(sandbox);
	settle(transition, error);
}

void vial_transition_refuse_waiting(VialSandbox *sandbox, const VialTransitionOps *ops, const GError *error)
{
	GQueue refused = G_QUEUE_INIT;
	VialTransition *transition;

	for (GList *item = sandbox->transitions.head, *next; item; item = next) {
		next = item->next;
		transition = item->data;
		if (transition->ops != ops || transition->has_begun)
			continue;
		g_queue_delete_link(&sandbox->transitions, item);
		g_queue_push_tail(&refused, transition);
	}
	while ((transition = g_queue_pop_head(&refused)))
		settle(transition, error);
}
