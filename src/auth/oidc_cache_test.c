/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/oidc_cache.h"

#include <string.h>

#define NOW_MS 1000

static const char jwks[] =
	"{\"keys\": [{\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"kid\": \"a\", \"x\": \"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";

/* The digest of the one key above. */
static const guint8 *signer(VialOidcKeys **out_keys)
{
	const VialOidcKey *key = NULL;

	*out_keys = vial_oidc_keys_read(jwks, strlen(jwks), NULL);
	g_assert_nonnull(*out_keys);
	g_assert_cmpint(vial_oidc_keys_find(*out_keys, VIAL_OIDC_EDDSA, NULL, &key), ==, VIAL_OIDC_KEY_FOUND);
	return key->digest;
}

static void make_key(VialOidcCacheKey *out, guint n, const char *project)
{
	g_autofree char *token = g_strdup_printf("token %u", n);

	vial_oidc_cache_key(out, token, project);
}

/* A new reference. */
static VialIdentity *put(VialOidcCache *cache, guint n, gint64 expires_at_ms, const guint8 *by)
{
	VialIdentity *identity = vial_identity_new(VIAL_PRINCIPAL_PERSON, "u", "default", VIAL_ROLE_VIEWER, "u");
	VialOidcCacheKey key;

	identity->expires_at_ms = expires_at_ms;
	make_key(&key, n, NULL);
	vial_oidc_cache_put(cache, &key, identity, by);
	return identity;
}

static VialIdentity *get(VialOidcCache *cache, guint n)
{
	VialOidcCacheKey key;

	make_key(&key, n, NULL);
	return vial_oidc_cache_get(cache, &key, NOW_MS);
}

static void test_a_token_is_known_for_its_project_alone(void)
{
	g_autoptr(VialOidcKeys) keys = NULL;
	const guint8 *by = signer(&keys);
	VialOidcCache *cache = vial_oidc_cache_new();
	g_autoptr(VialIdentity) identity = put(cache, 1, 2 * NOW_MS, by);
	VialOidcCacheKey key;

	g_assert_true(get(cache, 1) == identity);
	g_assert_null(get(cache, 2));
	make_key(&key, 1, "default");
	g_assert_null(vial_oidc_cache_get(cache, &key, NOW_MS));
	vial_oidc_cache_free(cache);
	g_assert_false(identity->has_ended);
	g_assert_cmpint(identity->refs, ==, 1);
}

static void test_the_expired_end(void)
{
	g_autoptr(VialOidcKeys) keys = NULL;
	const guint8 *by = signer(&keys);
	VialOidcCache *cache = vial_oidc_cache_new();
	g_autoptr(VialIdentity) over = put(cache, 1, NOW_MS, by), valid = put(cache, 2, NOW_MS + 1, by);

	g_assert_null(get(cache, 1));
	g_assert_cmpint(vial_oidc_cache_next_ms(cache), ==, NOW_MS);
	g_assert_true(vial_oidc_cache_end(cache, keys, NOW_MS));
	g_assert_true(over->has_ended);
	g_assert_false(valid->has_ended);
	g_assert_false(vial_oidc_cache_end(cache, keys, NOW_MS));
	g_assert_true(get(cache, 2) == valid);
	g_assert_cmpint(vial_oidc_cache_next_ms(cache), ==, NOW_MS + 1);
	vial_oidc_cache_free(cache);
}

static void test_a_withdrawn_key_ends_its_own(void)
{
	g_autoptr(VialOidcKeys) keys = NULL;
	const guint8 *by = signer(&keys), other[VIAL_SHA256_BYTES] = { 1 };
	VialOidcCache *cache = vial_oidc_cache_new();
	g_autoptr(VialIdentity) a = put(cache, 1, 2 * NOW_MS, by), b = put(cache, 2, 2 * NOW_MS, other);

	g_assert_true(vial_oidc_cache_end(cache, keys, NOW_MS));
	g_assert_false(a->has_ended);
	g_assert_true(b->has_ended);
	g_assert_true(vial_oidc_cache_end(cache, NULL, NOW_MS));
	g_assert_true(a->has_ended);
	g_assert_cmpuint(vial_oidc_cache_size(cache), ==, 0);
	g_assert_cmpint(vial_oidc_cache_next_ms(cache), ==, G_MAXINT64);
	vial_oidc_cache_free(cache);
}

/* Whoever is evicted while something is open in his name could keep it open for ever. */
static void test_the_oldest_go_but_not_who_is_at_work(void)
{
	g_autoptr(VialOidcKeys) keys = NULL;
	const guint8 *by = signer(&keys);
	VialOidcCache *cache = vial_oidc_cache_new();
	g_autoptr(VialIdentity) at_work = put(cache, 0, 2 * NOW_MS, by);

	for (guint i = 1; i < VIAL_OIDC_MAX_TOKENS; i++)
		vial_identity_unref(put(cache, i, 2 * NOW_MS, by));
	g_assert_cmpuint(vial_oidc_cache_size(cache), ==, VIAL_OIDC_MAX_TOKENS);
	/* Used, so not the oldest any more. */
	g_assert_nonnull(get(cache, 1));
	vial_identity_unref(put(cache, VIAL_OIDC_MAX_TOKENS, 2 * NOW_MS, by));
	g_assert_cmpuint(vial_oidc_cache_size(cache), ==, VIAL_OIDC_MAX_TOKENS);
	g_assert_true(get(cache, 0) == at_work);
	g_assert_nonnull(get(cache, 1));
	g_assert_null(get(cache, 2));
	g_assert_nonnull(get(cache, 3));
	g_assert_nonnull(get(cache, VIAL_OIDC_MAX_TOKENS));
	g_assert_true(vial_oidc_cache_end(cache, keys, 2 * NOW_MS));
	g_assert_true(at_work->has_ended);
	vial_oidc_cache_free(cache);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/oidc-cache/a-token-is-known-for-its-project-alone", test_a_token_is_known_for_its_project_alone);
	g_test_add_func("/oidc-cache/the-expired-end", test_the_expired_end);
	g_test_add_func("/oidc-cache/a-withdrawn-key-ends-its-own", test_a_withdrawn_key_ends_its_own);
	g_test_add_func("/oidc-cache/the-oldest-go-but-not-who-is-at-work", test_the_oldest_go_but_not_who_is_at_work);
	return g_test_run();
}
