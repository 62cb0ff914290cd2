/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/projects.h"

#include <string.h>

#include "audit/query.h"
#include "operations/entry.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "service/meter.h"
#include "service/quota.h"
#include "util/json.h"

typedef struct {
	VialEntry *entry;
	const VialProject *project; /* NULL: it is gone */
	gboolean is_quota;
	VialApp *app;
	VialDocumentDone done;
	gpointer data;
} Change;

static json_t *quota_json(VialApp *app, const VialProject *project)
{
	return json_pack("{s:s, s:o, s:o, s:o}", "project", project->name, "quotas", vial_quotas_json(project->quotas), "used",
	                 vial_quota_used_json(app, project->name), "by", vial_quota_by_json(app, project->name));
}

static void on_changed(const GError *error, gpointer data)
{
	g_autofree Change *change = data;
	g_autoptr(GError) unrecorded = NULL;
	g_autoptr(json_t) document = NULL;

	error = vial_entry_settle(change->entry, error, &unrecorded);
	if (!error && change->project)
		document = change->is_quota ? quota_json(change->app, change->project) : vial_project_json(change->project);
	change->done(document, error, change->data);
}

static Change *change_new(const VialCaller *caller, VialEntry *entry, const VialProject *project, VialDocumentDone done, gpointer data)
{
	Change *change = g_new0(Change, 1);

	*change = (Change){ .entry = entry, .app = caller->app, .project = project, .done = done, .data = data };
	return change;
}

/* Reading */

json_t *vial_op_project_list(const VialCaller *caller, GError **error)
{
	g_autoptr(GPtrArray) list = NULL;
	json_t *answer;

	if (!vial_operation_admit(caller, VIAL_VERB_PROJECT_READ, NULL, 0, NULL, error))
		return NULL;
	list = vial_projects_list(caller->app->projects);
	answer = json_array();
	for (guint i = 0; i < list->len; i++)
		json_array_append_new(answer, vial_project_json(list->pdata[i]));
	return answer;
}

static VialProject *find(const VialCaller *caller, VialVerb verb, const char *name, GError **error)
{
	const char *found;

	if (!vial_operation_admit(caller, verb, NULL, 0, NULL, error) || !(found = vial_operation_project(caller, verb, name, error)))
		return NULL;
	return vial_projects_find(caller->app->projects, found);
}

json_t *vial_op_project_get(const VialCaller *caller, const char *name, GError **error)
{
	const VialProject *project = find(caller, VIAL_VERB_PROJECT_READ, name, error);

	return project ? vial_project_json(project) : NULL;
}

json_t *vial_op_quota_get(const VialCaller *caller, const char *name, GError **error)
{
	const VialProject *project = find(caller, VIAL_VERB_QUOTA_READ, name, error);

	return project ? quota_json(caller->app, project) : NULL;
}

/* Changing */

/* On top of what there is; NULL with an error. */
static VialQuotas *read_quotas(const VialQuotas *old, const VialProjectRequest *request, GError **error)
{
	VialQuotas *quotas = old ? vial_quotas_copy(old) : vial_quotas_new();

	if ((!request->quotas || vial_quotas_read(quotas, request->quotas, TRUE, error)) &&
	    (!request->ceilings || vial_quotas_read(quotas, request->ceilings, TRUE, error)))
		return quotas;
	vial_quotas_free(quotas);
	return NULL;
}

static gboolean check_description(const char *description, GError **error)
{
	/* "" takes it away. */
	return !description || !*description || vial_check_label("description", description, VIAL_PROJECT_DESCRIPTION_MAX_BYTES, error);
}

gboolean vial_op_project_create(const VialCaller *caller, const VialProjectRequest *request, VialDocumentDone done, gpointer data, GError **error)
{
	GError *refusal = NULL;
	VialQuotas *quotas;
	VialEntry *entry;
	Change *change;

	if (!vial_operation_admit(caller, VIAL_VERB_PROJECT_CREATE, NULL, 0, NULL, error) ||
	    !vial_check_required("name", request->name, VIAL_NAME_MAX_BYTES, error) || !check_description(request->description, error))
		return FALSE;
	if (!vial_project_name_is_valid(request->name))
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "field \"name\" must be of small letters, digits and, not at its ends, dashes: at most %d",
		                 VIAL_PROJECT_NAME_MAX_BYTES);
	if (!(quotas = read_quotas(NULL, request, error)))
		return FALSE;
	entry = vial_entry_begin_in(
		caller, VIAL_VERB_PROJECT_CREATE, request->name,
		json_pack("{s:s, s:o, s:b}", "name", request->name, "quotas", vial_quotas_json(quotas), "legal_hold", request->legal_hold > 0),
		error);
	if (!entry) {
		vial_quotas_free(quotas);
		return FALSE;
	}
	change = change_new(caller, entry, NULL, done, data);
	change->project =
		vial_projects_create(caller->app, request->name, request->description, quotas, request->legal_hold > 0, on_changed, change, &refusal);
	if (change->project)
		return TRUE;
	vial_entry_settle(entry, refusal, NULL);
	g_free(change);
	g_propagate_error(error, refusal);
	return FALSE;
}

