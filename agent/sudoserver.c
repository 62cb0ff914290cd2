/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root side of sudo.h. One process accepts; each connection gets a process of its own, which blocks freely: it reads the request,
 * starts the command in a session of its own, passes signals on and answers with the status. A client that has gone takes its command with
 * it (SIGHUP, then SIGKILL), so that a timed-out execution leaves nothing behind.
 */
#include "sudo.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "users.h"

#define STANDARD_FDS 3
#define REQUEST_TIMEOUT_S 10
#define GRACE_S 2
#define BACKLOG 64

extern char **environ;

struct command {
	struct vial_sudo_request request;
	int fds[STANDARD_FDS];
	char *body;
	gid_t *groups;
	char *cwd;
	char **argv, **env;
};

static bool is_allowed(uid_t uid)
{
	struct vial_user user;

	return uid == 0 || (vial_user_find(NULL, &user) == 0 && uid == user.uid);
}

/* Who asks is told by the credentials that come with the message: gVisor answers SO_PEERCRED with our own. */
static int receive_header(int connection, struct command *command)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * STANDARD_FDS) + CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct iovec part = { .iov_base = &command->request, .iov_len = sizeof(command->request) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	struct ucred sender = { .uid = (uid_t)-1 };
	bool has_fds = false;

	if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) != (ssize_t)sizeof(command->request))
		return -EPROTO;
	for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
		if (header->cmsg_type == SCM_CREDENTIALS && header->cmsg_len == CMSG_LEN(sizeof(sender))) {
			memcpy(&sender, CMSG_DATA(header), sizeof(sender));
		} else if (header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(command->fds))) {
			memcpy(command->fds, CMSG_DATA(header), sizeof(command->fds));
			has_fds = true;
		}
	}
	if (!is_allowed(sender.uid))
		return -EPERM;
	return has_fds ? 0 : -EPROTO;
}

static int receive_body(int connection, struct command *command)
{
	uint32_t size = command->request.body_bytes, done = 0;

	if (size > VIAL_SUDO_MAX_BODY_BYTES || !(command->body = malloc(size + 1u)))
		return -E2BIG;
	while (done < size) {
		ssize_t got = read(connection, command->body + done, size - done);

		if (got <= 0)
			return -EPROTO;
		done += (uint32_t)got;
	}
	command->body[size] = '\0';
	return 0;
}

static char *take_string(char **cursor, const char *end)
{
	char *text = *cursor;

	if (text >= end)
		return NULL;
	*cursor = text + strlen(text) + 1;
	return text;
}

static char **take_vector(char **cursor, const char *end, uint32_t count)
{
	char **vector = count <= VIAL_SUDO_MAX_STRINGS ? calloc((size_t)count + 1, sizeof(*vector)) : NULL;

	for (uint32_t i = 0; vector && i < count; i++) {
		if (!(vector[i] = take_string(cursor, end)))
			return NULL;
	}
	return vector;
}

static int receive(int connection, struct command *command)
{
	struct timeval limit = { .tv_sec = REQUEST_TIMEOUT_S };
	char *cursor, *end;
	int result, yes = 1;

	setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (setsockopt(connection, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) < 0)
		return -errno;
	if ((result = receive_header(connection, command)) < 0 || (result = receive_body(connection, command)) < 0)
		return result;
	end = command->body + command->request.body_bytes;
	if (command->request.group_count > VIAL_USER_MAX_GROUPS || command->request.group_count * sizeof(gid_t) > command->request.body_bytes)
		return -EPROTO;
	command->groups = (gid_t *)(void *)command->body;
	cursor = command->body + command->request.group_count * sizeof(gid_t);
	command->cwd = take_string(&cursor, end);
	command->argv = take_vector(&cursor, end, command->request.argument_count);
	command->env = take_vector(&cursor, end, command->request.env_count);
	return command->cwd && command->argv && command->argv[0] && command->env ? 0 : -EPROTO;
}

