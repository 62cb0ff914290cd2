/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's side of the zone: starts its init, sends it spawn requests, and keeps the handle of every process it started.
 * spawn.h and zone.h describe it from outside.
 *
 * A child handle: requested → claimed → started → exited, or requested → failed. Messages of the zone's init are believed only about handles
 * in the right state. Guest root can stop or trace the init, and then nobody would hear of an exit; so while there are handles and somebody who may
 * wait for one (calm.h) it is asked for a sign of life now and then (and continued, should it be stopped), and a zone whose init stays mute is
 * killed. Beats are counted, not timed: a sandbox that slept for an hour has missed one beat.
 */
#include "zone.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calm.h"
#include "cgroup.h"
#include "log.h"
#include "loop.h"
#include "procfs.h"
#include "procguard.h"
#include "spawn.h"
#include "wire/wire.h"
#include "zoneinit.h"
#include "zoneproto.h"

#define BEAT_MS 3000
#define MAX_MISSED_BEATS 4
#define RETRY_MS 500
#define DEFAULT_PROCESS_LIMIT 512
/* The cgroup allows a few more than each user may have, so that root can still run something when a user has reached the limit. */
#define RESERVE 16
/* How many processes may be the agent's at once: far above any process limit in use. */
#define MAX_HANDLES 4096u

struct vial_child {
	struct vial_child *next;
	uint32_t id;
	pid_t pid, outer_pid;
	bool is_claimed, is_started, is_oom, is_process_limit, is_forgotten;
	int pending_signal;
	bool is_pending_for_group;
	const struct vial_child_handlers *handlers;
	void *data;
};

static struct {
	const char *program;
	pid_t init_pid;
	int socket;
	struct vial_watch watch;
	struct vial_timer retry, beat;
	unsigned missed_beats;
	struct vial_child *children;
	unsigned child_count;
	uint32_t last_id;
	unsigned process_limit;
	bool is_over;     /* for good */
	pid_t ending_pid; /* the init that was killed then */
} zone = { .socket = -1, .process_limit = DEFAULT_PROCESS_LIMIT };

static void start_again(struct vial_timer *timer, void *data);
static void lose_zone(void);

pid_t vial_zone_init_pid(void)
{
	return zone.init_pid;
}

/* --- handles --- */

static struct vial_child *find_child(uint32_t id)
{
	struct vial_child *child = zone.children;

	while (child && child->id != id)
		child = child->next;
	return child;
}

static void unlink_child(struct vial_child *child)
{
	struct vial_child **link = &zone.children;

	while (*link != child)
		link = &(*link)->next;
	*link = child->next;
	zone.child_count--;
}

pid_t vial_child_pid(const struct vial_child *child)
{
	return child->is_started ? child->pid : 0;
}

pid_t vial_child_outer_pid(const struct vial_child *child)
{
	return child->is_started ? child->outer_pid : 0;
}

int vial_child_signal(struct vial_child *child, int signal, bool is_whole_group)
{
	if (!child->is_started) {
		child->pending_signal = signal;
		child->is_pending_for_group = is_whole_group;
		return 0;
	}
	if (child->outer_pid <= 1)
		return -ESRCH;
	return kill(is_whole_group ? -child->outer_pid : child->outer_pid, signal) < 0 ? -errno : 0;
}

void vial_child_forget(struct vial_child *child)
{
	child->is_forgotten = true;
}

void vial_zone_mark_oom(pid_t outer_pid, pid_t outer_session)
{
	for (struct vial_child *child = zone.children; child; child = child->next) {
		if (child->outer_pid > 1 && (child->outer_pid == outer_pid || child->outer_pid == outer_session))
			child->is_oom = true;
	}
}

void vial_zone_mark_process_limit(pid_t outer_session)
{
	for (struct vial_child *child = zone.children; child; child = child->next) {
		if (child->outer_pid > 1 && child->outer_pid == outer_session)
			child->is_process_limit = true;
	}
}

static void finish(struct vial_child *child, const struct vial_exit *how)
{
	unlink_child(child);
	if (!child->is_forgotten)
		child->handlers->on_exit(child, how, child->data);
	free(child);
}

static void give_up(struct vial_child *child, enum vial_spawn_stage stage, int error)
{
	unlink_child(child);
	if (!child->is_forgotten)
		child->handlers->on_failed(child, stage, error, child->data);
	free(child);
}

/* --- reports --- */

/*
 * 0 is what gVisor says of a sender that has ended and been reaped before we came to read: there is nobody left to signal, but its exit is news all
 * the same. A pid we must never signal by mistake can only come from a forged message.
 */
