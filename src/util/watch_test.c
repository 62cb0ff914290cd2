/* SPDX-License-Identifier: Apache-2.0 */
/* Watches that remove themselves and each other while their events are at hand. */
#include <unistd.h>

#include "util/watch.h"

typedef struct {
	int fds[2];
	guint id;
	guint calls;
	guint notified;
	guint removes; /* another watch, 0 for none */
	gboolean stays;
	gboolean was_notified_within;
} Pipe;

static gboolean on_ready(int fd, GIOCondition condition, gpointer data)
{
	Pipe *pipe = data;
	char byte;

	pipe->calls++;
	if (condition & G_IO_IN)
		g_assert_cmpint(read(fd, &byte, 1), ==, 1);
	if (pipe->removes)
		vial_watch_remove(pipe->removes);
	pipe->was_notified_within = pipe->notified > 0;
	return pipe->stays;
}

static void on_notify(gpointer data)
{
	((Pipe *)data)->notified++;
}

static void start(Pipe *pipe, int priority)
{
	*pipe = (Pipe){ .stays = TRUE };
	g_assert_true(g_unix_open_pipe(pipe->fds, FD_CLOEXEC, NULL));
	pipe->id = vial_watch_add(priority, pipe->fds[0], G_IO_IN, on_ready, pipe, on_notify);
	g_assert_cmpuint(pipe->id, !=, 0);
}

static void end(Pipe *pipe)
{
	vial_watch_remove(pipe->id);
	g_assert_cmpuint(pipe->notified, ==, 1);
	close(pipe->fds[0]);
	if (pipe->fds[1] >= 0)
		close(pipe->fds[1]);
}

static void put(Pipe *pipe)
{
	g_assert_cmpint(write(pipe->fds[1], "x", 1), ==, 1);
}

static void turn(void)
{
	while (g_main_context_iteration(NULL, FALSE))
		;
}

static void test_what_is_ready_is_called(void)
{
	Pipe one, two, low;

	start(&one, G_PRIORITY_DEFAULT);
	start(&two, G_PRIORITY_DEFAULT);
	start(&low, G_PRIORITY_LOW);
	turn();
	g_assert_cmpuint(one.calls + two.calls + low.calls, ==, 0);
	put(&one);
	put(&one);
	put(&low);
	turn();
	g_assert_cmpuint(one.calls, ==, 2); /* the second byte is still there after the first call */
	g_assert_cmpuint(two.calls, ==, 0);
	g_assert_cmpuint(low.calls, ==, 1);
	end(&one);
	end(&two);
	end(&low);
}

static void test_the_other_end_is_closed(void)
{
	Pipe one;

	start(&one, G_PRIORITY_DEFAULT);
	one.stays = FALSE;
	close(one.fds[1]);
	one.fds[1] = -1;
	turn();
	g_assert_cmpuint(one.calls, ==, 1);
	end(&one);
}

static void test_one_that_removes_itself(void)
{
	Pipe one;

	start(&one, G_PRIORITY_DEFAULT);
	one.removes = one.id;
	put(&one);
	put(&one);
	turn();
	g_assert_cmpuint(one.calls, ==, 1);
	g_assert_false(one.was_notified_within);
	end(&one);
}

static void test_one_that_removes_another(void)
{
	Pipe one, two;

	start(&one, G_PRIORITY_DEFAULT);
	start(&two, G_PRIORITY_DEFAULT);
	one.removes = two.id;
	two.removes = one.id;
	put(&one);
	put(&two);
	turn();
	g_assert_cmpuint(one.calls + two.calls, ==, 1);
	end(&one);
	end(&two);
}

static void test_a_number_that_came_back(void)
{
	Pipe one, two;

	start(&one, G_PRIORITY_DEFAULT);
	put(&one);
	end(&one);
	start(&two, G_PRIORITY_DEFAULT); /* in the descriptor that was just closed */
	g_assert_cmpint(two.fds[0], ==, one.fds[0]);
	turn();
	g_assert_cmpuint(one.calls + two.calls, ==, 0);
	end(&two);
}

static void test_many(void)
{
	enum { COUNT = 200 };
	Pipe *pipes = g_new0(Pipe, COUNT);

	for (guint i = 0; i < COUNT; i++) {
		start(&pipes[i], G_PRIORITY_DEFAULT);
		put(&pipes[i]);
	}
	turn();
	for (guint i = 0; i < COUNT; i++) {
		g_assert_cmpuint(pipes[i].calls, ==, 1);
		end(&pipes[i]);
	}
	g_free(pipes);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/watch/ready", test_what_is_ready_is_called);
	g_test_add_func("/watch/closed", test_the_other_end_is_closed);
	g_test_add_func("/watch/itself", test_one_that_removes_itself);
	g_test_add_func("/watch/another", test_one_that_removes_another);
	g_test_add_func("/watch/number", test_a_number_that_came_back);
	g_test_add_func("/watch/many", test_many);
	return g_test_run();
}
