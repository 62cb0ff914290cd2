/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /init of a microVM's initramfs, the few steps between the stock kernel and the agent: load the modules that came along, mount the root disk
 * (vda, writable: copies are made on the host) and Vial's own files (vdb, read-only), and become the agent with the console port as its wire.
 * A failure is one line on the kernel log and a reboot, which the monitor reports.
 *
 * With VIAL_LAYERS=N on the kernel's command line the root is an overlay: vda is its lowest layer and read-only, vdc an empty disk for all that is
 * written, and vdd, vde, … are N layers, EROFS, the lowest first. The agent gets descriptors of its parts (LAYER_FDS), for it packs layers.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <linux/ipv6.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define AGENT "/opt/vial/vial-agent"
#define PORT "/dev/vport0p0"
#define MODULES "/modules"
#define LAYER_MODULES "/modules-layers"
#define MAX_LAYERS 16
/* Of the upper directory, and after it of the lower ones, from the top down: as agent/rootfs.h has them. */
#define LAYER_FDS 20
#define MAX_MODULES 64
#define WAIT_MS 60000
#define EXT4_IOC_RESIZE_FS _IOW('f', 16, unsigned long long)
#define BLKGETSIZE64_ _IOR(0x12, 114, size_t)

static void fail(const char *step)
{
	char text[160];
	int length = snprintf(text, sizeof(text), "<2>vial-init: cannot %s: %s\n", step, strerror(errno));
	int fd = open("/dev/kmsg", O_WRONLY);

	(void)!write(fd >= 0 ? fd : 2, text, (size_t)length);
	sync();
	reboot(LINUX_REBOOT_CMD_RESTART);
	_exit(1);
}

static void load_module(const char *folder, const char *name)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail("open a module");
	if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST)
		fail(path);
	close(fd);
}

/* The builder numbered them in the order of their dependencies: 00-virtio.ko, 01-... */
static void load_modules(const char *folder)
{
	struct dirent **names;
	int count = scandir(folder, &names, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		if (strstr(names[i]->d_name, ".ko"))
			load_module(folder, names[i]->d_name);
		free(names[i]);
	}
}

/* Devices appear a moment after their drivers. */
static int open_soon(const char *path, int flags)
{
	struct timespec pause = { 0, 5000000 };

	for (int waited = 0; waited < WAIT_MS; waited += 5) {
		int fd = open(path, flags | O_CLOEXEC);

		if (fd >= 0 || (errno != ENOENT && errno != ENXIO && errno != EBUSY))
			return fd;
		nanosleep(&pause, NULL);
	}
	return -1;
}

/* The image is as big as its content; the disk is as big as the sandbox's tier. */
static void grow_root(void)
{
	unsigned long long bytes = 0, blocks;
	int disk = open("/dev/vda", O_RDONLY | O_CLOEXEC), root = open("/root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (disk >= 0 && root >= 0 && ioctl(disk, BLKGETSIZE64_, &bytes) == 0) {
		blocks = bytes / 4096;
		if (ioctl(root, EXT4_IOC_RESIZE_FS, &blocks) < 0)
			fprintf(stderr, "vial-init: the root stays at its size: %s\n", strerror(errno));
	}
	if (disk >= 0)
		close(disk);
	if (root >= 0)
		close(root);
}

static void mount_disk(const char *disk, const char *place, const char *type, unsigned long flags, const char *options, const char *step)
{
	int fd = open_soon(disk, O_RDONLY);

	if (fd < 0)
		fail(step);
	close(fd);
	if (mount(disk, place, type, flags, options) < 0)
		fail(step);
}

static void keep_open(const char *path, int number)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY);

	if (fd < 0 || dup2(fd, number) < 0)
		fail("open a layer");
	close(fd);
}

/* The image, and over it the layers and a disk to write to. All of it is out of sight afterwards. */
static void mount_layers(int count)
{
	char disk[16], place[16], options[512], lower[256] = "";

	load_modules(LAYER_MODULES);
	mkdir("/image", 0755);
	mkdir("/disk", 0755);
	mount_disk("/dev/vda", "/image", "ext4", MS_RDONLY | MS_NOATIME, NULL, "mount the root disk");
	mount_disk("/dev/vdc", "/disk", "ext4", MS_NOATIME, "nobarrier,noinit_itable", "mount the disk to write to");
	if (mkdir("/disk/upper", 0755) < 0 || mkdir("/disk/work", 0755) < 0)
		fail("make the disk's folders");
	keep_open("/disk/upper", LAYER_FDS);
	for (int i = count; i > 0; i--) {
		snprintf(disk, sizeof(disk), "/dev/vd%c", 'c' + i);
		snprintf(place, sizeof(place), "/layer%d", i - 1);
		mkdir(place, 0755);
		mount_disk(disk, place, "erofs", MS_RDONLY | MS_NODEV, NULL, "mount a layer");
		keep_open(place, LAYER_FDS + 1 + count - i);
		snprintf(lower + strlen(lower), sizeof(lower) - strlen(lower), "%s:", place);
	}
	keep_open("/image", LAYER_FDS + 1 + count);
	snprintf(options, sizeof(options), "lowerdir=%s/image,upperdir=/disk/upper,workdir=/disk/work,redirect_dir=off,index=off", lower);
	if (mount("overlay", "/root", "overlay", MS_NOATIME, options) < 0)
		fail("lay the layers over each other");
}

static void mount_root(int layers)
{
	if (layers >= 0) {
		mount_layers(layers);
	} else {
		mount_disk("/dev/vda", "/root", "ext4", MS_NOATIME, "nobarrier", "mount the root disk");
		grow_root();
	}
	mkdir("/root/opt", 0755);
	mkdir("/root/opt/vial", 0755);
	mount_disk("/dev/vdb", "/root/opt/vial", "ext4", MS_RDONLY | MS_NODEV | MS_NOSUID, NULL, "mount the disk with the agent");
}

