/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network policy of E2B's as one of ours. Theirs: everything is allowed but what is denied, and what is allowed by name or address is allowed in
 * any case; "0.0.0.0/0" in denyOut, or allow_internet_access false, closes the rest. Where nothing is said of that, the baseline is what this
 * surface's sandboxes have anyway (the setting e2b_network). Private and the host's addresses stay as closed as everywhere (docs/network.md).
 */
#include <string.h>

#include "operations/network.h"
#include "operations/surface_network.h"
#include "surfaces/e2b/control.h"
#include "util/json.h"

#define EVERYTHING "0.0.0.0/0"
#define EVERYTHING_HERE "ALL_TRAFFIC"

static gboolean refuse_unknown(const json_t *network, GError **error)
{
	static const struct {
		const char *field, *why;
	} refused[] = {
		{ "dnsServers", "the only resolver that a sandbox here can ask is its own, which asks the host's" },
		{ "egressProxy", "connections here leave by the host, and not by a proxy of the client's" },
		{ "rules", "what is said inside of connections is not changed here, so there are no transforms" },
		{ "maskRequestHost", "the programs in a sandbox are sent the Host that was asked for" },
		{ "httpsPorts", "TLS to the programs in a sandbox is not spoken here" },
	};

	for (gsize i = 0; i < G_N_ELEMENTS(refused); i++) {
		const json_t *value = json_object_get(network, refused[i].field);

		if (value && !json_is_null(value) && (json_is_string(value) || json_array_size(value) > 0 || json_object_size(value) > 0))
			return vial_fail(error, VIAL_ERROR_INVALID, "network.%s: %s", refused[i].field, refused[i].why);
	}
	return TRUE;
}

static json_t *renamed(const json_t *list, const char *from, const char *to)
{
	json_t *copy = json_array(), *entry;
	gsize i;

	json_array_foreach ((json_t *)list, i, entry)
		json_array_append_new(copy, g_strcmp0(json_string_value(entry), from) == 0 ? json_string(to) : json_incref(entry));
	return copy;
}

/* Their name for everything becomes ours; the rest is judged where policies are. */
static json_t *entries(const json_t *list)
{
	return renamed(list, EVERYTHING, EVERYTHING_HERE);
}

static json_t *entries_back(const json_t *list)
{
	return renamed(list, EVERYTHING_HERE, EVERYTHING);
}

static gboolean has_entry(const json_t *list, const char *wanted)
{
	json_t *entry;
	gsize i;

	json_array_foreach ((json_t *)list, i, entry)
		if (g_strcmp0(json_string_value(entry), wanted) == 0)
			return TRUE;
	return FALSE;
}

static gboolean has_everything(const json_t *list)
{
	return has_entry(list, EVERYTHING_HERE);
}

static gboolean is_open_anyway(const VialCaller *caller)
{
	g_autoptr(json_t) usual = vial_surface_network(caller);

	return g_strcmp0(json_string_value(json_object_get(usual, "mode")), "open") == 0;
}

static json_t *make_policy(gboolean is_open, const json_t *allow, const json_t *deny)
{
	json_t *policy;

	/* What is denied besides is judged as well, so that nobody believes that a name was. */
	if (!is_open && json_array_size(allow) == 0 && json_array_size(deny) == (has_everything(deny) ? 1 : 0))
		return json_pack("{s:s}", "mode", "disabled");
	policy = json_pack("{s:s}", "mode", is_open ? "open" : "filtered");
	if (json_array_size(allow) > 0)
		json_object_set(policy, "allow_out", (json_t *)allow);
	if (json_array_size(deny) > 0)
		json_object_set(policy, "deny_out", (json_t *)deny);
	return policy;
}

gboolean vial_e2b_network_decode(const VialCaller *caller, json_t *network, const json_t *internet, json_t **out_policy, GError **error)
{
	g_autoptr(json_t) allow = NULL, deny = NULL;
	json_t *allowed = NULL, *denied = NULL;
	gboolean is_open;

	if (!refuse_unknown(network, error) || !vial_decode_list(network, "allowOut", &allowed, error) ||
	    !vial_decode_list(network, "denyOut", &denied, error))
		return FALSE;
	if (internet && !json_is_null(internet) && !json_is_boolean(internet))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"allow_internet_access\" must be true or false");
	*out_policy = NULL;
	if (!json_is_boolean(internet) && json_array_size(allowed) == 0 && json_array_size(denied) == 0)
		return TRUE;
	allow = entries(allowed);
	deny = entries(denied);
	is_open = json_is_false(internet) || has_everything(deny) ? FALSE : json_is_true(internet) || is_open_anyway(caller);
	*out_policy = make_policy(is_open || has_everything(allow), allow, deny);
	return TRUE;
}

json_t *vial_e2b_network_json(const json_t *policy)
{
	json_t *allow = entries_back(json_object_get(policy, "allow_out")), *deny = entries_back(json_object_get(policy, "deny_out"));

	if (g_strcmp0(json_string_value(json_object_get(policy, "mode")), "open") != 0 && !has_entry(deny, EVERYTHING))
		json_array_append_new(deny, json_string(EVERYTHING));
	return json_pack("{s:o, s:o, s:b}", "allowOut", allow, "denyOut", deny, "allowPublicTraffic", FALSE);
}

/* All of it: what is not said is as it is for a new sandbox. */
void vial_e2b_network_put(VialRequest *request)
{
	VialCaller caller = vial_surface_question(request);
	json_t *body = vial_request_json(request);
	g_autoptr(json_t) policy = NULL;
	g_autoptr(GError) error = NULL;
	gboolean is_decoded = vial_e2b_is_alive(request, &error) &&
	                      vial_e2b_network_decode(&caller, body, json_object_get(body, "allow_internet_access"), &policy, &error);

	if (is_decoded && !policy)
		policy = vial_surface_network(&caller);
	if (is_decoded && !policy)
		policy = json_pack("{s:s}", "mode", "disabled");
	vial_surface_begun(request,
	                   is_decoded &&
	                           vial_op_network_put(&caller, vial_surface_sandbox(request), policy, vial_surface_reply_nothing, request, &error),
	                   &error);
}
