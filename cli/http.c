/* SPDX-License-Identifier: Apache-2.0 */
/* The transfer loop. See http_error.c for how failures become sentences. */
#include "cli/http.h"

#include <string.h>

#include "cli/interrupt.h"
#include "cli/http_private.h"

enum {
	CONNECT_TIMEOUT_SECONDS = 10,
	POLL_MS = 1000,
	BUFFER_BYTES = 512 * 1024, /* both ways; 150 MB/s and more over loopback wants few, large pieces */
	ANSWER_LIMIT_BYTES = 64 * 1024 * 1024,
	FAILURE_LIMIT_BYTES = 64 * 1024,
};

G_DEFINE_QUARK(vial - http - error, vial_http_error)

VialHttp *vial_http_new(const char *url, const char *key, const char *cacert)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
	VialHttp *http = g_new0(VialHttp, 1);
	http->url = g_strdup(url);
	gboolean is_socket = g_str_has_prefix(url, "unix:");
	http->base_url = g_strdup(is_socket ? "http://localhost" : url);
	http->socket_path = is_socket ? g_strdup(url + strlen("unix:")) : NULL;
	http->key = g_strdup(key);
	http->cacert = g_strdup(cacert);
	http->multi = curl_multi_init();
	return http;
}

void vial_http_free(VialHttp *http)
{
	if (!http)
		return;
	curl_multi_cleanup(http->multi);
	g_free(http->url);
	g_free(http->base_url);
	g_free(http->socket_path);
	g_free(http->key);
	g_free(http->cacert);
	g_free(http);
}

void vial_http_request_clear(VialHttpRequest *request)
{
	g_clear_pointer(&request->answer, g_byte_array_unref);
	g_clear_pointer(&request->failure, g_byte_array_unref);
	g_clear_error(&request->error);
}

const char *vial_http_base_url(const VialHttp *http)
{
	return http->base_url;
}

const char *vial_http_key(const VialHttp *http)
{
	return http->key;
}

void vial_http_on_interrupt(VialHttp *http, VialHttpInterruptFunc interrupt, gpointer data)
{
	http->interrupt = interrupt;
	http->interrupt_data = data;
}

gboolean vial_http_is_loopback(const VialHttp *http)
{
	g_autoptr(GUri) uri = g_uri_parse(http->base_url, G_URI_FLAGS_NONE, NULL);
	const char *host = uri ? g_uri_get_host(uri) : NULL;
	return host && (g_str_has_prefix(host, "127.") || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0);
}

void vial_http_prepare(VialHttp *http, CURL *easy, const char *path)
{
	g_autofree char *url = g_strconcat(http->base_url, path, NULL);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_SECONDS);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "vial/" VIAL_VERSION);
	if (http->socket_path)
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, http->socket_path);
	if (http->cacert)
		curl_easy_setopt(easy, CURLOPT_CAINFO, http->cacert);
	if (vial_http_is_loopback(http))
		curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* http_proxy never means this machine itself */
}

/* --- libcurl's callbacks -------------------------------------------------------------------------------------------- */

static gboolean is_success(VialHttpRequest *request)
{
	if (request->status == 0)
		curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &request->status);
	return request->status >= 200 && request->status < 300;
}

static size_t on_write(char *bytes, size_t unit, size_t count, void *data)
{
	VialHttpRequest *request = data;
	size_t size = unit * count;
	if (!is_success(request)) {
		gsize room = FAILURE_LIMIT_BYTES - request->failure->len;
		g_byte_array_append(request->failure, (const guint8 *)bytes, (guint)MIN(size, room));
		return size;
	}
	if (request->on_data)
		return request->on_data(bytes, size, request->data, &request->error) ? size : 0;
	if (request->answer->len + size > ANSWER_LIMIT_BYTES) {
		g_set_error(&request->error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "the answer is larger than %d MiB", ANSWER_LIMIT_BYTES >> 20);
		return 0;
	}
	g_byte_array_append(request->answer, (const guint8 *)bytes, (guint)size);
	return size;
}

static size_t on_read_body(char *buffer, size_t unit, size_t count, void *data)
{
	VialHttpRequest *request = data;
	if (request->on_read) {
		gssize size = request->on_read(buffer, unit * count, request->data, &request->error);
		return size < 0 ? CURL_READFUNC_ABORT : (size_t)size;
	}
	gsize size = MIN(unit * count, request->body_size - request->body_sent);
	memcpy(buffer, request->body + request->body_sent, size);
	request->body_sent += size;
	return size;
}

/* --- one request ---------------------------------------------------------------------------------------------------- */

static void add_header(VialHttpRequest *request, const char *name, const char *value)
{
	g_autofree char *line = g_strconcat(name, ": ", value, NULL);
	request->headers = curl_slist_append(request->headers, line);
}

