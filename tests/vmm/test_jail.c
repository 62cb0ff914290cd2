/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the jail and the system call filters: each is entered in a process of its own, and what is forbidden is tried there. */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmm/jail.h"
#include "vmm/seccomp.h"

enum { VIOLATION = 128 + SIGSYS };

static int run_in_child(void (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		close(2);
		open("/dev/null", O_WRONLY);
		vial_seccomp_init();
		body();
		_exit(0);
	}
	assert(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void enter(void)
{
	struct vial_jail jail = { 70001, 70001 };
	const char *error;

	if (vial_jail_enter(&jail, &error) < 0)
		_exit(77);
}

static void allowed_calls(void)
{
	char buffer[8];
	int ends[2];

	enter();
	if (pipe(ends) < 0 || write(ends[1], "x", 1) != 1 || read(ends[0], buffer, 1) != 1)
		_exit(1);
	if (fork() == 0)
		_exit(0);
}

static void open_a_file(void)
{
	enter();
	(void)!open("/etc/passwd", O_RDONLY);
}

static void make_a_socket(void)
{
	enter();
	socket(AF_INET, SOCK_STREAM, 0);
}

static void execute(void)
{
	enter();
	execl("/bin/true", "true", (char *)NULL);
}

static void trace_the_parent(void)
{
	enter();
	ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
}

static void kill_somebody(void)
{
	enter();
	syscall(SYS_kill, 1, 0);
}

static void map_code(void)
{
	enter();
	mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void use_another_ioctl(void)
{
	enter();
	ioctl(0, 0x5412 /* TIOCSTI */, "x");
}

static void make_a_namespace(void)
{
	enter();
	syscall(SYS_clone, 0x10000000ul /* CLONE_NEWUSER */ | SIGCHLD, 0, 0, 0, 0);
}

static void *vcpu_thread(void *argument)
{
	if (vial_seccomp_enter(VIAL_THREAD_VCPU) < 0)
		_exit(1);
	if (argument)
		(void)!read(0, &argument, 0);
	return NULL;
}

static void read_in_a_vcpu_thread(void)
{
	static int reads;
	pthread_t thread;

	pthread_create(&thread, NULL, vcpu_thread, NULL);
	pthread_join(thread, NULL);
	enter();
	pthread_create(&thread, NULL, vcpu_thread, &reads);
	pthread_join(thread, NULL);
}

static void a_vcpu_thread_may_end(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, vcpu_thread, NULL);
	pthread_join(thread, NULL);
	enter();
	pthread_create(&thread, NULL, vcpu_thread, NULL);
	pthread_join(thread, NULL);
}

static void kvm_in_a_device_thread(void)
{
	enter();
	if (vial_seccomp_enter(VIAL_THREAD_DEVICES) < 0)
		_exit(1);
	ioctl(0, KVM_RUN, 0);
}

static void jail_as_root(void)
{
	struct vial_jail jail = { 0, 0 };
	const char *error;

	_exit(vial_jail_enter(&jail, &error) == -EINVAL ? 0 : 1);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*body)(void);
		int expected;
	} cases[] = {
		{ "pipes and forks are allowed", allowed_calls, 0 },
		{ "a vCPU thread may start and end", a_vcpu_thread_may_end, 0 },
		{ "root is no jail", jail_as_root, 0 },
		{ "no file is opened", open_a_file, VIOLATION },
		{ "no socket is made", make_a_socket, VIOLATION },
		{ "nothing is executed", execute, VIOLATION },
		{ "nobody is traced", trace_the_parent, VIOLATION },
		{ "nobody is killed", kill_somebody, VIOLATION },
		{ "no code is mapped", map_code, VIOLATION },
		{ "no other ioctl passes", use_another_ioctl, VIOLATION },
		{ "no namespace is made", make_a_namespace, VIOLATION },
		{ "a vCPU thread reads nothing", read_in_a_vcpu_thread, VIOLATION },
		{ "a device thread runs no vCPU", kvm_in_a_device_thread, VIOLATION },
	};
	int failed = 0;

	if (geteuid() != 0) {
		puts("skipped: the jail needs root");
		return 77;
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int status = run_in_child(cases[i].body);

		if (status == 77) {
			puts("skipped: this environment does not allow namespaces");
			return 77;
		}
		if (status != cases[i].expected) {
			printf("FAIL %s: status %d\n", cases[i].name, status);
			failed++;
		}
	}
	printf("%zu jail tests, %d failed\n", sizeof(cases) / sizeof(*cases), failed);
	return failed > 0;
}
