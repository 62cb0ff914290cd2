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

typedef struct {
	VialPlaces *places;
	char *url;
	/* under the lock */
	char *waiting; /* the newest head that has not been delivered */
	gboolean is_busy;
} Remote;

struct VialPlaces {
	int dir_fd;
	GPtrArray *files; /* char *: others */
	gboolean has_syslog;
	GPtrArray *remotes; /* Remote */
	GThreadPool *pool;
	GMutex lock;
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

/* The newest, then a newer one that came meanwhile. One that cannot be delivered waits for the next. */
static void deliver(gpointer data, gpointer unused)
{
	Remote *remote = data;
	GMutex *lock = &remote->places->lock;
	gboolean is_delivered = TRUE;

	g_mutex_lock(lock);
	while (remote->waiting && is_delivered) {
		g_autofree char *text = g_strdup(remote->waiting);
		long status = 0;
		CURLcode code;

		g_mutex_unlock(lock);
		code = post(remote->url, text, &status);
		is_delivered = code == CURLE_OK && status >= 200 && status < 300;
		if (!is_delivered) {
			g_autofree char *number = g_strdup_printf("%ld", status);

			vial_log_warning("audit", "a signed head could not be delivered; the next one will stand for it", "place", remote->url,
			                 "status", number, "error", code == CURLE_OK ? NULL : curl_easy_strerror(code));
		}
		g_mutex_lock(lock);
		if (is_delivered && g_strcmp0(remote->waiting, text) == 0)
			g_clear_pointer(&remote->waiting, g_free);
	}
	remote->is_busy = FALSE;
	g_mutex_unlock(lock);
}

static void send_to(VialPlaces *places, Remote *remote, const char *line)
{
	gboolean is_busy;

	g_mutex_lock(&places->lock);
	g_free(remote->waiting);
	remote->waiting = g_strdup(line);
	is_busy = remote->is_busy;
	remote->is_busy = TRUE;
	g_mutex_unlock(&places->lock);
	if (!is_busy)
		g_thread_pool_push(places->pool, remote, NULL);
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
	for (guint i = 0; i < places->remotes->len; i++)
		send_to(places, places->remotes->pdata[i], line->str);
	g_string_append_c(line, '\n');
	append(places->dir_fd, LOCAL_FILE, line->str);
	for (guint i = 0; i < places->files->len; i++)
		append(AT_FDCWD, places->files->pdata[i], line->str);
}

GArray *vial_places_read(const char *data_dir)
{
	GArray *heads = g_array_new(FALSE, FALSE, sizeof(VialLedgerHead));
	g_autofree char *path = g_build_filename(data_dir, "audit", LOCAL_FILE, NULL);
	g_autofree char *text = vial_file_read_at(AT_FDCWD, path, MAX_LOCAL_BYTES, NULL, NULL);
	VialLedgerHead head;

	for (char *line = text, *end; line && *line; line = end + 1) {
		end = strchrnul(line, '\n');
		if (vial_ledger_head_read(line, (gsize)(end - line), &head))
			g_array_append_val(heads, head);
		if (!*end)
			break;
	}
	return heads;
}

VialPlaces *vial_places_new(const char *data_dir, const char *const *list, GError **error)
{
	VialPlaces *places = g_new0(VialPlaces, 1);
	g_autofree char *dir = g_build_filename(data_dir, "audit", NULL);
	gboolean is_open;

	places->files = g_ptr_array_new_with_free_func(g_free);
	places->remotes = g_ptr_array_new_with_free_func(remote_free);
	g_mutex_init(&places->lock);
	places->dir_fd = vial_dir_open(dir, 0700, error);
	is_open = places->dir_fd >= 0;
	for (gsize i = 0; is_open && list && list[i]; i++)
		is_open = add_place(places, list[i], error);
	if (is_open && places->remotes->len > 0)
		places->pool = g_thread_pool_new(deliver, NULL, 2, FALSE, NULL);
	if (is_open)
		return places;
	vial_places_free(places);
	return NULL;
}

void vial_places_free(VialPlaces *places)
{
	if (!places)
		return;
	if (places->pool)
		g_thread_pool_free(places->pool, FALSE, TRUE);
	vial_fd_clear(&places->dir_fd);
	g_ptr_array_unref(places->files);
	g_ptr_array_unref(places->remotes);
	g_mutex_clear(&places->lock);
	g_free(places);
}