static void set_body(VialHttpRequest *request, CURL *easy)
{
	gboolean is_post = strcmp(request->method, "POST") == 0;
	if (request->on_read) {
		add_header(request, "Content-Type", "application/octet-stream");
		curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
		if (request->upload_size >= 0)
			curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->upload_size);
	} else if (request->body) {
		add_header(request, "Content-Type", "application/json");
		add_header(request, "Expect", ""); /* never wait for 100 Continue with a body this small */
		curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->body_size);
	} else if (is_post) {
		curl_easy_setopt(easy, CURLOPT_POST, 1L);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, 0L);
	}
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
	curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read_body);
	curl_easy_setopt(easy, CURLOPT_READDATA, request);
}

static void start(VialHttp *http, VialHttpRequest *request)
{
	CURL *easy = curl_easy_init();
	request->easy = easy;
	request->http = http;
	request->status = 0;
	request->is_done = FALSE;
	request->body_sent = 0;
	request->answer = g_byte_array_new();
	request->failure = g_byte_array_new();
	vial_http_prepare(http, easy, request->path);
	set_body(request, easy);
	add_header(request, "Accept", request->accept ? request->accept : "application/json");
	if (http->key) {
		g_autofree char *bearer = g_strconcat("Bearer ", http->key, NULL);
		add_header(request, "Authorization", bearer);
	}
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->headers);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
	curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER_BYTES);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT, request->timeout_seconds);
	curl_multi_add_handle(http->multi, easy);
}

static void finish(VialHttp *http, VialHttpRequest *request, CURLcode code)
{
	gboolean is_ok = is_success(request);
	/* A refusal that came while we were still sending breaks the upload; the refusal is what matters. */
	if (code != CURLE_OK && (request->error || request->status < 400)) {
		if (!request->error)
			request->error = vial_http_error_from_curl(http, code, NULL);
	} else if (!is_ok) {
		request->error = vial_http_error_from_answer(http, request->status, (const char *)request->failure->data, request->failure->len);
	}
	curl_multi_remove_handle(http->multi, request->easy);
	curl_easy_cleanup(request->easy);
	curl_slist_free_all(request->headers);
	request->easy = NULL;
	request->headers = NULL;
	request->is_done = TRUE;
}

static void abort_all(VialHttp *http, VialHttpRequest **requests, guint count)
{
	for (guint i = 0; i < count; i++) {
		if (requests[i]->is_done)
			continue;
		g_clear_error(&requests[i]->error);
		g_set_error_literal(&requests[i]->error, VIAL_HTTP_ERROR, VIAL_HTTP_INTERRUPTED, "interrupted");
		finish(http, requests[i], CURLE_ABORTED_BY_CALLBACK);
	}
}

/* TRUE when the transfers should end. */
static gboolean should_stop(VialHttp *http)
{
	if (!vial_interrupt_pending())
		return FALSE;
	if (!http->interrupt || vial_interrupt_is_final())
		return TRUE;
	vial_interrupt_take();
	VialHttpInterruptFunc interrupt = http->interrupt;
	http->interrupt = NULL; /* requests of the callback itself are ended by the next Ctrl-C */
	gboolean goes_on = interrupt(http->interrupt_data);
	http->interrupt = interrupt;
	return !goes_on;
}

void vial_http_perform_all(VialHttp *http, VialHttpRequest **requests, guint count)
{
	/* A multi handle of its own for a nested call: the outer one's transfers must not run inside it. */
	CURLM *outer = http->depth++ > 0 ? http->multi : NULL;
	if (outer)
		http->multi = curl_multi_init();
	for (guint i = 0; i < count; i++)
		start(http, requests[i]);

	for (;;) {
		int running = 0, left = 0;
		curl_multi_perform(http->multi, &running);
		for (CURLMsg *message; (message = curl_multi_info_read(http->multi, &left));) {
			VialHttpRequest *request = NULL;
			CURLcode code = message->data.result;
			curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &request);
			finish(http, request, code);
		}
		if (running == 0)
			break;
		if (should_stop(http)) {
			abort_all(http, requests, count);
			break;
		}
		struct curl_waitfd extra = { .fd = vial_interrupt_fd(), .events = CURL_WAIT_POLLIN };
		curl_multi_poll(http->multi, &extra, extra.fd >= 0 ? 1 : 0, POLL_MS, NULL);
	}

	if (outer) {
		curl_multi_cleanup(http->multi);
		http->multi = outer;
	}
	http->depth--;
}

gboolean vial_http_perform(VialHttp *http, VialHttpRequest *request, GError **error)
{
	vial_http_perform_all(http, &request, 1);
	if (!request->error)
		return TRUE;
	g_propagate_error(error, g_steal_pointer(&request->error));
	return FALSE;
}
