/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/oidc_keys.h"

#include <gnutls/abstract.h>
#include <rhonabwy.h>
#include <string.h>

#include "util/base64url.h"
#include "util/error.h"
#include "util/json.h"

#define MIN_RSA_BITS 2048
/* Verifying takes time with the square of the size; nobody signs with more. */
#define MAX_RSA_BITS 8192
/* Exponents are 65537 nearly everywhere. 1 would make every signature valid; even ones are none. */
#define MAX_RSA_EXPONENT_BYTES 8
#define POINT_BYTES 32
#define CURVE_SIGNATURE_BYTES 64

static const char *const names[VIAL_OIDC_N_ALGORITHMS] = {
	[VIAL_OIDC_RS256] = "RS256",
	[VIAL_OIDC_ES256] = "ES256",
	[VIAL_OIDC_EDDSA] = "EdDSA",
};

struct VialOidcKeys {
	GPtrArray *keys; /* VialOidcKey */
	guint n_ignored;
};

gboolean vial_oidc_algorithm_parse(const char *text, VialOidcAlgorithm *out)
{
	for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
		if (strcmp(text, names[i]) == 0) {
			*out = (VialOidcAlgorithm)i;
			return TRUE;
		}
	}
	return FALSE;
}

static void key_free(gpointer pointer)
{
	VialOidcKey *key = pointer;

	if (!key)
		return;
	g_free(key->kid);
	json_decref(key->jwk);
	g_free(key);
}
typedef VialOidcKey Key;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Key, key_free)

/* ---- one key: each returns FALSE for a key to ignore ---- */

static gboolean is_text(const json_t *object, const char *member, const char *wanted)
{
	return g_strcmp0(json_string_value(json_object_get(object, member)), wanted) == 0;
}

static guint8 *get_bytes(const json_t *object, const char *member, gsize *out_size)
{
	const json_t *value = json_object_get(object, member);

	return json_is_string(value) ? vial_base64url_decode(json_string_value(value), json_string_length(value), out_size) : NULL;
}

/* Without the zeros in front that some libraries write. */
static gsize skip_zeros(const guint8 **bytes, gsize size)
{
	while (size > 0 && **bytes == 0) {
		(*bytes)++;
		size--;
	}
	return size;
}

static gboolean read_rsa(const json_t *object, Key *key)
{
	gsize n_size = 0, e_size = 0, bits;
	g_autofree guint8 *n_bytes = get_bytes(object, "n", &n_size), *e_bytes = get_bytes(object, "e", &e_size);
	const guint8 *n = n_bytes, *e = e_bytes;

	if (!n || !e)
		return FALSE;
	n_size = skip_zeros(&n, n_size);
	e_size = skip_zeros(&e, e_size);
	if (n_size == 0 || e_size == 0 || e_size > MAX_RSA_EXPONENT_BYTES)
		return FALSE;
	bits = n_size * 8 - (gsize)(8 - g_bit_storage(n[0]));
	if (bits < MIN_RSA_BITS || bits > MAX_RSA_BITS || !(n[n_size - 1] & 1) || !(e[e_size - 1] & 1) || (e_size == 1 && e[0] < 3))
		return FALSE;
	key->algorithm = VIAL_OIDC_RS256;
	key->signature_bytes = n_size;
	key->jwk = json_pack("{s:s, s:O, s:O}", "kty", "RSA", "n", json_object_get(object, "n"), "e", json_object_get(object, "e"));
	return TRUE;
}

static gboolean has_point(const json_t *object, const char *member)
{
	gsize size = 0;
	g_autofree guint8 *bytes = get_bytes(object, member, &size);

	return bytes && size == POINT_BYTES;
}

static gboolean read_ec(const json_t *object, Key *key)
{
	if (!is_text(object, "crv", "P-256") || !has_point(object, "x") || !has_point(object, "y"))
		return FALSE;
	key->algorithm = VIAL_OIDC_ES256;
	key->signature_bytes = CURVE_SIGNATURE_BYTES;
	key->jwk =
		json_pack("{s:s, s:s, s:O, s:O}", "kty", "EC", "crv", "P-256", "x", json_object_get(object, "x"), "y", json_object_get(object, "y"));
	return TRUE;
}

static gboolean read_okp(const json_t *object, Key *key)
{
	if (!is_text(object, "crv", "Ed25519") || !has_point(object, "x"))
		return FALSE;
	key->algorithm = VIAL_OIDC_EDDSA;
	key->signature_bytes = CURVE_SIGNATURE_BYTES;
	key->jwk = json_pack("{s:s, s:s, s:O}", "kty", "OKP", "crv", "Ed25519", "x", json_object_get(object, "x"));
	return TRUE;
}

static gboolean read_numbers(const json_t *object, Key *key)
{
	/* A private part that is published is anybody's. */
	if (json_object_get(object, "d") || json_object_get(object, "k"))
		return FALSE;
	if (is_text(object, "kty", "RSA"))
		return read_rsa(object, key);
	if (is_text(object, "kty", "EC"))
		return read_ec(object, key);
	return is_text(object, "kty", "OKP") && read_okp(object, key);
}

/* What it says it is for, where it says so. */
static gboolean is_for_signatures(const json_t *object, const Key *key)
{
	const json_t *operations = json_object_get(object, "key_ops"), *operation;
	gsize i;

	if ((json_object_get(object, "alg") && !is_text(object, "alg", names[key->algorithm])) ||
	    (json_object_get(object, "use") && !is_text(object, "use", "sig")))
		return FALSE;
	if (!operations)
		return TRUE;
	json_array_foreach (operations, i, operation)
		if (g_strcmp0(json_string_value(operation), "verify") == 0)
			return TRUE;
	return FALSE;
}