static void on_claim(struct vial_child *child, pid_t outer_pid)
{
	if (child->is_claimed || outer_pid == 1 || outer_pid == zone.init_pid)
		return;
	child->is_claimed = true;
	child->outer_pid = outer_pid;
}

static void on_started(struct vial_child *child, const struct vial_zone_report *report)
{
	if (child->is_started || !child->is_claimed)
		return;
	child->pid = report->pid;
	child->is_started = true;
	if (child->pending_signal)
		vial_child_signal(child, child->pending_signal, child->is_pending_for_group);
	if (!child->is_forgotten && child->handlers->on_started)
		child->handlers->on_started(child, child->data);
}

static void on_exited(struct vial_child *child, const struct vial_zone_report *report)
{
	struct vial_exit how = {
		.is_oom = child->is_oom, .is_process_limit = child->is_process_limit, .cpu_ms = report->cpu_ms, .max_rss_kb = report->max_rss_kb
	};

	if (WIFSIGNALED(report->status)) {
		how.signal = WTERMSIG(report->status);
		how.exit_code = 128 + how.signal;
	} else {
		how.exit_code = WEXITSTATUS(report->status);
	}
	if (child->is_started)
		finish(child, &how);
}

static void on_report(const struct vial_zone_report *report, pid_t sender)
{
	struct vial_child *child = find_child(report->id);

	zone.missed_beats = 0;
	if (!child)
		return;
	switch (report->kind) {
	case VIAL_ZONE_CLAIM:
		on_claim(child, sender);
		break;
	case VIAL_ZONE_STARTED:
		on_started(child, report);
		break;
	case VIAL_ZONE_FAILED:
		if (!child->is_started)
			give_up(child, (enum vial_spawn_stage)report->stage, report->error);
		break;
	case VIAL_ZONE_EXITED:
		on_exited(child, report);
		break;
	}
}

/* The sender's pid as this namespace knows it; 0 when the message did not carry one. */
static pid_t sender_of(struct msghdr *message)
{
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS) {
			struct ucred credentials;

			memcpy(&credentials, CMSG_DATA(header), sizeof(credentials));
			return credentials.pid;
		}
	}
	return 0;
}

/* No report brings descriptors; guest root, who can trace the init, may. They must not pile up here. */
static void close_descriptors(struct msghdr *message)
{
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		int fd;

		for (size_t i = 0; header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS && i < count; i++) {
			memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
			close(fd);
		}
	}
}

/* One report: if there are more, the loop comes back at once, and mostly there are not. */
static void on_readable(struct vial_watch *watch, uint32_t events, void *data)
{
	struct vial_zone_report report;
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int) * 8)];
		struct cmsghdr align;
	} control;
	struct iovec part = { .iov_base = &report, .iov_len = sizeof(report) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	ssize_t size = recvmsg(zone.socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size <= 0) {
		lose_zone();
		return;
	}
	close_descriptors(&message);
	if (size == sizeof(report))
		on_report(&report, sender_of(&message));
}

/* --- the init --- */

