/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/identity.h"

#include <string.h>

static const char *const role_names[] = { [VIAL_ROLE_USER] = "user", [VIAL_ROLE_ADMIN] = "admin" };

VialIdentity *vial_identity_new(const char *key_id, const char *project, VialRole role, const char *label)
{
	VialIdentity *identity = g_new0(VialIdentity, 1);

	identity->refs = 1;
	identity->role = role;
	identity->key_id = g_strdup(key_id);
	identity->project = g_strdup(project);
	identity->label = g_strdup(label ? label : "");
	return identity;
}

VialIdentity *vial_identity_ref(VialIdentity *identity)
{
	identity->refs++;
	return identity;
}

void vial_identity_unref(VialIdentity *identity)
{
	if (!identity || --identity->refs > 0)
		return;
	g_free(identity->key_id);
	g_free(identity->project);
	g_free(identity->label);
	g_free(identity);
}

const char *vial_role_name(VialRole role)
{
	return role_names[role];
}

gboolean vial_role_parse(const char *text, VialRole *out)
{
	for (gsize i = 0; i < G_N_ELEMENTS(role_names); i++) {
		if (strcmp(text, role_names[i]) == 0) {
			*out = (VialRole)i;
			return TRUE;
		}
	}
	return FALSE;
}
