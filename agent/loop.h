/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's one event loop: descriptors, timers and nothing else. Everything in the agent runs on it, in one thread, so
 * no callback may block. Watches and timers are embedded in their owner's structure; start them zeroed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct vial_watch;
typedef void vial_watch_fn(struct vial_watch *watch, uint32_t events, void *data);

struct vial_watch {
	int fd; /* the caller's: removing a watch does not close it */
	uint32_t events;
	bool is_added;
	vial_watch_fn *fn;
	void *data;
};

struct vial_timer;
typedef void vial_timer_fn(struct vial_timer *timer, void *data);

struct vial_timer {
	int64_t deadline_ms; /* on the monotonic clock of vial_loop_now_ms() */
	vial_timer_fn *fn;
	void *data;
	struct vial_timer *next, *previous;
	bool is_set;
};

int vial_loop_init(void);
/* Runs until vial_loop_stop(). `before_wait` is called before every wait and returns true if it has more to do at once. */
void vial_loop_run(bool (*before_wait)(void), void (*on_child)(void));
void vial_loop_stop(void);

/*
 * Level-triggered. `events` may be 0 (EPOLLHUP and EPOLLERR still come; remove the watch to hear nothing).
 * vial_watch_remove() is safe at any time, also from within any callback; the watch is not called after it.
 */
int vial_watch_add(struct vial_watch *watch, int fd, uint32_t events, vial_watch_fn *fn, void *data);
int vial_watch_modify(struct vial_watch *watch, uint32_t events);
void vial_watch_remove(struct vial_watch *watch);

/* One shot. Setting a timer that is set moves it; clearing one that is not set does nothing. */
void vial_timer_set(struct vial_timer *timer, int64_t delay_ms, vial_timer_fn *fn, void *data);
void vial_timer_clear(struct vial_timer *timer);

/* The monotonic clock when it was first asked for in this turn of the loop: in a guest looking at it is a system call. */
int64_t vial_loop_now_ms(void);
/* At this moment, for those who count their own time within a turn. */
int64_t vial_loop_clock_ms(void);
