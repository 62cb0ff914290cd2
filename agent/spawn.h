/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting processes in the zone (zone.h), where the guest's programs live, and hearing how they end.
 *
 * vial_spawn() returns a handle at once. Then exactly one of: on_failed (never ran; the handle is gone after the call), or on_started
 * followed by on_exit (the handle is gone after it). If the zone is lost (guest root killed its init) on_exit comes with
 * is_zone_lost. Every process leads its own session and process group.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "users.h"

struct vial_child;

#define VIAL_SPAWN_MAX_FDS 8

struct vial_spawn {
	const char *const *argv; /* argv[0] is looked up in env's PATH when it has no slash */
	const char *const *env;  /* "NAME=value", all of it: see vial_env_build() */
	const char *cwd;
	const struct vial_user *user;
	int fds[VIAL_SPAWN_MAX_FDS]; /* fds[i] becomes descriptor i; -1 is /dev/null. Still the caller's: close yours after the call. */
	size_t fd_count;             /* at least 3 */
	bool is_tty;                 /* fds[0] is a pty slave and becomes the controlling terminal */
};

/* Where a start failed; the errno belongs to it. */
enum vial_spawn_stage {
	VIAL_SPAWN_FORK = 1,
	VIAL_SPAWN_SETUP,
	VIAL_SPAWN_USER,
	VIAL_SPAWN_CWD,
	VIAL_SPAWN_EXEC,
};

struct vial_exit {
	int exit_code;         /* as a shell says it: 128 + signal when killed */
	int signal;            /* 0 when it exited by itself */
	bool is_oom;           /* the memory guard killed it or one of its session */
	bool is_process_limit; /* the process guard ended its session */
	bool is_zone_lost;     /* every process of the zone died with it */
	uint64_t cpu_ms;
	uint64_t max_rss_kb;
};

struct vial_child_handlers {
	void (*on_started)(struct vial_child *child, void *data);
	void (*on_failed)(struct vial_child *child, enum vial_spawn_stage stage, int error, void *data);
	void (*on_exit)(struct vial_child *child, const struct vial_exit *exit, void *data);
};

/* 0 or -errno (nothing will be called then). */
int vial_spawn(const struct vial_spawn *request, const struct vial_child_handlers *handlers, void *data, struct vial_child **out_child);

/* As programs in the zone see it; 0 before on_started. */
pid_t vial_child_pid(const struct vial_child *child);
/* As the agent sees it in its own /proc; 0 before on_started. */
pid_t vial_child_outer_pid(const struct vial_child *child);
/* To the process or to its whole group. A signal sent before on_started is delivered when it has started. 0 or -errno. */
int vial_child_signal(struct vial_child *child, int signal, bool is_whole_group);
/* After this nothing is called any more; the process goes on and is reaped silently. */
void vial_child_forget(struct vial_child *child);
