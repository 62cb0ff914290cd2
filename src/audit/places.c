/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/places.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "util/error.h"
#include "util/fd.h"
#include "util/log.h"

#define LOCAL_FILE "heads.jsonl"
#define MAX_LOCAL_BYTES (1024 * 1024 * 1024)
#define CONNECT_TIMEOUT_MS 2000
#define TOTAL_TIMEOUT_MS 5000
#define FIRST_RETRY_US G_USEC_PER_SEC
#define LAST_RETRY_US (60 * G_USEC_PER_SEC)
/* Of the local file at the start: hundreds of heads. */
#define LAST_BYTES (128 * 1024)

typedef struct {
	VialPlaces *places;
	char *url;
	GThread *thread;
	/* under the lock */
	char *waiting; /* the newest head that has not been delivered */
} Remote;

struct VialPlaces {
	int dir_fd;
	GPtrArray *files; /* char *: others */
	gboolean has_syslog;
	GPtrArray *remotes; /* Remote */
	GMutex lock;
	GCond has_news;
	gboolean is_stopping; /* under the lock */
};

static void remote_free(gpointer data)
{
	Remote *remote = data;

	g_free(remote->url);
	g_free(remote->waiting);
	g_free(remote);
}

static gboolean add_place(VialPlaces *places, const char *place, GError **error)
{
	if (g_str_has_prefix(place, "file:/")) {
		g_ptr_array_add(places->files, g_strdup(place + strlen("file:")));
		return TRUE;
	}
	if (strcmp(place, "syslog") == 0) {
		places->has_syslog = TRUE;
		return TRUE;
	}
	if (g_str_has_prefix(place, "https://") || g_str_has_prefix(place, "http://")) {
		Remote *remote = g_new0(Remote, 1);

		*remote = (Remote){ .places = places, .url = g_strdup(place) };
		g_ptr_array_add(places->remotes, remote);
		return TRUE;
	}
	return vial_fail(error, VIAL_ERROR_INVALID, "audit_heads_to: \"%s\" is no place for heads: file:/path, syslog, or an http(s) address", place);
}

/* HTTP */

static size_t ignore_body(char *bytes, size_t size, size_t count, void *data)
{
	return size * count;
}

static CURLcode post(const char *url, const char *text, long *out_status)
{
	CURL *curl = curl_easy_init();
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	CURLcode code;

	if (!curl)
		return CURLE_OUT_OF_MEMORY;
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)TOTAL_TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDS, text);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore_body);
	code = curl_easy_perform(curl);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, out_status);
	curl_slist_free_all(headers);
	curl_easy_cleanup(curl);
	return code;
}

/* With the lock, but not while it posts. */
static gboolean deliver(Remote *remote)
{
	g_autofree char *text = g_strdup(remote->waiting);
	long status = 0;
	CURLcode code;

	g_mutex_unlock(&remote->places->lock);
	code = post(remote->url, text, &status);
	g_mutex_lock(&remote->places->lock);
	if (code == CURLE_OK && status >= 200 && status < 300) {
		if (g_strcmp0(remote->waiting, text) == 0)
			g_clear_pointer(&remote->waiting, g_free);
		return TRUE;
	}
	g_autofree char *number = g_strdup_printf("%ld", status);
	vial_log_warning("audit", "a signed head could not be delivered; it, or a newer one that stands for it, is tried again", "place", remote->url,
	                 "status", number, "error", code == CURLE_OK ? NULL : curl_easy_strerror(code));
	return FALSE;
}

/* At the end each is tried once more, and no longer. */
static gpointer deliver_all(gpointer data)
{
	Remote *remote = data;
	VialPlaces *places = remote->places;
	gint64 pause_us = FIRST_RETRY_US, until_us;

	g_mutex_lock(&places->lock);
	while (!places->is_stopping || remote->waiting) {
		gboolean is_last = places->is_stopping;

		if (!remote->waiting) {
			g_cond_wait(&places->has_news, &places->lock);
			continue;
		}
		if (deliver(remote)) {
			pause_us = FIRST_RETRY_US;
			continue;
		}
		if (is_last)
			break;
		until_us = g_get_monotonic_time() + pause_us;
		while (!places->is_stopping && g_cond_wait_until(&places->has_news, &places->lock, until_us))
			;
		pause_us = MIN(2 * pause_us, LAST_RETRY_US);
	}
	g_mutex_unlock(&places->lock);
	return NULL;
}

