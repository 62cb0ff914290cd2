/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens that were verified, by their SHA-256 and the project they were asked for: what identity each is, until when, and by which key. A known token
 * costs a look. Main thread only.
 *
 * At most VIAL_OIDC_MAX_TOKENS, and the one unused for longest goes; but one that somebody still works with stays until it expires, or else nobody
 * would end what is open in its name. There are never more of those than open requests.
 */
#pragma once

#include "auth/identity.h"
#include "auth/oidc_keys.h"
#include "auth/oidc_rules.h"

#define VIAL_OIDC_MAX_TOKENS 4096

typedef struct VialOidcCache VialOidcCache;

typedef struct {
	guint8 digest[VIAL_SHA256_BYTES];
	char project[VIAL_PROJECT_NAME_MAX_BYTES + 1]; /* "": whichever comes first */
} VialOidcCacheKey;

/* `project` is a valid name, or NULL. */
void vial_oidc_cache_key(VialOidcCacheKey *out, const char *token, const char *project);

VialOidcCache *vial_oidc_cache_new(void);
void vial_oidc_cache_free(VialOidcCache *cache); /* accepts NULL; ends nobody */

guint vial_oidc_cache_size(const VialOidcCache *cache);
/* Borrowed; NULL: not known, or over. */
VialIdentity *vial_oidc_cache_get(VialOidcCache *cache, const VialOidcCacheKey *key, gint64 now_ms);
/* Keeps a reference. `signer`: the digest of the key that the token is signed with. */
void vial_oidc_cache_put(VialOidcCache *cache, const VialOidcCacheKey *key, VialIdentity *identity, const guint8 signer[VIAL_SHA256_BYTES]);

/* Ends what has expired, and what was signed with a key that is not in `keys` (NULL: all). TRUE if anything was. */
gboolean vial_oidc_cache_end(VialOidcCache *cache, const VialOidcKeys *keys, gint64 now_ms);
/* When the first expires; G_MAXINT64 without any. */
gint64 vial_oidc_cache_next_ms(const VialOidcCache *cache);
