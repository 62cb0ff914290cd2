/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of transitions: order, places, refusals, and that everybody is settled exactly once. */
#include "service/transition.h"

#include <string.h>

#include "service/sandbox_private.h"

typedef struct {
	VialTransition base;
	const char *name;
	gboolean waits; /* ended by the test, not by its own beginning */
} Step;

static GString *story;
static Step *under_way;

static void step_begin(VialTransition *transition)
{
	Step *step = (Step *)transition;

	g_string_append_printf(story, "+%s", step->name);
	if (step->waits)
		under_way = step;
	else
		vial_transition_end(transition, NULL);
}

static void step_settle(VialTransition *transition, const GError *error)
{
	Step *step = (Step *)transition;

	g_string_append_printf(story, "%c%s", error ? '!' : '-', step->name);
	g_free(step);
}

static const VialTransitionOps ops = { "tried", VIAL_FROM(RUNNING), FALSE, step_begin, step_settle };
static const VialTransitionOps suspending_ops = { "tried", VIAL_FROM(RUNNING), TRUE, step_begin, step_settle };

static Step *push(VialSandbox *sandbox, const char *name, gboolean waits, const VialTransitionOps *of, VialQueuePlace place)
{
	Step *step = g_new0(Step, 1);

	step->name = name;
	step->waits = waits;
	vial_transition_push(&step->base, of, sandbox, place);
	return step;
}

static void end(const GError *error)
{
	vial_transition_end(&g_steal_pointer(&under_way)->base, error);
}

static void run_loop(void)
{
	while (g_main_context_iteration(NULL, FALSE))
		;
}

static void expect(const char *expected)
{
	g_assert_cmpstr(story->str, ==, expected);
	g_string_truncate(story, 0);
}

typedef struct {
	VialApp app;
	VialSandbox *sandbox;
} Fixture;

static void set_up(Fixture *fixture, gconstpointer data)
{
	story = g_string_new(NULL);
	fixture->app.sandboxes = vial_sandboxes_new(&fixture->app);
	fixture->sandbox = vial_sandbox_new(&fixture->app, "abcdefghij0123456789");
	fixture->sandbox->state = VIAL_STATE_RUNNING;
}

static void tear_down(Fixture *fixture, gconstpointer data)
{
	g_assert_false(vial_sandbox_is_busy(fixture->sandbox));
	/* Everybody who was settled let go of it: only the registry is left. */
	g_assert_cmpint(fixture->sandbox->refs, ==, 1);
	vial_sandboxes_free(fixture->app.sandboxes);
	g_string_free(story, TRUE);
}

static void test_one_begins_when_the_one_before_has_ended(Fixture *fixture, gconstpointer data)
{
	push(fixture->sandbox, "a", TRUE, &ops, VIAL_QUEUE_LAST);
	push(fixture->sandbox, "b", FALSE, &ops, VIAL_QUEUE_LAST);
	push(fixture->sandbox, "c", FALSE, &ops, VIAL_QUEUE_LAST);
	run_loop();
	expect("+a");
	end(NULL);
	expect("-a"); /* the next one begins from the loop */
	run_loop();
	expect("+b-b+c-c");
}

static void test_what_goes_first_still_waits_for_the_one_under_way(Fixture *fixture, gconstpointer data)
{
	push(fixture->sandbox, "a", TRUE, &ops, VIAL_QUEUE_LAST);
	push(fixture->sandbox, "b", FALSE, &ops, VIAL_QUEUE_LAST);
	push(fixture->sandbox, "first", FALSE, &ops, VIAL_QUEUE_FIRST);
	end(NULL);
	run_loop();
	expect("+a-a+first-first+b-b");
}

static void test_a_state_that_does_not_fit_refuses_when_the_turn_comes(Fixture *fixture, gconstpointer data)
{
	push(fixture->sandbox, "a", TRUE, &ops, VIAL_QUEUE_LAST);
	push(fixture->sandbox, "b", FALSE, &ops, VIAL_QUEUE_LAST);
	fixture->sandbox->state = VIAL_STATE_FAILED;
	end(NULL);
	run_loop();
	expect("+a-a!b");
	fixture->sandbox->state = VIAL_STATE_DELETED;
	push(fixture->sandbox, "c", FALSE, &ops, VIAL_QUEUE_LAST);
	expect("!c");
}

static void test_those_that_wait_for_the_same_are_refused_together(Fixture *fixture, gconstpointer data)
{
	g_autoptr(GError) error = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAVAILABLE, "no");

	push(fixture->sandbox, "a", TRUE, &suspending_ops, VIAL_QUEUE_LAST);
	push(fixture->sandbox, "b", FALSE, &suspending_ops, VIAL_QUEUE_LAST);
	push(fixture->sandbox, "other", FALSE, &ops, VIAL_QUEUE_LAST);
	push(fixture->sandbox, "c", FALSE, &suspending_ops, VIAL_QUEUE_LAST);
	vial_transition_refuse_waiting(fixture->sandbox, &suspending_ops, error);
	expect("+a!b!c");
	end(error);
	run_loop();
	expect("!a+other-other");
}

static void test_only_what_suspends_use_keeps_users_out(Fixture *fixture, gconstpointer data)
{
	char stand_in;

	fixture->sandbox->instance = (VialInstance *)&stand_in; /* only looked at */
	g_assert_true(vial_sandbox_is_usable(fixture->sandbox));
	push(fixture->sandbox, "a", TRUE, &ops, VIAL_QUEUE_LAST);
	g_assert_true(vial_sandbox_is_usable(fixture->sandbox));
	push(fixture->sandbox, "b", TRUE, &suspending_ops, VIAL_QUEUE_LAST);
	g_assert_true(vial_sandbox_is_usable(fixture->sandbox));
	end(NULL);
	run_loop();
	g_assert_false(vial_sandbox_is_usable(fixture->sandbox));
	end(NULL);
	g_assert_true(vial_sandbox_is_usable(fixture->sandbox));
	fixture->sandbox->instance = NULL;
	g_assert_false(vial_sandbox_is_usable(fixture->sandbox));
}

static void test_a_crowd_is_refused_and_nobody_forgotten(Fixture *fixture, gconstpointer data)
{
	guint refused = 0, done = 0;

	push(fixture->sandbox, "a", TRUE, &ops, VIAL_QUEUE_LAST);
	for (int i = 0; i < 2000; i++)
		push(fixture->sandbox, "x", FALSE, &ops, VIAL_QUEUE_LAST);
	end(NULL);
	run_loop();
	for (const char *next = story->str; *next; next++) {
		refused += strncmp(next, "!x", 2) == 0;
		done += strncmp(next, "-x", 2) == 0;
	}
	g_assert_cmpuint(refused + done, ==, 2000);
	g_assert_cmpuint(refused, >, 500);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
#define ADD(name) g_test_add("/transition/" #name, Fixture, NULL, set_up, test_##name, tear_down)
	ADD(one_begins_when_the_one_before_has_ended);
	ADD(what_goes_first_still_waits_for_the_one_under_way);
	ADD(a_state_that_does_not_fit_refuses_when_the_turn_comes);
	ADD(those_that_wait_for_the_same_are_refused_together);
	ADD(only_what_suspends_use_keeps_users_out);
	ADD(a_crowd_is_refused_and_nobody_forgotten);
	return g_test_run();
}
