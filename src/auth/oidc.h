/* SPDX-License-Identifier: Apache-2.0 */
/*
 * People who sign in at the organisation's OpenID Connect provider: a token of its, verified, is an identity. docs/people.md says what is checked and
 * how rules give projects and roles. Main thread only; the provider's keys are fetched on a worker thread, and nothing here blocks but for small
 * local files.
 *
 * A token that was verified is known until it expires: the same identity is given again, for the price of a hash. It ends when the token expires or
 * the key that signed it is no longer published.
 */
#pragma once

#include "auth/identity.h"
#include "util/config.h"

typedef struct VialOidc VialOidc;

/*
 * NULL without an error when no issuer is configured; NULL with one when the settings cannot be. Reads the rules, and the keys if they are in a file;
 * else their first fetch begins. What it needs of `config` is copied.
 */
VialOidc *vial_oidc_new(const VialConfig *config, GError **error);
/* Accepts NULL. Whoever still waits is told VIAL_ERROR_UNAVAILABLE; identities are not ended. Not from within a `done` or `ended`. */
void vial_oidc_free(VialOidc *oidc);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialOidc, vial_oidc_free)

/* Three parts in base64url, the first of which begins as JSON does: a token, or something that wants to be one. Anything else is for auth/keys.h. */
gboolean vial_oidc_looks_like_token(const char *text);

/*
 * Either an identity, borrowed, or an error: VIAL_ERROR_UNAUTHORIZED says what is wrong with the token, without quoting it; VIAL_ERROR_FORBIDDEN that
 * no rule gives what is wanted; VIAL_ERROR_UNAVAILABLE that the provider's keys cannot be had at the moment.
 */
typedef void (*VialOidcDone)(VialIdentity *identity, const GError *error, gpointer data);
/*
 * `project`: which of the projects that the rules give him he means (VIAL_ERROR_INVALID if that is no project's name); NULL: the first. Whether it
 * exists is for others to know. `done` comes exactly once: before this returns, or later on the main loop, where the key of the token had to be
 * fetched.
 */
void vial_oidc_authenticate(VialOidc *oidc, const char *token, const char *project, VialOidcDone done, gpointer data);

/* Whenever identities got has_ended. */
typedef void (*VialOidcEnded)(gpointer data);
void vial_oidc_on_ended(VialOidc *oidc, VialOidcEnded ended, gpointer data);
