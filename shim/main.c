/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vial-shim DIR: hosts one gVisor sandbox. DIR is the sandbox's folder, made by viald (0700), with shim.json in it:
 *
 *     {"id", "runsc", "runsc_root", "bundle", "network": "none"|"sandbox", "netns"?, "current": bool, "read_only": [path...],
 *      "processors"?}
 *
 * We chdir there, listen on shim.sock, write shim.pid ("pid starttime": the start time tells a reused pid apart), and
 * say "ready" on standard output. When the sandbox has ended we leave exit.json behind and go.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim.h"

#define LOG_LIMIT_BYTES (256 * 1024)
#define LINGER_MS 200 /* how long the last state event may take to reach viald */

static char *take_string(json_t *config, const char *key)
{
	const char *value = json_string_value(json_object_get(config, key));

	return value ? strdup(value) : NULL;
}

static int load_config(struct shim *shim)
{
	json_t *config = json_load_file("shim.json", 0, NULL);

	if (!config)
		return -EINVAL;
	shim->id = take_string(config, "id");
	shim->runsc = take_string(config, "runsc");
	shim->runsc_root = take_string(config, "runsc_root");
	shim->bundle = take_string(config, "bundle");
	shim->network = take_string(config, "network");
	shim->netns = take_string(config, "netns");
	shim->is_current = json_is_true(json_object_get(config, "current"));
	shim->processors = take_string(config, "processors");
	shim->read_only = json_incref(json_object_get(config, "read_only"));
	json_decref(config);
	return shim->id && shim->runsc && shim->runsc_root && shim->bundle && shim->network ? 0 : -EINVAL;
}

static int open_socket(struct shim *shim)
{
	/* A relative name: the folder's full path may be longer than sun_path. */
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "shim.sock" };

	shim->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (shim->listen_fd < 0 || bind(shim->listen_fd, (struct sockaddr *)&address, sizeof address) < 0)
		return -errno;
	return listen(shim->listen_fd, 4) < 0 ? -errno : 0;
}

static int write_small_file(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	size_t size = strlen(text);
	int result = fd < 0 || write(fd, text, size) != (ssize_t)size ? -EIO : 0;

	if (fd >= 0)
		close(fd);
	return result;
}

/* Field 22 of /proc/self/stat; counted from behind the parenthesised name, which may hold anything. */
static unsigned long long own_start_time(void)
{
	char text[1024] = "";
	FILE *file = fopen("/proc/self/stat", "re");
	char *field = file && fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;

	if (file)
		fclose(file);
	for (int i = 2; field && i < 22; i++)
		field = strchr(field + 1, ' ');
	return field ? strtoull(field, NULL, 10) : 0;
}

static int write_pid(void)
{
	char text[64];

	snprintf(text, sizeof text, "%d %llu\n", (int)getpid(), own_start_time());
	return write_small_file("shim.pid", text);
}

static void write_exit(const struct shim *shim)
{
	char text[128];

	snprintf(text, sizeof text, "{\"exit_status\":%d,\"stopped\":%s,\"broke_protocol\":%s}\n", shim->exit_status,
	         shim->is_stopping ? "true" : "false", shim->broke_protocol ? "true" : "false");
	write_small_file("exit.json", text);
}

/* Some of runsc's errors are a line and then the stack of the goroutine that had it: the line is the reason, and comes first. */
static size_t size_without_stack(struct shim *shim, const char *bytes, size_t size)
{
	const char *stack = memmem(bytes, size, "\ngoroutine ", 11);

	if (!stack)
		return size;
	shim->has_reason = true;
	size = (size_t)(stack - bytes);
	return size > 0 && bytes[size - 1] == ':' ? size - 1 : size;
}

/* The log keeps its first LOG_LIMIT_BYTES; the tail of what came last, or before a stack, is kept apart for error messages. */
static void read_log(struct shim *shim)
{
	char bytes[4096];
	ssize_t got = read(shim->log_fd, bytes, sizeof bytes);
	size_t size, keep;

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
		close(shim->log_fd);
		shim->log_fd = -1;
	}
	if (got <= 0)
		return;
	if (shim->log_written < LOG_LIMIT_BYTES && write(shim->log_file_fd, bytes, (size_t)got) > 0)
		shim->log_written += (size_t)got;
	if (shim->has_reason)
		return;
	size = size_without_stack(shim, bytes, (size_t)got);
	while (size > 0 && bytes[size - 1] == '\n')
		size--;
	keep = size < sizeof shim->log_tail - 1 ? size : sizeof shim->log_tail - 1;
	memcpy(shim->log_tail, bytes + size - keep, keep);
	shim->log_tail[keep] = '\0';
	for (char *c = shim->log_tail; *c; c++)
		if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
			*c = ' ';
}