gboolean vial_op_project_change(const VialCaller *caller, const char *name, const VialProjectRequest *request, VialDocumentDone done, gpointer data,
                                GError **error)
{
	VialProject *project = find(caller, VIAL_VERB_PROJECT_CHANGE, name, error);
	VialQuotas *quotas;
	VialEntry *entry;
	json_t *body;

	if (!project || !check_description(request->description, error) || !(quotas = read_quotas(project->quotas, request, error)))
		return FALSE;
	body = json_pack("{s:s, s:s*, s:o, s:o}", "name", project->name, "description", request->description, "before",
	                 vial_quotas_json(project->quotas), "quotas", vial_quotas_json(quotas));
	if (request->legal_hold >= 0)
		json_object_set_new(body, "legal_hold", json_boolean(request->legal_hold));
	if (!(entry = vial_entry_begin_in(caller, VIAL_VERB_PROJECT_CHANGE, project->name, body, error))) {
		vial_quotas_free(quotas);
		return FALSE;
	}
	vial_project_change(caller->app, project, request->description, quotas, request->legal_hold, on_changed,
	                    change_new(caller, entry, project, done, data));
	return TRUE;
}

gboolean vial_op_quota_put(const VialCaller *caller, const char *name, json_t *json, VialDocumentDone done, gpointer data, GError **error)
{
	VialProject *project = find(caller, VIAL_VERB_QUOTA_CHANGE, name, error);
	VialProjectRequest request = { .quotas = json };
	VialQuotas *quotas;
	VialEntry *entry;
	Change *change;

	if (!project || !(quotas = read_quotas(NULL, &request, error)))
		return FALSE;
	entry = vial_entry_begin_in(
		caller, VIAL_VERB_QUOTA_CHANGE, project->name,
		json_pack("{s:s, s:o, s:o}", "name", project->name, "before", vial_quotas_json(project->quotas), "quotas", vial_quotas_json(quotas)),
		error);
	if (!entry) {
		vial_quotas_free(quotas);
		return FALSE;
	}
	change = change_new(caller, entry, project, done, data);
	change->is_quota = TRUE;
	vial_project_change(caller->app, project, NULL, quotas, -1, on_changed, change);
	return TRUE;
}

gboolean vial_op_project_delete(const VialCaller *caller, const char *name, VialDocumentDone done, gpointer data, GError **error)
{
	VialProject *project = find(caller, VIAL_VERB_PROJECT_DELETE, name, error);
	VialEntry *entry;

	if (!project)
		return FALSE;
	if (strcmp(project->name, VIAL_DEFAULT_PROJECT) == 0)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "the project " VIAL_DEFAULT_PROJECT " is the operator's and cannot be deleted");
	if (!(entry = vial_entry_begin_in(caller, VIAL_VERB_PROJECT_DELETE, project->name, json_pack("{s:s}", "name", project->name), error)))
		return FALSE;
	vial_project_delete(caller->app, project, on_changed, change_new(caller, entry, NULL, done, data));
	return TRUE;
}

/* Usage */

static gboolean check_day(const char *field, const char *day, GError **error)
{
	g_autoptr(GDateTime) date = NULL;
	g_autofree char *text = day ? g_strdup_printf("%.10sT00:00:00Z", day) : NULL;

	if (!day)
		return TRUE;
	date = strlen(day) == strlen("YYYY-MM-DD") ? g_date_time_new_from_iso8601(text, NULL) : NULL;
	return date || vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be a day as 2026-01-31", field);
}

static gboolean read_groups(const char *text, VialUsageQuestion *out, GError **error)
{
	g_auto(GStrv) words = g_strsplit(text ? text : "day", ",", -1);
	const struct {
		const char *name;
		gboolean *flag;
	} groups[] = {
		{ "day", &out->by_day }, { "template", &out->by_template }, { "agent", &out->by_agent },
		{ "key", &out->by_key }, { "project", &out->by_project },
	};

	for (char **word = words; *word; word++) {
		gboolean is_known = FALSE;

		g_strstrip(*word);
		for (gsize i = 0; i < G_N_ELEMENTS(groups); i++) {
			if (strcmp(*word, groups[i].name) == 0)
				*groups[i].flag = is_known = TRUE;
		}
		if (!is_known && strcmp(*word, "none") != 0)
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"group_by\" must be of day, template, agent, key and project, or none");
	}
	return TRUE;
}

gboolean vial_op_usage_read(const VialCaller *caller, const char *project, const char *from, const char *to, const char *group_by,
                            VialDocumentDone done, gpointer data, GError **error)
{
	VialUsageQuestion question = { .from = from, .to = to };
	gboolean is_all = project && strcmp(project, "*") == 0 && vial_identity_is_operator(caller->principal);

	if (!vial_operation_admit(caller, VIAL_VERB_USAGE_READ, NULL, 0, NULL, error) ||
	    (!is_all && !(question.project = vial_operation_project(caller, VIAL_VERB_USAGE_READ, project, error))) ||
	    !check_day("from", from, error) || !check_day("to", to, error) || !read_groups(group_by, &question, error))
		return FALSE;
	/* Up to now, not up to the last minute. */
	vial_meter_charge_all(caller->app->meter);
	vial_audit_usage(caller->app->audit, &question, done, data);
	return TRUE;
}
