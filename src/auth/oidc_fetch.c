/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses are judged in the form into which libcurl took them apart, and that form is what it then connects to, so no two parsers can differ. A
 * proxy of the environment (https_proxy, no_proxy) is used, because that is how servers of an organisation get out, and the environment is the
 * operator's; but never for this machine's own addresses, for which http is good enough only as long as nothing leaves it.
 */
#include "auth/oidc_fetch.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <string.h>

#include "util/error.h"
#include "util/json.h"
#include "util/time.h"

#define DISCOVERY_PATH "/.well-known/openid-configuration"
/* As in oidc_source.c, the tests have their own. */
#ifndef VIAL_OIDC_CONNECT_MS
#define VIAL_OIDC_CONNECT_MS 3000
#endif
#define MAX_ANSWER_BYTES VIAL_OIDC_MAX_JWKS_BYTES
#define MAX_URL_BYTES 2048

G_DEFINE_AUTOPTR_CLEANUP_FUNC(CURL, curl_easy_cleanup)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CURLU, curl_url_cleanup)

typedef struct {
	CURLU *parts;
	gboolean is_https;
	gboolean is_loopback;
} Address;

typedef struct {
	GByteArray *body;
	gboolean is_too_long;
} Answer;

static void address_clear(Address *address)
{
	g_clear_pointer(&address->parts, curl_url_cleanup);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Address, address_clear)

void vial_oidc_fetch_setup(void)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		g_error("libcurl cannot be set up");
}

/* ---- addresses ---- */

static gboolean has_part(CURLU *parts, CURLUPart part)
{
	char *text = NULL;
	gboolean is_there = curl_url_get(parts, part, &text, 0) == CURLUE_OK;

	curl_free(text);
	return is_there;
}

/* libcurl resolves `localhost` itself, to nothing else; other forms of an IPv4 address it has already put into the ordinary one. */
static gboolean is_loopback(const char *host)
{
	struct in_addr address;

	if (g_ascii_strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0)
		return TRUE;
	return inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static gboolean read_address(const char *url, Address *out, GError **error)
{
	g_autoptr(CURLU) parts = curl_url();
	char *scheme = NULL, *host = NULL;

	if (strlen(url) > MAX_URL_BYTES || curl_url_set(parts, CURLUPART_URL, url, CURLU_DISALLOW_USER) != CURLUE_OK ||
	    curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK || curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
	    (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0) || has_part(parts, CURLUPART_FRAGMENT)) {
		curl_free(scheme);
		curl_free(host);
		return vial_fail(error, VIAL_ERROR_INVALID, "\"%s\" is not an https address without user and fragment", url);
	}
	out->is_https = strcmp(scheme, "https") == 0;
	out->is_loopback = is_loopback(host);
	out->parts = g_steal_pointer(&parts);
	curl_free(scheme);
	curl_free(host);
	return TRUE;
}

static gboolean read_issuer(const VialOidcProvider *provider, Address *out, GError **error)
{
	g_auto(Address) address = { 0 };

	if (!read_address(provider->issuer, &address, error))
		return FALSE;
	if (has_part(address.parts, CURLUPART_QUERY))
		return vial_fail(error, VIAL_ERROR_INVALID, "\"%s\" has a query, which an issuer has not", provider->issuer);
	if (!address.is_https && !address.is_loopback && !provider->allow_http)
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "\"%s\" is not https: whoever is between could give keys of his own; oidc_allow_http permits it nevertheless",
		                 provider->issuer);
	*out = address;
	address.parts = NULL;
	return TRUE;
}

gboolean vial_oidc_issuer_check(const VialOidcProvider *provider, GError **error)
{
	g_auto(Address) address = { 0 };

	if (read_issuer(provider, &address, error))
		return TRUE;
	g_prefix_error(error, "oidc_issuer: ");
	return FALSE;
}

/* The provider may keep its keys on another host (Google does), but not send us to this machine's own services unless it is one. */
static gboolean read_jwks_address(const VialOidcProvider *provider, const Address *issuer, const char *url, Address *out, GError **error)
{
	g_auto(Address) address = { 0 };

	if (!read_address(url, &address, error))
		return FALSE;
	if (address.is_loopback && !issuer->is_loopback)
		return vial_fail(error, VIAL_ERROR_INVALID, "its jwks_uri \"%s\" is an address of this machine, and the issuer is not", url);
	if (!address.is_https && !address.is_loopback && !provider->allow_http)
		return vial_fail(error, VIAL_ERROR_INVALID, "its jwks_uri \"%s\" is not https", url);
	*out = address;
	address.parts = NULL;
	return TRUE;
}

/* ---- requests ---- */

static size_t take_body(char *data, size_t size, size_t count, void *user)
{
	Answer *answer = user;

	if (answer->body->len + size * count > MAX_ANSWER_BYTES) {
		answer->is_too_long = TRUE;
		return 0;
	}
	g_byte_array_append(answer->body, (const guint8 *)data, (guint)(size * count));
	return size * count;
}