static void reap(struct shim *shim, int signal_fd)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	if (read(signal_fd, &info, sizeof info) != sizeof info)
		return;
	if (info.ssi_signo == SIGTERM)
		return shim_runsc_stop(shim);
	if (shim->log_fd >= 0)
		read_log(shim); /* so that a failed command's reason is known before its exit is reported */
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		shim_runsc_child_exited(shim, pid, status);
}

static void accept_viald(struct shim *shim)
{
	int fd = accept4(shim->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer;
	socklen_t size = sizeof peer;

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != geteuid())
		close(fd);
	else
		shim_relay_attach(shim, fd);
}

/* One turn of the loop. A side is only read while the other's queue has room. */
static void turn(struct shim *shim, int signal_fd)
{
	bool room_for_agent = shim_queue_size(&shim->to_agent) < SHIM_QUEUE_HIGH_BYTES;
	bool room_for_viald = shim_queue_size(&shim->to_viald) < SHIM_QUEUE_HIGH_BYTES;
	bool is_live = shim->state != SHIM_EXITED;
	int result = 0;
	struct pollfd polls[6] = {
		{ .fd = signal_fd, .events = POLLIN },
		{ .fd = shim->listen_fd, .events = POLLIN },
		{ .fd = shim->viald_fd, .events = (short)((room_for_agent ? POLLIN : 0) | (shim_queue_size(&shim->to_viald) ? POLLOUT : 0)) },
		{ .fd = is_live ? shim->agent_out_fd : -1, .events = (short)(room_for_viald ? POLLIN : 0) },
		{ .fd = is_live && shim_queue_size(&shim->to_agent) ? shim->agent_in_fd : -1, .events = POLLOUT },
		{ .fd = shim->log_fd, .events = POLLIN },
	};

	if (poll(polls, 6, -1) < 0)
		return;
	if (polls[5].revents)
		read_log(shim);
	if (polls[0].revents)
		reap(shim, signal_fd);
	if (polls[3].revents & (POLLIN | POLLHUP))
		result = shim_relay_read_agent(shim);
	if (result < 0) {
		/* The guest broke the framing or closed its end: it cannot be talked to any more. */
		shim->broke_protocol = result == -EPROTO;
		close(shim->agent_out_fd);
		shim->agent_out_fd = -1;
		shim_runsc_stop(shim);
		shim->is_stopping = false;
	}
	if (polls[4].revents)
		shim_queue_flush(&shim->to_agent, shim->agent_in_fd);
	if (polls[2].revents & POLLIN && shim->viald_fd == polls[2].fd && shim_relay_read_viald(shim) < 0)
		shim_relay_detach(shim);
	else if (polls[2].revents & (POLLHUP | POLLERR) && !(polls[2].revents & POLLIN))
		shim_relay_detach(shim);
	if (shim->viald_fd >= 0 && shim_queue_flush(&shim->to_viald, shim->viald_fd) < 0)
		shim_relay_detach(shim);
	if (polls[1].revents)
		accept_viald(shim);
}

static void say_goodbye(struct shim *shim)
{
	struct pollfd writable = { .fd = shim->viald_fd, .events = POLLOUT };

	write_exit(shim);
	unlink("shim.sock");
	if (shim->viald_fd >= 0 && poll(&writable, 1, LINGER_MS) > 0)
		shim_queue_flush(&shim->to_viald, shim->viald_fd);
}

int main(int argc, char **argv)
{
	struct shim shim = { .listen_fd = -1, .viald_fd = -1, .log_fd = -1, .agent_in_fd = -1, .agent_out_fd = -1 };
	sigset_t signals;
	int signal_fd;

	if (argc != 2) {
		fprintf(stderr, "usage: vial-shim DIR\n");
		return 2;
	}
	/* Nothing of viald's comes along, whatever a library of its forgot to close: runsc and the sandbox would have it too. */
	close_range(3, ~0u, 0);
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_SETMASK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	setsid();
	/* runsc detaches its sandbox process; as subreaper we still learn of its end. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (chdir(argv[1]) < 0 || load_config(&shim) < 0) {
		fprintf(stderr, "vial-shim: %s: no usable shim.json\n", argv[1]);
		return 1;
	}
	shim.log_file_fd = open("agent.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (shim.log_file_fd < 0 || signal_fd < 0 || vial_wire_reader_init(&shim.viald_reader) < 0 || vial_wire_reader_init(&shim.agent_reader) < 0 ||
	    shim_runsc_open_pipes(&shim) < 0 || open_socket(&shim) < 0 || write_pid() < 0) {
		fprintf(stderr, "vial-shim: cannot set up: %s\n", strerror(errno));
		return 1;
	}
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		return 1;
	close(STDOUT_FILENO);
	open("/dev/null", O_RDWR);
	while (shim.state != SHIM_EXITED)
		turn(&shim, signal_fd);
	say_goodbye(&shim);
	return 0;
}
