/* SPDX-License-Identifier: Apache-2.0 */
#include "service/agents.h"

#include <string.h>

#include "service/agent_weight.h"
#include "service/agents_private.h"
#include "service/sessions.h"
#include "util/hash.h"
#include "util/id.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"

/* Numbers up to which what is lost can be told from what never was (VIAL_AGENT_VERSIONS_MAX of operations/limits.h): a damaged row may have any. */
#define NUMBER_MAX 10000

void vial_agent_version_free(gpointer data)
{
	VialAgentVersion *version = data;

	if (!version)
		return;
	json_decref(version->document);
	g_free(version);
}

void vial_agent_unref(gpointer data)
{
	VialAgent *agent = data;

	if (--agent->refs > 0)
		return;
	vial_sessions_clear(agent);
	g_ptr_array_unref(agent->versions);
	vial_agent_changes_free(agent->changes);
	g_free(agent->damage);
	g_free(agent->id);
	g_free(agent->project);
	g_free(agent->name);
	g_free(agent->description);
	g_free(agent);
}

static VialAgent *agent_new(VialApp *app, const char *id, const char *project, const char *name)
{
	VialAgent *agent = g_new0(VialAgent, 1);

	*agent = (VialAgent){ .app = app, .refs = 1, .id = g_strdup(id), .project = g_strdup(project), .name = g_strdup(name) };
	agent->versions = g_ptr_array_new_with_free_func(vial_agent_version_free);
	agent->changes = vial_agent_changes_new();
	vial_sessions_init(agent);
	return agent;
}

static char *key_of(const char *project, const char *name)
{
	return g_strdup_printf("%s/%s", project, name);
}

/* Shown */

static json_t *time_json(gint64 time_ms)
{
	char text[VIAL_TIME_TEXT_SIZE];

	vial_time_fill(text, time_ms);
	return json_string(text);
}

json_t *vial_agent_json(const VialAgent *agent)
{
	json_t *json = json_pack("{s:s, s:s, s:I, s:I, s:I, s:o}", "name", agent->name, "description", agent->description, "versions",
	                         (json_int_t)agent->versions->len, "sessions", (json_int_t)vial_sessions_count(agent), "active_version",
	                         (json_int_t)agent->active, "created_at", time_json(agent->created_at_ms));

	if (agent->active == 0)
		json_object_set_new(json, "active_version", json_null());
	return json;
}

static const char *state_of(const VialAgent *agent, const VialAgentVersion *version)
{
	if (version->retired_at_ms > 0)
		return version->n_sessions > 0 ? "draining" : "retired";
	return version->number == agent->active ? "active" : "ready";
}

/* What a list shows of files that may be megabytes. */
static json_t *files_summary(const json_t *files)
{
	json_t *list = json_array(), *file;
	gsize i;

	json_array_foreach (files, i, file)
		json_array_append_new(list,
		                      json_pack("{s:O, s:I}", "path", json_object_get(file, "path"), "size", (json_int_t)vial_agent_file_size(file)));
	return list;
}

json_t *vial_agent_version_json(const VialAgent *agent, const VialAgentVersion *version, gboolean is_whole)
{
	json_t *json = json_pack("{s:s, s:I, s:s, s:I}", "agent", agent->name, "version", (json_int_t)version->number, "state",
	                         state_of(agent, version), "sessions", (json_int_t)version->n_sessions);
	const json_t *files = json_object_get(version->document, "files");

	json_object_update(json, version->document);
	if (files && !is_whole)
		json_object_set_new(json, "files", files_summary(files));
	json_object_set_new(json, "created_at", time_json(version->created_at_ms));
	if (version->retired_at_ms > 0)
		json_object_set_new(json, "retired_at", time_json(version->retired_at_ms));
	return json;
}

/* In the store */

void vial_agent_store_active(const VialAgent *agent, gint64 active, const VialAgentVersionRecord *version, VialStoreDone done, gpointer data)
{
	g_autoptr(json_t) document = json_pack("{s:s}", "description", agent->description);
	g_autofree char *text = vial_json_dump(document);
	VialAgentRecord record = {
		.id = agent->id,
		.project = agent->project,
		.name = agent->name,
		.state = agent->is_deleting ? "deleting" : "active",
		.document = text,
		.active = active,
		.created_at = agent->created_at_ms,
	};

	if (version)
		vial_store_put_active_version(agent->app->store, version, &record, done, data);
	else
		vial_store_put_agent(agent->app->store, &record, done, data);
}

void vial_agent_store(const VialAgent *agent, VialStoreDone done, gpointer data)
{
	vial_agent_store_active(agent, agent->active, NULL, done, data);
}

static int by_number(gconstpointer a, gconstpointer b)
{
	const VialAgentVersion *left = *(VialAgentVersion *const *)a, *right = *(VialAgentVersion *const *)b;

	return left->number < right->number ? -1 : left->number > right->number;
}

