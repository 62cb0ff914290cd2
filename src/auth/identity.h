/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is asking: what a valid key stands for. Immutable once made, reference-counted, main thread only. Everything a
 * request may see is scoped by `project`; identity never comes from anything but the key (no identity headers).
 */
#pragma once

#include <glib.h>

typedef enum {
	VIAL_ROLE_USER,
	VIAL_ROLE_ADMIN,
} VialRole;

typedef struct VialIdentity VialIdentity;
struct VialIdentity {
	int refs;
	VialRole role;
	char *key_id;
	char *project;
	char *label;
};

VialIdentity *vial_identity_new(const char *key_id, const char *project, VialRole role, const char *label);
VialIdentity *vial_identity_ref(VialIdentity *identity);
void vial_identity_unref(VialIdentity *identity); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialIdentity, vial_identity_unref)

const char *vial_role_name(VialRole role); /* "user", "admin" */
gboolean vial_role_parse(const char *text, VialRole *out);
