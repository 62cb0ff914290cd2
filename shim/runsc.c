/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs runsc's commands for viald, one at a time and without blocking the relay: a request starts a child, its exit
 * becomes the answer. new -create-> created -start-> running <-pause/resume-> paused; any -> exited.
 *
 * `start` on a new sandbox lets runsc create and start (or restore) in one go, which saves a process start; on a created
 * one (a blank made ahead) only the second half is left to do.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim.h"

#define PID_FILE "runsc.pid"
#define MAX_ARGUMENTS 24
#define PIPE_BYTES (1024 * 1024)

static void answer(struct shim *shim, json_int_t tag, const char *error)
{
	/* A command that failed says that the sandbox or its surroundings were not fit for it, not that viald is wrong. */
	json_t *message;

	if (tag == 0) /* asked by a viald that is gone, see shim_relay_attach() */
		return;
	message = error ? json_pack("{s:I, s:b, s:s, s:s}", "tag", tag, "ok", 0, "code", "unavailable", "error", error)
	                : json_pack("{s:I, s:b}", "tag", tag, "ok", 1);
	shim_relay_send_host(shim, VIAL_WIRE_CLOSE, message);
}

static void answer_busy(struct shim *shim, json_int_t tag)
{
	shim_relay_send_host(
		shim, VIAL_WIRE_CLOSE,
		json_pack("{s:I, s:b, s:s, s:s}", "tag", tag, "ok", 0, "code", "conflict", "error", "another command of the sandbox is under way"));
}

int shim_runsc_open_pipes(struct shim *shim)
{
	int in[2], out[2], log[2];

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(log, O_CLOEXEC) < 0)
		return -errno;
	/* Large pipes let a 256 KiB frame pass in one system call. Refused (a soft limit of the host) they are only slower. */
	fcntl(in[1], F_SETPIPE_SZ, PIPE_BYTES);
	fcntl(out[1], F_SETPIPE_SZ, PIPE_BYTES);
	fcntl(in[1], F_SETFL, O_NONBLOCK);
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(log[0], F_SETFL, O_NONBLOCK);
	shim->agent_in_fd = in[1];
	shim->agent_out_fd = out[0];
	shim->log_fd = log[0];
	shim->guest_fds[0] = in[0];
	shim->guest_fds[1] = out[1];
	shim->guest_fds[2] = log[1];
	return 0;
}

/*
 * runsc takes its network from the namespace it is started in. It refuses one that looks like the host's own, and takes
 * the presence of /proc/sys/net/core/rmem_default for that, which newer kernels show in every namespace: so we hide it.
 */
static int enter_network(const char *netns)
{
	int fd = open(netns, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
		return -errno;
	close(fd);
	return mount("none", "/proc/sys/net/core", "tmpfs", 0, NULL) < 0 ? -errno : 0;
}

/*
 * What all sandboxes of a template share must be read-only here, in the host's kernel. runsc's own "ro" is not enough: it
 * binds with MS_RDONLY in one call, which Linux ignores, and its kernel truncates a file on a read-only mount that is opened
 * with O_TRUNC (runsc 20240729), so that root in one guest could empty the agent of all.
 */
static int make_read_only(const json_t *paths)
{
	size_t index;
	json_t *item;

	json_array_foreach ((json_t *)paths, index, item) {
		const char *path = json_string_value(item);

		if (!path || mount(path, path, NULL, MS_BIND, NULL) < 0 || mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) < 0)
			return path ? -errno : -EINVAL;
	}
	return 0;
}

/*
 * runsc shows a guest as many processors as its cpuset has, which are all of the host's. How many the guest was promised is written in the file
 * `processors` of our folder, and runsc reads that instead. (How much of the host's they may use is the cgroup's affair.)
 */
