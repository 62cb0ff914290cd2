/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox of a session, found or made:
 *
 *   call → it has one that lives ──────────────────────────────────────────────→ opened
 *        → somebody makes it: waits ────────────────────────────────────────────↗
 *        → none, or one that died: [the dead one is deleted] → create → [set up] ↗
 *
 * While it is made, the session holds its Opening, and everybody who calls the session waits there. Who came first is the one on whose behalf it is
 * made; if only his key may not, the next one tries.
 */
#include <string.h>

#include "operations/agents_private.h"
#include "operations/facts.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "service/sessions.h"
#include "util/json.h"
#include "util/log.h"

typedef struct {
	VialIdentity *principal;
	char *language; /* NULL: unsaid */
	VialAgentOpened opened;
	gpointer data;
} Waiter;

typedef struct {
	VialApp *app;
	VialSession *session;
	GQueue waiters; /* Waiter; the first is whom it is made for */
	VialEntry *entry;
	VialSandbox *sandbox; /* once it is made */
	char *lost;
} Opening;

static void make(Opening *opening, const VialCaller *caller);

static void waiter_free(Waiter *waiter)
{
	vial_identity_unref(waiter->principal);
	g_free(waiter->language);
	g_free(waiter);
}

static const json_t *document_of(const VialSession *session)
{
	return vial_agent_version(session->agent, session->version)->document;
}

/* Telling */

static VialAgentPlace place_of(const VialSession *session, VialSandbox *sandbox, const char *language)
{
	return (VialAgentPlace){ .sandbox = sandbox,
		                 .agent = session->agent->name,
		                 .session = session->name,
		                 .user = *session->user ? session->user : NULL,
		                 .version = session->version,
		                 .language = language };
}

/* What is told may end the session, the agent, everything: only the waiter and copies are used afterwards. */
static void tell(Opening *opening, Waiter *waiter, const GError *error)
{
	const VialSession *session = opening->session;

	if (error) {
		waiter->opened(NULL, error, waiter->data);
	} else {
		VialAgentPlace place = place_of(session, opening->sandbox, waiter->language);

		place.is_fresh = TRUE;
		place.lost = opening->lost;
		waiter->opened(&place, NULL, waiter->data);
	}
	waiter_free(waiter);
}

static void end(Opening *opening, const GError *error)
{
	VialSession *session = opening->session;
	Waiter *waiter;

	/* Those who come from now on find what there is, also from within what is told; the session stays until all have heard. */
	while ((waiter = g_queue_pop_head(&opening->waiters)))
		tell(opening, waiter, error);
	session->opening = NULL;
	session->is_cancelled = FALSE;
	vial_session_settle(session);
	if (opening->sandbox)
		vial_sandbox_unref(opening->sandbox);
	g_free(opening->lost);
	g_free(opening);
}

static void on_useless_gone(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Opening *opening = data;
	g_autoptr(GError) told =
		g_error_new(VIAL_ERROR, VIAL_ERROR_CONFLICT, "the session %s was ended while its sandbox was being made", opening->session->name);

	end(opening, told);
}

/* TRUE when it was ended meanwhile, and with it this. */
static gboolean is_over(Opening *opening)
{
	VialSandbox *sandbox = opening->sandbox;

	if (!opening->session->is_cancelled && !(sandbox && vial_sandbox_is_ending(sandbox)))
		return FALSE;
	if (sandbox)
		vial_sandbox_delete(sandbox, on_useless_gone, opening);
	else
		on_useless_gone(NULL, NULL, opening);
	return TRUE;
}

/* Making */

static void on_prepared(const GError *error, gpointer data)
{
	Opening *opening = data;

	if (is_over(opening))
		return;
	/* A record that cannot be written only loses that it is ready: after a crash its session gets another. */
	if (error)
		vial_log_error("agent", "that a sandbox is ready could not be stored", "sandbox_id", vial_sandbox_id(opening->sandbox), "error",
		               error->message);
	vial_sandbox_called(opening->sandbox);
	end(opening, NULL);
}

typedef struct {
	Opening *opening;
	GError *error;
} Failure;

static void on_failed_gone(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autofree Failure *failure = data;

	end(failure->opening, failure->error);
	g_error_free(failure->error);
}

static void on_set_up(const GError *error, gpointer data)
{
	Opening *opening = data;
	Failure *failure;

	if (is_over(opening))
		return;
	if (!error)
		return vial_sandbox_prepared(opening->sandbox, on_prepared, opening);
	failure = g_new0(Failure, 1);
	*failure = (Failure){ opening, g_error_copy(error) };
	vial_sandbox_record(opening->sandbox, "sandbox.delete", "it could not be made ready for its session");
	vial_sandbox_delete(opening->sandbox, on_failed_gone, failure);
}

