/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One system call filter per kind of thread. A filter is a list of rules compiled to BPF; what no rule allows ends the process, after a line
 * on stderr that names the thread and the call. Filters stack: a thread starts with the control thread's and adds its own.
 */
#pragma once

enum vial_thread { VIAL_THREAD_CONTROL, VIAL_THREAD_VCPU, VIAL_THREAD_DEVICES };

/* Installs the handler that reports a violation. Once, before the first filter. */
void vial_seccomp_init(void);
/* For the calling thread, for good. 0 or -errno. */
int vial_seccomp_enter(enum vial_thread thread);
