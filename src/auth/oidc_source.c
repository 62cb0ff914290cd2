/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/oidc_source.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"
#include "util/worker.h"

/* The tests' build has its own; see tests/auth/oidc_times.h. */
#ifndef VIAL_OIDC_REFRESH_MS
#define VIAL_OIDC_REFRESH_MS (3600 * 1000)
#endif
#ifndef VIAL_OIDC_KEEP_MS
#define VIAL_OIDC_KEEP_MS (24 * 3600 * 1000)
#endif
#ifndef VIAL_OIDC_FETCH_PAUSE_MS
#define VIAL_OIDC_FETCH_PAUSE_MS (10 * 1000)
#endif
#define FILE_PAUSE_MS 1000
/* A file that was written this lately may be written again without its time changing, which ticks in milliseconds. */
#define FILE_SETTLE_MS 2000

/* It outlives its source, should that be freed meanwhile. */
typedef struct {
	VialOidcSource *source; /* NULL: nobody wants it any more. Main thread only */
	VialOidcProvider provider;
	VialOidcKeys *keys;
	GError *error;
} Fetch;

struct VialOidcSource {
	VialOidcProvider provider;
	VialOidcListener listener;
	VialOidcKeys *keys;
	gint64 keys_at_ms;   /* when they were last known to be the ones. All times here are monotonic */
	gboolean has_failed; /* the last attempt to get them */

	Fetch *fetch; /* NULL: none is under way */
	gint64 fetch_began_ms;
	guint refresh_timer;

	char *file; /* NULL: they are fetched */
	gint64 file_looked_ms;
	gboolean file_is_settled;
	struct stat file_stat;
};

static void set_keys(VialOidcSource *source, VialOidcKeys *keys)
{
	vial_oidc_keys_free(source->keys);
	source->keys = keys;
	if (source->listener.changed)
		source->listener.changed(source->listener.data);
}

static void take_keys(VialOidcSource *source, VialOidcKeys *keys)
{
	g_autofree char *count = g_strdup_printf("%u", vial_oidc_keys_count(keys));
	g_autofree char *ignored = g_strdup_printf("%u", vial_oidc_keys_count_ignored(keys));
	const char *from = source->file ? source->file : source->provider.issuer;

	if (vial_oidc_keys_count(keys) == 0)
		vial_log_warning("auth", "the identity provider publishes no key that can be used", "source", from, "ignored", ignored);
	else if (!source->keys || source->has_failed)
		vial_log_info("auth", "the keys of the identity provider are known", "source", from, "keys", count, "ignored", ignored);
	source->has_failed = FALSE;
	source->keys_at_ms = vial_time_monotonic_ms();
	set_keys(source, keys);
}

/* Keys that nobody could confirm for so long may have been withdrawn. */
static void drop_stale_keys(VialOidcSource *source)
{
	if (!source->keys || vial_time_monotonic_ms() - source->keys_at_ms < VIAL_OIDC_KEEP_MS)
		return;
	vial_log_error("auth",
	               "the keys of the identity provider could not be had again for too long and are forgotten: nobody can sign in with a token");
	set_keys(source, NULL);
}

/* ---- a file ---- */

static gboolean file_is_the_same(const VialOidcSource *source, const struct stat *now)
{
	const struct stat *then = &source->file_stat;

	return source->file_is_settled && then->st_mtim.tv_sec == now->st_mtim.tv_sec && then->st_mtim.tv_nsec == now->st_mtim.tv_nsec &&
	       then->st_size == now->st_size && then->st_ino == now->st_ino && then->st_dev == now->st_dev;
}

static gboolean read_file(VialOidcSource *source, GError **error)
{
	g_autofree char *text = NULL;
	VialOidcKeys *keys;
	struct stat info;
	gsize size = 0;

	source->file_looked_ms = vial_time_monotonic_ms();
	if (stat(source->file, &info) < 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "cannot read %s: %s", source->file, g_strerror(errno));
	if (source->keys && file_is_the_same(source, &info)) {
		source->keys_at_ms = source->file_looked_ms;
		source->has_failed = FALSE;
		return TRUE;
	}
	text = vial_file_read_at(AT_FDCWD, source->file, VIAL_OIDC_MAX_JWKS_BYTES, &size, error);
	keys = text ? vial_oidc_keys_read(text, size, error) : NULL;
	if (!keys) {
		g_prefix_error(error, "the keys in %s: ", source->file);
		return FALSE;
	}
	source->file_stat = info;
	source->file_is_settled = vial_time_now_ms() - (info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1000000) > FILE_SETTLE_MS;
	take_keys(source, keys);
	return TRUE;
}

