/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that are rebuilt, or come, while viald runs. The kernel tells when a record in images_dir was written or put there, and
 * soon after they are looked at; where it cannot tell, they are looked at every few seconds. One that has changed is read on a worker and
 * baked, and only then takes the old one's place: until it is ready sandboxes are made from the old one, and one that cannot be baked never replaces
 * anything. The pool gives back what is of the old one by itself (pool.c, is_stale); sandboxes and snapshots carry all they need of it.
 *
 * A record that disappears changes nothing before the next start. Main thread, except where it says worker.
 */
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "service/pool.h"
#include "service/template_private.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/worker.h"

#define LOOK_SECONDS 2

typedef struct {
	VialApp *app;
	char *path;
	VialTemplate *template;
} Reading;

gboolean vial_template_note(VialTemplates *templates, const char *path)
{
	GStatBuf info;
	char *stamp;

	if (g_stat(path, &info) < 0)
		return FALSE;
	stamp = g_strdup_printf("%" G_GUINT64_FORMAT " %" G_GINT64_FORMAT ".%09ld %" G_GINT64_FORMAT, (guint64)info.st_ino,
	                        (gint64)info.st_mtim.tv_sec, info.st_mtim.tv_nsec, (gint64)info.st_size);
	if (g_strcmp0(g_hash_table_lookup(templates->stamps, path), stamp) == 0) {
		g_free(stamp);
		return FALSE;
	}
	g_hash_table_replace(templates->stamps, g_strdup(path), stamp);
	return TRUE;
}

/* A project's own of the same name is another one, and goes on being what that project means by it. */
static gboolean is_replaced(const VialTemplate *old, const VialTemplate *image)
{
	return !old->project && strcmp(old->name, image->name) == 0;
}

static void take_place(VialApp *app)
{
	VialTemplates *templates = app->templates;
	VialTemplate *template = g_steal_pointer(&templates->incoming);
	guint i = 0;

	while (i < templates->all->len && !is_replaced(templates->all->pdata[i], template))
		i++;
	if (i < templates->all->len) {
		vial_template_free(templates->all->pdata[i]);
		templates->all->pdata[i] = template;
	} else {
		g_ptr_array_add(templates->all, template);
	}
	vial_log_info("template", "a new image is in use", "template", template->name, "hash", template->hash);
	vial_pool_refresh(app->pool);
}

static void on_baked(guint failures, const char *problem, gpointer data)
{
	VialApp *app = data;

	if (failures)
		g_clear_pointer(&app->templates->incoming, vial_template_free); /* bake.c has said why; the old one stays */
	else
		take_place(app);
}

static void read_work(gpointer data)
{
	Reading *reading = data;

	reading->template = vial_template_load(reading->app, reading->app->templates, reading->path);
}

static void read_done(gpointer data)
{
	Reading *reading = data;
	VialApp *app = reading->app;
	VialTemplates *templates = app->templates;

	templates->is_reading = FALSE;
	templates->incoming = reading->template;
	g_free(reading->path);
	g_free(reading);
	if (!templates->incoming || !templates->watch)
		return; /* unreadable, or viald stops */
	if (templates->incoming->checkpoint)
		take_place(app);
	else
		vial_template_bake(app, templates->incoming, NULL, 0, on_baked, app);
}

static gboolean look(VialApp *app)
{
	VialTemplates *templates = app->templates;
	g_autoptr(GDir) dir = NULL;
	const char *name;

	if (templates->is_reading || templates->incoming || templates->is_baking_all)
		return TRUE;
	dir = g_dir_open(templates->images_dir, 0, NULL);
	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *path = g_build_filename(templates->images_dir, name, NULL);
		Reading *reading;

		if (!g_str_has_suffix(name, ".json") || !vial_template_note(templates, path))
			continue;
		reading = g_new0(Reading, 1);
		reading->app = app;
		reading->path = g_steal_pointer(&path);
		templates->is_reading = TRUE;
		vial_worker_run(read_work, read_done, reading);
		return TRUE; /* the next one at the next look */
	}
	return FALSE;
}

/* Again as long as there is something to do. */
static gboolean on_look(gpointer data)
{
	VialApp *app = data;

	if (look(app))
		return G_SOURCE_CONTINUE;
	app->templates->look = 0;
	return G_SOURCE_REMOVE;
}

static gboolean on_poll(gpointer data)
{
	look(data);
	return G_SOURCE_CONTINUE;
}

static void look_soon(VialApp *app)
{
	if (!app->templates->look)
		app->templates->look = g_timeout_add_seconds(LOOK_SECONDS, on_look, app);
}

/* The event's own words only tell whether to look: what has happened is found by looking. */
static gboolean is_of_a_record(const char *events, gsize size)
{
	gboolean is_record = FALSE;

	for (const char *at = events; at < events + size;) {
		const struct inotify_event *event = (const struct inotify_event *)at;

		is_record = is_record || event->mask & IN_Q_OVERFLOW || (event->len > 0 && g_str_has_suffix(event->name, ".json"));
		at += sizeof *event + event->len;
	}
	return is_record;
}

static gboolean on_change(int fd, GIOCondition condition, gpointer data)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t got;

	while ((got = read(fd, events, sizeof events)) > 0)
		if (is_of_a_record(events, (gsize)got))
			look_soon(data);
	return G_SOURCE_CONTINUE;
}

void vial_templates_watch(VialApp *app)
{
	VialTemplates *templates = app->templates;
	vial_autofd int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	if (fd >= 0 && inotify_add_watch(fd, templates->images_dir, IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO) >= 0) {
		templates->watch_fd = vial_fd_steal(&fd);
		templates->watch = g_unix_fd_add(templates->watch_fd, G_IO_IN, on_change, app);
	} else {
		templates->watch = g_timeout_add_seconds(LOOK_SECONDS, on_poll, app);
	}
	look_soon(app); /* it may have changed since it was read */
}

void vial_templates_unwatch(VialTemplates *templates)
{
	g_clear_handle_id(&templates->watch, g_source_remove);
	g_clear_handle_id(&templates->look, g_source_remove);
	vial_fd_clear(&templates->watch_fd);
}
