/* SPDX-License-Identifier: Apache-2.0 */
/* See seccomp.h. The rules are at the end; each says why when it is not plain. */
#include "seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/if_tun.h>
#include <linux/kvm.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_VALUES 32u
#define MAX_INSTRUCTIONS 512u

enum check {
	ANY,       /* no condition */
	ONE_OF,    /* the argument is one of the values */
	NONE_SET,  /* the argument has none of values[0]'s bits */
	ENOSYS_IT, /* not allowed, but harmlessly so: "not implemented" */
};

struct rule {
	int call;
	enum check check;
	unsigned argument;
	const uint32_t *values;
	unsigned count;
};

struct program {
	struct sock_filter code[MAX_INSTRUCTIONS];
	unsigned length;
};

static void emit(struct program *program, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k)
{
	if (program->length < MAX_INSTRUCTIONS)
		program->code[program->length++] = (struct sock_filter){ code, jt, jf, k };
}

static void load(struct program *program, size_t offset)
{
	emit(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

static void ret(struct program *program, uint32_t action)
{
	emit(program, BPF_RET | BPF_K, 0, 0, action);
}

/* The argument's low word is in the accumulator: values are 32 bit, and a call that takes more is not on our lists. */
static void emit_values(struct program *program, const struct rule *rule)
{
	if (rule->check == NONE_SET) {
		emit(program, BPF_JMP | BPF_JSET | BPF_K, 1, 0, rule->values[0]);
		ret(program, SECCOMP_RET_ALLOW);
		ret(program, SECCOMP_RET_TRAP);
		return;
	}
	for (unsigned i = 0; i < rule->count; i++) {
		emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, rule->values[i]);
		ret(program, SECCOMP_RET_ALLOW);
	}
	ret(program, SECCOMP_RET_TRAP);
}

static void emit_rule(struct program *program, const struct rule *rule)
{
	unsigned jump = program->length;

	/* Patched below: over this rule's body when the call is another. */
	emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, (uint32_t)rule->call);
	if (rule->check == ANY) {
		ret(program, SECCOMP_RET_ALLOW);
	} else if (rule->check == ENOSYS_IT) {
		ret(program, SECCOMP_RET_ERRNO | ENOSYS);
	} else {
		load(program, offsetof(struct seccomp_data, args) + rule->argument * sizeof(uint64_t));
		emit_values(program, rule);
	}
	program->code[jump].jf = (uint8_t)(program->length - jump - 1);
}

static void compile(struct program *program, const struct rule *rules, size_t count)
{
	program->length = 0;
	load(program, offsetof(struct seccomp_data, arch));
	emit(program, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64);
	ret(program, SECCOMP_RET_KILL_PROCESS);
	load(program, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < count; i++)
		emit_rule(program, &rules[i]);
	ret(program, SECCOMP_RET_TRAP);
}

static _Thread_local const char *thread_name = "main";

/* Async-signal-safe: the number is written by hand. */
static void on_violation(int signal_number, siginfo_t *info, void *context)
{
	const char *const words[] = { "vial-vmm: seccomp: thread ", thread_name, " tried system call " };
	char text[96], digits[12];
	size_t length = 0, count = 0;
	unsigned call = (unsigned)info->si_syscall;

	for (size_t i = 0; i < 3; i++) {
		for (const char *at = words[i]; *at; at++)
			text[length++] = *at;
	}
	do
		digits[count++] = (char)('0' + call % 10);
	while ((call /= 10) > 0 && count < sizeof(digits));
	while (count > 0)
		text[length++] = digits[--count];
	text[length++] = '\n';
	(void)!write(STDERR_FILENO, text, length);
	_exit(128 + SIGSYS);
}

void vial_seccomp_init(void)
{
	struct sigaction action = { .sa_sigaction = on_violation, .sa_flags = SA_SIGINFO };

	sigaction(SIGSYS, &action, NULL);
}

#define CALL(name)                               \
	{                                        \
		.call = SYS_##name, .check = ANY \
	}
#define CALL_WITH(name, position, list)                                                                              \
	{                                                                                                            \
		.call = SYS_##name, .check = ONE_OF, .argument = position, .values = list, .count = sizeof(list) / 4 \
	}
#define CALL_WITHOUT(name, position, list)                                                              \
	{                                                                                               \
		.call = SYS_##name, .check = NONE_SET, .argument = position, .values = list, .count = 1 \
	}