static int show_processors(const char *file)
{
	return access(file, F_OK) == 0 && mount("processors", file, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

static void exec_runsc(struct shim *shim, pid_t parent, char **arguments)
{
	/* Once the sandbox exists it has its ends of the pipes; commands on it share only the log. */
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	/* Who ends the shim sweeps up behind it: a command that went on would make anew what was just removed. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(126);
	dup2(shim->guest_fds[0] >= 0 ? shim->guest_fds[0] : nothing, STDIN_FILENO);
	dup2(shim->guest_fds[1] >= 0 ? shim->guest_fds[1] : nothing, STDOUT_FILENO);
	dup2(shim->guest_fds[2], STDERR_FILENO);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || make_read_only(shim->read_only) < 0) {
		dprintf(STDERR_FILENO, "cannot make the guest's files read-only: %s\n", strerror(errno));
		_exit(126);
	}
	if (shim->processors && show_processors(shim->processors) < 0) {
		dprintf(STDERR_FILENO, "cannot say how many processors there are: %s\n", strerror(errno));
		_exit(126);
	}
	if (shim->netns && enter_network(shim->netns) < 0) {
		dprintf(STDERR_FILENO, "cannot enter the network namespace: %s\n", strerror(errno));
		_exit(126);
	}
	execv(shim->runsc, arguments);
	dprintf(STDERR_FILENO, "cannot run %s: %s\n", shim->runsc, strerror(errno));
	_exit(127);
}

static int run(struct shim *shim, const char *const *command)
{
	char root[PATH_MAX + 8], network[32];
	char *arguments[MAX_ARGUMENTS];
	size_t count = 0;
	pid_t pid, parent = getpid();

	snprintf(root, sizeof root, "--root=%s", shim->runsc_root);
	snprintf(network, sizeof network, "--network=%s", shim->network);
	arguments[count++] = shim->runsc;
	arguments[count++] = root;
	arguments[count++] = network;
	arguments[count++] = (char *)"--platform=systrap";
	/* The agent makes its own size-limited overlay; see docs/architecture.md. */
	arguments[count++] = (char *)"--overlay2=none";
	arguments[count++] = (char *)"--host-uds=none";
	/* Raw sockets are the guest's affair (ping): the rules outside see every packet. */
	arguments[count++] = (char *)"--net-raw";
	/* A checkpoint holds connections as they are: who wakes where they lead goes on with them, a copy elsewhere is reset. */
	arguments[count++] = (char *)(shim->is_current ? "--allow-connected-on-save" : "--net-disconnect-ok");
	while (*command && count < MAX_ARGUMENTS - 1)
		arguments[count++] = (char *)*command++;
	arguments[count] = NULL;

	shim->log_tail[0] = '\0';
	shim->has_reason = false;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		exec_runsc(shim, parent, arguments);
	shim->command.pid = pid;
	return 0;
}

static int run_start(struct shim *shim, json_t *request)
{
	const char *image = json_string_value(json_object_get(request, "image"));
	const char *fresh_restore[] = {
		"restore", "--detach", "--bundle", shim->bundle, "--image-path", image, "--pid-file", PID_FILE, shim->id, NULL
	};
	const char *fresh_run[] = { "run", "--detach", "--bundle", shim->bundle, "--pid-file", PID_FILE, shim->id, NULL };
	const char *blank_restore[] = { "restore", "--detach", "--bundle", shim->bundle, "--image-path", image, shim->id, NULL };
	const char *blank_start[] = { "start", shim->id, NULL };

	if (shim->state != SHIM_NEW && shim->state != SHIM_CREATED)
		return -EBUSY;
	shim->command.state_when_done = SHIM_RUNNING;
	if (shim->state == SHIM_CREATED)
		return run(shim, image ? blank_restore : blank_start);
	return run(shim, image ? fresh_restore : fresh_run);
}

static int run_checkpoint(struct shim *shim, json_t *request)
{
	const char *image = json_string_value(json_object_get(request, "image"));
	bool leave_running = json_is_true(json_object_get(request, "leave_running"));
	const char *leaving[] = { "checkpoint", "--leave-running", "--compression=none", "--image-path", image, shim->id, NULL };
	const char *ending[] = { "checkpoint", "--compression=none", "--image-path", image, shim->id, NULL };

	if (!image || (shim->state != SHIM_RUNNING && shim->state != SHIM_PAUSED))
		return -EINVAL;
	shim->command.state_when_done = shim->state;
	return run(shim, leave_running ? leaving : ending);
}

static int run_simple(struct shim *shim, const char *verb, enum shim_state from, enum shim_state to)
{
	const char *command[] = { verb, shim->id, NULL };

	if (shim->state != from)
		return -EINVAL;
	shim->command.state_when_done = to;
	return run(shim, command);
}

static int run_create(struct shim *shim)
{
	const char *command[] = { "create", "--bundle", shim->bundle, "--pid-file", PID_FILE, shim->id, NULL };

	if (shim->state != SHIM_NEW)
		return -EINVAL;
	shim->command.state_when_done = SHIM_CREATED;
	return run(shim, command);
}

void shim_runsc_request(struct shim *shim, json_t *request)
{
	const char *op = json_string_value(json_object_get(request, "op"));
	json_int_t tag = json_integer_value(json_object_get(request, "tag"));
	int result = -ENOSYS;

	if (!op)
		return answer(shim, tag, "the request has no op");
	if (strcmp(op, "stop") == 0) {
		shim_runsc_stop(shim);
		return answer(shim, tag, NULL);
	}
	if (shim->command.pid != 0)
		return answer_busy(shim, tag);
	snprintf(shim->command.name, sizeof shim->command.name, "%s", op);
	shim->command.tag = tag;
	if (strcmp(op, "create") == 0)
		result = run_create(shim);
	else if (strcmp(op, "start") == 0)
		result = run_start(shim, request);
	else if (strcmp(op, "checkpoint") == 0)
		result = run_checkpoint(shim, request);
	else if (strcmp(op, "pause") == 0)
		result = run_simple(shim, "pause", SHIM_RUNNING, SHIM_PAUSED);
	else if (strcmp(op, "resume") == 0)
		result = run_simple(shim, "resume", SHIM_PAUSED, SHIM_RUNNING);
	if (result < 0)
		answer(shim, tag, strerror(-result));
}

static pid_t read_pid_file(void)
{
	char text[32] = "";
	long pid;
	int fd = open(PID_FILE, O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	pid = size > 0 ? strtol(text, NULL, 10) : 0;
	return pid > 1 && pid <= INT_MAX ? (pid_t)pid : 0;
}

static void command_done(struct shim *shim, int status)
{
	bool is_ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	bool made_sandbox = shim->state == SHIM_NEW;
	char error[sizeof shim->log_tail + 64];

	shim->command.pid = 0;
	if (!is_ok) {
		snprintf(error, sizeof error, "runsc %s failed: %s", shim->command.name, shim->log_tail[0] ? shim->log_tail : "it gave no reason");
		answer(shim, shim->command.tag, error);
		if (shim->command.tag == 0) /* the next viald was told that we are busy */
			shim_relay_announce(shim);
		return;
	}
	if (made_sandbox) {
		shim->sandbox_pid = read_pid_file();
		/* The log's writing end stays: later commands report their errors through it. */
		for (int i = 0; i < 2; i++) {
			close(shim->guest_fds[i]);
			shim->guest_fds[i] = -1;
		}
	}
	if (shim->state != SHIM_EXITED)
		shim->state = shim->command.state_when_done;
	answer(shim, shim->command.tag, NULL);
	shim_relay_announce(shim);
}

void shim_runsc_child_exited(struct shim *shim, pid_t pid, int status)
{
	if (pid == shim->command.pid) {
		command_done(shim, status);
	} else if (pid == shim->sandbox_pid) {
		shim->state = SHIM_EXITED;
		shim->exit_status = status;
		shim_relay_announce(shim);
	}
	/* Anything else is a gofer or helper of runsc that lost its parent: reaped, of no interest. */
}

/* Ends the sandbox without asking it. The gofer and the stub processes follow the sandbox process by themselves. */
void shim_runsc_stop(struct shim *shim)
{
	shim->is_stopping = true;
	if (shim->command.pid > 0)
		kill(shim->command.pid, SIGKILL);
	if (shim->sandbox_pid == 0)
		shim->sandbox_pid = read_pid_file();
	if (shim->sandbox_pid > 0 && shim->state != SHIM_EXITED)
		kill(shim->sandbox_pid, SIGKILL);
	else
		shim->state = SHIM_EXITED;
}
