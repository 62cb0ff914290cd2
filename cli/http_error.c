/* SPDX-License-Identifier: Apache-2.0 */
/* Failures as sentences: what is wrong and what to do. The words of a server are cleaned before they reach a terminal. */
#include <jansson.h>
#include <string.h>

#include "cli/http_private.h"
#include "cli/sanitize.h"

static GError *unreachable(VialHttp *http)
{
	if (vial_http_is_loopback(http))
		return g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_UNREACHABLE, "viald does not answer at %s: is it running? start it with `make up`",
		                   http->url);
	return g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_UNREACHABLE, "viald does not answer at %s: is it running there, and is the address right?",
	                   http->url);
}

GError *vial_http_error_from_curl(VialHttp *http, CURLcode code, const char *detail)
{
	const char *url = http->url;
	const char *reason = detail ? detail : curl_easy_strerror(code);
	switch (code) {
	case CURLE_COULDNT_CONNECT:
		return unreachable(http);
	case CURLE_URL_MALFORMAT:
		return g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s is not an address: give one such as http://127.0.0.1:7070", url);
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_UNREACHABLE, "the host name in %s cannot be resolved: is the address right?", url);
	case CURLE_OPERATION_TIMEDOUT:
		return g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "viald at %s took too long to answer", url);
	case CURLE_SSL_CONNECT_ERROR:
		return g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "no TLS connection to %s (%s): does it speak https?", url, reason);
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
		return g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_FAILED,
		                   "the certificate of %s is not trusted: give the file that signed it with --cacert", url);
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_WEIRD_SERVER_REPLY:
		return g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "what answers at %s does not speak HTTP: is it viald?", url);
	case CURLE_GOT_NOTHING:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_PARTIAL_FILE:
		return g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "the connection to %s broke before the answer was complete", url);
	default:
		return g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "the request to %s failed: %s", url, reason);
	}
}

static char *unauthorized(VialHttp *http, const char *sentence)
{
	if (!http->key)
		return g_strdup("this needs a key, and none was found: set VIAL_API_KEY or give --key "
		                "(viald writes the first one to keys/admin.key in its data directory)");
	return g_strdup_printf("%s (the key in use begins with \"%.4s\"; set another with VIAL_API_KEY or --key)", sentence, http->key);
}

GError *vial_http_error_from_answer(VialHttp *http, long status, const char *body, gsize size)
{
	json_t *json = size ? json_loadb(body, size, 0, NULL) : NULL;
	const char *sentence = json_string_value(json_object_get(json, "error"));
	const char *request_id = json_string_value(json_object_get(json, "request_id"));
	g_autofree char *text = NULL;
	if (!sentence)
		text = g_strdup_printf("%s answered with HTTP status %ld and no explanation: is it viald?", http->url, status);
	else if (status == 401)
		text = unauthorized(http, sentence);
	else if (status >= 500 && request_id)
		text = g_strdup_printf("%s (request %s)", sentence, request_id);
	else
		text = g_strdup(sentence);
	json_decref(json);
	g_autofree char *clean = vial_sanitize_line(text);
	return g_error_new_literal(VIAL_HTTP_ERROR, (int)status, clean);
}