/* A version that cannot be read must not become another one: whoever keeps the database has to see to it. */
static gboolean load_versions(VialStore *store, GHashTable *by_id, GError **error)
{
	g_autoptr(GPtrArray) records = vial_store_load_agent_versions(store, error);

	if (!records)
		return FALSE;
	for (guint i = 0; i < records->len; i++) {
		const VialAgentVersionRecord *record = records->pdata[i];
		VialAgent *agent = g_hash_table_lookup(by_id, record->agent_id);
		json_t *document = vial_json_parse_object(record->document, strlen(record->document), error);
		VialAgentVersion *version;

		if (!document) {
			g_prefix_error(error,
			               "the record of the version \"%s\" of an agent cannot be read; repair its row in the database: ", record->id);
			return FALSE;
		}
		if (!agent) { /* the last viald died between the two; it goes the same way now */
			vial_store_delete_agent_version(store, record->id, NULL, NULL);
			json_decref(document);
			continue;
		}
		version = g_new0(VialAgentVersion, 1);
		*version = (VialAgentVersion){
			.number = record->number, .document = document, .created_at_ms = record->created_at, .retired_at_ms = record->retired_at
		};
		g_ptr_array_add(agent->versions, version);
	}
	return TRUE;
}

/* A version in the place of each that is lost: the sessions of those find it, and so nobody ends their sandboxes. Takes the array's elements. */
static GPtrArray *fill_holes(GPtrArray *found, gint64 last)
{
	GPtrArray *versions = g_ptr_array_new_with_free_func(vial_agent_version_free);
	guint next = 0;

	for (gint64 number = 1; number <= MIN(last, NUMBER_MAX); number++) {
		VialAgentVersion *version = NULL;

		for (; next < found->len && ((const VialAgentVersion *)found->pdata[next])->number <= number; next++)
			if (((const VialAgentVersion *)found->pdata[next])->number == number && !version)
				version = g_steal_pointer(&found->pdata[next]);
		if (!version) {
			version = g_new0(VialAgentVersion, 1);
			*version = (VialAgentVersion){ .number = number, .document = json_object() };
		}
		g_ptr_array_add(versions, version);
	}
	g_ptr_array_unref(found);
	return versions;
}

/* What is lost costs its own agent its calls until it is repaired, and nobody else anything. */
static void check_numbers(VialAgent *agent)
{
	GPtrArray *found = agent->versions;
	gint64 last = agent->active;

	g_ptr_array_sort(found, by_number);
	for (guint i = 0; i < found->len && !agent->damage; i++)
		if (((const VialAgentVersion *)found->pdata[i])->number != (gint64)i + 1)
			agent->damage = g_strdup_printf("its version %u", i + 1);
	if (!agent->damage && agent->active > (gint64)found->len)
		agent->damage = g_strdup("its active version");
	if (!agent->damage)
		return;
	if (found->len > 0)
		last = MAX(last, ((const VialAgentVersion *)found->pdata[found->len - 1])->number);
	agent->versions = fill_holes(found, last);
	vial_log_error("agent",
	               "it has lost a version and cannot be called: repair the table agent_versions and start viald again, or delete the agent",
	               "agent", agent->name, "project", agent->project, "lost", agent->damage);
}

gboolean vial_agent_check_whole(const VialAgent *agent, GError **error)
{
	return !agent->damage ||
	       vial_fail(
		       error, VIAL_ERROR_CONFLICT,
		       "the agent \"%s\" has lost %s: it cannot be called until whoever keeps this Vial has repaired its records; it can be deleted",
		       agent->name, agent->damage);
}

static VialAgent *from_record(VialApp *app, const VialAgentRecord *record, GError **error)
{
	g_autoptr(json_t) document = vial_json_parse_object(record->document, strlen(record->document), error);
	const char *description = json_string_value(json_object_get(document, "description"));
	VialAgent *agent;

	if (!document) {
		g_prefix_error(error, "the record of the agent \"%s\" cannot be read; repair its row in the database: ", record->name);
		return NULL;
	}
	agent = agent_new(app, record->id, record->project, record->name);
	agent->description = g_strdup(description ? description : "");
	agent->is_deleting = strcmp(record->state, "deleting") == 0;
	agent->active = agent->stored_active = record->active;
	agent->created_at_ms = record->created_at;
	return agent;
}

VialAgents *vial_agents_load(VialApp *app, GError **error)
{
	g_autoptr(GPtrArray) records = vial_store_load_agents(app->store, error);
	g_autoptr(GHashTable) by_id = g_hash_table_new(g_str_hash, g_str_equal);
	gboolean is_good = records != NULL;
	VialAgents *agents;

	if (!records)
		return NULL;
	agents = g_new0(VialAgents, 1);
	agents->app = app;
	agents->by_name = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, vial_agent_unref);
	for (guint i = 0; i < records->len && is_good; i++) {
		VialAgent *agent = from_record(app, records->pdata[i], error);

		is_good = agent != NULL;
		if (agent) {
			g_hash_table_insert(agents->by_name, key_of(agent->project, agent->name), agent);
			g_hash_table_insert(by_id, agent->id, agent);
		}
	}
	is_good = is_good && load_versions(app->store, by_id, error);
	if (is_good) {
		GHashTableIter iter;
		gpointer value;

		g_hash_table_iter_init(&iter, agents->by_name);
		while (g_hash_table_iter_next(&iter, NULL, &value))
			check_numbers(value);
	}
	if (!is_good)
		g_clear_pointer(&agents, vial_agents_free);
	return agents;
}