static void look_at_file(VialOidcSource *source)
{
	g_autoptr(GError) error = NULL;

	if (!source->file || vial_time_monotonic_ms() - source->file_looked_ms < FILE_PAUSE_MS || read_file(source, &error))
		return;
	/* Once, not once a second. */
	if (!source->has_failed)
		vial_log_warning("auth", "the keys of the identity provider cannot be read again; those known stay for a day", "error",
		                 error->message);
	source->has_failed = TRUE;
}

/* ---- the provider ---- */

static void provider_copy(VialOidcProvider *out, const VialOidcProvider *provider)
{
	*out = (VialOidcProvider){
		.issuer = g_strdup(provider->issuer),
		.ca_file = g_strdup(provider->ca_file),
		.allow_http = provider->allow_http,
	};
}

static void provider_clear(VialOidcProvider *provider)
{
	g_clear_pointer(&provider->issuer, g_free);
	g_clear_pointer(&provider->ca_file, g_free);
}

static void work_fetch(gpointer data)
{
	Fetch *fetch = data;

	fetch->keys = vial_oidc_fetch(&fetch->provider, &fetch->error);
}

static void take_fetch(VialOidcSource *source, Fetch *fetch)
{
	source->fetch = NULL;
	if (fetch->keys) {
		take_keys(source, g_steal_pointer(&fetch->keys));
	} else {
		vial_log_warning("auth", "the keys of the identity provider cannot be fetched", "error", fetch->error->message);
		source->has_failed = TRUE;
	}
	source->listener.fetched(source->listener.data);
}

static void on_fetched(gpointer data)
{
	Fetch *fetch = data;

	if (fetch->source)
		take_fetch(fetch->source, fetch);
	vial_oidc_keys_free(fetch->keys);
	g_clear_error(&fetch->error);
	provider_clear(&fetch->provider);
	g_free(fetch);
}

static void start_fetch(VialOidcSource *source)
{
	Fetch *fetch;

	if (source->fetch)
		return;
	fetch = g_new0(Fetch, 1);
	fetch->source = source;
	provider_copy(&fetch->provider, &source->provider);
	source->fetch = fetch;
	source->fetch_began_ms = vial_time_monotonic_ms();
	vial_worker_run_in(VIAL_LANE_WAIT, work_fetch, on_fetched, fetch);
}

static gboolean on_refresh(gpointer data)
{
	drop_stale_keys(data);
	start_fetch(data);
	return G_SOURCE_CONTINUE;
}

/* ---- the whole ---- */

VialOidcSource *vial_oidc_source_new(const VialOidcProvider *provider, const char *file, const VialOidcListener *listener, GError **error)
{
	VialOidcSource *source = g_new0(VialOidcSource, 1);

	provider_copy(&source->provider, provider);
	source->file = g_strdup(file);
	if (file && !read_file(source, error)) {
		vial_oidc_source_free(source);
		return NULL;
	}
	source->listener = *listener;
	if (!file) {
		start_fetch(source);
		source->refresh_timer = g_timeout_add(VIAL_OIDC_REFRESH_MS, on_refresh, source);
	}
	return source;
}

void vial_oidc_source_free(VialOidcSource *source)
{
	if (!source)
		return;
	if (source->fetch)
		source->fetch->source = NULL;
	g_clear_handle_id(&source->refresh_timer, g_source_remove);
	provider_clear(&source->provider);
	vial_oidc_keys_free(source->keys);
	g_free(source->file);
	g_free(source);
}

const VialOidcKeys *vial_oidc_source_keys(const VialOidcSource *source)
{
	return source->keys;
}

void vial_oidc_source_look(VialOidcSource *source)
{
	look_at_file(source);
	drop_stale_keys(source);
}

gboolean vial_oidc_source_ask(VialOidcSource *source)
{
	if (!source->file && vial_time_monotonic_ms() - source->fetch_began_ms >= VIAL_OIDC_FETCH_PAUSE_MS)
		start_fetch(source);
	return source->fetch != NULL;
}

gboolean vial_oidc_source_is_sure(const VialOidcSource *source)
{
	return source->keys && (source->file || !source->has_failed);
}