static const uint32_t no_exec[] = { PROT_EXEC };
static const uint32_t vcpu_ioctls[] = { KVM_RUN };
static const uint32_t control_ioctls[] = {
	/* A fork makes a VM, */
	KVM_CREATE_VM, KVM_CHECK_EXTENSION, KVM_SET_TSS_ADDR, KVM_SET_IDENTITY_MAP_ADDR, KVM_CREATE_IRQCHIP, KVM_CREATE_PIT2,
	KVM_SET_USER_MEMORY_REGION, KVM_CREATE_VCPU, KVM_IRQFD, KVM_IOEVENTFD,
	/* and both forks and snapshots move state. */
	KVM_GET_PIT2, KVM_SET_PIT2, KVM_GET_CLOCK, KVM_SET_CLOCK, KVM_GET_IRQCHIP, KVM_SET_IRQCHIP, KVM_GET_DEVICE_ATTR, KVM_SET_DEVICE_ATTR,
	KVM_KVMCLOCK_CTRL, KVM_GET_TSC_KHZ, KVM_SET_TSC_KHZ, KVM_GET_MP_STATE, KVM_SET_MP_STATE, KVM_GET_REGS, KVM_SET_REGS, KVM_GET_SREGS,
	KVM_SET_SREGS, KVM_GET_XSAVE, KVM_GET_XSAVE2, KVM_SET_XSAVE, KVM_GET_XCRS, KVM_SET_XCRS, KVM_GET_DEBUGREGS, KVM_SET_DEBUGREGS, KVM_GET_LAPIC,
	KVM_SET_LAPIC, KVM_GET_CPUID2, KVM_SET_CPUID2, KVM_GET_MSRS, KVM_SET_MSRS, KVM_GET_VCPU_EVENTS, KVM_SET_VCPU_EVENTS,
	/* A TAP that came along with a fork. */
	TUNSETVNETHDRSZ, TUNSETOFFLOAD,
	/* The vCPU threads' only one: their filter comes on top of this one. */
	KVM_RUN
};
/* What glibc's fork() and pthread_create() pass, and nothing else. */
static const uint32_t clone_flags[] = { 0x1200011, 0x3d0f00 };
static const uint32_t prctl_options[] = { PR_SET_SECCOMP, PR_SET_NAME };
static const uint32_t device_madvise[] = { MADV_DONTNEED, MADV_DONTDUMP };
static const uint32_t device_mmap_flags[] = { MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE };

static const struct rule vcpu_rules[] = {
	CALL_WITH(ioctl, 1, vcpu_ioctls),
	CALL(futex),
	CALL(write), /* eventfds, the serial log, a violation's report */
	CALL(madvise),
	CALL(munmap), /* a thread's stack when it ends */
	CALL(rt_sigreturn),
	CALL(rt_sigprocmask),
	CALL(exit),
	CALL(exit_group),
};

static const struct rule device_rules[] = {
	CALL(epoll_wait),
	CALL(read),
	CALL(write),
	CALL(pread64),
	CALL(pwrite64),
	CALL(futex),
	CALL(getrandom),
	CALL_WITH(madvise, 2, device_madvise),
	CALL_WITH(mmap, 3, device_mmap_flags), /* fresh memory for pages given back; checked for PROT_EXEC by the control filter */
	CALL(munmap),
	CALL(rt_sigreturn),
	CALL(rt_sigprocmask),
	CALL(exit),
	CALL(exit_group),
};

static const struct rule control_rules[] = {
	CALL(poll),
	CALL(read),
	CALL(write),
	CALL(pread64),
	CALL(pwrite64),
	CALL(lseek),
	CALL(ftruncate),
	CALL(fstat),
	CALL(newfstatat),
	CALL(recvmsg),
	CALL(sendto),
	CALL(accept4),
	CALL(close),
	CALL(fcntl),
	CALL(pipe),
	CALL(pipe2),
	CALL(eventfd2),
	CALL(epoll_wait), /* the device thread's, whose filter comes on top of this one */
	CALL(epoll_create1),
	CALL(epoll_ctl),
	CALL(futex),
	CALL_WITH(ioctl, 1, control_ioctls),
	CALL(brk),
	CALL_WITHOUT(mmap, 2, no_exec),
	CALL_WITHOUT(mprotect, 2, no_exec),
	CALL(mremap),
	CALL(munmap),
	CALL(madvise),
	CALL_WITH(clone, 0, clone_flags),
	{ .call = SYS_clone3, .check = ENOSYS_IT }, /* its flags are out of a filter's reach; glibc falls back to clone */
	CALL(set_robust_list),
	CALL(rseq),
	CALL_WITH(prctl, 0, prctl_options),
	CALL(seccomp),
	CALL(sched_getaffinity),
	CALL(getrandom),
	CALL(clock_gettime),
	CALL(clock_nanosleep),
	CALL(getpid),
	CALL(gettid),
	CALL(uname),
	CALL(tgkill), /* kicks a vCPU thread; the kernel lets it reach no other user's processes */
	CALL(rt_sigreturn),
	CALL(rt_sigprocmask),
	CALL(restart_syscall),
	CALL(exit),
	CALL(exit_group),
};

int vial_seccomp_enter(enum vial_thread thread)
{
	static const char *const names[] = { "control", "vcpu", "devices" };
	struct program program;
	struct sock_fprog filter = { .filter = program.code };

	if (thread == VIAL_THREAD_VCPU)
		compile(&program, vcpu_rules, sizeof(vcpu_rules) / sizeof(*vcpu_rules));
	else if (thread == VIAL_THREAD_DEVICES)
		compile(&program, device_rules, sizeof(device_rules) / sizeof(*device_rules));
	else
		compile(&program, control_rules, sizeof(control_rules) / sizeof(*control_rules));
	if (program.length >= MAX_INSTRUCTIONS)
		return -E2BIG;
	filter.len = (unsigned short)program.length;
	thread_name = names[thread];
	/* The threads' filters inherit this from the control thread, whose filter no longer allows the call. */
	if (thread == VIAL_THREAD_CONTROL && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0 ? -errno : 0;
}
