/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys that an identity provider signs with: a JWK set (RFC 7517), of which only what we verify with is kept. Each kept key fits exactly one
 * algorithm: RSA of 2048 to 8192 bits RS256, P-256 ES256, Ed25519 EdDSA; what its `alg`, `use` and `key_ops` say must agree. All others are ignored,
 * as the RFC wants, and so are keys that give away their private part, and a second key of the same name and algorithm. Immutable; built on any
 * thread, used on one.
 *
 * What librhonabwy gets to see is made here of checked numbers alone: it would follow an `x5u`, unpack an `x5c`, and take 1024 bits, P-384 for ES256
 * or an exponent of 1, with which everything is its own signature.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "util/hash.h"

#define VIAL_OIDC_MAX_KEYS 64
#define VIAL_OIDC_MAX_JWKS_BYTES (256 * 1024)
#define VIAL_OIDC_MAX_KID_BYTES 255

typedef enum { VIAL_OIDC_RS256, VIAL_OIDC_ES256, VIAL_OIDC_EDDSA, VIAL_OIDC_N_ALGORITHMS } VialOidcAlgorithm;
/* By its exact name. */
gboolean vial_oidc_algorithm_parse(const char *text, VialOidcAlgorithm *out);

typedef struct {
	char *kid; /* NULL: it has none */
	VialOidcAlgorithm algorithm;
	gsize signature_bytes;            /* of each signature with it */
	json_t *jwk;                      /* kty and the public numbers, nothing else */
	guint8 digest[VIAL_SHA256_BYTES]; /* of name and numbers: the same key, or another one under the same name? */
} VialOidcKey;

typedef struct VialOidcKeys VialOidcKeys;

/* NULL with an error when it is no JWK set, or has more than VIAL_OIDC_MAX_KEYS keys. A set without any usable key is one: all were withdrawn. */
VialOidcKeys *vial_oidc_keys_read(const char *text, gsize size, GError **error);
void vial_oidc_keys_free(VialOidcKeys *keys); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialOidcKeys, vial_oidc_keys_free)

guint vial_oidc_keys_count(const VialOidcKeys *keys);
guint vial_oidc_keys_count_ignored(const VialOidcKeys *keys);

typedef enum { VIAL_OIDC_KEY_FOUND, VIAL_OIDC_KEY_UNKNOWN, VIAL_OIDC_KEY_AMBIGUOUS } VialOidcKeyFind;
/* The key of this name. Without a name the only one for the algorithm; several: VIAL_OIDC_KEY_AMBIGUOUS. `keys` NULL: there are none. *out is
 * borrowed. */
VialOidcKeyFind vial_oidc_keys_find(const VialOidcKeys *keys, VialOidcAlgorithm algorithm, const char *kid, const VialOidcKey **out);
/* `keys` NULL: there are none. */
gboolean vial_oidc_keys_have(const VialOidcKeys *keys, const guint8 digest[VIAL_SHA256_BYTES]);
