/* SPDX-License-Identifier: Apache-2.0 */
#include "service/sessions.h"

#include <string.h>

#include "service/sandbox_private.h"
#include "util/base64url.h"
#include "util/log.h"
#include "util/time.h"

/* Of a key: no name and no user has a control character in it. */
#define BETWEEN "\x1f"

static char *key_of(gint64 version, const char *user, const char *name)
{
	return g_strdup_printf("%" G_GINT64_FORMAT BETWEEN "%s" BETWEEN "%s", version, user, name);
}

static void session_free(gpointer data)
{
	VialSession *session = data;

	g_sequence_remove(session->place);
	g_free(session->key);
	g_free(session->name);
	g_free(session->user);
	g_free(session->sandbox_id);
	g_free(session);
}

void vial_sessions_init(VialAgent *agent)
{
	agent->sessions = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, session_free);
	agent->order = g_sequence_new(NULL);
}

void vial_sessions_clear(VialAgent *agent)
{
	g_hash_table_unref(agent->sessions);
	g_sequence_free(agent->order);
}

guint vial_sessions_count(const VialAgent *agent)
{
	return g_hash_table_size(agent->sessions);
}

VialSession *vial_sessions_find(const VialAgent *agent, gint64 version, const char *user, const char *name)
{
	g_autofree char *key = key_of(version, user, name);

	return g_hash_table_lookup(agent->sessions, key);
}

/* Newest first; of one moment, by key. */
static int compare(gconstpointer a, gconstpointer b, gpointer data)
{
	const VialSession *left = a, *right = b;

	if (left->created_at_ms != right->created_at_ms)
		return left->created_at_ms > right->created_at_ms ? -1 : 1;
	return strcmp(left->key, right->key);
}

static void set_created_at(VialSession *session, gint64 time_ms)
{
	session->created_at_ms = time_ms;
	if (session->place)
		g_sequence_remove(session->place);
	session->place = g_sequence_insert_sorted(session->agent->order, session, compare, NULL);
}

VialSession *vial_sessions_add(VialAgent *agent, gint64 version, const char *user, const char *name)
{
	VialSession *session = g_new0(VialSession, 1);

	*session = (VialSession){
		.agent = agent, .key = key_of(version, user, name), .version = version, .name = g_strdup(name), .user = g_strdup(user)
	};
	set_created_at(session, vial_time_now_ms());
	g_hash_table_insert(agent->sessions, session->key, session);
	vial_agent_version(agent, version)->n_sessions++;
	return session;
}

void vial_session_settle(VialSession *session)
{
	if (session->opening || session->sandbox_id)
		return;
	vial_agent_version(session->agent, session->version)->n_sessions--;
	g_hash_table_remove(session->agent->sessions, session->key);
}

VialSandbox *vial_session_sandbox(const VialSession *session)
{
	VialSandbox *sandbox = session->sandbox_id ? g_hash_table_lookup(session->agent->app->sandboxes->by_id, session->sandbox_id) : NULL;

	return sandbox && !vial_sandbox_is_ending(sandbox) ? sandbox : NULL;
}

json_t *vial_session_json(const VialSession *session)
{
	const VialSandbox *sandbox = vial_session_sandbox(session);
	char created[VIAL_TIME_TEXT_SIZE], called[VIAL_TIME_TEXT_SIZE];
	gboolean was_called = sandbox && sandbox->last_call_at_ms > 0;
	json_t *json;

	vial_time_fill(created, session->created_at_ms);
	if (was_called)
		vial_time_fill(called, sandbox->last_call_at_ms);
	json = json_pack("{s:s, s:s, s:I, s:s*, s:s*, s:s, s:s*, s:s, s:s*}", "id", session->name, "agent", session->agent->name, "version",
	                 (json_int_t)session->version, "user", *session->user ? session->user : NULL, "sandbox_id", sandbox ? sandbox->id : NULL,
	                 "state", vial_state_name(sandbox ? sandbox->state : VIAL_STATE_CREATING), "reason", sandbox ? sandbox->reason : NULL,
	                 "created_at", created, "last_call_at", was_called ? called : NULL);
	return json;
}

/* Which sandbox is whose */

static VialSession *session_of(const VialSandbox *sandbox)
{
	VialAgent *agent = sandbox->session ? vial_agents_find_any(sandbox->app->agents, sandbox->project, sandbox->agent) : NULL;

	return agent ? vial_sessions_find(agent, sandbox->version, sandbox->user, sandbox->session) : NULL;
}

void vial_session_bind(const VialSandbox *sandbox)
{
	VialAgent *agent = sandbox->session ? vial_agents_find_any(sandbox->app->agents, sandbox->project, sandbox->agent) : NULL;
	VialSession *session;

	if (!agent || !vial_agent_version(agent, sandbox->version))
		return;
	session = vial_sessions_find(agent, sandbox->version, sandbox->user, sandbox->session);
	if (!session)
		session = vial_sessions_add(agent, sandbox->version, sandbox->user, sandbox->session);
	if (session->sandbox_id && session->created_at_ms > sandbox->created_at_ms)
		return; /* a record that was damaged and has been repaired: the session has gone on without it */
	g_free(session->sandbox_id);
	session->sandbox_id = g_strdup(sandbox->id);
	set_created_at(session, sandbox->created_at_ms);
}

void vial_session_unbind(const VialSandbox *sandbox)
{
	VialSession *session = session_of(sandbox);

	if (!session || g_strcmp0(session->sandbox_id, sandbox->id) != 0)
		return;
	g_clear_pointer(&session->sandbox_id, g_free);
	vial_session_settle(session);
}

