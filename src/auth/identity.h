/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is asking: what a valid key, or a token of the organisation's identity provider, stands for. Reference-counted, main thread only. What it may
 * do does not change: a key that is changed gets another identity, and the old one has `ended`. Everything a request may see is scoped by `project`;
 * identity never comes from anything but the key or the token (no identity headers).
 */
#pragma once

#include "auth/allow.h"
#include "auth/quotas.h"

/* Each may do what those before it may. What each verb needs is operations/verbs.c's. */
typedef enum {
	VIAL_ROLE_VIEWER,    /* reads */
	VIAL_ROLE_RUNNER,    /* runs code in what exists */
	VIAL_ROLE_DEVELOPER, /* creates and builds */
	VIAL_ROLE_ADMIN,     /* rules the project */
	VIAL_ROLE_OPERATOR,  /* rules the installation, from the default project */
	VIAL_N_ROLES,
} VialRole;

typedef enum {
	VIAL_PRINCIPAL_KEY,
	VIAL_PRINCIPAL_PERSON,
	VIAL_PRINCIPAL_SYSTEM,
	VIAL_PRINCIPAL_SANDBOX, /* who shows one sandbox's own token; its id is the sandbox's (operations/bearer.h) */
} VialPrincipalKind;

#define VIAL_DEFAULT_PROJECT "default"
#define VIAL_PROJECT_NAME_MAX_BYTES 63
/* [a-z0-9] and, not at its ends, dashes. */
gboolean vial_project_name_is_valid(const char *name);

typedef struct VialIdentity VialIdentity;
struct VialIdentity {
	int refs;
	VialPrincipalKind kind;
	VialRole role;
	char *id; /* the key's; of a person what the provider calls him (`sub`), with "person:" before it if it looks like a key's */
	char *project;
	char *name;           /* for people to read */
	VialAllow *allow;     /* NULL: not narrowed */
	VialQuotas *limits;   /* NULL: none but the project's */
	gint64 expires_at_ms; /* 0: never. Whoever made it ends it then */
	gboolean has_ended;   /* revoked, changed or expired: no more requests, and open ones are cut */
	/* What the same secret stood for before it was changed, where somebody still works with that; ends with it. NULL: nobody. */
	VialIdentity *predecessor;
};

/* Strings are copied; allow and limits are taken over, and may be NULL. */
VialIdentity *vial_identity_new(VialPrincipalKind kind, const char *id, const char *project, VialRole role, const char *name);
/* Another one that may do the same, for another secret of the same key. */
VialIdentity *vial_identity_copy(const VialIdentity *identity);
/* `identity` takes the place of `old`, whose reference is taken over: whoever still has that open loses it with the new one. */
void vial_identity_succeed(VialIdentity *identity, VialIdentity *old);
VialIdentity *vial_identity_ref(VialIdentity *identity);
void vial_identity_unref(VialIdentity *identity); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialIdentity, vial_identity_unref)

gboolean vial_identity_is_operator(const VialIdentity *identity);

const char *vial_role_name(VialRole role); /* "viewer" ... */
gboolean vial_role_parse(const char *text, VialRole *out);
const char *vial_principal_kind_name(VialPrincipalKind kind); /* "key", "person", "system", "sandbox" */
