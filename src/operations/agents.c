/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/agents.h"

#include <string.h>

#include "operations/agents_private.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "service/agent_weight.h"
#include "service/forget.h"
#include "service/sessions.h"
#include "util/json.h"

/* Whoever waits for a change, its record, and what will be answered. */
typedef struct {
	VialEntry *entry;
	VialApp *app;
	char *project, *agent; /* not a pointer: it may be deleted meanwhile */
	gint64 version;        /* to be shown; 0: the agent itself; -1: nothing */
	json_t *document;      /* instead of both */
	VialDocumentDone done;
	VialOperationDone plain;
	gpointer data;
} Change;

static Change *change_new(const VialCaller *caller, VialEntry *entry, const char *agent, gint64 version, VialDocumentDone done, gpointer data)
{
	Change *change = g_new0(Change, 1);

	*change = (Change){ .entry = entry,
		            .app = caller->app,
		            .project = g_strdup(caller->principal->project),
		            .agent = g_strdup(agent),
		            .version = version,
		            .done = done,
		            .data = data };
	return change;
}

static json_t *document_of(const Change *change)
{
	const VialAgent *agent = change->agent && change->version >= 0 ? vial_agents_find(change->app->agents, change->project, change->agent) : NULL;
	const VialAgentVersion *version = agent && change->version > 0 ? vial_agent_version(agent, change->version) : NULL;

	if (change->document)
		return json_incref(change->document);
	if (version)
		return vial_agent_version_json(agent, version, TRUE);
	return agent ? vial_agent_json(agent) : NULL;
}

static void on_changed(const GError *error, gpointer data)
{
	Change *change = data;
	g_autoptr(GError) unrecorded = NULL;
	g_autoptr(json_t) document = NULL;

	error = vial_entry_settle(change->entry, error, &unrecorded);
	if (change->plain)
		change->plain(error, change->data);
	else
		change->done((document = error ? NULL : document_of(change)), error, change->data);
	json_decref(change->document);
	g_free(change->project);
	g_free(change->agent);
	g_free(change);
}

/* A record about an agent, or about a session of it. */
static VialEntry *begin(const VialCaller *caller, VialVerb verb, const VialAbout *about, json_t *body, GError **error)
{
	VialCaller told = *caller;

	told.about = about;
	return vial_entry_begin(&told, verb, NULL, body, error);
}

/* Agents */

json_t *vial_op_agent_list(const VialCaller *caller, GError **error)
{
	g_autoptr(GPtrArray) list = NULL;
	json_t *answer;

	if (!vial_operation_admit_agent(caller, VIAL_VERB_AGENT_READ, NULL, NULL, error))
		return NULL;
	list = vial_agents_list(caller->app->agents, caller->principal->project);
	answer = json_array();
	for (guint i = 0; i < list->len; i++)
		if (vial_allow_has_agent(caller->principal->allow, ((VialAgent *)list->pdata[i])->name))
			json_array_append_new(answer, vial_agent_json(list->pdata[i]));
	return answer;
}

json_t *vial_op_agent_get(const VialCaller *caller, const char *name, GError **error)
{
	VialAgent *agent;

	return vial_operation_admit_agent(caller, VIAL_VERB_AGENT_READ, name, &agent, error) ? vial_agent_json(agent) : NULL;
}

/* All of them are kept in memory, and with them what their versions say and bring. */
static gboolean has_place(const VialCaller *caller, guint more_agents, const json_t *more_document, GError **error)
{
	gint64 bytes;
	guint count;

	vial_agents_weigh(caller->app->agents, caller->principal->project, &count, &bytes);
	if (more_agents > 0 && count + more_agents > VIAL_AGENTS_MAX)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "a project has at most %d agents; delete those that nobody calls any more",
		                 VIAL_AGENTS_MAX);
	if (more_document && bytes + vial_agent_document_bytes(more_document) > VIAL_AGENT_VERSIONS_MAX_BYTES)
		return vial_fail(error, VIAL_ERROR_CONFLICT,
		                 "the versions of a project's agents take at most %" G_GINT64_FORMAT
		                 " MiB, their files above all, and these take %" G_GINT64_FORMAT
		                 "; delete agents that nobody calls any more, or put the files into a template",
		                 VIAL_AGENT_VERSIONS_MAX_BYTES / 1048576, bytes / 1048576);
	return TRUE;
}