void vial_sessions_adopted(VialApp *app)
{
	g_autoptr(GPtrArray) all = vial_sandboxes_all(app->sandboxes);

	for (guint i = 0; i < all->len; i++) {
		VialSandbox *sandbox = all->pdata[i];
		const VialSession *session = sandbox->is_damaged ? NULL : session_of(sandbox);
		const char *why = NULL;

		if (!sandbox->session || sandbox->is_damaged)
			continue;
		if (!session)
			why = "its agent is gone";
		else if (sandbox->is_unprepared)
			why = "viald stopped before it was ready for its session";
		if (!why)
			continue;
		vial_log_info("agent", "ends a sandbox that no session can use", "sandbox_id", sandbox->id, "reason", why);
		vial_sandbox_record(sandbox, "sandbox.delete", why);
		vial_sandbox_delete(sandbox, NULL, NULL);
	}
}

/* Pages */

static gboolean is_meant(const VialSession *session, const VialSessionFilter *filter)
{
	const VialSandbox *sandbox;

	if ((filter->version > 0 && session->version != filter->version) || (filter->user && strcmp(session->user, filter->user) != 0) ||
	    (filter->name && strcmp(session->name, filter->name) != 0))
		return FALSE;
	if (filter->state < 0)
		return TRUE;
	sandbox = vial_session_sandbox(session);
	return (int)(sandbox ? sandbox->state : VIAL_STATE_CREATING) == filter->state;
}

/* When the page's last one was made, and its key: what comes behind it does so whether it is still there or not. */
static char *make_cursor(const VialSession *session)
{
	g_autofree char *text = g_strdup_printf("%" G_GINT64_FORMAT BETWEEN "%s", session->created_at_ms, session->key);
	char *cursor = g_base64_encode((const guchar *)text, strlen(text));

	g_strdelimit(cursor, "+", '-');
	g_strdelimit(cursor, "/", '_');
	*strchrnul(cursor, '=') = '\0';
	return cursor;
}

static GSequenceIter *find_start(VialAgent *agent, const char *cursor, GError **error)
{
	VialSession last = { 0 };
	gsize size = 0;
	g_autofree char *text = NULL;

	if (!cursor)
		return g_sequence_get_begin_iter(agent->order);
	text = (char *)vial_base64url_decode(cursor, strlen(cursor), &size);
	if (text && strlen(text) == size && (last.key = strstr(text, BETWEEN))) {
		*last.key++ = '\0';
		if (g_ascii_string_to_signed(text, 10, 0, G_MAXINT64, &last.created_at_ms, NULL))
			return g_sequence_search(agent->order, &last, compare, NULL); /* behind its like */
	}
	vial_fail(error, VIAL_ERROR_INVALID, "field \"cursor\" is none that a page ended with");
	return NULL;
}

GPtrArray *vial_sessions_page(VialAgent *agent, const VialSessionFilter *filter, const char *cursor, guint limit, char **out_next, GError **error)
{
	GSequenceIter *iter = find_start(agent, cursor, error);
	GPtrArray *page;

	if (!iter)
		return NULL;
	page = g_ptr_array_new();
	*out_next = NULL;
	for (; !g_sequence_iter_is_end(iter); iter = g_sequence_iter_next(iter)) {
		VialSession *session = g_sequence_get(iter);

		if (!is_meant(session, filter))
			continue;
		if (page->len == limit) {
			*out_next = make_cursor(page->pdata[page->len - 1]);
			break;
		}
		g_ptr_array_add(page, session);
	}
	return page;
}

/* Ending */

typedef struct {
	guint pending;
	VialStoreDone done;
	gpointer data;
	GError *error;
} Ending;

static void ending_step(Ending *ending)
{
	if (--ending->pending > 0)
		return;
	ending->done(ending->error, ending->data);
	g_clear_error(&ending->error);
	g_free(ending);
}

static void on_gone(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Ending *ending = data;

	if (error && !ending->error)
		ending->error = g_error_copy(error);
	ending_step(ending);
}

guint vial_sessions_end(VialAgent *agent, const VialSessionFilter *filter, const char *why, VialStoreDone done, gpointer data)
{
	g_autoptr(GPtrArray) sandboxes = g_ptr_array_new_with_free_func((GDestroyNotify)vial_sandbox_unref);
	Ending *ending = g_new0(Ending, 1);
	GHashTableIter iter;
	gpointer value;
	guint count = 0;

	*ending = (Ending){ .pending = 1, .done = done, .data = data };
	g_hash_table_iter_init(&iter, agent->sessions);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		VialSession *session = value;
		VialSandbox *sandbox;

		if (!is_meant(session, filter))
			continue;
		count++;
		session->is_cancelled = session->opening != NULL;
		sandbox = session->sandbox_id ? g_hash_table_lookup(agent->app->sandboxes->by_id, session->sandbox_id) : NULL;
		if (sandbox)
			g_ptr_array_add(sandboxes, vial_sandbox_ref(sandbox));
	}
	for (guint i = 0; i < sandboxes->len; i++) {
		ending->pending++;
		vial_sandbox_record(sandboxes->pdata[i], "sandbox.delete", why);
		vial_sandbox_delete(sandboxes->pdata[i], on_gone, ending);
	}
	ending_step(ending);
	return count;
}

void vial_sessions_cancel(VialAgent *agent)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, agent->sessions);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		((VialSession *)value)->is_cancelled = ((VialSession *)value)->opening != NULL;
}