static void shift_mount(const char *from, const char *to)
{
	mkdir(to, 0755);
	if (mount(from, to, NULL, MS_MOVE, NULL) < 0)
		fail("move a mount");
}

static void enter_root(void)
{
	shift_mount("/dev", "/root/dev");
	shift_mount("/proc", "/root/proc");
	shift_mount("/sys", "/root/sys");
	if (chdir("/root") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
		fail("enter the root disk");
}

static void raise_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (ioctl(fd, SIOCGIFFLAGS, &request) == 0) {
		request.ifr_flags |= IFF_UP | IFF_RUNNING;
		ioctl(fd, SIOCSIFFLAGS, &request);
	}
	close(fd);
}

static struct sockaddr address_of(const char *text, uint32_t fallback)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = fallback };
	struct sockaddr result;

	if (text)
		inet_pton(AF_INET, text, &address.sin_addr);
	memcpy(&result, &address, sizeof(result));
	return result;
}

/*
 * VIAL_IP=10.0.0.2/24 and VIAL_GATEWAY=10.0.0.1 on the kernel's command line become our environment. Every sandbox has the same inner
 * addresses, so a snapshot fits everywhere; programs in the guest have no right to change them.
 */
static void configure_network(void)
{
	char *ip = getenv("VIAL_IP"), *slash = ip ? strchr(ip, '/') : NULL;
	const char *gateway = getenv("VIAL_GATEWAY");
	struct ifreq request = { .ifr_name = "eth0" };
	struct rtentry route = { .rt_flags = RTF_UP | RTF_GATEWAY };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int bits = slash ? atoi(slash + 1) : 24;

	if (!ip || fd < 0 || bits < 1 || bits > 32)
		return;
	if (slash)
		*slash = '\0';
	request.ifr_addr = address_of(ip, 0);
	if (ioctl(fd, SIOCSIFADDR, &request) < 0)
		fail("give the network device its address");
	request.ifr_netmask = address_of(NULL, htonl(~0u << (32 - bits)));
	ioctl(fd, SIOCSIFNETMASK, &request);
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	ioctl(fd, SIOCSIFFLAGS, &request);
	if (gateway) {
		route.rt_dst = route.rt_genmask = address_of(NULL, 0);
		route.rt_gateway = address_of(gateway, 0);
		ioctl(fd, SIOCADDRT, &route);
	}
	close(fd);
}

/* VIAL_IP6 and VIAL_GATEWAY6 likewise. Nobody else is on that wire, so there is no other user of the address to listen for. */
static void configure_network6(void)
{
	char *ip = getenv("VIAL_IP6"), *slash = ip ? strchr(ip, '/') : NULL;
	const char *gateway = getenv("VIAL_GATEWAY6");
	struct ifreq interface = { .ifr_name = "eth0" };
	struct in6_ifreq request = { .ifr6_prefixlen = 64 };
	struct in6_rtmsg route = { .rtmsg_flags = RTF_UP | RTF_GATEWAY, .rtmsg_metric = 1 };
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int no_dad = open("/proc/sys/net/ipv6/conf/eth0/accept_dad", O_WRONLY | O_CLOEXEC);

	if (no_dad >= 0) {
		(void)!write(no_dad, "0", 1);
		close(no_dad);
	}
	if (!slash || fd < 0 || ioctl(fd, SIOCGIFINDEX, &interface) < 0)
		return;
	*slash = '\0';
	request.ifr6_prefixlen = (uint32_t)atoi(slash + 1);
	request.ifr6_ifindex = route.rtmsg_ifindex = interface.ifr_ifindex;
	if (inet_pton(AF_INET6, ip, &request.ifr6_addr) == 1)
		ioctl(fd, SIOCSIFADDR, &request);
	if (gateway && inet_pton(AF_INET6, gateway, &route.rtmsg_gateway) == 1)
		ioctl(fd, SIOCADDRT, &route);
	close(fd);
}

/* 0 and 1 are the wire, 2 the kernel's console where there is one. */
static void connect_wire(void)
{
	int port = open_soon(PORT, O_RDWR);
	int log = open("/dev/console", O_WRONLY | O_NOCTTY | O_CLOEXEC);

	if (port < 0)
		fail("open the console port");
	if (log < 0)
		log = open("/dev/null", O_WRONLY | O_CLOEXEC);
	dup2(log, 2);
	dup2(port, 0);
	dup2(port, 1);
	if (port > 2)
		close(port);
	if (log > 2)
		close(log);
}

int main(void)
{
	static char *const argv[] = { AGENT, NULL };
	static char layers_text[32];
	static char *envp[] = { "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", NULL, NULL };
	const char *wanted = getenv("VIAL_LAYERS");
	int layers = wanted ? atoi(wanted) : -1;

	if (layers > MAX_LAYERS)
		fail("have so many layers");
	if (layers >= 0) {
		snprintf(layers_text, sizeof(layers_text), "VIAL_LAYER_FDS=%d", layers + 2);
		envp[2] = layers_text;
	}

	mkdir("/dev", 0755);
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/root", 0755);
	if (mount("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, NULL) < 0 ||
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ||
	    mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		fail("mount the kernel's file systems");
	load_modules(MODULES);
	mount_root(layers);
	enter_root();
	raise_loopback();
	configure_network();
	configure_network6();
	connect_wire();
	execve(AGENT, argv, envp);
	fail("start the agent");
	return 1;
}
