/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How versions come to be, and which is active. A number that was given away is a number that is stored, so:
 *
 *     adding: waits for the ones before it -> is stored, with its agent's record where it becomes the active one -> is there
 *
 * One that cannot be stored was never there, and those that wait for it are refused with it: their numbers would be behind a hole. Which version is
 * active is changed in memory at once, and is what the store has again when the last of such changes is over and has failed.
 */
#include "service/agent_weight.h"
#include "service/agents_private.h"
#include "util/error.h"
#include "util/json.h"
#include "util/time.h"

typedef struct {
	VialAgent *agent; /* a reference while it is being stored */
	gint64 number;
	VialAgentVersion *version; /* NULL: it is there already */
	gboolean is_activated;
	VialStoreDone done;
	gpointer data;
} Change;

static void store_next(VialAgent *agent);

static void change_free(gpointer data)
{
	Change *change = data;

	vial_agent_version_free(change->version);
	g_free(change);
}

VialAgentChanges *vial_agent_changes_new(void)
{
	VialAgentChanges *changes = g_new0(VialAgentChanges, 1);

	g_queue_init(&changes->adding);
	return changes;
}

void vial_agent_changes_free(VialAgentChanges *changes)
{
	g_queue_clear_full(&changes->adding, change_free);
	g_free(changes);
}

gint64 vial_agent_next_version(const VialAgent *agent)
{
	return (gint64)agent->versions->len + agent->changes->adding.length + 1;
}

gint64 vial_agent_changes_bytes(const VialAgent *agent)
{
	gint64 bytes = 0;

	for (const GList *at = agent->changes->adding.head; at; at = at->next)
		bytes += vial_agent_document_bytes(((const Change *)at->data)->version->document);
	return bytes;
}

char *vial_agent_version_id(const VialAgent *agent, gint64 number)
{
	return g_strdup_printf("%s/%" G_GINT64_FORMAT, agent->id, number);
}

void vial_agent_changes_forget(VialAgent *agent)
{
	g_autofree char *id = vial_agent_version_id(agent, (gint64)agent->versions->len + 1);

	if (agent->changes->adding.length > 0)
		vial_store_delete_agent_version(agent->app->store, id, NULL, NULL);
}

/* Those that never began. */
static void refuse_waiting(VialAgent *agent, const GError *error)
{
	Change *change;

	while ((change = g_queue_pop_head(&agent->changes->adding))) {
		change->done(error, change->data);
		change_free(change);
	}
}

static void settle_active(const Change *change, const GError *error)
{
	VialAgent *agent = change->agent;

	if (!error)
		agent->stored_active = change->number;
	if (--agent->changes->n_active == 0)
		agent->active = agent->stored_active;
}

static void go_on(VialAgent *agent, const GError *error)
{
	g_autoptr(GError) refusal = NULL;

	if (error)
		refusal = g_error_new(VIAL_ERROR, error->code, "the version before it could not be stored: %s", error->message);
	else if (agent->is_deleting)
		refusal = g_error_new(VIAL_ERROR, VIAL_ERROR_CONFLICT, "the agent \"%s\" is being deleted", agent->name);
	if (refusal)
		refuse_waiting(agent, refusal);
	else
		store_next(agent);
}

static void on_added(const GError *error, gpointer data)
{
	Change *change = data;
	VialAgent *agent = change->agent;

	g_queue_pop_head(&agent->changes->adding);
	if (!error)
		g_ptr_array_add(agent->versions, g_steal_pointer(&change->version));
	if (change->is_activated)
		settle_active(change, error);
	change->done(error, change->data);
	change_free(change);
	go_on(agent, error);
	vial_agent_unref(agent);
}

static void store_version(const VialAgent *agent, const VialAgentVersion *version, gboolean is_activated, VialStoreDone done, gpointer data)
{
	g_autofree char *id = vial_agent_version_id(agent, version->number), *text = vial_json_dump(version->document);
	VialAgentVersionRecord record = {
		.id = id,
		.agent_id = agent->id,
		.number = version->number,
		.document = text,
		.retired_at = version->retired_at_ms,
		.created_at = version->created_at_ms,
	};

	/* Together, so that no agent is ever found with an active version that is not there. */
	if (is_activated)
		vial_agent_store_active(agent, version->number, &record, done, data);
	else
		vial_store_put_agent_version(agent->app->store, &record, done, data);
}

static void store_next(VialAgent *agent)
{
	Change *change = g_queue_peek_head(&agent->changes->adding);

	if (!change)
		return;
	agent->refs++;
	change->is_activated |= agent->active == 0;
	agent->changes->n_active += change->is_activated;
	store_version(agent, change->version, change->is_activated, on_added, change);
}

void vial_agent_add_version(VialAgent *agent, json_t *document, gboolean is_activated, VialStoreDone done, gpointer data)
{
	Change *change = g_new0(Change, 1);
	VialAgentVersion *version = g_new0(VialAgentVersion, 1);

	*version = (VialAgentVersion){ .number = vial_agent_next_version(agent), .document = document, .created_at_ms = vial_time_now_ms() };
	*change = (Change){ .agent = agent, .number = version->number, .version = version, .is_activated = is_activated, .done = done, .data = data };
	g_queue_push_tail(&agent->changes->adding, change);
	if (agent->changes->adding.length == 1)
		store_next(agent);
}

static void on_activated(const GError *error, gpointer data)
{
	Change *change = data;

	settle_active(change, error);
	change->done(error, change->data);
	vial_agent_unref(change->agent);
	change_free(change);
}

void vial_agent_activate(VialAgent *agent, const VialAgentVersion *version, VialStoreDone done, gpointer data)
{
	Change *change = g_new0(Change, 1);

	*change = (Change){ .agent = agent, .number = version->number, .done = done, .data = data };
	agent->refs++;
	agent->changes->n_active++;
	agent->active = version->number;
	vial_agent_store(agent, on_activated, change);
}

void vial_agent_retire(VialAgent *agent, VialAgentVersion *version, VialStoreDone done, gpointer data)
{
	if (version->retired_at_ms == 0)
		version->retired_at_ms = vial_time_now_ms();
	store_version(agent, version, FALSE, done, data);
}