static void set_options(CURL *curl, const VialOidcProvider *provider, const Address *address, gint64 rest_ms, Answer *answer)
{
	curl_easy_setopt(curl, CURLOPT_CURLU, address->parts);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, address->is_https ? "https" : "http");
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)MIN(VIAL_OIDC_CONNECT_MS, rest_ms));
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)rest_ms);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (provider->ca_file[0]) {
		/* These, and not the system's beside them. */
		curl_easy_setopt(curl, CURLOPT_CAINFO, provider->ca_file);
		curl_easy_setopt(curl, CURLOPT_CAPATH, NULL);
	}
	if (address->is_loopback)
		curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "vial/" VIAL_VERSION);
}

static GByteArray *get(const VialOidcProvider *provider, const Address *address, gint64 end_ms, GError **error)
{
	g_autoptr(CURL) curl = curl_easy_init();
	g_autoptr(GByteArray) body = g_byte_array_new();
	gint64 rest_ms = end_ms - vial_time_monotonic_ms();
	Answer answer = { .body = body };
	char reason[CURL_ERROR_SIZE] = "";
	CURLcode result;
	long status = 0;

	if (!curl || rest_ms <= 0) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "no time is left");
		return NULL;
	}
	set_options(curl, provider, address, rest_ms, &answer);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
	result = curl_easy_perform(curl);
	if (answer.is_too_long) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "the answer is longer than %d KiB", MAX_ANSWER_BYTES / 1024);
		return NULL;
	}
	if (result != CURLE_OK) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "%s", reason[0] ? reason : curl_easy_strerror(result));
		return NULL;
	}
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "the answer has the status %ld%s", status,
		          status >= 300 && status < 400 ? ", a redirect, which is not followed" : "");
		return NULL;
	}
	return g_steal_pointer(&body);
}

/* ---- the two documents ---- */

/* A slash at the issuer's end is left out (OpenID Connect Discovery 4.1), though it is part of its name. */
static char *discovery_url(const char *issuer)
{
	gsize length = strlen(issuer);

	return g_strdup_printf("%.*s" DISCOVERY_PATH, (int)(g_str_has_suffix(issuer, "/") ? length - 1 : length), issuer);
}

/* Where the keys are, by a document that is really this issuer's: else whoever may put a file on some other path of the host would be it. To be
 * freed. */
static char *read_discovery(const VialOidcProvider *provider, const GByteArray *body, GError **error)
{
	g_autoptr(json_t) document = vial_json_parse_object((const char *)body->data, body->len, error);
	const char *issuer, *jwks_uri;

	if (!document)
		return NULL;
	issuer = json_string_value(json_object_get(document, "issuer"));
	jwks_uri = json_string_value(json_object_get(document, "jwks_uri"));
	if (g_strcmp0(issuer, provider->issuer) != 0) {
		vial_fail(error, VIAL_ERROR_INVALID, "it calls itself the issuer \"%s\", not \"%s\" as oidc_issuer says", issuer ? issuer : "",
		          provider->issuer);
		return NULL;
	}
	if (!jwks_uri) {
		vial_fail(error, VIAL_ERROR_INVALID, "it has no jwks_uri");
		return NULL;
	}
	return g_strdup(jwks_uri);
}

static char *discover(const VialOidcProvider *provider, gint64 end_ms, GError **error)
{
	g_autofree char *url = discovery_url(provider->issuer), *jwks_uri = NULL;
	g_auto(Address) address = { 0 };
	g_autoptr(GByteArray) body = NULL;

	if (read_address(url, &address, error))
		body = get(provider, &address, end_ms, error);
	if (body)
		jwks_uri = read_discovery(provider, body, error);
	if (!jwks_uri)
		g_prefix_error(error, "the discovery document %s: ", url);
	return g_steal_pointer(&jwks_uri);
}

static VialOidcKeys *fetch_keys(const VialOidcProvider *provider, const Address *issuer, const char *url, gint64 end_ms, GError **error)
{
	g_auto(Address) address = { 0 };
	g_autoptr(GByteArray) body = NULL;
	VialOidcKeys *keys = NULL;

	if (read_jwks_address(provider, issuer, url, &address, error))
		body = get(provider, &address, end_ms, error);
	if (body)
		keys = vial_oidc_keys_read((const char *)body->data, body->len, error);
	if (!keys)
		g_prefix_error(error, "the keys at %s: ", url);
	return keys;
}

VialOidcKeys *vial_oidc_fetch(const VialOidcProvider *provider, GError **error)
{
	gint64 end_ms = vial_time_monotonic_ms() + VIAL_OIDC_FETCH_MS;
	g_auto(Address) issuer = { 0 };
	g_autofree char *url = NULL;

	if (!read_issuer(provider, &issuer, error))
		return NULL;
	url = discover(provider, end_ms, error);
	return url ? fetch_keys(provider, &issuer, url, end_ms, error) : NULL;
}