gboolean vial_op_agent_create(const VialCaller *caller, const char *name, const char *description, VialDocumentDone done, gpointer data,
                              GError **error)
{
	VialAbout about = { .agent = name };
	GError *refusal = NULL;
	VialEntry *entry;
	Change *change;

	if (!vial_operation_admit_agent(caller, VIAL_VERB_AGENT_CREATE, NULL, NULL, error) ||
	    !vial_check_required("name", name, VIAL_AGENT_NAME_MAX_BYTES, error) ||
	    (description && *description && !vial_check_label("description", description, VIAL_AGENT_DESCRIPTION_MAX_BYTES, error)))
		return FALSE;
	if (!vial_agent_name_is_valid(name))
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "field \"name\" must be of letters, digits and, not at its beginning, dots, dashes and underscores: at most %d",
		                 VIAL_AGENT_NAME_MAX_BYTES);
	if (!vial_operation_admit_agent(caller, VIAL_VERB_AGENT_CREATE, name, NULL, error) || !has_place(caller, 1, NULL, error) ||
	    !(entry = begin(caller, VIAL_VERB_AGENT_CREATE, &about, json_pack("{s:s, s:s*}", "name", name, "description", description), error)))
		return FALSE;
	change = change_new(caller, entry, name, 0, done, data);
	if (vial_agents_create(caller->app, caller->principal->project, name, description, on_changed, change, &refusal))
		return TRUE;
	change->done = NULL;
	vial_entry_settle(g_steal_pointer(&change->entry), refusal, NULL);
	g_free(change->project);
	g_free(change->agent);
	g_free(change);
	g_propagate_error(error, refusal);
	return FALSE;
}

gboolean vial_op_agent_delete(const VialCaller *caller, const char *name, VialDocumentDone done, gpointer data, GError **error)
{
	VialAbout about = { .agent = name };
	VialAgent *agent;
	VialEntry *entry;

	if (!vial_operation_admit_agent(caller, VIAL_VERB_AGENT_DELETE, name, &agent, error) ||
	    !(entry = begin(caller, VIAL_VERB_AGENT_DELETE, &about,
	                    json_pack("{s:s, s:I}", "name", name, "sessions", (json_int_t)vial_sessions_count(agent)), error)))
		return FALSE;
	vial_agent_delete(agent, on_changed, change_new(caller, entry, name, -1, done, data));
	return TRUE;
}

/* Versions */

gboolean vial_op_agent_version_create(const VialCaller *caller, const char *name, const VialVersionRequest *request, VialDocumentDone done,
                                      gpointer data, GError **error)
{
	VialAbout about = { .agent = name };
	g_autoptr(json_t) document = NULL;
	VialEntry *entry;
	VialAgent *agent;

	if (!vial_operation_admit_agent(caller, VIAL_VERB_AGENT_VERSION, name, &agent, error) ||
	    !(document = vial_agent_version_read(caller, request, error)))
		return FALSE;
	about.version = vial_agent_next_version(agent);
	if (about.version > VIAL_AGENT_VERSIONS_MAX)
		return vial_fail(error, VIAL_ERROR_CONFLICT, "an agent has at most %d versions; make another agent", VIAL_AGENT_VERSIONS_MAX);
	if (!has_place(caller, 0, document, error))
		return FALSE;
	entry = begin(caller, VIAL_VERB_AGENT_VERSION, &about, vial_agent_version_facts(document), error);
	if (!entry)
		return FALSE;
	vial_agent_add_version(agent, g_steal_pointer(&document), request->activate, on_changed,
	                       change_new(caller, entry, name, about.version, done, data));
	return TRUE;
}

json_t *vial_op_agent_version_list(const VialCaller *caller, const char *name, GError **error)
{
	VialAgent *agent;
	json_t *answer;

	if (!vial_operation_admit_agent(caller, VIAL_VERB_AGENT_READ, name, &agent, error))
		return NULL;
	answer = json_array();
	for (guint i = agent->versions->len; i > 0; i--)
		json_array_append_new(answer, vial_agent_version_json(agent, agent->versions->pdata[i - 1], FALSE));
	return answer;
}

