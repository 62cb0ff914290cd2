/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/identity.h"

#include <string.h>

static const char *const role_names[] = {
	[VIAL_ROLE_VIEWER] = "viewer", [VIAL_ROLE_RUNNER] = "runner",     [VIAL_ROLE_DEVELOPER] = "developer",
	[VIAL_ROLE_ADMIN] = "admin",   [VIAL_ROLE_OPERATOR] = "operator",
};

static const char *const kind_names[] = {
	[VIAL_PRINCIPAL_KEY] = "key",
	[VIAL_PRINCIPAL_PERSON] = "person",
	[VIAL_PRINCIPAL_SYSTEM] = "system",
	[VIAL_PRINCIPAL_SANDBOX] = "sandbox",
};

VialIdentity *vial_identity_new(VialPrincipalKind kind, const char *id, const char *project, VialRole role, const char *name)
{
	VialIdentity *identity = g_new0(VialIdentity, 1);

	identity->refs = 1;
	identity->kind = kind;
	identity->role = role;
	identity->id = g_strdup(id);
	identity->project = g_strdup(project);
	identity->name = g_strdup(name ? name : "");
	return identity;
}

VialIdentity *vial_identity_copy(const VialIdentity *identity)
{
	VialIdentity *copy = vial_identity_new(identity->kind, identity->id, identity->project, identity->role, identity->name);

	copy->allow = vial_allow_copy(identity->allow);
	copy->limits = identity->limits ? vial_quotas_copy(identity->limits) : NULL;
	copy->expires_at_ms = identity->expires_at_ms;
	copy->has_ended = identity->has_ended;
	return copy;
}

/* Those that only the chain still holds are left out: it is as long as there are people who work with one of them. */
void vial_identity_succeed(VialIdentity *identity, VialIdentity *old)
{
	VialIdentity **last = &identity->predecessor;

	while (old) {
		VialIdentity *older = g_steal_pointer(&old->predecessor);

		if (old->refs > 1) {
			*last = old;
			last = &old->predecessor;
		} else {
			vial_identity_unref(old);
		}
		old = older;
	}
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
	vial_identity_unref(identity->predecessor);
	vial_allow_free(identity->allow);
	vial_quotas_free(identity->limits);
	g_free(identity->id);
	g_free(identity->project);
	g_free(identity->name);
	g_free(identity);
}

gboolean vial_identity_is_operator(const VialIdentity *identity)
{
	return identity->role == VIAL_ROLE_OPERATOR;
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

const char *vial_principal_kind_name(VialPrincipalKind kind)
{
	return kind_names[kind];
}

gboolean vial_project_name_is_valid(const char *name)
{
	gsize length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

	return length > 0 && length <= VIAL_PROJECT_NAME_MAX_BYTES && name[length] == '\0' && name[0] != '-' && name[length - 1] != '-';
}
