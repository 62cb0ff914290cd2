/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of loop.h on epoll. Timers are a sorted list: there are a few dozen at most. */
#include "loop.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#define MAX_EVENTS 64
/* The longest sleep; only a bound, nothing depends on waking up. */
#define MAX_WAIT_MS 60000
#define PRECISE_MS 100

static int epoll_fd = -1;
static bool is_stopped;
static volatile sig_atomic_t has_child_news;
static struct vial_timer *first_timer;
static bool is_in_turn;
static int64_t turn_ms; /* 0: nobody has asked in this turn */
/* The batch being dispatched, so that a watch removed by one callback is not called for an event already fetched. */
static struct epoll_event batch[MAX_EVENTS];
static int batch_count, batch_next;

static void on_sigchld(int signal)
{
	has_child_news = 1;
}

int vial_loop_init(void)
{
	struct sigaction action = { .sa_handler = on_sigchld };
	sigset_t blocked;

	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		return -errno;
	/* SIGCHLD is only let in while waiting, so that it can never slip in between the check and the wait. */
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &blocked, NULL) < 0 || sigaction(SIGCHLD, &action, NULL) < 0)
		return -errno;
	return 0;
}

int64_t vial_loop_now_ms(void)
{
	if (!is_in_turn)
		return vial_loop_clock_ms();
	if (turn_ms == 0)
		turn_ms = vial_loop_clock_ms();
	return turn_ms;
}

int64_t vial_loop_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int vial_watch_add(struct vial_watch *watch, int fd, uint32_t events, vial_watch_fn *fn, void *data)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return -errno;
	*watch = (struct vial_watch){ .fd = fd, .events = events, .is_added = true, .fn = fn, .data = data };
	return 0;
}

int vial_watch_modify(struct vial_watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };

	if (!watch->is_added || watch->events == events)
		return 0;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, watch->fd, &event) < 0)
		return -errno;
	watch->events = events;
	return 0;
}

void vial_watch_remove(struct vial_watch *watch)
{
	if (!watch->is_added)
		return;
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	watch->is_added = false;
	for (int i = batch_next; i < batch_count; i++) {
		if (batch[i].data.ptr == watch)
			batch[i].data.ptr = NULL;
	}
}

void vial_timer_clear(struct vial_timer *timer)
{
	if (!timer->is_set)
		return;
	if (timer->previous)
		timer->previous->next = timer->next;
	else
		first_timer = timer->next;
	if (timer->next)
		timer->next->previous = timer->previous;
	timer->next = timer->previous = NULL;
	timer->is_set = false;
}

void vial_timer_set(struct vial_timer *timer, int64_t delay_ms, vial_timer_fn *fn, void *data)
{
	struct vial_timer *before = NULL, *after;

	vial_timer_clear(timer);
	*timer = (struct vial_timer){ .deadline_ms = vial_loop_now_ms() + delay_ms, .fn = fn, .data = data, .is_set = true };
	for (after = first_timer; after && after->deadline_ms <= timer->deadline_ms; after = after->next)
		before = after;
	timer->previous = before;
	timer->next = after;
	if (before)
		before->next = timer;
	else
		first_timer = timer;
	if (after)
		after->previous = timer;
}

static void run_timers(void)
{
	int64_t now_ms = vial_loop_now_ms();

	while (first_timer && first_timer->deadline_ms <= now_ms) {
		struct vial_timer *timer = first_timer;

		vial_timer_clear(timer);
		timer->fn(timer, timer->data);
	}
}

static int wait_ms(void)
{
	int64_t left_ms;

	if (!first_timer)
		return MAX_WAIT_MS;
	left_ms = first_timer->deadline_ms - vial_loop_now_ms();
	/* What this turn has taken matters to a timer that is near. */
	if (left_ms < PRECISE_MS)
		left_ms = first_timer->deadline_ms - vial_loop_clock_ms();
	if (left_ms < 0)
		return 0;
	return left_ms > MAX_WAIT_MS ? MAX_WAIT_MS : (int)left_ms;
}

void vial_loop_run(bool (*before_wait)(void), void (*on_child)(void))
{
	sigset_t open_mask;

	sigprocmask(SIG_SETMASK, NULL, &open_mask);
	sigdelset(&open_mask, SIGCHLD);
	while (!is_stopped) {
		int timeout_ms = before_wait() ? 0 : wait_ms();
		int count = epoll_pwait(epoll_fd, batch, MAX_EVENTS, timeout_ms, &open_mask);

		batch_count = count < 0 ? 0 : count;
		is_in_turn = true;
		turn_ms = 0;
		for (batch_next = 0; batch_next < batch_count;) {
			struct epoll_event *event = &batch[batch_next++];
			struct vial_watch *watch = event->data.ptr;

			if (watch)
				watch->fn(watch, event->events, watch->data);
		}
		batch_count = batch_next = 0;
		if (has_child_news) {
			has_child_news = 0;
			on_child();
		}
		run_timers();
	}
}

void vial_loop_stop(void)
{
	is_stopped = true;
}
