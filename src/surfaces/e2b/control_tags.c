/* SPDX-License-Identifier: Apache-2.0 */
/* Tags of templates. `default` there is whatever was built last, which is `latest` here, and nobody's to give or to take. */
#include <string.h>

#include "operations/builds.h"
#include "surfaces/e2b/build_id.h"
#include "surfaces/e2b/control.h"
#include "util/json.h"
#include "util/time.h"

static json_t *tag_json(const VialCustomTemplate *custom, const char *tag)
{
	g_autofree char *uuid = vial_e2b_uuid(custom->id), *time = vial_time_format(custom->created_at_ms);

	return json_pack("{s:s, s:s, s:s}", "tag", strcmp(tag, VIAL_LATEST) == 0 ? "default" : tag, "buildID", uuid, "createdAt", time);
}

void vial_e2b_tag_list(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	g_autoptr(GPtrArray) found = NULL;
	json_t *items = NULL;
	GError *error = NULL;
	VialArena arena;

	vial_arena_init(&arena);
	found = vial_op_template_versions(&caller, vial_e2b_plain_name(&arena, vial_request_param(request, "template")), &error);
	if (found)
		items = json_array();
	for (guint i = 0; found && i < found->len; i++) {
		const VialCustomTemplate *custom = found->pdata[i];

		for (guint k = 0; k < custom->tags->len; k++)
			json_array_append_new(items, tag_json(custom, custom->tags->pdata[k]));
	}
	vial_surface_reply_now(request, items, error);
	vial_arena_clear(&arena);
}

/* Who waits for tags to be given. */
typedef struct {
	VialRequest *request;
	char *uuid;
	json_t *tags;
} Giving;

static void on_given(const GError *error, gpointer data)
{
	g_autofree Giving *giving = data;
	g_autoptr(json_t) document = error ? NULL : json_pack("{s:s, s:O}", "buildID", giving->uuid, "tags", giving->tags);

	vial_surface_reply_created(document, error, giving->request);
	json_decref(giving->tags);
	g_free(giving->uuid);
}

static gboolean decode(VialArena *arena, const json_t *body, const char *field, const char **name, json_t **tags, GError **error)
{
	if (!vial_decode_text(body, field, name, error) || !vial_decode_list(body, "tags", tags, error))
		return FALSE;
	if (!*name || !*tags || json_array_size(*tags) == 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "fields \"%s\" and \"tags\" are required", field);
	*name = vial_e2b_plain_name(arena, *name);
	return TRUE;
}

void vial_e2b_tag_assign(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	const char *name = NULL, *id = NULL;
	json_t *tags = NULL;
	VialArena arena;
	Giving *giving = g_new0(Giving, 1);

	vial_arena_init(&arena);
	if (decode(&arena, vial_request_json(request), "target", &name, &tags, &error)) {
		*giving = (Giving){ .request = request, .tags = json_incref(tags) };
		id = vial_op_template_tag(&caller, name, tags, on_given, giving, &error);
	}
	if (id) {
		giving->uuid = vial_e2b_uuid(id);
	} else {
		json_decref(giving->tags);
		g_free(giving);
		vial_surface_begun(request, FALSE, &error);
	}
	vial_arena_clear(&arena);
}

void vial_e2b_tag_remove(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;
	const char *name = NULL;
	json_t *tags = NULL;
	VialArena arena;

	vial_arena_init(&arena);
	vial_surface_begun(request,
	                   decode(&arena, vial_request_json(request), "name", &name, &tags, &error) &&
	                           vial_op_template_untag(&caller, name, tags, vial_surface_reply_done, request, &error),
	                   &error);
	vial_arena_clear(&arena);
}
