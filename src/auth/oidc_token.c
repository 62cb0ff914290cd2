/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signature is librhonabwy's work, and only that: as for the rest it is told to take no key from the token (R_PARSE_NONE) and to fetch nothing,
 * and gets to see only tokens that were read here. Left to itself (1.1.11, each tried) it accepts padding and stray bits in the base64, a member
 * twice, `crit`, `zip` (9 KB become 9 MB), an ES256 signature of 96 bytes; and it judges a token without a key by the key in its own header.
 */
#include "auth/oidc_token.h"

#include <math.h>
#include <rhonabwy.h>
#include <string.h>

#include "auth/oidc_rules.h"
#include "util/base64url.h"
#include "util/error.h"
#include "util/json.h"

/* Exactly representable in milliseconds by a double, and 285,000 years. */
#define MAX_DATE_SECONDS 9e12
#define MAX_NAME_BYTES 255

static const jwa_alg library_algorithms[VIAL_OIDC_N_ALGORITHMS] = {
	[VIAL_OIDC_RS256] = R_JWA_ALG_RS256,
	[VIAL_OIDC_ES256] = R_JWA_ALG_ES256,
	[VIAL_OIDC_EDDSA] = R_JWA_ALG_EDDSA,
};

static gboolean refuse(GError **error, const char *sentence)
{
	return vial_fail(error, VIAL_ERROR_UNAUTHORIZED, "%s", sentence);
}

/* ---- form and header ---- */

/* The text between two places as a JSON object; what is wrong with it is not said in detail, which would quote the token. */
static json_t *read_object(const guint8 *bytes, gsize size, const char *sentence, GError **error)
{
	json_t *object = bytes ? vial_json_parse_object((const char *)bytes, size, NULL) : NULL;

	if (!object)
		refuse(error, sentence);
	return object;
}

static gboolean read_parts(VialOidcToken *token, GError **error)
{
	const char *first = strchr(token->text, '.'), *second = first ? strchr(first + 1, '.') : NULL;
	g_autofree guint8 *header = NULL, *signature = NULL;
	gsize header_size = 0;

	if (!second || strchr(second + 1, '.'))
		return refuse(error, "the token is not a signed one: it must have three parts with dots between them");
	header = vial_base64url_decode(token->text, (gsize)(first - token->text), &header_size);
	token->payload = vial_base64url_decode(first + 1, (gsize)(second - first - 1), &token->payload_size);
	signature = vial_base64url_decode(second + 1, strlen(second + 1), &token->signature_bytes);
	token->header = read_object(header, header_size, "the header of the token is not a JSON object in base64url", error);
	if (!token->header)
		return FALSE;
	token->claims = read_object(token->payload, token->payload_size, "the claims of the token are not a JSON object in base64url", error);
	if (!token->claims)
		return FALSE;
	return signature || refuse(error, "the token has no signature in base64url");
}

/* JWT and at+jwt, as the short form of a media type or the long one. Tokens for other purposes (logout+jwt, dpop+jwt) have their own. */
static gboolean check_type(const json_t *header, GError **error)
{
	const json_t *type = json_object_get(header, "typ");
	const char *text = json_string_value(type);

	if (!type)
		return TRUE;
	if (text && g_ascii_strncasecmp(text, "application/", strlen("application/")) == 0)
		text += strlen("application/");
	if (!text || (g_ascii_strcasecmp(text, "JWT") != 0 && g_ascii_strcasecmp(text, "at+jwt") != 0))
		return refuse(error, "the token is of a type that is not for signing in: it must be JWT or at+jwt");
	return TRUE;
}

