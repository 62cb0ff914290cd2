/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/announced.h"

#include <string.h>

#include "operations/limits.h"
#include "operations/validate.h"
#include "service/app.h"
#include "util/id.h"
#include "util/time.h"

#define MAX_PER_PROJECT 32
#define LIFE_MS (3600 * 1000)

typedef struct {
	char *id, *project, *name;
	json_t *tags; /* NULL: none */
	double cpu;
	gint64 memory_mb;
	gint64 announced_ms; /* monotonic */
} Item;

struct VialAnnounced {
	GQueue items; /* Item, oldest first */
};

static void item_free(gpointer data)
{
	Item *item = data;

	json_decref(item->tags);
	g_free(item->id);
	g_free(item->project);
	g_free(item->name);
	g_free(item);
}

static void drop(VialAnnounced *announced, GList *link)
{
	item_free(link->data);
	g_queue_delete_link(&announced->items, link);
}

VialAnnounced *vial_announced_new(void)
{
	VialAnnounced *announced = g_new0(VialAnnounced, 1);

	g_queue_init(&announced->items);
	return announced;
}

void vial_announced_free(VialAnnounced *announced)
{
	if (!announced)
		return;
	g_queue_clear_full(&announced->items, item_free);
	g_free(announced);
}

/* What is too old goes, and of a project that has as many as it may, its oldest. */
static void make_room(VialAnnounced *announced, const char *project)
{
	gint64 now_ms = vial_time_monotonic_ms();
	GList *oldest = NULL, *next;
	guint count = 0;

	for (GList *link = announced->items.head; link; link = next) {
		const Item *item = link->data;

		next = link->next;
		if (now_ms - item->announced_ms > LIFE_MS) {
			drop(announced, link);
		} else if (strcmp(item->project, project) == 0) {
			oldest = oldest ? oldest : link;
			count++;
		}
	}
	if (count >= MAX_PER_PROJECT)
		drop(announced, oldest);
}

static GList *find(const VialCaller *caller, const char *id, const char *name)
{
	for (GList *link = caller->app->announced->items.head; link; link = link->next) {
		const Item *item = link->data;

		if (strcmp(item->id, id) == 0 && strcmp(item->project, caller->principal->project) == 0 && strcmp(item->name, name) == 0)
			return link;
	}
	return NULL;
}

const char *vial_op_build_announce(const VialCaller *caller, const VialTemplateBuildRequest *request, GError **error)
{
	VialAnnounced *announced = caller->app->announced;
	g_autofree char *name = NULL, *tag = NULL;
	Item *item;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_BUILD, NULL, 1, NULL, error) ||
	    !vial_check_required("name", request->name, VIAL_NAME_MAX_BYTES, error) ||
	    !vial_template_name_split(caller->app, "name", request->name, &name, &tag, error) ||
	    !vial_template_tags_check(caller->app, name, request->tags, error))
		return NULL;
	make_room(announced, caller->principal->project);
	item = g_new0(Item, 1);
	*item = (Item){ .id = vial_id_new(), .cpu = request->cpu, .memory_mb = request->memory_mb, .announced_ms = vial_time_monotonic_ms() };
	item->project = g_strdup(caller->principal->project);
	item->name = g_strdup(request->name);
	item->tags = request->tags ? json_incref(request->tags) : NULL;
	g_queue_push_tail(&announced->items, item);
	return item->id;
}

gboolean vial_op_build_is_announced(const VialCaller *caller, const char *id, const char *name, GError **error)
{
	return vial_operation_admit(caller, VIAL_VERB_BUILD_READ, NULL, 0, NULL, error) && find(caller, id, name);
}

gboolean vial_op_build_begin(const VialCaller *caller, const char *id, const char *name, const VialTemplateBuildRequest *rest, VialDocumentDone done,
                             gpointer data, GError **error)
{
	VialTemplateBuildRequest request = *rest;
	GList *link;
	Item *item;

	if (!vial_operation_admit(caller, VIAL_VERB_TEMPLATE_BUILD, NULL, 1, NULL, error))
		return FALSE;
	link = find(caller, id, name);
	if (!link)
		return vial_fail(error, VIAL_ERROR_NOT_FOUND, "no build %.64s of the template \"%.64s\" waits to be begun", id, name);
	item = link->data;
	request.id = item->id;
	request.name = item->name;
	request.tags = item->tags;
	request.cpu = item->cpu;
	request.memory_mb = item->memory_mb;
	if (!vial_op_template_build(caller, &request, done, data, error))
		return FALSE;
	drop(caller->app->announced, link);
	return TRUE;
}