void vial_agents_free(VialAgents *agents)
{
	if (!agents)
		return;
	g_hash_table_unref(agents->by_name);
	g_free(agents);
}

/* Finding */

gboolean vial_agent_name_is_valid(const char *name)
{
	gsize length = strlen(name);

	for (const char *c = name; *c; c++)
		if (!g_ascii_isalnum(*c) && (c == name || !strchr("._-", *c)))
			return FALSE;
	return length > 0 && length <= VIAL_AGENT_NAME_MAX_BYTES;
}

VialAgent *vial_agents_find_any(const VialAgents *agents, const char *project, const char *name)
{
	g_autofree char *key = key_of(project, name);

	return g_hash_table_lookup(agents->by_name, key);
}

VialAgent *vial_agents_find(const VialAgents *agents, const char *project, const char *name)
{
	VialAgent *agent = vial_agents_find_any(agents, project, name);

	return agent && !agent->is_deleting ? agent : NULL;
}

static int by_name(gconstpointer a, gconstpointer b)
{
	return strcmp((*(VialAgent *const *)a)->name, (*(VialAgent *const *)b)->name);
}

GPtrArray *vial_agents_list(const VialAgents *agents, const char *project)
{
	GPtrArray *list = g_ptr_array_new();
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, agents->by_name);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		const VialAgent *agent = value;

		if (!agent->is_deleting && strcmp(agent->project, project) == 0)
			g_ptr_array_add(list, value);
	}
	g_ptr_array_sort(list, by_name);
	return list;
}

VialAgentVersion *vial_agent_version(const VialAgent *agent, gint64 number)
{
	return number >= 1 && number <= (gint64)agent->versions->len ? agent->versions->pdata[number - 1] : NULL;
}

/* Changing */

VialAgent *vial_agents_create(VialApp *app, const char *project, const char *name, const char *description, VialStoreDone done, gpointer data,
                              GError **error)
{
	g_autofree char *id = vial_id_new();
	const VialAgent *old = vial_agents_find_any(app->agents, project, name);
	VialAgent *agent;

	if (old) {
		vial_fail(error, VIAL_ERROR_CONFLICT,
		          old->is_deleting ? "the agent \"%s\" is just being deleted; try again when its sandboxes have ended"
		                           : "there is an agent \"%s\" already; a change of it is a new version",
		          name);
		return NULL;
	}
	agent = agent_new(app, id, project, name);
	agent->description = g_strdup(description ? description : "");
	agent->created_at_ms = vial_time_now_ms();
	g_hash_table_insert(app->agents->by_name, key_of(project, name), agent);
	vial_agent_store(agent, done, data);
	return agent;
}

void vial_agent_forget(VialAgent *agent, VialStoreDone done, gpointer data)
{
	VialStore *store = agent->app->store;
	g_autofree char *key = key_of(agent->project, agent->name);

	for (guint i = 0; i < agent->versions->len; i++) {
		g_autofree char *id = vial_agent_version_id(agent, ((const VialAgentVersion *)agent->versions->pdata[i])->number);

		vial_store_delete_agent_version(store, id, NULL, NULL);
	}
	vial_agent_changes_forget(agent);
	vial_store_delete_agent(store, agent->id, done, data);
	g_hash_table_remove(agent->app->agents->by_name, key);
}

/* With its project */

void vial_agents_close_project(VialApp *app, const char *project)
{
	g_autoptr(GPtrArray) list = vial_agents_list(app->agents, project);

	for (guint i = 0; i < list->len; i++) {
		((VialAgent *)list->pdata[i])->is_deleting = TRUE;
		vial_sessions_cancel(list->pdata[i]);
	}
}

guint vial_agents_sessions_in(VialApp *app, const char *project)
{
	GHashTableIter iter;
	gpointer value;
	guint count = 0;

	g_hash_table_iter_init(&iter, app->agents->by_name);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (strcmp(((VialAgent *)value)->project, project) == 0)
			count += vial_sessions_count(value);
	return count;
}

void vial_agents_forget_project(VialApp *app, const char *project)
{
	g_autoptr(GPtrArray) gone = g_ptr_array_new();
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->agents->by_name);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (strcmp(((VialAgent *)value)->project, project) == 0)
			g_ptr_array_add(gone, value);
	for (guint i = 0; i < gone->len; i++)
		vial_agent_forget(gone->pdata[i], NULL, NULL);
}
