/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl's multi interface with a single transfer: unlike curl_easy_perform() it lets go at once when another thread asks for it, which is what a
 * shutdown in front of a collector that hangs needs.
 */
#include "telemetry/otlp_post.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "util/json.h"

/* Of an answer. It is read for one number; what is longer is not read to its end. */
#define ANSWER_MAX_BYTES (64 * 1024)

struct VialOtlpPost {
	VialOtlpSettings settings;
	guint total_timeout_ms;
	CURLM *multi;
	CURL *easy;
	GString *answer;
	char detail[CURL_ERROR_SIZE];
	_Atomic gint64 end_us; /* 0: none */
};

static size_t on_answer(char *bytes, size_t unit, size_t count, void *data)
{
	VialOtlpPost *post = data;
	size_t size = unit * count;

	if (post->answer->len + size > ANSWER_MAX_BYTES)
		return 0; /* ends the transfer; the status has been read */
	g_string_append_len(post->answer, bytes, (gssize)size);
	return size;
}

/* libcurl's own sockets would be open in the programs that viald starts. */
static curl_socket_t open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address)
{
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static void prepare(VialOtlpPost *post, guint connect_timeout_ms)
{
	CURL *easy = post->easy;

	curl_easy_setopt(easy, CURLOPT_URL, post->settings.url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* nor one from the environment */
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, post->settings.headers);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "vial/" VIAL_VERSION);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_POST, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_timeout_ms);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	/* Else taking a transfer away waits for the name server, for as long as that takes. */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, post);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, post->detail);
}

VialOtlpPost *vial_otlp_post_new(VialOtlpSettings *settings, guint connect_timeout_ms, guint total_timeout_ms)
{
	static const char *const ours[] = { "Content-Type: application/json", "Accept: application/json",
		                            "Expect:" /* no asking before a large body */ };
	VialOtlpPost *post = g_new0(VialOtlpPost, 1);

	curl_global_init(CURL_GLOBAL_DEFAULT);
	post->settings = *settings;
	*settings = (VialOtlpSettings){ 0 };
	for (gsize i = 0; i < G_N_ELEMENTS(ours); i++)
		post->settings.headers = curl_slist_append(post->settings.headers, ours[i]);
	post->total_timeout_ms = total_timeout_ms;
	post->answer = g_string_new(NULL);
	post->multi = curl_multi_init();
	post->easy = curl_easy_init();
	g_assert(post->multi && post->easy); /* want of memory, which ends GLib's programs anyway */
	prepare(post, connect_timeout_ms);
	return post;
}

void vial_otlp_post_free(VialOtlpPost *post)
{
	if (!post)
		return;
	curl_easy_cleanup(post->easy);
	curl_multi_cleanup(post->multi);
	curl_global_cleanup();
	vial_otlp_settings_clear(&post->settings);
	g_string_free(post->answer, TRUE);
	g_free(post);
}

void vial_otlp_post_end_by(VialOtlpPost *post, gint64 end_us)
{
	atomic_store(&post->end_us, end_us);
	curl_multi_wakeup(post->multi);
}

/* ---- the answer ---- */

/* An int64, which protobuf's JSON writes as a string; receivers also have to take a number. */
static guint64 read_count(const json_t *value)
{
	guint64 count = 0;

	if (json_is_integer(value))
		return (guint64)MAX(json_integer_value(value), 0);
	if (json_is_string(value))
		g_ascii_string_to_unsigned(json_string_value(value), 10, 0, G_MAXINT64, &count, NULL);
	return count;
}

static guint64 read_rejected(const GString *answer)
{
	g_autoptr(json_t) object = vial_json_parse_object(answer->str, answer->len, NULL);

	return read_count(json_object_get(json_object_get(object, "partialSuccess"), "rejectedSpans"));
}

static gboolean is_retryable(long status)
{
	return status == 429 || status == 502 || status == 503 || status == 504;
}

static void judge_status(VialOtlpPost *post, long status, VialOtlpAnswer *out)
{
	curl_off_t seconds = 0;

	if (status < 300) {
		out->verdict = VIAL_OTLP_TAKEN;
		out->rejected = read_rejected(post->answer);
		return;
	}
	g_snprintf(out->reason, sizeof(out->reason), "the collector answered %ld%s", status,
	           status < 400 ? ", a redirect; otlp_endpoint has to name where it leads" : "");
	out->verdict = is_retryable(status) ? VIAL_OTLP_LATER : VIAL_OTLP_REFUSED;
	if (curl_easy_getinfo(post->easy, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK)
		out->retry_after_ms = (guint)CLAMP(seconds, 0, G_MAXINT / 1000) * 1000;
}

/*
 * Once there is a status it alone decides. A body that is too long, broken or never ends is a nuisance, but the collector has said whether it took
 * the spans, and sending them again would only double them.
 */
static void judge(VialOtlpPost *post, CURLcode code, gboolean is_over, VialOtlpAnswer *out)
{
	long status = 0, sent_bytes = 0;

	*out = (VialOtlpAnswer){ .verdict = VIAL_OTLP_LATER };
	curl_easy_getinfo(post->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(post->easy, CURLINFO_REQUEST_SIZE, &sent_bytes);
	out->was_reached = sent_bytes > 0;
	if (status >= 200)
		judge_status(post, status, out);
	else if (!is_over)
		g_snprintf(out->reason, sizeof(out->reason), "the collector did not answer in time");
	else
		g_snprintf(out->reason, sizeof(out->reason), "%s", post->detail[0] ? post->detail : curl_easy_strerror(code));
}

/* ---- the request ---- */

static gint64 ends_at(VialOtlpPost *post, gint64 total_end_us)
{
	gint64 end_us = atomic_load(&post->end_us);

	return end_us ? MIN(end_us, total_end_us) : total_end_us;
}

/* TRUE when the transfer is over by itself. */
static gboolean transfer(VialOtlpPost *post)
{
	gint64 total_end_us = g_get_monotonic_time() + (gint64)post->total_timeout_ms * 1000;
	int n_running = 1;

	while (curl_multi_perform(post->multi, &n_running) == CURLM_OK && n_running > 0) {
		gint64 left_us = ends_at(post, total_end_us) - g_get_monotonic_time();
		if (left_us <= 0)
			return FALSE;
		curl_multi_poll(post->multi, NULL, 0, (int)(left_us / 1000 + 1), NULL);
	}
	return n_running == 0;
}

void vial_otlp_post_send(VialOtlpPost *post, const GString *body, VialOtlpAnswer *out)
{
	CURLcode code = CURLE_OK;
	gboolean is_over;
	CURLMsg *message;
	int n_left;

	g_string_truncate(post->answer, 0);
	post->detail[0] = '\0';
	curl_easy_setopt(post->easy, CURLOPT_POSTFIELDS, body->str);
	curl_easy_setopt(post->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
	curl_multi_add_handle(post->multi, post->easy);
	is_over = transfer(post);
	while ((message = curl_multi_info_read(post->multi, &n_left)))
		if (message->msg == CURLMSG_DONE)
			code = message->data.result;
	judge(post, code, is_over, out);
	/* Closes the connection of a transfer that is not over. */
	curl_multi_remove_handle(post->multi, post->easy);
}
