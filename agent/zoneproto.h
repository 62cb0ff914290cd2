/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between the agent and the zone's init over one SOCK_SEQPACKET pair, one packet each. Same program on both ends, so plain
 * structures; but the zone's init lives where guest root can trace it, so the agent checks what it gets and believes it
 * only about processes of the zone.
 */
#pragma once

#include <stdint.h>

#define VIAL_ZONE_MAX_PACKET (64u * 1024u)
#define VIAL_ZONE_SOCKET_FD 3

/* Agent to init. Followed by group_count gid_t, then cwd, argv and env as NUL-ended strings. */
struct vial_zone_request {
	uint32_t id; /* 0: nothing to start; the first is the go-ahead (init is in its cgroup now), later ones ask for ALIVE */
	uint32_t uid, gid;
	uint32_t group_count;
	uint32_t argument_count, env_count;
	uint32_t fd_mask; /* bit i: a descriptor for i comes along (SCM_RIGHTS, in order); other bits below fd_count get /dev/null */
	uint32_t fd_count;
	uint32_t is_tty;
	uint32_t is_in_memfd; /* the last descriptor is a memfd with what would follow: it was too large for a packet */
	uint32_t body_bytes;
};

enum vial_zone_kind {
	VIAL_ZONE_CLAIM = 1, /* from the new process itself, just before exec: its credentials tell its outer pid */
	VIAL_ZONE_STARTED,   /* from init: exec has succeeded */
	VIAL_ZONE_FAILED,    /* from init: stage and error */
	VIAL_ZONE_EXITED,    /* from init: wait status and usage */
	VIAL_ZONE_ALIVE,     /* from init: an answer to a request 0 */
};

struct vial_zone_report {
	uint32_t kind;
	uint32_t id;
	int32_t pid; /* inside the zone */
	int32_t stage, error;
	int32_t status;
	uint64_t cpu_ms, max_rss_kb;
};