static gboolean read_header(VialOidcToken *token, GError **error)
{
	const char *algorithm = json_string_value(json_object_get(token->header, "alg"));
	const json_t *kid = json_object_get(token->header, "kid");

	if (!algorithm || !vial_oidc_algorithm_parse(algorithm, &token->algorithm))
		return refuse(error, "the algorithm of the token must be RS256, ES256 or EdDSA");
	/* What must be understood, and is not; b64 and zip change what was signed. */
	if (json_object_get(token->header, "crit") || json_object_get(token->header, "b64") || json_object_get(token->header, "zip"))
		return refuse(error, "the header of the token asks for an extension (crit, b64 or zip) that is not supported");
	if (kid && (!json_is_string(kid) || json_string_length(kid) == 0 || json_string_length(kid) > VIAL_OIDC_MAX_KID_BYTES))
		return refuse(error, "the name of its key (kid) in the header of the token is not usable");
	token->kid = json_string_value(kid);
	return check_type(token->header, error);
}

VialOidcToken *vial_oidc_token_read(const char *text, GError **error)
{
	g_autoptr(VialOidcToken) token = NULL;

	if (strnlen(text, VIAL_OIDC_MAX_TOKEN_BYTES + 1) > VIAL_OIDC_MAX_TOKEN_BYTES) {
		refuse(error, "the token is larger than 16 KiB");
		return NULL;
	}
	token = g_new0(VialOidcToken, 1);
	token->text = g_strdup(text);
	if (!read_parts(token, error) || !read_header(token, error))
		return NULL;
	return g_steal_pointer(&token);
}

void vial_oidc_token_free(VialOidcToken *token)
{
	if (!token)
		return;
	g_free(token->text);
	g_free(token->payload);
	json_decref(token->header);
	json_decref(token->claims);
	g_free(token);
}

/* ---- claims ---- */

/* A NumericDate may have a fraction. FALSE for what is none; absent is 0 and TRUE. */
static gboolean read_date(const json_t *claims, const char *name, gboolean *out_is_there, gint64 *out_ms)
{
	const json_t *value = json_object_get(claims, name);
	double seconds = json_number_value(value);

	*out_is_there = value != NULL;
	*out_ms = 0;
	if (!value)
		return TRUE;
	if (!json_is_number(value) || !isfinite(seconds) || fabs(seconds) > MAX_DATE_SECONDS)
		return FALSE;
	*out_ms = (gint64)(seconds * 1000);
	return TRUE;
}

static gboolean check_times(const json_t *claims, gint64 skew_ms, gint64 now_ms, GError **error)
{
	gboolean has_exp, has_nbf, has_iat;
	gint64 exp_ms, nbf_ms, iat_ms;

	if (!read_date(claims, "exp", &has_exp, &exp_ms) || !read_date(claims, "nbf", &has_nbf, &nbf_ms) ||
	    !read_date(claims, "iat", &has_iat, &iat_ms))
		return refuse(error, "a time in the token (exp, nbf, iat) is not a number of seconds");
	if (!has_exp)
		return refuse(error, "the token does not say when it expires (exp)");
	if (now_ms >= exp_ms + skew_ms)
		return refuse(error, "the token has expired");
	if (has_nbf && nbf_ms - skew_ms > now_ms)
		return refuse(error, "the token is not valid yet");
	if (has_iat && iat_ms - skew_ms > now_ms)
		return refuse(error, "the token was issued in the future: the clocks of this machine and of the identity provider are apart");
	return TRUE;
}

/*
 * One of ours in `aud` is what makes the token meant for us. `azp` is not looked at: it names the client that the token was issued to, which for an
 * access token is never us (RFC 9068 does not know it; Keycloak and Entra set it to the web page or program that signed the person in), and OpenID
 * Connect Core 3.1.3.7, as corrected by its second errata, leaves its meaning to extensions. A provider that lists us beside other audiences has
 * decided so.
 */
static gboolean check_audience(const json_t *claims, const char *const *audiences, GError **error)
{
	const json_t *value = json_object_get(claims, "aud"), *element;
	const char *text = json_string_value(value);
	gsize i;

	if (text && g_strv_contains(audiences, text))
		return TRUE;
	json_array_foreach (value, i, element) {
		text = json_string_value(element);
		if (text && g_strv_contains(audiences, text))
			return TRUE;
	}
	return refuse(error, "the token is for another audience");
}