static VialAgentVersion *find_version(const VialCaller *caller, VialVerb verb, const char *name, gint64 number, VialAgent **out_agent, GError **error)
{
	VialAgentVersion *version;

	if (!vial_operation_admit_agent(caller, verb, name, out_agent, error))
		return NULL;
	if (!(version = vial_agent_version(*out_agent, number)))
		vial_fail(error, VIAL_ERROR_NOT_FOUND, "the agent %s has no such version: it has %u", name, (*out_agent)->versions->len);
	return version;
}

json_t *vial_op_agent_version_get(const VialCaller *caller, const char *name, gint64 number, GError **error)
{
	VialAgent *agent;
	const VialAgentVersion *version = find_version(caller, VIAL_VERB_AGENT_READ, name, number, &agent, error);

	return version ? vial_agent_version_json(agent, version, TRUE) : NULL;
}

/* One that drains is on its way out: what was good in it is a new version away. */
static gboolean may_change(const VialAgent *agent, const VialAgentVersion *version, VialVerb verb, GError **error)
{
	if (verb == VIAL_VERB_AGENT_ACTIVATE && version->retired_at_ms > 0)
		return vial_fail(error, VIAL_ERROR_CONFLICT,
		                 "version %" G_GINT64_FORMAT " is retired and cannot be activated; make a new version like it", version->number);
	if (verb == VIAL_VERB_AGENT_RETIRE && version->number == agent->active)
		return vial_fail(error, VIAL_ERROR_CONFLICT,
		                 "version %" G_GINT64_FORMAT
		                 " is the active one and cannot be retired; activate another version first, or delete the agent",
		                 version->number);
	return TRUE;
}

gboolean vial_op_agent_version_change(const VialCaller *caller, VialVerb verb, const char *name, gint64 number, VialDocumentDone done, gpointer data,
                                      GError **error)
{
	VialAbout about = { .agent = name, .version = number };
	VialAgent *agent;
	VialAgentVersion *version = find_version(caller, verb, name, number, &agent, error);
	VialEntry *entry;
	Change *change;

	if (!version || !may_change(agent, version, verb, error) ||
	    !(entry = begin(caller, verb, &about, json_pack("{s:I}", "before", (json_int_t)agent->active), error)))
		return FALSE;
	change = change_new(caller, entry, name, number, done, data);
	if (verb == VIAL_VERB_AGENT_ACTIVATE)
		vial_agent_activate(agent, version, on_changed, change);
	else
		vial_agent_retire(agent, version, on_changed, change);
	return TRUE;
}

/* Sessions */

json_t *vial_op_session_list(const VialCaller *caller, const char *name, const VialSessionsRequest *request, GError **error)
{
	VialSessionFilter filter = { .user = request->user, .state = -1 };
	VialState state = VIAL_STATE_RUNNING;
	g_autoptr(GPtrArray) page = NULL;
	g_autofree char *next = NULL;
	VialAgent *agent;
	json_t *items;

	if (!vial_operation_admit_agent(caller, VIAL_VERB_SESSION_READ, name, &agent, error) ||
	    !vial_check_int("limit", request->limit, 1, VIAL_PAGE_MAX, error) || !vial_check_int("version", request->version, 1, G_MAXINT32, error))
		return NULL;
	if (request->state && !vial_state_parse(request->state, &state))
		return vial_fail(error, VIAL_ERROR_INVALID, "state \"%.32s\" is not one a sandbox can be in", request->state), NULL;
	if (request->state)
		filter.state = (int)state;
	if (request->version != VIAL_UNSAID)
		filter.version = request->version;
	page = vial_sessions_page(agent, &filter, request->cursor, request->limit == VIAL_UNSAID ? VIAL_SESSIONS_PAGE : (guint)request->limit, &next,
	                          error);
	if (!page)
		return NULL;
	items = json_array();
	for (guint i = 0; i < page->len; i++)
		json_array_append_new(items, vial_session_json(page->pdata[i]));
	return json_pack("{s:o, s:s?}", "items", items, "next", next);
}

