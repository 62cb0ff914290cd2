/* SPDX-License-Identifier: Apache-2.0 */
#include "service/project.h"

#include <string.h>

#include "audit/audit.h"
#include "service/project_private.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"

static const char *const state_names[] = {
	[VIAL_PROJECT_ACTIVE] = "active",
	[VIAL_PROJECT_DELETING] = "deleting",
	[VIAL_PROJECT_DELETED] = "deleted",
};

static void project_free(gpointer data)
{
	VialProject *project = data;

	vial_quotas_free(project->quotas);
	g_free(project->name);
	g_free(project->description);
	g_free(project);
}

json_t *vial_project_json(const VialProject *project)
{
	char created[VIAL_TIME_TEXT_SIZE];

	vial_time_fill(created, project->created_at_ms);
	return json_pack("{s:s, s:s, s:s, s:b, s:o, s:s}", "name", project->name, "description", project->description, "state",
	                 state_names[project->state], "legal_hold", project->legal_hold, "quotas", vial_quotas_json(project->quotas), "created_at",
	                 created);
}

/* In the store */

void vial_project_store(VialApp *app, const VialProject *project, VialStoreDone done, gpointer data)
{
	g_autoptr(json_t) document = json_pack("{s:s, s:b, s:o}", "description", project->description, "legal_hold", project->legal_hold, "quotas",
	                                       vial_quotas_json(project->quotas));
	g_autofree char *text = vial_json_dump(document);
	VialProjectRecord record = {
		.id = project->name,
		.state = (char *)state_names[project->state],
		.document = text,
		.created_at = project->created_at_ms,
		.updated_at = project->updated_at_ms,
	};

	vial_store_put_project(app->store, &record, done, data);
}

static gboolean read_state(const char *text, VialProjectState *out)
{
	for (gsize i = 0; i < G_N_ELEMENTS(state_names); i++) {
		if (strcmp(text, state_names[i]) == 0) {
			*out = (VialProjectState)i;
			return TRUE;
		}
	}
	return FALSE;
}

/* A limit that cannot be read must not become none: whoever keeps the database has to see to it. */
static VialProject *from_record(const VialProjectRecord *record, GError **error)
{
	g_autoptr(json_t) document = vial_json_parse_object(record->document, strlen(record->document), error);
	const json_t *quotas = json_object_get(document, "quotas");
	const char *description = json_string_value(json_object_get(document, "description"));
	VialProject *project = g_new0(VialProject, 1);

	project->name = g_strdup(record->id);
	project->description = g_strdup(description ? description : "");
	project->quotas = vial_quotas_new();
	project->legal_hold = json_is_true(json_object_get(document, "legal_hold"));
	project->created_at_ms = record->created_at;
	project->updated_at_ms = record->updated_at;
	if (document && read_state(record->state, &project->state) && (!quotas || vial_quotas_read(project->quotas, quotas, FALSE, error)))
		return project;
	project_free(project);
	if (!error || !*error)
		vial_fail(error, VIAL_ERROR_INVALID, "its state is none");
	g_prefix_error(error, "the record of the project \"%s\" cannot be read; repair its row in the database: ", record->id);
	return NULL;
}

/* Which bodies the audit keeps. */
static void tell_audit(VialApp *app)
{
	json_t *held = json_array();
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, app->projects->by_name);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (((VialProject *)value)->legal_hold)
			json_array_append_new(held, json_string(((VialProject *)value)->name));
	vial_audit_hold(app->audit, held);
}

static VialProject *add(VialApp *app, const char *name, const char *description, VialQuotas *quotas, gboolean legal_hold)
{
	VialProject *project = g_new0(VialProject, 1);

	*project = (VialProject){
		.name = g_strdup(name),
		.description = g_strdup(description ? description : ""),
		.quotas = quotas ? quotas : vial_quotas_new(),
		.legal_hold = legal_hold,
		.created_at_ms = vial_time_now_ms(),
	};
	project->updated_at_ms = project->created_at_ms;
	g_hash_table_insert(app->projects->by_name, project->name, project);
	return project;
}

VialProjects *vial_projects_load(VialApp *app, GError **error)
{
	g_autoptr(GPtrArray) records = vial_store_load_projects(app->store, error);
	VialProjects *projects;

	if (!records)
		return NULL;
	projects = g_new0(VialProjects, 1);
	projects->by_name = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, project_free);
	app->projects = projects;
	for (guint i = 0; i < records->len; i++) {
		VialProject *project = from_record(records->pdata[i], error);

		if (!project) {
			g_clear_pointer(&app->projects, vial_projects_free);
			return NULL;
		}
		g_hash_table_insert(projects->by_name, project->name, project);
	}
	if (!g_hash_table_contains(projects->by_name, VIAL_DEFAULT_PROJECT))
		vial_project_store(app, add(app, VIAL_DEFAULT_PROJECT, NULL, NULL, FALSE), NULL, NULL);
	tell_audit(app);
	return projects;
}

void vial_projects_free(VialProjects *projects)
{
	if (!projects)
		return;
	g_hash_table_unref(projects->by_name);
	g_free(projects);
}

/* Finding */

VialProject *vial_projects_find(const VialProjects *projects, const char *name)
{
	VialProject *project = g_hash_table_lookup(projects->by_name, name);

	return project && project->state == VIAL_PROJECT_ACTIVE ? project : NULL;
}

static int by_name(gconstpointer a, gconstpointer b)
{
	return strcmp((*(VialProject *const *)a)->name, (*(VialProject *const *)b)->name);
}

GPtrArray *vial_projects_list(const VialProjects *projects)
{
	GPtrArray *list = g_ptr_array_new();
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, projects->by_name);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (((VialProject *)value)->state == VIAL_PROJECT_ACTIVE)
			g_ptr_array_add(list, value);
	g_ptr_array_sort(list, by_name);
	return list;
}

/* Changing */

VialProject *vial_projects_create(VialApp *app, const char *name, const char *description, VialQuotas *quotas, gboolean legal_hold,
                                  VialStoreDone done, gpointer data, GError **error)
{
	const VialProject *old = g_hash_table_lookup(app->projects->by_name, name);
	VialProject *project;

	if (old) {
		vial_quotas_free(quotas);
		vial_fail(error, VIAL_ERROR_CONFLICT,
		          old->state == VIAL_PROJECT_ACTIVE
		                  ? "there is a project \"%s\" already"
		                  : "there was a project \"%s\", and records of what was done in it: a name is not given twice, choose another",
		          name);
		return NULL;
	}
	project = add(app, name, description, quotas, legal_hold);
	if (legal_hold)
		tell_audit(app);
	vial_project_store(app, project, done, data);
	return project;
}

void vial_project_change(VialApp *app, VialProject *project, const char *description, VialQuotas *quotas, int legal_hold, VialStoreDone done,
                         gpointer data)
{
	if (description) {
		g_free(project->description);
		project->description = g_strdup(description);
	}
	if (quotas) {
		vial_quotas_free(project->quotas);
		project->quotas = quotas;
	}
	if (legal_hold >= 0) {
		project->legal_hold = legal_hold;
		tell_audit(app);
	}
	project->updated_at_ms = vial_time_now_ms();
	vial_project_store(app, project, done, data);
}
