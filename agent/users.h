/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's users, read from its /etc/passwd and /etc/group each time (a static program has no NSS, and the guest may add
 * users), and acting with one user's rights for the length of a file operation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <jansson.h>

#define VIAL_USER_MAX_GROUPS 64

struct vial_user {
	uid_t uid;
	gid_t gid;
	gid_t groups[VIAL_USER_MAX_GROUPS];
	size_t group_count;
	char name[64];
	char home[256];
	char shell[256];
};

/* NULL means the default, "user". A number without an entry is that uid and gid. 0, -ENOENT, or another errno. */
int vial_user_find(const char *name_or_number, struct vial_user *out_user);
/* The "user" field of a request: absent, a string or a number. -EINVAL for another type. */
int vial_user_from_json(json_t *request, struct vial_user *out_user);

/* Names for an entry's owner; the number as text when there is none. */
void vial_user_name(uid_t uid, char *out_name, size_t size_bytes);
void vial_group_name(gid_t gid, char *out_name, size_t size_bytes);

/* Effective ids and groups become the user's until vial_user_leave(). 0 or -errno (then nothing changed). Never nests. */
int vial_user_enter(const struct vial_user *user);
void vial_user_leave(void);