/* Whose key it is decides about this error. */
static gboolean is_personal(const GError *error)
{
	return error->domain == VIAL_ERROR &&
	       (error->code == VIAL_ERROR_FORBIDDEN || error->code == VIAL_ERROR_QUOTA || error->code == VIAL_ERROR_UNAUTHORIZED);
}

static void on_unmade(Opening *opening, const GError *error)
{
	if (is_personal(error)) {
		tell(opening, g_queue_pop_head(&opening->waiters), error);
		if (opening->waiters.length > 0)
			return make(opening, NULL);
	}
	end(opening, error);
}

static void on_made(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Opening *opening = data;
	const Waiter *first = opening->waiters.head->data;
	const json_t *document = document_of(opening->session);
	g_autoptr(GError) unrecorded = NULL;

	if (sandbox) {
		opening->sandbox = vial_sandbox_ref(sandbox);
		vial_entry_set_sandbox(opening->entry, sandbox);
	}
	error = vial_entry_settle(g_steal_pointer(&opening->entry), error, &unrecorded);
	if (sandbox && error) {
		Failure *failure = g_new0(Failure, 1);

		*failure = (Failure){ opening, g_error_copy(error) };
		vial_sandbox_delete(sandbox, on_failed_gone, failure);
		return;
	}
	if (is_over(opening))
		return;
	if (error)
		return on_unmade(opening, error);
	if (vial_agent_needs_setup(document))
		return vial_agent_setup(opening->app, first->principal, sandbox, document, on_set_up, opening);
	on_prepared(NULL, opening);
}

static VialSandboxCreate create_of(const VialSession *session)
{
	const json_t *document = document_of(session);
	gboolean never_expire = json_is_true(json_object_get(document, "never_expire"));

	return (VialSandboxCreate){
		.template_name = json_string_value(json_object_get(document, "template")),
		.cpu = json_number_value(json_object_get(document, "cpu")),
		.memory_mb = json_integer_value(json_object_get(document, "memory_mb")),
		.ttl_seconds = VIAL_TTL_LONGEST,
		.idle_seconds = json_integer_value(json_object_get(document, "idle_seconds")),
		.on_idle = never_expire ? VIAL_ON_IDLE_HIBERNATE : VIAL_ON_IDLE_DELETE,
		.persistent = never_expire,
		.metadata = json_object_get(document, "metadata"),
		.env = json_object_get(document, "env"),
		.network = json_object_get(document, "network"),
		.agent = session->agent->name,
		.session = session->name,
		.user = session->user,
		.version = session->version,
		.is_unprepared = vial_agent_needs_setup(document),
	};
}

/* For the first who waits; `caller` is him, while that is still known. */
static void make(Opening *opening, const VialCaller *caller)
{
	const VialSession *session = opening->session;
	const Waiter *first = opening->waiters.head->data;
	VialAbout about = { session->agent->name, session->name, session->user, session->version };
	VialCaller maker = { .app = opening->app, .principal = first->principal, .origin = caller ? caller->origin : NULL, .about = &about };
	VialSandboxCreate create = create_of(session);
	g_autoptr(GError) error = NULL;
	json_t *body;

	if (is_over(opening))
		return;
	if (!vial_operation_has_room(opening->app, 1, &error)) {
		vial_entry_refuse(&maker, VIAL_VERB_SANDBOX_CREATE, NULL, NULL, error);
		return end(opening, error);
	}
	body = json_pack("{s:s, s:b, s:I}", "template", create.template_name, "persistent", create.persistent, "idle_seconds",
	                 (json_int_t)create.idle_seconds);
	vial_facts_copy(body, "network", create.network);
	vial_facts_env(body, create.env);
	if (!(opening->entry = vial_entry_begin(&maker, VIAL_VERB_SANDBOX_CREATE, NULL, body, &error)))
		return on_unmade(opening, error);
	vial_sandboxes_create(opening->app, first->principal, &create, on_made, opening);
}

static void on_old_gone(VialSandbox *sandbox, const GError *error, gpointer data)
{
	make(data, NULL);
}

/* Calling */

static void wait_for(Opening *opening, const VialCaller *caller, const char *language, VialAgentOpened opened, gpointer data)
{
	Waiter *waiter = g_new0(Waiter, 1);

	*waiter = (Waiter){
		.principal = vial_identity_ref((VialIdentity *)caller->principal), .language = g_strdup(language), .opened = opened, .data = data
	};
	g_queue_push_tail(&opening->waiters, waiter);
}