static void send_to_all(VialPlaces *places, const char *line)
{
	g_mutex_lock(&places->lock);
	for (guint i = 0; i < places->remotes->len; i++) {
		Remote *remote = places->remotes->pdata[i];

		g_free(remote->waiting);
		remote->waiting = g_strdup(line);
	}
	g_cond_broadcast(&places->has_news);
	g_mutex_unlock(&places->lock);
}

void vial_places_send_again(VialPlaces *places, const VialLedgerHead *head)
{
	g_autoptr(GString) line = g_string_new(NULL);

	vial_ledger_head_write(head, line);
	send_to_all(places, line->str);
}

/* Files */

static void append(int dir_fd, const char *path, const char *line)
{
	g_autoptr(GError) error = NULL;
	vial_autofd int fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0 || !vial_fd_write_all(fd, line, strlen(line), &error) || fdatasync(fd) < 0)
		vial_log_error("audit", "a signed head could not be written to its second place", "place", path, "error",
		               error ? error->message : g_strerror(errno));
}

void vial_places_publish(VialPlaces *places, const VialLedgerHead *head)
{
	g_autoptr(GString) line = g_string_new(NULL);

	vial_ledger_head_write(head, line);
	if (places->has_syslog)
		syslog(LOG_AUTHPRIV | LOG_NOTICE, "vial audit head %s", line->str);
	send_to_all(places, line->str);
	g_string_append_c(line, '\n');
	append(places->dir_fd, LOCAL_FILE, line->str);
	for (guint i = 0; i < places->files->len; i++)
		append(AT_FDCWD, places->files->pdata[i], line->str);
}

static GArray *read_heads(const char *text)
{
	GArray *heads = g_array_new(FALSE, FALSE, sizeof(VialLedgerHead));
	VialLedgerHead head;

	for (const char *line = text, *end; line && *line; line = end + 1) {
		end = strchrnul(line, '\n');
		if (vial_ledger_head_read(line, (gsize)(end - line), &head))
			g_array_append_val(heads, head);
		if (!*end)
			break;
	}
	return heads;
}

GArray *vial_places_read(const char *data_dir)
{
	g_autofree char *path = g_build_filename(data_dir, "audit", LOCAL_FILE, NULL);
	g_autofree char *text = vial_file_read_at(AT_FDCWD, path, MAX_LOCAL_BYTES, NULL, NULL);

	return read_heads(text);
}

GArray *vial_places_read_last(const char *data_dir)
{
	g_autofree char *path = g_build_filename(data_dir, "audit", LOCAL_FILE, NULL), *text = g_malloc0(LAST_BYTES + 1);
	vial_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;

	/* The first line may be a piece of one, which is no head. */
	if (size > 0 && TEMP_FAILURE_RETRY(pread(fd, text, LAST_BYTES, MAX(size - LAST_BYTES, 0))) < 0)
		text[0] = '\0';
	return read_heads(text);
}

VialPlaces *vial_places_new(const char *data_dir, const char *const *list, GError **error)
{
	VialPlaces *places = g_new0(VialPlaces, 1);
	g_autofree char *dir = g_build_filename(data_dir, "audit", NULL);
	gboolean is_open;

	places->files = g_ptr_array_new_with_free_func(g_free);
	places->remotes = g_ptr_array_new_with_free_func(remote_free);
	g_mutex_init(&places->lock);
	g_cond_init(&places->has_news);
	places->dir_fd = vial_dir_open(dir, 0700, error);
	is_open = places->dir_fd >= 0;
	for (gsize i = 0; is_open && list && list[i]; i++)
		is_open = add_place(places, list[i], error);
	for (guint i = 0; is_open && i < places->remotes->len; i++) {
		Remote *remote = places->remotes->pdata[i];

		remote->thread = g_thread_new("audit-heads", deliver_all, remote);
	}
	if (is_open)
		return places;
	vial_places_free(places);
	return NULL;
}

void vial_places_free(VialPlaces *places)
{
	if (!places)
		return;
	g_mutex_lock(&places->lock);
	places->is_stopping = TRUE;
	g_cond_broadcast(&places->has_news);
	g_mutex_unlock(&places->lock);
	for (guint i = 0; i < places->remotes->len; i++) {
		Remote *remote = places->remotes->pdata[i];

		if (remote->thread)
			g_thread_join(remote->thread);
	}
	vial_fd_clear(&places->dir_fd);
	g_ptr_array_unref(places->files);
	g_ptr_array_unref(places->remotes);
	g_mutex_clear(&places->lock);
	g_cond_clear(&places->has_news);
	g_free(places);
}
