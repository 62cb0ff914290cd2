/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/network.h"

#include "operations/entry.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "service/quota.h"
#include "service/slots.h"
#include "util/json.h"

#define DEFAULT_PORT 443

json_t *vial_op_network_get(const VialCaller *caller, const char *sandbox_id, GError **error)
{
	VialSandbox *sandbox;

	return vial_operation_admit(caller, VIAL_VERB_NETWORK_READ, sandbox_id, 0, &sandbox, error) ? vial_sandbox_network(sandbox) : NULL;
}

typedef struct {
	VialSandbox *sandbox;
	VialEntry *entry;
	VialDocumentDone done;
	gpointer data;
} Change;

static void on_stored(const GError *error, gpointer data)
{
	g_autofree Change *change = data;
	g_autoptr(GError) unrecorded = NULL;

	error = vial_entry_settle(change->entry, error, &unrecorded);
	change->done(error ? NULL : vial_sandbox_network(change->sandbox), error, change->data);
	vial_sandbox_unref(change->sandbox);
}

static void on_in_force(VialSandbox *sandbox, const GError *error, gpointer data)
{
	if (error)
		on_stored(error, data);
	else
		vial_sandbox_store_then(sandbox, on_stored, data);
}

static gboolean may_have(const VialCaller *caller, VialSandbox *sandbox, const json_t *network, GError **error)
{
	g_autoptr(GError) refusal = NULL;

	if (vial_ceiling_network(caller->app, caller->principal, json_string_value(json_object_get(network, "mode")), &refusal))
		return TRUE;
	vial_entry_refuse(caller, VIAL_VERB_NETWORK_CHANGE, sandbox, NULL, refusal);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return FALSE;
}

gboolean vial_op_network_put(const VialCaller *caller, const char *sandbox_id, json_t *policy, VialDocumentDone done, gpointer data, GError **error)
{
	VialSandbox *sandbox;
	json_t *network;
	VialEntry *entry;
	Change *change;

	if (!vial_operation_admit(caller, VIAL_VERB_NETWORK_CHANGE, sandbox_id, 0, &sandbox, error) ||
	    !(network = vial_slots_read_network(caller->app->config, policy, error)))
		return FALSE;
	if (!may_have(caller, sandbox, network, error) ||
	    !(entry = vial_entry_begin(caller, VIAL_VERB_NETWORK_CHANGE, sandbox,
	                               json_pack("{s:O, s:O}", "policy", network, "before", vial_sandbox_network(sandbox)), error))) {
		json_decref(network);
		return FALSE;
	}
	change = g_new0(Change, 1);
	*change = (Change){ vial_sandbox_ref(sandbox), entry, done, data };
	vial_sandbox_set_network(sandbox, network, on_in_force, change);
	return TRUE;
}

/* The running sandbox's slot. */
static VialNetSlot *find_slot(const VialCaller *caller, const char *sandbox_id, GError **error)
{
	VialSandbox *sandbox;
	VialNetSlot *slot;

	if (!vial_operation_admit(caller, VIAL_VERB_NETWORK_READ, sandbox_id, 0, &sandbox, error))
		return NULL;
	slot = vial_slots_find(caller->app->slots, vial_sandbox_host_id(sandbox));
	if (!slot)
		vial_fail(error, VIAL_ERROR_CONFLICT, "the sandbox is %s and has no network now", vial_state_name(vial_sandbox_state(sandbox)));
	return slot;
}

json_t *vial_op_network_check(const VialCaller *caller, const char *sandbox_id, const char *host, gint64 port, GError **error)
{
	VialNetSlot *slot = find_slot(caller, sandbox_id, error);

	if (!slot || !vial_check_required("host", host, VIAL_HOST_NAME_MAX_BYTES, error) || !vial_check_int("port", port, 1, 65535, error))
		return NULL;
	return vial_net_slot_check(slot, host, (guint16)(port != VIAL_UNSAID ? port : DEFAULT_PORT), error);
}

json_t *vial_op_network_events(const VialCaller *caller, const char *sandbox_id, guint64 after, gint64 limit, GError **error)
{
	VialNetSlot *slot = find_slot(caller, sandbox_id, error);

	if (!slot || !vial_check_int("limit", limit, 1, VIAL_NETWORK_EVENTS_MAX, error))
		return NULL;
	return vial_net_slot_events(slot, after, (guint)(limit != VIAL_UNSAID ? limit : VIAL_NETWORK_EVENTS_MAX));
}
