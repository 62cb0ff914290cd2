/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /init of the lab's outer machine (L1): loads KVM, takes the development machine's own file system (virtiofs, read-only) with a scratch layer
 * above it as root, and runs the suite there. So the suite has this machine's Python and this tree's programs, on an emulated processor with SVM.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(void)
{
	sync();
	reboot(LINUX_REBOOT_CMD_POWER_OFF);
	reboot(LINUX_REBOOT_CMD_RESTART);
	_exit(1);
}

static void must(int result, const char *step)
{
	if (result >= 0)
		return;
	printf("lab: cannot %s: %s\n", step, strerror(errno));
	fflush(stdout);
	leave();
}

static void load_modules(void)
{
	struct dirent **names;
	int count = scandir("/modules", &names, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		char path[300];
		int fd;

		if (!strstr(names[i]->d_name, ".ko"))
			continue;
		snprintf(path, sizeof(path), "/modules/%s", names[i]->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		must(fd, path);
		if (syscall(SYS_finit_module, fd, "", 0) < 0)
			printf("lab: module %s: %s\n", names[i]->d_name, strerror(errno));
		close(fd);
	}
}

/* A tree or build folder below /tmp is hidden by the scratch space there, and put back. One path per line. */
static void keep_trees(void)
{
	FILE *list = fopen("/keep", "r");
	char line[1024], from[1100], to[1100];

	while (list && fgets(line, sizeof(line), list)) {
		line[strcspn(line, "\n")] = 0;
		snprintf(from, sizeof(from), "/host%s", line);
		snprintf(to, sizeof(to), "/root%s", line);
		for (char *slash = strchr(to + strlen("/root/tmp/"), '/'); slash; slash = strchr(slash + 1, '/')) {
			*slash = 0;
			mkdir(to, 0755);
			*slash = '/';
		}
		mkdir(to, 0755);
		must(mount(from, to, NULL, MS_BIND, NULL), "put the tree back");
	}
}

static void mount_all(void)
{
	mkdir("/host", 0755);
	mkdir("/scratch", 0755);
	mkdir("/root", 0755);
	must(mount("host", "/host", "virtiofs", MS_RDONLY, NULL), "mount the development machine's files");
	must(mount("tmpfs", "/scratch", "tmpfs", 0, "size=60%"), "mount scratch space");
	mkdir("/scratch/upper", 0755);
	mkdir("/scratch/work", 0755);
	must(mount("overlay", "/root", "overlay", 0, "lowerdir=/host,upperdir=/scratch/upper,workdir=/scratch/work"), "lay scratch space over them");
	must(mount("devtmpfs", "/root/dev", "devtmpfs", 0, NULL), "mount /dev");
	must(mount("proc", "/root/proc", "proc", 0, NULL), "mount /proc");
	must(mount("sysfs", "/root/sys", "sysfs", 0, NULL), "mount /sys");
	must(mount("/dev/vda", "/root/tmp", "ext4", MS_NOATIME, "nobarrier"), "mount /tmp");
	chmod("/root/tmp", 01777);
	keep_trees();
	must(mount("tmpfs", "/root/run", "tmpfs", 0, "mode=755"), "mount /run");
	mkdir("/root/dev/shm", 01777);
	mount("tmpfs", "/root/dev/shm", "tmpfs", 0, "mode=1777");
	mkdir("/root/dev/pts", 0755);
	mount("devpts", "/root/dev/pts", "devpts", 0, "mode=620,ptmxmode=666");
	mount("cgroup2", "/root/sys/fs/cgroup", "cgroup2", 0, NULL);
	must(chdir("/root"), "enter");
	must(mount(".", "/", NULL, MS_MOVE, NULL), "move the root");
	must(chroot("."), "enter the root");
	must(chdir("/"), "enter the root");
}

static void raise_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (ioctl(fd, SIOCGIFFLAGS, &request) == 0) {
		request.ifr_flags |= IFF_UP | IFF_RUNNING;
		ioctl(fd, SIOCSIFFLAGS, &request);
	}
	close(fd);
}

/* The suite's command line is a file of the initramfs, one argument per line. */
static void run_suite(char **argv)
{
	static char *const envp[] = { "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		                      "HOME=/root",
		                      "LANG=C.UTF-8",
		                      "PYTHONDONTWRITEBYTECODE=1",
		                      "PYTHONUNBUFFERED=1",
		                      NULL };
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		setsid();
		execve(argv[0], argv, envp);
		printf("lab: cannot run %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	while (waitpid(-1, &status, 0) != pid)
		;
	printf("lab: suite ended with status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	fflush(stdout);
}

int main(void)
{
	char *argv[64] = { 0 }, line[1024];
	FILE *command = fopen("/command", "r");
	int console, count = 0;

	mkdir("/dev", 0755);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	console = open("/dev/ttyS0", O_RDWR);
	for (int fd = 0; console >= 0 && fd < 3; fd++)
		dup2(console, fd);
	while (command && count < 63 && fgets(line, sizeof(line), command)) {
		line[strcspn(line, "\n")] = 0;
		argv[count++] = strdup(line);
	}
	load_modules();
	mount_all();
	raise_loopback();
	if (count > 0)
		run_suite(argv);
	leave();
	return 0;
}
