/* SPDX-License-Identifier: Apache-2.0 */
#include "service/webhook.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <string.h>

#include "util/error.h"
#include "util/fd.h"
#include "util/json.h"
#include "util/log.h"

#define CONNECT_TIMEOUT_MS 2000
#define TOTAL_TIMEOUT_MS 5000
#define MAX_ANSWER_BYTES (64 * 1024)
#define MAX_WAITING 1000
#define MAX_TRIES 5
#define FIRST_RETRY_US G_USEC_PER_SEC
/* What waits at the end is still delivered, by a receiver that is quick. */
#define LEAVING_US (5 * G_USEC_PER_SEC)
#define MAX_SECRET_BYTES 4096

struct VialWebhook {
	char *url;
	char *secret; /* NULL: nothing is signed */
	GThread *thread;
	GMutex lock;
	GCond has_news;
	GQueue waiting;       /* under the lock: texts */
	gboolean is_stopping; /* under the lock */
	gint64 stops_at_us;   /* then */
};

/* Posting */

static size_t count_answer(char *bytes, size_t size, size_t count, void *data)
{
	gsize *left = data, length = size * count;

	if (length > *left)
		return 0; /* which ends the transfer */
	*left -= length;
	return length;
}

/* So that the receiver knows whose it is. */
static struct curl_slist *make_headers(const VialWebhook *webhook, const char *text)
{
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	g_autofree char *sum = NULL, *header = NULL;

	if (!webhook->secret)
		return headers;
	sum = g_compute_hmac_for_string(G_CHECKSUM_SHA256, (const guchar *)webhook->secret, strlen(webhook->secret), text, -1);
	header = g_strconcat("X-Vial-Signature: sha256=", sum, NULL);
	return curl_slist_append(headers, header);
}

static gboolean post(const VialWebhook *webhook, const char *text, const char **out_problem, long *out_status)
{
	CURL *curl = curl_easy_init();
	struct curl_slist *headers;
	gsize left = MAX_ANSWER_BYTES;
	CURLcode code;

	*out_status = 0;
	*out_problem = "out of memory";
	if (!curl)
		return FALSE;
	headers = make_headers(webhook, text);
	curl_easy_setopt(curl, CURLOPT_URL, webhook->url);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)TOTAL_TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDS, text);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, count_answer);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, &left);
	code = curl_easy_perform(curl);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, out_status);
	curl_slist_free_all(headers);
	curl_easy_cleanup(curl);
	/* Whoever takes it and then talks without end has taken it. */
	*out_problem = code == CURLE_OK ? "it was not taken" : curl_easy_strerror(code);
	return (code == CURLE_OK || code == CURLE_WRITE_ERROR) && *out_status >= 200 && *out_status < 300;
}

/* The thread */

/* With the lock, but not while it posts. */
static gboolean deliver(VialWebhook *webhook, const char *text, gboolean is_last_try)
{
	g_autofree char *number = NULL;
	const char *problem;
	gboolean is_taken;
	long status;

	g_mutex_unlock(&webhook->lock);
	is_taken = post(webhook, text, &problem, &status);
	g_mutex_lock(&webhook->lock);
	if (is_taken)
		return TRUE;
	number = g_strdup_printf("%ld", status);
	vial_log_warning("webhook",
	                 is_last_try ? "an event could not be delivered and is given up" : "an event could not be delivered and is tried again",
	                 "status", number, "error", problem);
	return FALSE;
}

/* Whether it was taken. */
static gboolean deliver_patiently(VialWebhook *webhook, const char *text)
{
	gint64 pause_us = FIRST_RETRY_US;

	for (guint try = 1; try <= MAX_TRIES; try++, pause_us *= 2) {
		gint64 until_us = g_get_monotonic_time() + pause_us;
		gboolean is_last = try == MAX_TRIES || webhook->is_stopping;

		if (deliver(webhook, text, is_last))
			return TRUE;
		if (is_last)
			return FALSE;
		while (!webhook->is_stopping && g_cond_wait_until(&webhook->has_news, &webhook->lock, until_us))
			;
	}
	return FALSE;
}