/* In the new process. Only the write to `report_fd` comes back. */
static void become(struct command *command, int report_fd)
{
	sigset_t none;
	int error;

	setsid();
	sigemptyset(&none);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 0; i < STANDARD_FDS; i++)
		dup2(command->fds[i], i);
	umask((mode_t)command->request.mode_mask & 0777);
	if (setgroups(command->request.group_count, command->groups) == 0 &&
	    setresgid(command->request.gid, command->request.gid, command->request.gid) == 0 &&
	    setresuid(command->request.uid, command->request.uid, command->request.uid) == 0) {
		/* A directory that is gone, or closed to the new user, is no reason not to run. */
		if (chdir(command->cwd) < 0 && chdir("/") < 0)
			_exit(127);
		environ = command->env;
		execvp(command->argv[0], command->argv);
	}
	error = errno;
	(void)!write(report_fd, &error, sizeof(error));
	_exit(127);
}

/* The pid, or -errno if the command could not be executed. */
static pid_t start(struct command *command)
{
	int report[2], error = 0;
	pid_t pid;

	if (pipe2(report, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		become(command, report[1]);
	close(report[1]);
	if (pid < 0)
		error = errno;
	else if (read(report[0], &error, sizeof(error)) == (ssize_t)sizeof(error))
		waitpid(pid, NULL, 0);
	close(report[0]);
	return error ? -error : pid;
}

static void on_sigchld(int signal)
{
}

/* One byte of the client is a signal for the command's group. False when the client is gone. */
static bool pass_signal(int connection, pid_t pid)
{
	uint8_t signal;
	ssize_t got = read(connection, &signal, 1);

	if (got == 1 && signal > 0 && signal < NSIG)
		kill(-pid, signal);
	return got == 1 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

/* Waits for the command and gives its status. Without its client it is told to hang up, and then killed. */
static int attend(int connection, pid_t pid)
{
	struct pollfd client = { .fd = connection, .events = POLLIN };
	struct timespec grace = { .tv_sec = GRACE_S };
	sigset_t open_mask;
	int status;

	sigemptyset(&open_mask);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		int ready = ppoll(&client, 1, client.fd < 0 ? &grace : NULL, &open_mask);

		if (ready == 0) {
			kill(-pid, SIGKILL);
		} else if (ready > 0 && !pass_signal(connection, pid)) {
			client.fd = -1;
			kill(-pid, SIGHUP);
		}
	}
	return status;
}

static void serve(int connection)
{
	struct sigaction action = { .sa_handler = on_sigchld };
	struct vial_sudo_answer answer = { 0 };
	struct command command = { 0 };
	sigset_t blocked;
	pid_t pid;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	sigaction(SIGCHLD, &action, NULL);
	answer.error = -receive(connection, &command);
	if (answer.error == 0) {
		pid = start(&command);
		for (int i = 0; i < STANDARD_FDS; i++)
			close(command.fds[i]);
		if (pid < 0)
			answer.error = -pid;
		else
			answer.status = attend(connection, pid);
	}
	(void)!send(connection, &answer, sizeof(answer), MSG_NOSIGNAL);
}

int vial_sudo_server_main(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t size = offsetof(struct sockaddr_un, sun_path) + sizeof(VIAL_SUDO_SOCKET) - 1;
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (vial_sudo_is_real())
		return 0;
	memcpy(address.sun_path, VIAL_SUDO_SOCKET, sizeof(VIAL_SUDO_SOCKET) - 1);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, BACKLOG) < 0)
		return 1;
	prctl(PR_SET_NAME, "vial-sudo");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN); /* connections' processes need no burial */
	for (;;) {
		int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		pid_t pid;

		if (connection < 0) {
			/* Out of descriptors or memory: what is running will end. */
			if (errno != EINTR && errno != ECONNABORTED)
				poll(NULL, 0, 100);
			continue;
		}
		pid = fork();
		if (pid == 0) {
			close(listener);
			serve(connection);
			_exit(0);
		}
		close(connection);
	}
}
