/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: tokens and key sets of strangers. The first byte says what the rest is: `t` a token, `k` a JWK set, `p` a token's header, claims and
 * signature with line ends between them, which are put into base64 here. No token is valid but the ones with the claims that corpus/oidc/keys' owner
 * signed.
 */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "auth/oidc_rules.h"
#include "auth/oidc_token.h"
#include "util/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define NOW_MS G_GINT64_CONSTANT(1700000000000)

/* By make_oidc_corpus.py, which threw the private halves away. */
static const char jwks[] =
#include "fuzz_oidc_keys.inc"
	;
static const char good_claims[] = "{\"iss\":\"https://i.example\",\"aud\":\"vial\",\"sub\":\"u\",\"exp\":4102444800}";

static VialOidcKeys *keys;
static VialOidcRules *rules;

static void setup(void)
{
	static const char *const texts[] = { "groups=team-* -> {value}:developer", "a.b=*x* -> lab:admin", "email=*@example.com -> default:operator",
		                             "sub=* -> default:viewer", NULL };

	if (keys)
		return;
	keys = vial_oidc_keys_read(jwks, strlen(jwks), NULL);
	rules = vial_oidc_rules_new(texts, NULL);
	assert(keys && vial_oidc_keys_count(keys) == VIAL_OIDC_N_ALGORITHMS && rules);
}

static void check_error(GError *error, int code)
{
	assert(error && error->domain == VIAL_ERROR && error->code == code && g_utf8_validate(error->message, -1, NULL) &&
	       strlen(error->message) < 400);
	g_error_free(error);
}

static void use(const VialOidcToken *token, const VialOidcTerms *terms)
{
	g_autofree char *project = NULL;
	GError *error = NULL;
	VialRole role;

	assert(vial_oidc_token_expires_at_ms(token, terms) > NOW_MS);
	assert(vial_oidc_token_sub(token)[0] && strlen(vial_oidc_token_sub(token)) <= VIAL_OIDC_MAX_SUB_BYTES && vial_oidc_token_name(token)[0]);
	if (vial_oidc_rules_apply(rules, token->claims, NULL, &project, &role, &error))
		assert(vial_project_name_is_valid(project));
	else
		check_error(error, VIAL_ERROR_FORBIDDEN);
}

static void try_token(const char *text)
{
	static const char *const audiences[] = { "other", "vial", NULL };
	const VialOidcTerms terms = { .issuer = "https://i.example", .audiences = audiences, .skew_ms = 60000 };
	GError *error = NULL;
	g_autoptr(VialOidcToken) token = vial_oidc_token_read(text, &error);
	const VialOidcKey *key;

	if (!token) {
		check_error(error, VIAL_ERROR_UNAUTHORIZED);
		return;
	}
	if (vial_oidc_token_check(token, &terms, NOW_MS, &error))
		use(token, &terms);
	else
		check_error(g_steal_pointer(&error), VIAL_ERROR_UNAUTHORIZED);
	/* Also of those that would not have come so far. */
	if (vial_oidc_keys_find(keys, token->algorithm, token->kid, &key) != VIAL_OIDC_KEY_FOUND)
		return;
	if (vial_oidc_token_verify(token, key, &error))
		assert(token->payload_size == strlen(good_claims) && memcmp(token->payload, good_claims, token->payload_size) == 0);
	else
		check_error(error, VIAL_ERROR_UNAUTHORIZED);
}

static void add_part(GString *out, const uint8_t *bytes, size_t size)
{
	g_autofree char *text = g_base64_encode(bytes, size);

	g_strdelimit(text, "+", '-');
	g_strdelimit(text, "/", '_');
	text[strcspn(text, "=")] = '\0';
	g_string_append(out, text);
}

static void try_parts(const uint8_t *bytes, size_t size)
{
	g_autoptr(GString) text = g_string_new(NULL);

	for (int i = 0; i < 2; i++) {
		const uint8_t *end = size ? memchr(bytes, '\n', size) : NULL;
		size_t length = end ? (size_t)(end - bytes) : size;

		add_part(text, bytes, length);
		g_string_append_c(text, '.');
		bytes += length + (end != NULL);
		size -= length + (end != NULL);
	}
	add_part(text, bytes, size);
	try_token(text->str);
}

static void try_keys(const char *text, size_t size)
{
	GError *error = NULL;
	g_autoptr(VialOidcKeys) found = vial_oidc_keys_read(text, size, &error);
	const VialOidcKey *key;

	if (!found) {
		check_error(error, VIAL_ERROR_INVALID);
		return;
	}
	assert(vial_oidc_keys_count(found) + vial_oidc_keys_count_ignored(found) <= VIAL_OIDC_MAX_KEYS);
	for (int i = 0; i < VIAL_OIDC_N_ALGORITHMS; i++)
		if (vial_oidc_keys_find(found, (VialOidcAlgorithm)i, NULL, &key) == VIAL_OIDC_KEY_FOUND)
			assert(vial_oidc_keys_have(found, key->digest) && key->signature_bytes >= 64);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	setup();
	if (size == 0)
		return 0;
	if (bytes[0] == 'k') {
		try_keys((const char *)bytes + 1, size - 1);
	} else if (bytes[0] == 'p') {
		try_parts(bytes + 1, size - 1);
	} else {
		g_autofree char *text = g_strndup((const char *)bytes + 1, size - 1);

		try_token(text);
	}
	return 0;
}
