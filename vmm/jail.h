/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jail: between building a machine and its first instruction the process gives up everything it does not need. Own namespaces, an
 * empty read-only root, a user without rights, no capabilities, tight limits, the control thread's system call filter. There is no way back.
 */
#pragma once

#include <sys/types.h>

struct vial_jail {
	uid_t uid;
	gid_t gid;
};

/* 0, or -errno and one sentence. Needs root. */
int vial_jail_enter(const struct vial_jail *jail, const char **out_error);
