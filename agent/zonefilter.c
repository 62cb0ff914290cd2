/* SPDX-License-Identifier: Apache-2.0 */
/* See zonefilter.h. clone3 hides its flags in memory, where a filter cannot look: "not implemented" makes every libc fall back to clone. */
#include "zonefilter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
/* The x32 calls come under the same architecture with this bit. */
#define X32_BIT 0x40000000u
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#define X32_BIT 0x40000000u
#else
#error "which architecture is this?"
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(error) BPF_STMT(BPF_RET | BPF_K, (error) ? SECCOMP_RET_ERRNO | (error) : SECCOMP_RET_ALLOW)

int vial_zone_filter_install(void)
{
	/* Flags are in the low half of the first argument of both clone and unshare, on both architectures. */
	struct sock_filter program[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0),
		ANSWER(ENOSYS),
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 3),
		LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 2, 1),
		ANSWER(ENOSYS),
		ANSWER(0),
		ANSWER(EPERM),
	};
	struct sock_fprog filter = { .len = sizeof(program) / sizeof(*program), .filter = program };

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
		return -errno;
	return 0;
}