static void open_new(const VialCaller *caller, VialSession *session, const char *language, VialAgentOpened opened, gpointer data)
{
	VialSandbox *old = session->sandbox_id ? g_hash_table_lookup(vial_sandboxes_table(caller->app->sandboxes), session->sandbox_id) : NULL;
	Opening *opening = g_new0(Opening, 1);

	*opening = (Opening){ .app = caller->app, .session = session };
	g_queue_init(&opening->waiters);
	session->opening = opening;
	wait_for(opening, caller, language, opened, data);
	if (!old)
		return make(opening, caller);
	opening->lost = g_strdup(vial_sandbox_reason(old));
	vial_sandbox_delete(old, on_old_gone, opening);
}

/* NULL with an error; the version's own choice where the call makes none, "" where neither does. */
static const char *choose_language(const VialAgentCall *call, const json_t *document, GError **error)
{
	const json_t *languages = json_object_get(document, "languages");
	g_autofree char *list = NULL;
	json_t *language;
	gsize i;

	if (!call->is_code || !languages)
		return call->language ? call->language : "";
	if (!call->language)
		return json_string_value(json_array_get(languages, 0));
	json_array_foreach (languages, i, language)
		if (strcmp(json_string_value(language), call->language) == 0)
			return call->language;
	list = json_dumps(languages, JSON_COMPACT);
	vial_fail(error, VIAL_ERROR_INVALID, "field \"language\": this version of the agent runs only %s", list);
	return NULL;
}

static VialAgentVersion *choose_version(const VialAgent *agent, gint64 number, GError **error)
{
	VialAgentVersion *version = vial_agent_version(agent, number == VIAL_UNSAID ? agent->active : number);

	if (version)
		return version;
	if (number == VIAL_UNSAID)
		vial_fail(error, VIAL_ERROR_CONFLICT, "the agent %s has no version yet: make one with POST /v1/agents/%s/versions", agent->name,
		          agent->name);
	else
		vial_fail(error, VIAL_ERROR_NOT_FOUND, "the agent %s has no version %" G_GINT64_FORMAT, agent->name, number);
	return NULL;
}

gboolean vial_check_segment(const char *field, const char *text, gsize max_bytes, GError **error)
{
	if (!vial_check_label(field, text, max_bytes, error))
		return FALSE;
	if (text && (!g_utf8_validate(text, -1, NULL) || strcmp(text, ".") == 0 || strcmp(text, "..") == 0))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" cannot be this", field);
	return TRUE;
}

gboolean vial_op_agent_open(const VialCaller *caller, VialVerb verb, const VialAgentCall *call, VialAgentOpened opened, gpointer data, GError **error)
{
	const char *name = call->session ? call->session : VIAL_DEFAULT_SESSION, *user = call->user ? call->user : "", *language;
	VialAgentVersion *version;
	VialSandbox *sandbox;
	VialSession *session;
	VialAgent *agent;

	if (!vial_operation_admit_agent(caller, verb, call->agent, &agent, error) ||
	    !vial_check_segment("session", call->session, VIAL_SESSION_NAME_MAX_BYTES, error) ||
	    !vial_check_segment("user", call->user, VIAL_SESSION_USER_MAX_BYTES, error) || !(version = choose_version(agent, call->version, error)) ||
	    !(language = choose_language(call, version->document, error)))
		return FALSE;
	if (!*language)
		language = NULL;
	session = vial_sessions_find(agent, version->number, user, name);
	if (session && session->opening) {
		wait_for(session->opening, caller, language, opened, data);
		return TRUE;
	}
	sandbox = session ? vial_session_sandbox(session) : NULL;
	if (sandbox && vial_sandbox_state(sandbox) != VIAL_STATE_FAILED) {
		VialAgentPlace place = place_of(session, sandbox, language);

		vial_sandbox_called(sandbox);
		opened(&place, NULL, data);
		return TRUE;
	}
	if (version->retired_at_ms > 0)
		return vial_fail(error, VIAL_ERROR_CONFLICT,
		                 "version %" G_GINT64_FORMAT
		                 " of the agent %s is retired and takes no new sessions, and there is no session %s of it",
		                 version->number, agent->name, name);
	if (!session)
		session = vial_sessions_add(agent, version->number, user, name);
	open_new(caller, session, language, opened, data);
	return TRUE;
}
