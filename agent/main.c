/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vial-agent: pid 1 of a sandbox. Descriptors 0 and 1 are the wire to the host (docs/wire.md), 2 is a log. Nothing here listens on a
 * network, and the guest's programs live in a zone (zone.h) from which the agent cannot be seen.
 *
 * Start: root file system, private /proc and cgroup, zone, wire, loop. The environment says what the root is made of: VIAL_DISK_MB asks for a disk of
 * that size in memory, VIAL_LAYERS is how many layers lie in VIAL_ROOTFS_LAYERS, VIAL_LAYER_FDS how many descriptors of an overlay we were given.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cgroup.h"
#include "connection.h"
#include "identity.h"
#include "log.h"
#include "loop.h"
#include "procfs.h"
#include "rootfs.h"
#include "sudo.h"
#include "zone.h"
#include "zoneinit.h"

/* Where the host mounts the agent, for when /proc cannot tell. */
#define USUAL_PROGRAM "/opt/vial/vial-agent"

static char program[256];

static void find_program(void)
{
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

	if (length <= 0)
		snprintf(program, sizeof(program), "%s", USUAL_PROGRAM);
}

static void raise_limits(void)
{
	struct rlimit files;
	int fd = vial_procfs_has_oom_killer() ? open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC) : -1;

	if (fd >= 0) {
		(void)!write(fd, "-1000", 5);
		close(fd);
	}
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

static int fail(const char *step, int result)
{
	vial_log("error", "cannot %s: %s", step, strerror(-result));
	return 1;
}

static unsigned long number(const char *variable)
{
	const char *text = getenv(variable);

	return text ? strtoul(text, NULL, 10) : 0;
}

static int start(void)
{
	struct vial_rootfs_options root = {
		.disk_mb = number("VIAL_DISK_MB"),
		.layer_count = (unsigned)number("VIAL_LAYERS"),
		.fd_count = (unsigned)number("VIAL_LAYER_FDS"),
	};
	const char *step;
	int result;

	find_program();
	raise_limits();
	if ((result = vial_rootfs_init(&root, &step)) < 0)
		return fail(step, result);
	if ((result = vial_loop_init()) < 0)
		return fail("make the loop", result);
	if ((result = vial_identity_init()) < 0)
		return fail("open /dev/random", result);
	if ((result = vial_cgroup_init()) < 0)
		vial_log("warning", "no process limit: %s", strerror(-result));
	if ((result = vial_procfs_init()) < 0)
		return fail("hide /proc", result);
	if ((result = vial_connection_init(STDIN_FILENO, STDOUT_FILENO)) < 0)
		return fail("open the wire", result);
	if ((result = vial_zone_start(program)) < 0)
		return fail("start the zone", result);
	return 0;
}

int main(int argc, char **argv)
{
	if (vial_sudo_is_called(argv[0]))
		return vial_sudo_main(argc, argv);
	if (argc == 2 && strcmp(argv[1], VIAL_SUDO_SERVER_ARGUMENT) == 0)
		return vial_sudo_server_main();
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("vial-agent " VIAL_VERSION);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], VIAL_ZONE_INIT_ARGUMENT) == 0)
		return vial_zone_init_main();
	if (getpid() != 1) {
		fprintf(stderr, "vial-agent is pid 1 of a sandbox; it is started by vial-shim or vial-vmm\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	if (start() != 0)
		return 1;
	vial_loop_run(vial_connection_pump, vial_zone_on_child);
	return 0;
}
