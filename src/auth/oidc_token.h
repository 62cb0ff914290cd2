/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One token: a signed JWT in the compact form (RFC 7515, 7519, 9068). The order is read, check, verify: what is cheap first, and nothing of a token
 * counts before all three. Errors are VIAL_ERROR_UNAUTHORIZED, one sentence each, and quote nothing of the token. Nothing here blocks; any thread,
 * one at a time.
 */
#pragma once

#include "auth/oidc_keys.h"

#define VIAL_OIDC_MAX_TOKEN_BYTES (16 * 1024)
/* Specified as 255 ASCII characters (OpenID Connect Core, section 2). */
#define VIAL_OIDC_MAX_SUB_BYTES 255

typedef struct {
	char *text;
	VialOidcAlgorithm algorithm;
	const char *kid; /* NULL: it names no key */
	gsize signature_bytes;
	guint8 *payload; /* the claims as they were signed */
	gsize payload_size;
	json_t *header;
	json_t *claims;
} VialOidcToken;

/* What a token must be for. Borrowed. */
typedef struct {
	const char *issuer;
	const char *const *audiences; /* NULL-terminated; one of them will do */
	gint64 skew_ms;               /* how far clocks may be apart */
} VialOidcTerms;

/* Its form and its header: one of the three algorithms, nothing critical, no other kind of token. NULL with an error. */
VialOidcToken *vial_oidc_token_read(const char *text, GError **error);
void vial_oidc_token_free(VialOidcToken *token); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialOidcToken, vial_oidc_token_free)

/* Its claims: issuer, audience, times, subject. */
gboolean vial_oidc_token_check(const VialOidcToken *token, const VialOidcTerms *terms, gint64 now_ms, GError **error);
/* Its signature, by a key that fits its algorithm. */
gboolean vial_oidc_token_verify(const VialOidcToken *token, const VialOidcKey *key, GError **error);

/* Of a token that was checked: when it is no longer valid, the skew included; its `sub`; a name to show, borrowed from the token. */
gint64 vial_oidc_token_expires_at_ms(const VialOidcToken *token, const VialOidcTerms *terms);
const char *vial_oidc_token_sub(const VialOidcToken *token);
const char *vial_oidc_token_name(const VialOidcToken *token);
