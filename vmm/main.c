/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vial-vmm: the host process of one microVM. Listens on a unix socket, is told by viald what to run ("start"), builds it, enters its jail and
 * serves until told to stop. Outlives viald. `vial-vmm --probe` says whether this machine's KVM is good enough.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"
#include "folder.h"
#include "jail.h"
#include "probe.h"
#include "seccomp.h"

#define DEFAULT_USER 65534
#define SOCKET_NAME "shim.sock" /* in the sandbox's folder, whatever the engine */

static struct vial_machine machine;
static struct vial_control control;
static struct vial_jail jail = { DEFAULT_USER, DEFAULT_USER };

static int confine_vcpu(void *self)
{
	return vial_seccomp_enter(VIAL_THREAD_VCPU);
}

static int confine_devices(void *self)
{
	return vial_seccomp_enter(VIAL_THREAD_DEVICES);
}

static int enter_jail(const char **out_error)
{
	int result = vial_jail_enter(&jail, out_error);

	if (result < 0)
		return result;
	machine.confine_vcpu = confine_vcpu;
	machine.confine_devices = confine_devices;
	return 0;
}

static void *do_nothing(void *argument)
{
	return argument;
}

/* The C library installs a signal handler with the first thread of a process; later our filter would not let it. */
static void start_first_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, do_nothing, NULL) == 0)
		pthread_join(thread, NULL);
}

static int listen_on(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* Root's alone, from the start. An existing path is refused, not replaced. */
	umask(0177);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 8) < 0) {
		int result = -errno;

		close(fd);
		return result;
	}
	umask(0077);
	return fd;
}

static int usage(void)
{
	fprintf(stderr, "usage: vial-vmm DIR | --socket PATH [--uid UID] [--gid GID] | --probe | --version\n");
	return 2;
}

static int fail(const char *what, int result)
{
	fprintf(stderr, "vial-vmm: %s: %s\n", what, strerror(-result));
	return 1;
}

static int serve(const char *folder, const char *path)
{
	const char *error;
	json_t *config = NULL;
	int fd, result = folder ? vial_folder_enter(folder, &config, &error) : 0;

	if (result < 0)
		return fail(error, result);
	if (json_object_get(config, "uid"))
		jail = (struct vial_jail){ (uid_t)json_integer_value(json_object_get(config, "uid")),
			                   (gid_t)json_integer_value(json_object_get(config, "gid")) };
	signal(SIGPIPE, SIG_IGN);
	/* Snapshot writers and forks are nobody's to wait for. */
	signal(SIGCHLD, SIG_IGN);
	vial_vcpu_init_signal();
	vial_seccomp_init();
	start_first_thread();
	vial_machine_init(&machine);
	fd = listen_on(path);
	if (fd < 0)
		return fail("cannot listen", fd);
	result = vial_control_init(&control, &machine, fd);
	if (result < 0)
		return fail("cannot start", result);
	control.started_ns = vial_clock_ns();
	control.enter_jail = enter_jail;
	control.defaults = config;
	if (folder) {
		/* Until the jail's change of user takes this back nobody knows of us but the viald that started us: not worth outliving it. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		control.exit_fd = vial_folder_announce();
		if (control.exit_fd < 0)
			return fail("cannot announce", control.exit_fd);
	}
	return vial_control_run(&control);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' }, { "uid", required_argument, NULL, 'u' }, { "gid", required_argument, NULL, 'g' },
		{ "probe", no_argument, NULL, 'p' },        { "version", no_argument, NULL, 'v' },   { NULL, 0, NULL, 0 },
	};
	const char *path = NULL, *folder = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (option) {
		case 's':
			path = optarg;
			break;
		case 'u':
			jail.uid = (uid_t)strtoul(optarg, NULL, 10);
			break;
		case 'g':
			jail.gid = (gid_t)strtoul(optarg, NULL, 10);
			break;
		case 'p':
			return vial_probe_main();
		case 'v':
			puts("vial-vmm " VIAL_VERSION);
			return 0;
		default:
			return usage();
		}
	}
	if (!path && optind + 1 == argc) {
		folder = argv[optind++];
		path = SOCKET_NAME;
	}
	if (!path || optind != argc)
		return usage();
	/* Nothing of viald's comes along but standard error, where our log goes. */
	close_range(3, ~0u, 0);
	clearenv();
	return serve(folder, path);
}