static gboolean has_time(const VialWebhook *webhook)
{
	return !webhook->is_stopping || g_get_monotonic_time() < webhook->stops_at_us;
}

static gpointer deliver_all(gpointer data)
{
	VialWebhook *webhook = data;
	gboolean goes_on = TRUE;

	g_mutex_lock(&webhook->lock);
	while (goes_on) {
		g_autofree char *text = g_queue_pop_head(&webhook->waiting);

		if (text)
			goes_on = (deliver_patiently(webhook, text) || !webhook->is_stopping) && has_time(webhook);
		else if (webhook->is_stopping)
			goes_on = FALSE;
		else
			g_cond_wait(&webhook->has_news, &webhook->lock);
	}
	g_mutex_unlock(&webhook->lock);
	return NULL;
}

void vial_webhook_send(VialWebhook *webhook, json_t *event)
{
	g_autoptr(json_t) owned = event;
	g_autofree char *dropped = NULL;

	if (!webhook)
		return;
	g_mutex_lock(&webhook->lock);
	if (g_queue_get_length(&webhook->waiting) >= MAX_WAITING)
		dropped = g_queue_pop_head(&webhook->waiting);
	g_queue_push_tail(&webhook->waiting, vial_json_dump_ascii(owned));
	g_cond_broadcast(&webhook->has_news);
	g_mutex_unlock(&webhook->lock);
	if (dropped)
		vial_log_warning("webhook", "too many events wait to be delivered; the oldest is given up", NULL);
}

/* Settings */

static gboolean check_url(const char *url, GError **error)
{
	CURLU *parts = curl_url();
	char *scheme = NULL;
	gboolean is_good = parts && curl_url_set(parts, CURLUPART_URL, url, CURLU_DISALLOW_USER) == CURLUE_OK &&
	                   curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
	                   (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);

	curl_free(scheme);
	curl_url_cleanup(parts);
	return is_good ||
	       vial_fail(error, VIAL_ERROR_INVALID, "frozen_webhook_url must be an http:// or https:// address without a user or password");
}

static gboolean read_secret(const char *path, char **out_secret, GError **error)
{
	g_autofree char *text = NULL;

	if (!*path)
		return TRUE;
	text = vial_file_read_at(AT_FDCWD, path, MAX_SECRET_BYTES, NULL, error);
	if (!text) {
		g_prefix_error(error, "frozen_webhook_secret_file: ");
		return FALSE;
	}
	g_strchomp(text);
	if (!*text)
		return vial_fail(error, VIAL_ERROR_INVALID, "frozen_webhook_secret_file: %s is empty", path);
	*out_secret = g_steal_pointer(&text);
	return TRUE;
}

VialWebhook *vial_webhook_new(const VialConfig *config, GError **error)
{
	g_autofree char *secret = NULL;
	VialWebhook *webhook;

	if (!*config->frozen_webhook_url || !check_url(config->frozen_webhook_url, error) ||
	    !read_secret(config->frozen_webhook_secret_file, &secret, error))
		return NULL;
	webhook = g_new0(VialWebhook, 1);
	webhook->url = g_strdup(config->frozen_webhook_url);
	webhook->secret = g_steal_pointer(&secret);
	g_mutex_init(&webhook->lock);
	g_cond_init(&webhook->has_news);
	g_queue_init(&webhook->waiting);
	webhook->thread = g_thread_new("webhook", deliver_all, webhook);
	return webhook;
}

void vial_webhook_free(VialWebhook *webhook)
{
	if (!webhook)
		return;
	g_mutex_lock(&webhook->lock);
	webhook->is_stopping = TRUE;
	webhook->stops_at_us = g_get_monotonic_time() + LEAVING_US;
	g_cond_broadcast(&webhook->has_news);
	g_mutex_unlock(&webhook->lock);
	g_thread_join(webhook->thread);
	g_queue_clear_full(&webhook->waiting, g_free);
	g_mutex_clear(&webhook->lock);
	g_cond_clear(&webhook->has_news);
	g_free(webhook->secret);
	g_free(webhook->url);
	g_free(webhook);
}