static void exec_init(int socket)
{
	char *arguments[] = { (char *)"vial-zone", (char *)VIAL_ZONE_INIT_ARGUMENT, NULL };
	char *environment[] = { NULL };
	int null_fd = open("/dev/null", O_RDWR);
	sigset_t none;

	/* Nothing of the wire, nor any other descriptor of the agent, may exist in the zone. */
	if (socket != VIAL_ZONE_SOCKET_FD && dup2(socket, VIAL_ZONE_SOCKET_FD) < 0)
		_exit(1);
	for (int fd = 0; fd < 3; fd++) {
		if (dup2(null_fd, fd) < 0)
			_exit(1);
	}
	fcntl(VIAL_ZONE_SOCKET_FD, F_SETFD, 0);
	if (syscall(SYS_close_range, VIAL_ZONE_SOCKET_FD + 1, ~0u, 0) < 0) {
		for (int fd = VIAL_ZONE_SOCKET_FD + 1; fd < 65536; fd++)
			close(fd);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(zone.program, arguments, environment);
	_exit(1);
}

static void limit_one(pid_t pid)
{
	struct rlimit limit = { .rlim_cur = zone.process_limit, .rlim_max = zone.process_limit };

	prlimit(pid, RLIMIT_NPROC, &limit, NULL);
}

static bool limit_each(const struct vial_process *process, void *data)
{
	if (process->pid != 1)
		limit_one(process->pid);
	return true;
}

void vial_zone_set_process_limit(unsigned limit)
{
	bool is_changed = limit != zone.process_limit;

	zone.process_limit = limit;
	vial_procguard_set_limit(limit);
	vial_cgroup_set_process_limit(limit + RESERVE);
	/* Those that run already carry the limit they were born with. */
	if (is_changed)
		vial_procfs_for_each(limit_each, NULL);
}

static int start_zone(void)
{
	struct vial_zone_request go = { 0 };
	int pair[2], one = 1, result;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one));
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		exec_init(pair[1]);
	result = pid < 0 ? -errno : 0;
	close(pair[1]);
	if (pid > 0)
		limit_one(pid);
	if (result == 0)
		result = vial_cgroup_add(pid);
	if (result == 0)
		result = vial_watch_add(&zone.watch, pair[0], EPOLLIN, on_readable, NULL);
	if (result == 0 && send(pair[0], &go, sizeof(go), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		result = -errno;
	if (result < 0) {
		vial_watch_remove(&zone.watch);
		close(pair[0]);
		if (pid > 0)
			kill(pid, SIGKILL);
		return result;
	}
	zone.init_pid = pid;
	zone.socket = pair[0];
	return 0;
}

static void start_again(struct vial_timer *timer, void *data)
{
	int result = zone.is_over ? 0 : start_zone();

	if (result == 0)
		return;
	vial_log("error", "cannot start the zone (errno %d), trying again", -result);
	vial_timer_set(&zone.retry, RETRY_MS, start_again, NULL);
}

/* Everybody in it is dead or about to be. Their owners hear it after the new zone is there, so that they can start anew. */
static void lose_zone(void)
{
	static const struct vial_exit lost = { .exit_code = 128 + SIGKILL, .signal = SIGKILL, .is_zone_lost = true };
	struct vial_child *old = zone.children;

	if (zone.socket < 0)
		return;
	if (!zone.is_over)
		vial_log("warning", "the zone was lost, starting a new one");
	vial_watch_remove(&zone.watch);
	vial_timer_clear(&zone.beat);
	zone.missed_beats = 0;
	close(zone.socket);
	zone.socket = -1;
	if (zone.init_pid > 0)
		kill(zone.init_pid, SIGKILL);
	zone.init_pid = 0;
	zone.children = NULL;
	zone.child_count = 0;
	start_again(NULL, NULL);
	while (old) {
		struct vial_child *child = old;
		struct vial_exit how = lost;

		old = child->next;
		how.is_oom = child->is_oom;
		how.is_process_limit = child->is_process_limit;
		if (!child->is_forgotten && child->is_started)
			child->handlers->on_exit(child, &how, child->data);
		else if (!child->is_forgotten)
			child->handlers->on_failed(child, VIAL_SPAWN_FORK, EAGAIN, child->data);
		free(child);
	}
}

void vial_zone_restart(enum vial_zone_reason reason)
{
	for (struct vial_child *child = zone.children; child; child = child->next) {
		child->is_oom = child->is_oom || reason == VIAL_ZONE_OUT_OF_MEMORY;
		child->is_process_limit = child->is_process_limit || reason == VIAL_ZONE_PROCESS_LIMIT;
	}
	lose_zone();
}

void vial_zone_end(void)
{
	zone.is_over = true;
	zone.ending_pid = zone.init_pid;
	vial_timer_clear(&zone.retry);
	lose_zone();
}

bool vial_zone_has_ended(void)
{
	return zone.is_over && zone.ending_pid == 0;
}

void vial_zone_on_child(void)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		if (pid == zone.ending_pid)
			zone.ending_pid = 0;
		if (pid == zone.init_pid) {
			zone.init_pid = 0;
			lose_zone();
		}
	}
}

int vial_zone_start(const char *program)
{
	zone.program = program;
	return start_zone();
}

/* --- spawning --- */

static void beat(struct vial_timer *timer, void *data)
{
	struct vial_zone_request ask = { 0 };

	/* Nobody waits for anything of init's: should it hang meanwhile, that is found out as soon after the next operation as it would be now. */
	if (!zone.children || vial_calm()) {
		zone.missed_beats = 0;
		return;
	}
	if (zone.missed_beats++ >= MAX_MISSED_BEATS) {
		vial_log("error", "the zone's init does not answer");
		lose_zone();
		return;
	}
	kill(zone.init_pid, SIGCONT);
	(void)!send(zone.socket, &ask, sizeof(ask), MSG_DONTWAIT | MSG_NOSIGNAL);
	vial_timer_set(&zone.beat, BEAT_MS, beat, NULL);
}

void vial_zone_hasten(void)
{
	if (zone.children && !zone.beat.is_set)
		vial_timer_set(&zone.beat, BEAT_MS, beat, NULL);
}

struct buffer {
	uint8_t *bytes;
	size_t size_bytes, capacity;
};