static gboolean is_printable(const char *text)
{
	for (const char *at = text; *at; at = g_utf8_next_char(at))
		if (g_unichar_iscntrl(g_utf8_get_char(at)))
			return FALSE;
	return TRUE;
}

gboolean vial_oidc_token_check(const VialOidcToken *token, const VialOidcTerms *terms, gint64 now_ms, GError **error)
{
	const json_t *claims = token->claims, *sub = json_object_get(claims, "sub");

	if (g_strcmp0(json_string_value(json_object_get(claims, "iss")), terms->issuer) != 0)
		return refuse(error, "the token is from another issuer");
	if (!check_audience(claims, terms->audiences, error) || !check_times(claims, terms->skew_ms, now_ms, error))
		return FALSE;
	if (json_string_length(sub) == 0)
		return refuse(error, "the token does not say whom it is about (sub)");
	if (json_string_length(sub) > VIAL_OIDC_MAX_SUB_BYTES || !is_printable(json_string_value(sub)))
		return refuse(error, "whom the token is about (sub) is longer than 255 bytes or has control characters");
	/* A thief has the token, not the key that it is bound to (RFC 7800); taking it without the proof would undo that. */
	if (json_object_get(claims, "cnf"))
		return refuse(error, "the token is bound to a key of its owner (cnf), whose proof is not supported");
	return TRUE;
}

gint64 vial_oidc_token_expires_at_ms(const VialOidcToken *token, const VialOidcTerms *terms)
{
	gboolean is_there;
	gint64 exp_ms;

	read_date(token->claims, "exp", &is_there, &exp_ms);
	return exp_ms + terms->skew_ms;
}

const char *vial_oidc_token_sub(const VialOidcToken *token)
{
	return json_string_value(json_object_get(token->claims, "sub"));
}

const char *vial_oidc_token_name(const VialOidcToken *token)
{
	const char *const names[] = {
		vial_oidc_claims_email(token->claims),
		json_string_value(json_object_get(token->claims, "preferred_username")),
		json_string_value(json_object_get(token->claims, "name")),
	};

	for (gsize i = 0; i < G_N_ELEMENTS(names); i++)
		if (names[i] && names[i][0] && strlen(names[i]) <= MAX_NAME_BYTES && is_printable(names[i]))
			return names[i];
	return vial_oidc_token_sub(token);
}

/* ---- signature ---- */

static gboolean verify(jws_t *jws, const VialOidcToken *token, const VialOidcKey *key)
{
	const unsigned char *payload;
	size_t size = 0;

	if (r_jws_advanced_compact_parsen(jws, token->text, strlen(token->text), R_PARSE_NONE, R_FLAG_IGNORE_REMOTE) != RHN_OK ||
	    r_jws_get_alg(jws) != library_algorithms[key->algorithm])
		return FALSE;
	/* Always with the key: without one it looks for it in the token. */
	if (r_jws_verify_signature(jws, key->jwk, R_FLAG_IGNORE_REMOTE) != RHN_OK)
		return FALSE;
	/* It signs what it encodes again of what it decoded; these are the bytes that we read. */
	payload = r_jws_get_payload(jws, &size);
	return payload && size == token->payload_size && memcmp(payload, token->payload, size) == 0;
}

gboolean vial_oidc_token_verify(const VialOidcToken *token, const VialOidcKey *key, GError **error)
{
	jws_t *jws = NULL;
	gboolean is_valid;

	is_valid = key->algorithm == token->algorithm && key->signature_bytes == token->signature_bytes && r_jws_init(&jws) == RHN_OK &&
	           verify(jws, token, key);
	r_jws_free(jws);
	return is_valid || refuse(error, "the signature of the token is not valid");
}
