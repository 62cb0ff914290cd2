/* SPDX-License-Identifier: Apache-2.0 */
/* See watch.h. One epoll descriptor per priority, each a source of GLib's. */
#include "util/watch.h"

#include <errno.h>
#include <sys/epoll.h>

/* In one turn; the kernel gives the others their turn in the next. */
#define MAX_EVENTS 64

typedef struct {
	GSource source;
	int epoll_fd;
	gpointer tag;
} Set;

typedef struct {
	Set *set;
	int fd;
	GUnixFDSourceFunc func;
	gpointer data;
	GDestroyNotify notify;
	guint ref_count;
} Watch;

static GHashTable *watches; /* id -> Watch: an event of one that is gone finds nothing */
static guint last_id;

static void watch_unref(gpointer data)
{
	Watch *watch = data;

	if (--watch->ref_count > 0)
		return;
	if (watch->notify)
		watch->notify(watch->data);
	g_free(watch);
}

static gboolean set_check(GSource *source)
{
	return g_source_query_unix_fd(source, ((Set *)source)->tag) != 0;
}

static gboolean set_dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
	struct epoll_event events[MAX_EVENTS];
	int count = epoll_wait(((Set *)source)->epoll_fd, events, MAX_EVENTS, 0);

	for (int i = 0; i < count; i++) {
		guint id = events[i].data.u32;
		Watch *watch = g_hash_table_lookup(watches, GUINT_TO_POINTER(id));

		if (!watch)
			continue;
		watch->ref_count++;
		if (!watch->func(watch->fd, (GIOCondition)events[i].events, watch->data))
			vial_watch_remove(id);
		watch_unref(watch);
	}
	return G_SOURCE_CONTINUE;
}

static Set *set_of(int priority)
{
	static GSourceFuncs functions = { .check = set_check, .dispatch = set_dispatch };
	static Set *ordinary, *low;
	Set **set = priority > G_PRIORITY_DEFAULT ? &low : &ordinary;
	GSource *source;

	if (*set)
		return *set;
	source = g_source_new(&functions, sizeof(Set));
	*set = (Set *)source;
	(*set)->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if ((*set)->epoll_fd < 0)
		g_error("epoll_create1 failed: %s", g_strerror(errno));
	(*set)->tag = g_source_add_unix_fd(source, (*set)->epoll_fd, G_IO_IN);
	g_source_set_name(source, "watches");
	g_source_set_priority(source, priority);
	/* Else GLib takes its descriptor out of the poll for every dispatch, and each of the two changes wakes the loop for one turn more. */
	g_source_set_can_recurse(source, TRUE);
	g_source_attach(source, NULL);
	return *set;
}

guint vial_watch_add(int priority, int fd, GIOCondition condition, GUnixFDSourceFunc func, gpointer data, GDestroyNotify notify)
{
	Watch *watch = g_new0(Watch, 1);
	struct epoll_event event = { .events = (uint32_t)condition };

	if (!watches)
		watches = g_hash_table_new_full(NULL, NULL, NULL, watch_unref);
	do
		last_id++;
	while (last_id == 0 || g_hash_table_contains(watches, GUINT_TO_POINTER(last_id)));
	*watch = (Watch){ .set = set_of(priority), .fd = fd, .func = func, .data = data, .notify = notify, .ref_count = 1 };
	event.data.u32 = last_id;
	if (epoll_ctl(watch->set->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		g_error("epoll_ctl failed: %s", g_strerror(errno));
	g_hash_table_insert(watches, GUINT_TO_POINTER(last_id), watch);
	return last_id;
}

void vial_watch_remove(guint id)
{
	Watch *watch = watches ? g_hash_table_lookup(watches, GUINT_TO_POINTER(id)) : NULL;

	if (!watch)
		return;
	epoll_ctl(watch->set->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	g_hash_table_remove(watches, GUINT_TO_POINTER(id));
}
