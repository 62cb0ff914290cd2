/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that no program of the zone may make: new user namespaces. In one, guest root would regain the capability to mount, and with it reach
 * the cgroup that bounds the zone (tried in gVisor: it could leave it), and any user could fill memory with a tmpfs.
 */
#pragma once

/* For this process and everything it starts. Needs CAP_SYS_ADMIN. 0 or -errno. */
int vial_zone_filter_install(void);
