/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes as E2B's SDKs list, show and end them. */
#include "operations/sandboxes.h"

#include <string.h>

#include "http/uri.h"
#include "operations/limits.h"
#include "surfaces/e2b/control.h"
#include "util/arena.h"
#include "util/json.h"

/* What goes by "paused"; everything else that is alive runs. One that has failed is, for this dialect, no more. */
#define STATE(name) (1u << VIAL_STATE_##name)
#define STATES_PAUSED (STATE(PAUSED) | STATE(HIBERNATING) | STATE(HIBERNATED))
#define STATES_RUNNING (STATE(CREATING) | STATE(RUNNING) | STATE(WAKING))

static gboolean check_alive(const VialSandbox *sandbox, GError **error)
{
	return vial_sandbox_state(sandbox) != VIAL_STATE_FAILED ||
	       vial_fail(error, VIAL_ERROR_NOT_FOUND, "the sandbox has ended: %s", vial_sandbox_reason(sandbox));
}

VialSandbox *vial_e2b_find(const VialCaller *caller, const char *sandbox_id, GError **error)
{
	VialSandbox *sandbox = vial_op_sandbox_get(caller, sandbox_id, error);

	return sandbox && check_alive(sandbox, error) ? sandbox : NULL;
}

gboolean vial_e2b_is_alive(const VialRequest *request, GError **error)
{
	const VialSandbox *sandbox =
		vial_sandboxes_find(vial_surface_app(request), vial_request_identity(request), vial_surface_sandbox(request), NULL);

	return !sandbox || check_alive(sandbox, error);
}

void vial_e2b_get(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	GError *error = NULL;
	VialSandbox *sandbox = vial_e2b_find(&caller, vial_surface_sandbox(request), &error);

	vial_surface_reply_now(request, sandbox ? vial_e2b_detail_json(request, sandbox) : NULL, error);
}

void vial_e2b_kill(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	g_autoptr(GError) error = NULL;

	vial_surface_begun(request, vial_op_sandbox_delete(&caller, vial_surface_sandbox(request), vial_surface_reply_done, request, &error), &error);
}

/* Lists */

static gboolean decode_states(const char *text, unsigned *out, GError **error)
{
	g_auto(GStrv) names = g_strsplit(text ? text : "", ",", -1);

	if (text)
		*out = 0;
	for (char **name = names; *name; name++)
		if (strcmp(*name, "running") == 0)
			*out |= STATES_RUNNING;
		else if (strcmp(*name, "paused") == 0)
			*out |= STATES_PAUSED;
		else
			return vial_fail(error, VIAL_ERROR_INVALID, "state \"%.32s\" is none: there are running and paused", *name);
	return TRUE;
}

/* Each name and value has been escaped twice more than the query's own escapes. */
static const char *unescape(VialArena *arena, const char *text)
{
	const char *once = vial_uri_decode(arena, text, strlen(text), TRUE);

	return once ? vial_uri_decode(arena, once, strlen(once), FALSE) : NULL;
}

static gboolean decode_metadata(VialArena *arena, const char *text, json_t *out, GError **error)
{
	g_auto(GStrv) pairs = g_strsplit(text ? text : "", "&", -1);

	for (char **pair = pairs; *pair; pair++) {
		char *value = strchr(*pair, '=');
		const char *name;

		if (**pair == '\0')
			continue;
		if (value)
			*value++ = '\0';
		name = unescape(arena, *pair);
		value = (char *)unescape(arena, value ? value : "");
		if (!name || !value)
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"metadata\" has an escape that is none");
		json_object_set_new(out, name, json_string(value));
	}
	return TRUE;
}

static gboolean decode_since(const char *text, gint64 *out_ms, GError **error)
{
	g_autoptr(GTimeZone) utc = g_time_zone_new_utc();
	g_autoptr(GDateTime) time = text ? g_date_time_new_from_iso8601(text, utc) : NULL;

	if (text && !time)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"startedAfter\" must be a time, such as 2026-01-31T23:59:59Z");
	if (time)
		*out_ms = g_date_time_to_unix(time) * 1000 + g_date_time_get_microsecond(time) / 1000;
	return TRUE;
}

static gboolean decode_order(const char *text, gboolean *out_is_oldest_first, GError **error)
{
	*out_is_oldest_first = text && strcmp(text, "asc") == 0;
	return !text || *out_is_oldest_first || strcmp(text, "desc") == 0 ||
	       vial_fail(error, VIAL_ERROR_INVALID, "field \"order\" must be asc or desc");
}

static gboolean decode_filter(VialRequest *request, VialArena *arena, VialSandboxFilter *out, GError **error)
{
	out->template_name = vial_e2b_plain_name(arena, vial_request_query(request, "template"));
	out->cursor = vial_request_query(request, "nextToken");
	return decode_states(vial_request_query(request, "state"), &out->states, error) &&
	       decode_metadata(arena, vial_request_query(request, "metadata"), out->metadata, error) &&
	       decode_since(vial_request_query(request, "startedAfter"), &out->since_ms, error) &&
	       decode_order(vial_request_query(request, "order"), &out->is_oldest_first, error) &&
	       vial_decode_query_int(request, "limit", &out->limit, error);
}

static void list(VialRequest *request, VialSandboxFilter *filter)
{
	VialCaller caller = vial_surface_caller(request);
	g_autoptr(json_t) metadata = filter->metadata = json_object();
	g_autoptr(GPtrArray) found = NULL;
	const char *next = NULL;
	json_t *items = NULL;
	GError *error = NULL;
	VialArena arena;

	vial_arena_init(&arena);
	if (decode_filter(request, &arena, filter, &error))
		found = vial_op_sandbox_list(&caller, filter, &next, &error);
	if (found)
		items = json_array();
	for (guint i = 0; found && i < found->len; i++)
		json_array_append_new(items, vial_e2b_listed_json(found->pdata[i]));
	if (next)
		vial_request_set_header(request, "X-Next-Token", next);
	vial_surface_reply_now(request, items, error);
	vial_arena_clear(&arena);
}

void vial_e2b_list(VialRequest *request)
{
	list(request, &(VialSandboxFilter){ .states = STATES_RUNNING | STATES_PAUSED, .limit = VIAL_SANDBOXES_PAGE });
}

/* The first version of the route: all that run, in one answer. */
void vial_e2b_list_running(VialRequest *request)
{
	list(request, &(VialSandboxFilter){ .states = STATES_RUNNING, .limit = VIAL_UNSAID });
}