static int put(struct buffer *buffer, const void *bytes, size_t size_bytes)
{
	if (buffer->capacity - buffer->size_bytes < size_bytes) {
		size_t capacity = (buffer->capacity + size_bytes) * 2;
		uint8_t *grown = realloc(buffer->bytes, capacity);

		if (!grown)
			return -ENOMEM;
		buffer->bytes = grown;
		buffer->capacity = capacity;
	}
	memcpy(buffer->bytes + buffer->size_bytes, bytes, size_bytes);
	buffer->size_bytes += size_bytes;
	return 0;
}

static int put_vector(struct buffer *buffer, const char *const *vector, uint32_t *out_count)
{
	uint32_t count = 0;

	for (; vector[count]; count++) {
		if (put(buffer, vector[count], strlen(vector[count]) + 1) < 0)
			return -ENOMEM;
	}
	*out_count = count;
	return 0;
}

static int encode(const struct vial_spawn *spawn, uint32_t id, struct buffer *out)
{
	struct vial_zone_request request = {
		.id = id,
		.uid = spawn->user->uid,
		.gid = spawn->user->gid,
		.group_count = (uint32_t)spawn->user->group_count,
		.fd_count = (uint32_t)spawn->fd_count,
		.is_tty = spawn->is_tty,
	};
	const gid_t *groups = spawn->user->groups;

	for (size_t i = 0; i < spawn->fd_count; i++)
		request.fd_mask |= spawn->fds[i] >= 0 ? 1u << i : 0;
	if (put(out, &request, sizeof(request)) < 0 || put(out, groups, request.group_count * sizeof(*groups)) < 0 ||
	    put(out, spawn->cwd, strlen(spawn->cwd) + 1) < 0 || put_vector(out, spawn->argv, &request.argument_count) < 0 ||
	    put_vector(out, spawn->env, &request.env_count) < 0)
		return -ENOMEM;
	request.body_bytes = (uint32_t)(out->size_bytes - sizeof(request));
	request.is_in_memfd = out->size_bytes > VIAL_ZONE_MAX_PACKET;
	memcpy(out->bytes, &request, sizeof(request));
	return 0;
}

static int move_to_memfd(struct buffer *request)
{
	size_t body = request->size_bytes - sizeof(struct vial_zone_request);
	int fd = memfd_create("vial-spawn", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (write(fd, request->bytes + sizeof(struct vial_zone_request), body) != (ssize_t)body) {
		close(fd);
		return -ENOSPC;
	}
	request->size_bytes = sizeof(struct vial_zone_request);
	return fd;
}

static int send_request(const struct vial_spawn *spawn, struct buffer *request)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * (VIAL_SPAWN_MAX_FDS + 1))];
		struct cmsghdr align;
	} control = { 0 };
	int fds[VIAL_SPAWN_MAX_FDS + 1], fd_count = 0, memfd = -1;
	struct iovec part;
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	struct cmsghdr *header;
	int result = 0;

	for (size_t i = 0; i < spawn->fd_count; i++) {
		if (spawn->fds[i] >= 0)
			fds[fd_count++] = spawn->fds[i];
	}
	if (request->size_bytes > VIAL_ZONE_MAX_PACKET) {
		memfd = move_to_memfd(request);
		if (memfd < 0)
			return memfd;
		fds[fd_count++] = memfd;
	}
	part = (struct iovec){ .iov_base = request->bytes, .iov_len = request->size_bytes };
	if (fd_count > 0) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)fd_count);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)fd_count);
		memcpy(CMSG_DATA(header), fds, sizeof(int) * (size_t)fd_count);
	}
	if (sendmsg(zone.socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		result = -errno;
	if (memfd >= 0)
		close(memfd);
	return result;
}

int vial_spawn(const struct vial_spawn *spawn, const struct vial_child_handlers *handlers, void *data, struct vial_child **out_child)
{
	struct buffer request = { 0 };
	struct vial_child *child;
	int result;

	if (spawn->fd_count < 3 || spawn->fd_count > VIAL_SPAWN_MAX_FDS || !spawn->argv[0])
		return -EINVAL;
	if (zone.socket < 0 || zone.child_count >= MAX_HANDLES)
		return -EAGAIN;
	child = calloc(1, sizeof(*child));
	if (!child)
		return -ENOMEM;
	child->id = ++zone.last_id ? zone.last_id : ++zone.last_id;
	result = encode(spawn, child->id, &request);
	if (result == 0)
		result = send_request(spawn, &request);
	free(request.bytes);
	if (result < 0) {
		free(child);
		return result;
	}
	child->handlers = handlers;
	child->data = data;
	child->next = zone.children;
	zone.children = child;
	zone.child_count++;
	vial_zone_hasten();
	*out_child = child;
	return 0;
}
