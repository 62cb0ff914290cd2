/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the claims of a token give: `CLAIM=VALUE -> PROJECT:ROLE`, tried in order. docs/people.md explains them. Immutable once read; any thread.
 *
 * CLAIM is a member of the claims, or a path of members with dots between them; a member that has the dots in its name goes first. A string, number
 * or boolean matches as its text, an array when one of its elements does. In VALUE `*` is any text, also none; all else is itself. PROJECT may be
 * `{value}`: the text that matched, where it is a valid name. An `email` that the provider says is not verified matches nothing.
 */
#pragma once

#include <jansson.h>

#include "auth/identity.h"

typedef struct VialOidcRules VialOidcRules;

/* NULL with an error that quotes the rule which cannot be read. `texts` is NULL-terminated. */
VialOidcRules *vial_oidc_rules_new(const char *const *texts, GError **error);
void vial_oidc_rules_free(VialOidcRules *rules); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialOidcRules, vial_oidc_rules_free)

/* The first rule that matches, and with `wanted` gives that project. FALSE with VIAL_ERROR_FORBIDDEN when there is none. *out_project is to be freed.
 */
gboolean vial_oidc_rules_apply(const VialOidcRules *rules, const json_t *claims, const char *wanted, char **out_project, VialRole *out_role,
                               GError **error);

/* The email, if the claims have one that may be believed: `email_verified` is true, or not there. Borrowed; NULL: none. */
const char *vial_oidc_claims_email(const json_t *claims);