/* In the version that is asked for; else in the active one, else in the newest that has it. */
static VialSession *find_session(const VialAgent *agent, const char *session, const char *user, gint64 version)
{
	VialSession *found = NULL;

	if (version != VIAL_UNSAID)
		return vial_sessions_find(agent, version, user, session);
	if (agent->active > 0)
		found = vial_sessions_find(agent, agent->active, user, session);
	for (guint i = agent->versions->len; i > 0 && !found; i--)
		found = vial_sessions_find(agent, i, user, session);
	return found;
}

static gboolean no_session(const VialAgent *agent, const char *session, const char *user, GError **error)
{
	return vial_fail(error, VIAL_ERROR_NOT_FOUND, "the agent %s has no session %.128s of %s", agent->name, session,
	                 *user ? "that user" : "nobody in particular; name its user, if it has one");
}

json_t *vial_op_session_get(const VialCaller *caller, const char *name, const char *session, const char *user, gint64 version, GError **error)
{
	const VialSession *found;
	VialAgent *agent;

	if (!vial_operation_admit_agent(caller, VIAL_VERB_SESSION_READ, name, &agent, error))
		return NULL;
	user = user ? user : "";
	found = find_session(agent, session, user, version);
	if (!found)
		return no_session(agent, session, user, error), NULL;
	return vial_session_json(found);
}

gboolean vial_op_session_end(const VialCaller *caller, const char *name, const char *session, const char *user, gint64 version,
                             VialOperationDone done, gpointer data, GError **error)
{
	VialAbout about = { .agent = name, .session = session, .user = user, .version = version == VIAL_UNSAID ? 0 : version };
	VialSessionFilter filter = { .name = session, .user = user ? user : "", .version = about.version, .state = -1 };
	VialEntry *entry;
	VialAgent *agent;
	Change *change;

	if (!vial_operation_admit_agent(caller, VIAL_VERB_SESSION_END, name, &agent, error))
		return FALSE;
	if (!find_session(agent, session, filter.user, version))
		return no_session(agent, session, filter.user, error);
	if (!(entry = begin(caller, VIAL_VERB_SESSION_END, &about, NULL, error)))
		return FALSE;
	change = change_new(caller, entry, name, -1, NULL, data);
	change->plain = done;
	vial_sessions_end(agent, &filter, "its session was ended", on_changed, change);
	return TRUE;
}

/* Users */

static void on_forgotten(const VialForgotten *forgotten, const GError *error, gpointer data)
{
	Change *change = data;

	change->document = json_pack("{s:I, s:I, s:I}", "sessions", (json_int_t)forgotten->sessions, "sandboxes", (json_int_t)forgotten->sandboxes,
	                             "snapshots", (json_int_t)forgotten->snapshots);
	vial_entry_set(change->entry, "sessions", json_integer(forgotten->sessions));
	json_object_update(vial_entry_body(change->entry), change->document);
	on_changed(error, change);
}

gboolean vial_op_user_forget(const VialCaller *caller, const char *name, const char *user, VialDocumentDone done, gpointer data, GError **error)
{
	const VialAllow *allow = caller->principal ? caller->principal->allow : NULL;
	VialAbout about = { .agent = name, .user = user };
	g_autoptr(GPtrArray) all = NULL, agents = g_ptr_array_new();
	VialAgent *agent = NULL;
	VialEntry *entry;

	if (!vial_operation_admit_agent(caller, VIAL_VERB_USER_FORGET, name, &agent, error) ||
	    !vial_check_segment("user", user, VIAL_SESSION_USER_MAX_BYTES, error) ||
	    !(entry = begin(caller, VIAL_VERB_USER_FORGET, &about, NULL, error)))
		return FALSE;
	all = vial_agents_list(caller->app->agents, caller->principal->project);
	for (guint i = 0; i < all->len; i++)
		if (agent ? all->pdata[i] == agent : vial_allow_has_agent(allow, ((VialAgent *)all->pdata[i])->name))
			g_ptr_array_add(agents, all->pdata[i]);
	vial_user_forget(caller->app, caller->principal->project, agents, !agent && vial_allow_has_agent(allow, NULL), user, on_forgotten,
	                 change_new(caller, entry, name, -1, done, data));
	return TRUE;
}
