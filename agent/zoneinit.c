/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zone's init: pid 1 of the pid namespace in which all of the guest's programs live. It mounts the zone's own /proc, gives up every
 * capability that could reach outside, then starts processes as the agent asks and reports how they end. It blocks freely: the agent never waits
 * for it. When the agent's end of the socket closes, it exits and the zone with it.
 *
 * A process is started by a vfork-like clone: no page of ours is copied (the cheapest way in every kernel, and gVisor's most of all), and we
 * go on only when it has called exec or died, so its failure is known without another pipe. Until then the child shares our memory: it
 * uses plain system calls and its own stack, and writes nothing but the struct it was given.
 */
#include "zoneinit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "procfs.h"
#include "spawn.h"
#include "sudo.h"
#include "zonefilter.h"
#include "zoneproto.h"

#define CHILD_STACK_BYTES (256 * 1024)
#define MAX_CHILDREN 4096
#define SUDO_RETRY_S 5
/* Descriptors are moved above this before they are put in place, so that none is overwritten on the way. */
#define FD_PARKING 32

extern char **environ;

struct job {
	const struct vial_zone_request *request;
	int fds[VIAL_SPAWN_MAX_FDS]; /* -1: /dev/null */
	const gid_t *groups;
	char *cwd;
	char **argv, **env;
	volatile int stage, error; /* written by the child when it fails */
};

static struct {
	pid_t pid;
	uint32_t id;
} children[MAX_CHILDREN];
static unsigned child_count;
static pid_t sudo_server;
static bool needs_sudo_server = true;
static bool has_oom_killer;
static volatile sig_atomic_t has_dead_child;

static uint8_t packet[VIAL_ZONE_MAX_PACKET];
static uint8_t child_stack[CHILD_STACK_BYTES] __attribute__((aligned(16)));

/*
 * Like a container's usual set, plus tracing and priorities among the zone's own processes, less CAP_MKNOD: in a microVM a device node would be a way
 * to the console that is our wire.
 */
static const int kept_capabilities[] = {
	CAP_CHOWN,   CAP_DAC_OVERRIDE,     CAP_FSETID,     CAP_FOWNER, CAP_NET_RAW,     CAP_SETGID,     CAP_SETUID,   CAP_SETFCAP,
	CAP_SETPCAP, CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_KILL,   CAP_AUDIT_WRITE, CAP_SYS_PTRACE, CAP_SYS_NICE,
};

static bool is_kept(int capability)
{
	for (size_t i = 0; i < sizeof(kept_capabilities) / sizeof(*kept_capabilities); i++) {
		if (kept_capabilities[i] == capability)
			return true;
	}
	return false;
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct have[2], want[2] = { 0 };

	if (syscall(SYS_capget, &header, have) < 0)
		return -errno;
	for (int capability = 0; capability < 64; capability++) {
		uint32_t bit = UINT32_C(1) << (capability % 32);
		int word = capability / 32;

		if (is_kept(capability)) {
			want[word].permitted |= have[word].permitted & bit;
			continue;
		}
		/* EINVAL: this kernel does not know so many. */
		if (prctl(PR_CAPBSET_DROP, capability) < 0 && errno != EINVAL)
			return -errno;
	}
	for (int word = 0; word < 2; word++)
		want[word].effective = want[word].permitted;
	return syscall(SYS_capset, &header, want) < 0 ? -errno : 0;
}

static int set_up(void)
{
	struct rlimit no_core = { 0 };
	int result;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return -errno;
	prctl(PR_SET_DUMPABLE, 0);
	setrlimit(RLIMIT_CORE, &no_core);
	has_oom_killer = vial_procfs_has_oom_killer();
	/* While we still have the capability that this needs. */
	result = vial_zone_filter_install();
	return result < 0 ? result : drop_capabilities();
}

/* --- in the child, sharing our memory --- */

static void fail(struct job *job, enum vial_spawn_stage stage, int error)
{
	job->error = error;
	job->stage = (int)stage;
	_exit(127);
}

static void claim(uint32_t id, pid_t pid)
{
	struct vial_zone_report report = { .kind = VIAL_ZONE_CLAIM, .id = id, .pid = pid };

	send(VIAL_ZONE_SOCKET_FD, &report, sizeof(report), MSG_NOSIGNAL);
}

/* Every call costs a trip into the guest's kernel and back, so none is made for what is as it should be. */
static void place_descriptors(struct job *job)
{
	uint32_t count = job->request->fd_count;
	int null_fd = -1;

	/* First out of each other's way, then into place; dup2 clears close-on-exec. */
	for (uint32_t i = 0; i < count; i++) {
		int source = job->fds[i];

		/* Ours are /dev/null. */
		if (source < 0 && i <= STDERR_FILENO)
			continue;
		if (source < 0 && null_fd < 0)
			null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (source < (int)count)
			source = fcntl(source < 0 ? null_fd : source, F_DUPFD_CLOEXEC, FD_PARKING);
		if (source < 0)
			fail(job, VIAL_SPAWN_SETUP, errno);
		job->fds[i] = source;
	}
	if (count > VIAL_ZONE_SOCKET_FD)
		close(VIAL_ZONE_SOCKET_FD);
	for (uint32_t i = 0; i < count; i++) {
		if (job->fds[i] >= 0 && dup2(job->fds[i], (int)i) < 0)
			fail(job, VIAL_SPAWN_SETUP, errno);
	}
}

/* The agent is exempt from the kernel's out-of-memory killer, and what it starts inherits that; programs must not be. */
static void be_mortal(void)
{
	int fd = has_oom_killer ? open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	(void)!write(fd, "0", 1);
	close(fd);
}

static void become(struct job *job)
{
	const struct vial_zone_request *request = job->request;

	if (syscall(SYS_setgroups, request->group_count, job->groups) < 0 || syscall(SYS_setresgid, request->gid, request->gid, request->gid) < 0 ||
	    syscall(SYS_setresuid, request->uid, request->uid, request->uid) < 0)
		fail(job, VIAL_SPAWN_USER, errno);
}

/*
 * Where in PATH the program is, NULL when that is not clear. A look costs a fraction of an execve() that fails, of which a usual PATH has three
 * before /usr/bin.
 */
static const char *find_in_path(const char *name, char found[PATH_MAX])
{
	const char *at = strchr(name, '/') ? NULL : getenv("PATH");

	for (; at && *at; at += *at == ':') {
		int length = (int)strcspn(at, ":");

		/* An empty part is the current directory, which execvp() knows about. */
		if (length == 0 || snprintf(found, PATH_MAX, "%.*s/%s", length, at, name) >= PATH_MAX)
			return NULL;
		if (access(found, X_OK) == 0)
			return found;
		at += length;
	}
	return NULL;
}

static int child_main(void *data)
{
	struct job *job = data;
	struct sigaction standard = { .sa_handler = SIG_DFL };
	char found[PATH_MAX];
	const char *path;
	sigset_t none;

	sigaction(SIGCHLD, &standard, NULL);
	claim(job->request->id, (pid_t)syscall(SYS_setsid));
	place_descriptors(job);
	if (job->request->is_tty)
		ioctl(0, TIOCSCTTY, 0);
	be_mortal();
	become(job);
	umask(022);
	/* As the user, so that a directory he may not enter is an error and not a hole. */
	if (chdir(job->cwd) < 0)
		fail(job, VIAL_SPAWN_CWD, errno);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	path = find_in_path(job->argv[0], found);
	if (path)
		execve(path, job->argv, environ);
	/* The whole rule: scripts without a first line, directories, the right error. */
	execvp(job->argv[0], job->argv);
	fail(job, VIAL_SPAWN_EXEC, errno);
	return 127;
}

/* --- in init --- */

static void report(const struct vial_zone_report *message)
{
	while (send(VIAL_ZONE_SOCKET_FD, message, sizeof(*message), MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static void report_failure(uint32_t id, enum vial_spawn_stage stage, int error)
{
	report(&(struct vial_zone_report){ .kind = VIAL_ZONE_FAILED, .id = id, .stage = (int32_t)stage, .error = error });
}

static void start(struct job *job)
{
	uint32_t id = job->request->id;
	sigset_t all, old;
	pid_t pid;

	if (child_count == MAX_CHILDREN) {
		report_failure(id, VIAL_SPAWN_FORK, EAGAIN);
		return;
	}
	/* No handler of ours may run in the child while it shares our memory. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	environ = job->env; /* execvp() looks for PATH there */
	pid = clone(child_main, child_stack + CHILD_STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, job);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (pid < 0) {
		report_failure(id, VIAL_SPAWN_FORK, errno);
	} else if (job->stage != 0) {
		waitpid(pid, NULL, 0);
		report_failure(id, (enum vial_spawn_stage)job->stage, job->error);
	} else {
		children[child_count].pid = pid;
		children[child_count++].id = id;
		report(&(struct vial_zone_report){ .kind = VIAL_ZONE_STARTED, .id = id, .pid = pid });
	}
}

/*
 * The root side of sudo (sudo.h). It comes back if guest root kills it, but not faster than once in a while: where it cannot
 * stay (somebody has taken its address), trying is all it would do.
 */
static void keep_sudo_server(void)
{
	static time_t tried_at;
	struct timespec now;
	sigset_t none;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!needs_sudo_server || sudo_server > 0 || (tried_at && now.tv_sec < tried_at + SUDO_RETRY_S))
		return;
	tried_at = now.tv_sec;
	sudo_server = fork();
	if (sudo_server != 0)
		return;
	syscall(SYS_setsid);
	be_mortal();
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	close(VIAL_ZONE_SOCKET_FD);
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		close(fd);
		open("/dev/null", O_RDWR);
	}
	/* Not our own environment: `environ` is whatever the last program was given. */
	execle("/proc/self/exe", "vial-agent", VIAL_SUDO_SERVER_ARGUMENT, (char *)NULL, (char *[]){ NULL });
	_exit(127);
}

static void reap(void)
{
	struct rusage usage;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
		if (pid == sudo_server) {
			sudo_server = 0;
			needs_sudo_server = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
		}
		for (unsigned i = 0; i < child_count; i++) {
			struct vial_zone_report message = {
				.kind = VIAL_ZONE_EXITED,
				.id = children[i].id,
				.pid = pid,
				.status = status,
				.cpu_ms = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
				          (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000,
				.max_rss_kb = (uint64_t)usage.ru_maxrss,
			};

			if (children[i].pid != pid)
				continue;
			children[i] = children[--child_count];
			report(&message);
			break;
		}
	}
}

/* Takes the next NUL-ended string of the body; NULL when it is not there. */
static char *take_string(char **cursor, char *end)
{
	char *text = *cursor;
	char *nul = text < end ? memchr(text, '\0', (size_t)(end - text)) : NULL;

	if (!nul)
		return NULL;
	*cursor = nul + 1;
	return text;
}

static char **take_vector(char **cursor, char *end, uint32_t count)
{
	char **vector = calloc((size_t)count + 1, sizeof(*vector));

	for (uint32_t i = 0; vector && i < count; i++) {
		vector[i] = take_string(cursor, end);
		if (!vector[i]) {
			free(vector);
			return NULL;
		}
	}
	return vector;
}

static void start_from_body(const struct vial_zone_request *request, int *fds, char *body)
{
	struct job job = { .request = request, .groups = (gid_t *)(void *)body };
	char *cursor = body + request->group_count * sizeof(gid_t);
	char *end = body + request->body_bytes;
	uint32_t next = 0;

	for (uint32_t i = 0; i < request->fd_count; i++)
		job.fds[i] = request->fd_mask & (1u << i) ? fds[next++] : -1;
	job.cwd = take_string(&cursor, end);
	job.argv = take_vector(&cursor, end, request->argument_count);
	job.env = take_vector(&cursor, end, request->env_count);
	if (job.cwd && job.argv && job.env)
		start(&job);
	else
		report_failure(request->id, VIAL_SPAWN_SETUP, ENOMEM);
	free(job.argv);
	free(job.env);
}

static void handle(struct vial_zone_request *request, size_t size_bytes, int *fds, int fd_count)
{
	char *large = NULL;

	if (request->is_in_memfd && fd_count > 0 && (large = malloc(request->body_bytes + 1u))) {
		ssize_t got = pread(fds[fd_count - 1], large, request->body_bytes, 0);

		start_from_body(request, fds, got == (ssize_t)request->body_bytes ? large : memset(large, 1, 1));
	} else if (!request->is_in_memfd && size_bytes == sizeof(*request) + request->body_bytes) {
		start_from_body(request, fds, (char *)(request + 1));
	} else {
		report_failure(request->id, VIAL_SPAWN_SETUP, ENOMEM);
	}
	free(large);
}

/* False when the agent is gone. */
static bool receive_request(void)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * (VIAL_SPAWN_MAX_FDS + 1))];
		struct cmsghdr align;
	} control;
	struct iovec part = { .iov_base = packet, .iov_len = sizeof(packet) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	ssize_t size = recvmsg(VIAL_ZONE_SOCKET_FD, &message, MSG_CMSG_CLOEXEC);
	struct vial_zone_request *request = (void *)packet;
	struct cmsghdr *header;
	int fds[VIAL_SPAWN_MAX_FDS + 1], fd_count = 0;

	if (size < 0)
		return errno == EINTR;
	if (size == 0)
		return false;
	header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_type == SCM_RIGHTS) {
		fd_count = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(header), (size_t)fd_count * sizeof(int));
	}
	if ((size_t)size >= sizeof(*request) && request->id != 0)
		handle(request, (size_t)size, fds, fd_count);
	else
		report(&(struct vial_zone_report){ .kind = VIAL_ZONE_ALIVE });
	for (int i = 0; i < fd_count; i++)
		close(fds[i]);
	return true;
}

static void on_sigchld(int signal)
{
	has_dead_child = 1;
}

int vial_zone_init_main(void)
{
	struct sigaction action = { .sa_handler = on_sigchld };
	struct pollfd socket = { .fd = VIAL_ZONE_SOCKET_FD, .events = POLLIN };
	sigset_t blocked, open_mask;

	/* It had to survive our own exec, but no program that we start may speak in our name, or take what is meant for us. */
	fcntl(VIAL_ZONE_SOCKET_FD, F_SETFD, FD_CLOEXEC);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	/* Ignored until here, and so would be in every program: `yes | head -1` needs it. We ourselves never take it. */
	sigaddset(&blocked, SIGPIPE);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&open_mask);
	sigaddset(&open_mask, SIGPIPE);
	sigaction(SIGCHLD, &action, NULL);
	/* The go-ahead: only now are we in the cgroup that bounds us and our children. */
	if (!receive_request() || set_up() < 0)
		return 1;
	for (;;) {
		keep_sudo_server();
		if (ppoll(&socket, 1, NULL, &open_mask) > 0 && !receive_request())
			return 0;
		if (has_dead_child) {
			has_dead_child = 0;
			reap();
		}
	}
}