static gboolean read_kid(const json_t *object, Key *key)
{
	const json_t *kid = json_object_get(object, "kid");

	if (!kid)
		return TRUE;
	if (!json_is_string(kid) || json_string_length(kid) == 0 || json_string_length(kid) > VIAL_OIDC_MAX_KID_BYTES)
		return FALSE;
	key->kid = g_strdup(json_string_value(kid));
	return TRUE;
}

/* The library's opinion, and GnuTLS': a point that is not on its curve is no key. */
static gboolean is_sound(const Key *key)
{
	static const int types[VIAL_OIDC_N_ALGORITHMS] = {
		[VIAL_OIDC_RS256] = R_KEY_TYPE_RSA | R_KEY_TYPE_PUBLIC,
		[VIAL_OIDC_ES256] = R_KEY_TYPE_EC | R_KEY_TYPE_PUBLIC,
		[VIAL_OIDC_EDDSA] = R_KEY_TYPE_EDDSA | R_KEY_TYPE_PUBLIC,
	};
	gnutls_pubkey_t public;
	gboolean is_good;

	if (r_jwk_key_type(key->jwk, NULL, R_FLAG_IGNORE_REMOTE) != types[key->algorithm])
		return FALSE;
	public = r_jwk_export_to_gnutls_pubkey(key->jwk, R_FLAG_IGNORE_REMOTE);
	if (!public)
		return FALSE;
	/* It has nothing to verify about Ed25519, and says so. */
	is_good = key->algorithm == VIAL_OIDC_EDDSA || gnutls_pubkey_verify_params(public) == 0;
	gnutls_pubkey_deinit(public);
	return is_good;
}

static void set_digest(Key *key)
{
	g_autoptr(json_t) named = json_pack("{s:s?, s:O}", "kid", key->kid, "jwk", key->jwk);
	g_autofree char *text = json_dumps(named, JSON_COMPACT | JSON_SORT_KEYS);

	vial_sha256(text, strlen(text), key->digest);
}

static Key *read_key(const json_t *object)
{
	g_autoptr(Key) key = g_new0(Key, 1);

	if (!json_is_object(object) || !read_numbers(object, key) || !is_for_signatures(object, key) || !read_kid(object, key) || !is_sound(key))
		return NULL;
	set_digest(key);
	return g_steal_pointer(&key);
}

/* ---- the set ---- */

/* As far as it is read; the first of a name and algorithm is the one. A key without a name stands beside others. */
static gboolean is_taken(const VialOidcKeys *keys, const Key *wanted)
{
	for (guint i = 0; i < keys->keys->len; i++) {
		const Key *key = keys->keys->pdata[i];

		if (key->kid && key->algorithm == wanted->algorithm && g_strcmp0(key->kid, wanted->kid) == 0)
			return TRUE;
	}
	return FALSE;
}

VialOidcKeys *vial_oidc_keys_read(const char *text, gsize size, GError **error)
{
	g_autoptr(json_t) document = vial_json_parse_object(text, size, error);
	g_autoptr(VialOidcKeys) keys = NULL;
	const json_t *list, *object;
	gsize i;

	if (!document)
		return NULL;
	list = json_object_get(document, "keys");
	if (!json_is_array(list) || json_array_size(list) > VIAL_OIDC_MAX_KEYS) {
		vial_fail(error, VIAL_ERROR_INVALID, "a JWK set has \"keys\", an array of at most %d", VIAL_OIDC_MAX_KEYS);
		return NULL;
	}
	keys = g_new0(VialOidcKeys, 1);
	keys->keys = g_ptr_array_new_with_free_func(key_free);
	json_array_foreach (list, i, object) {
		g_autoptr(Key) key = read_key(object);

		if (key && !is_taken(keys, key))
			g_ptr_array_add(keys->keys, g_steal_pointer(&key));
		else
			keys->n_ignored++;
	}
	return g_steal_pointer(&keys);
}

void vial_oidc_keys_free(VialOidcKeys *keys)
{
	if (!keys)
		return;
	g_clear_pointer(&keys->keys, g_ptr_array_unref);
	g_free(keys);
}

guint vial_oidc_keys_count(const VialOidcKeys *keys)
{
	return keys->keys->len;
}

guint vial_oidc_keys_count_ignored(const VialOidcKeys *keys)
{
	return keys->n_ignored;
}

VialOidcKeyFind vial_oidc_keys_find(const VialOidcKeys *keys, VialOidcAlgorithm algorithm, const char *kid, const VialOidcKey **out)
{
	const Key *found = NULL;

	for (guint i = 0; keys && i < keys->keys->len; i++) {
		const Key *key = keys->keys->pdata[i];

		if (key->algorithm != algorithm || (kid && g_strcmp0(kid, key->kid) != 0))
			continue;
		if (found)
			return VIAL_OIDC_KEY_AMBIGUOUS;
		found = key;
	}
	if (!found)
		return VIAL_OIDC_KEY_UNKNOWN;
	*out = found;
	return VIAL_OIDC_KEY_FOUND;
}

gboolean vial_oidc_keys_have(const VialOidcKeys *keys, const guint8 digest[VIAL_SHA256_BYTES])
{
	for (guint i = 0; keys && i < keys->keys->len; i++)
		if (memcmp(((const Key *)keys->keys->pdata[i])->digest, digest, VIAL_SHA256_BYTES) == 0)
			return TRUE;
	return FALSE;
}
