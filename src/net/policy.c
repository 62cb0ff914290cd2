/* SPDX-License-Identifier: Apache-2.0 */
#include "net/policy.h"

#include <string.h>

#include "net/name.h"
#include "util/error.h"
#include "util/json.h"

static const char *const mode_names[] = { "disabled", "open", "filtered", NULL };

#define ALL_TRAFFIC "ALL_TRAFFIC"

static void entry_free(gpointer data)
{
	VialNetEntry *entry = data;

	g_free(entry->text);
	g_free(entry->name);
	g_free(entry);
}

static VialNetPolicy *policy_new(VialNetMode mode)
{
	VialNetPolicy *policy = g_new0(VialNetPolicy, 1);

	policy->mode = mode;
	policy->allow = g_ptr_array_new_with_free_func(entry_free);
	policy->deny = g_ptr_array_new_with_free_func(entry_free);
	policy->ref_count = 1;
	return policy;
}

VialNetPolicy *vial_net_policy_new_disabled(void)
{
	return policy_new(VIAL_NET_DISABLED);
}

VialNetPolicy *vial_net_policy_ref(const VialNetPolicy *policy)
{
	VialNetPolicy *mutable = (VialNetPolicy *)policy;

	g_atomic_int_inc(&mutable->ref_count);
	return mutable;
}

void vial_net_policy_unref(VialNetPolicy *policy)
{
	if (!policy || !g_atomic_int_dec_and_test(&policy->ref_count))
		return;
	g_ptr_array_unref(policy->allow);
	g_ptr_array_unref(policy->deny);
	g_free(policy);
}

static gboolean entry_has_port(const VialNetEntry *entry, guint16 port)
{
	return entry->port_from <= port && port <= entry->port_to;
}

static gboolean entry_has_name(const VialNetEntry *entry, const char *name)
{
	if (entry->kind == VIAL_NET_ENTRY_NAME)
		return strcmp(entry->name, name) == 0;
	return entry->kind == VIAL_NET_ENTRY_WILDCARD && vial_name_is_below(name, entry->name);
}

/* ---- parsing ---- */

static gboolean parse_port(const char *text, gsize length, guint16 *out)
{
	g_autofree char *copy = g_strndup(text, length);
	guint64 value;

	if (length == 0 || length > 5 || strspn(copy, "0123456789") != length || (copy[0] == '0'))
		return FALSE;
	if (!g_ascii_string_to_unsigned(copy, 10, 1, G_MAXUINT16, &value, NULL))
		return FALSE;
	*out = (guint16)value;
	return TRUE;
}

static gboolean parse_ports(const char *text, VialNetEntry *entry)
{
	const char *dash = strchr(text, '-');
	gsize length = dash ? (gsize)(dash - text) : strlen(text);

	if (!parse_port(text, length, &entry->port_from))
		return FALSE;
	entry->port_to = entry->port_from;
	if (dash && !parse_port(dash + 1, strlen(dash + 1), &entry->port_to))
		return FALSE;
	return entry->port_from <= entry->port_to;
}

/*
 * Splits "target[:ports]". IPv6 has colons of its own: with ports it stands in brackets, "[2001:db8::/32]:443" or
 * "[2001:db8::]/32:443"; without, brackets are optional.
 */
static gboolean split_target(const char *text, char **out_target, const char **out_ports)
{
	const char *colon = strchr(text, ':');

	if (text[0] == '[') {
		const char *end = strchr(text, ']');
		gsize prefix;

		if (!end)
			return FALSE;
		prefix = strcspn(end + 1, ":");
		if (prefix && end[1] != '/')
			return FALSE;
		*out_ports = end[1 + prefix] ? end + 2 + prefix : NULL;
		*out_target = g_strdup_printf("%.*s%.*s", (int)(end - text - 1), text + 1, (int)prefix, end + 1);
		return strchr(*out_target, ':') != NULL;
	}
	if (colon && strchr(colon + 1, ':')) {
		*out_target = g_strdup(text);
		*out_ports = NULL;
		return TRUE;
	}
	*out_target = colon ? g_strndup(text, (gsize)(colon - text)) : g_strdup(text);
	*out_ports = colon ? colon + 1 : NULL;
	return TRUE;
}

static gboolean looks_like_address(const char *target)
{
	return strchr(target, '/') || strchr(target, ':') || strspn(target, "0123456789.") == strlen(target);
}

static const char *parse_target(const char *target, VialNetEntry *entry)
{
	const char *problem = NULL;

	if (strcmp(target, ALL_TRAFFIC) == 0) {
		entry->kind = VIAL_NET_ENTRY_ALL;
		return NULL;
	}
	if (looks_like_address(target)) {
		entry->kind = VIAL_NET_ENTRY_RANGE;
		return vial_range_parse(target, &entry->range, &problem) ? NULL : problem;
	}
	if (g_ascii_strcasecmp(target, ALL_TRAFFIC) == 0)
		return "must be written ALL_TRAFFIC, in capitals";
	if (strcmp(target, "*") == 0)
		return "is not a name; write ALL_TRAFFIC for everything";

	gboolean is_wildcard = g_str_has_prefix(target, "*.");

	entry->kind = is_wildcard ? VIAL_NET_ENTRY_WILDCARD : VIAL_NET_ENTRY_NAME;
	entry->name = vial_name_normalize(is_wildcard ? target + 2 : target);
	if (!entry->name)
		return "is not an address, a range, a domain name or ALL_TRAFFIC";
	if (strcmp(entry->name, "localhost") == 0 || vial_name_is_below(entry->name, "localhost"))
		return "is the sandbox itself";
	return NULL;
}

static const char *parse_entry(const char *text, VialNetEntry *entry)
{
	g_autofree char *target = NULL;
	const char *ports = NULL;

	entry->port_from = 0;
	entry->port_to = G_MAXUINT16;
	if (!split_target(text, &target, &ports))
		return "has unbalanced brackets";
	if (ports && !parse_ports(ports, entry))
		return "has a bad port; write :443 or :8000-8099";
	return parse_target(target, entry);
}

/* A rule that can never have an effect is a mistake its author wants to hear about. */
static const char *refuse_sealed(const VialNetEntry *entry)
{
	if (entry->kind == VIAL_NET_ENTRY_RANGE && vial_range_scope(&entry->range, NULL) == VIAL_SCOPE_SEALED)
		return "lies in a range that is never reachable (loopback, link-local, metadata, multicast or other sandboxes)";
	return NULL;
}

static gboolean parse_list(const json_t *json, const char *field, gboolean is_allow, GPtrArray *list, GError **error)
{
	json_t *array = NULL;
	json_t *item;
	gsize i;

	if (!vial_json_get_string_array(json, field, VIAL_JSON_NOT_NULL, VIAL_NET_MAX_ENTRIES, VIAL_NET_MAX_ENTRY_BYTES, &array, error)) {
		g_prefix_error(error, "network: ");
		return FALSE;
	}
	json_array_foreach (array, i, item) {
		const char *text = json_string_value(item);
		VialNetEntry *entry = g_new0(VialNetEntry, 1);
		const char *problem;

		g_ptr_array_add(list, entry);
		entry->text = g_strdup(text);
		problem = parse_entry(text, entry);
		if (!problem && is_allow)
			problem = refuse_sealed(entry);
		if (problem)
			return vial_fail(error, VIAL_ERROR_INVALID, "network: %s[%u]: \"%s\" %s", field, (guint)i, text, problem);
	}
	return TRUE;
}

static gboolean parse_limits(const json_t *json, VialNetLimits *out, GError **error)
{
	json_t *limits = NULL;
	gint64 rate_mbit = 0, max_connections = 0;

	if (!vial_json_get_object(json, "limits", VIAL_JSON_NOT_NULL, &limits, error)) {
		g_prefix_error(error, "network: ");
		return FALSE;
	}
	if (!vial_json_get_int(limits, "rate_mbit", VIAL_JSON_NOT_NULL, 1, VIAL_NET_MAX_RATE_MBIT, &rate_mbit, error) ||
	    !vial_json_get_int(limits, "max_connections", VIAL_JSON_NOT_NULL, 1, VIAL_NET_MAX_CONNECTIONS, &max_connections, error)) {
		g_prefix_error(error, "network: limits: ");
		return FALSE;
	}
	out->rate_mbit = (guint)rate_mbit;
	out->max_connections = (guint)max_connections;
	return TRUE;
}

guint vial_net_policy_name_ports(const VialNetPolicy *policy, VialNetPorts out[VIAL_NET_MAX_NAME_PORTS])
{
	guint count = 0;

	for (guint i = 0; i < policy->allow->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(policy->allow, i);
		guint known = 0;

		if (entry->kind != VIAL_NET_ENTRY_NAME && entry->kind != VIAL_NET_ENTRY_WILDCARD)
			continue;
		while (known < count && (out[known].from != entry->port_from || out[known].to != entry->port_to))
			known++;
		if (known < count)
			continue;
		if (count == VIAL_NET_MAX_NAME_PORTS)
			return count + 1;
		out[count++] = (VialNetPorts){ .from = entry->port_from, .to = entry->port_to };
	}
	return count;
}

gboolean vial_net_policy_name_has_ports(const VialNetPolicy *policy, const char *name, VialNetPorts ports)
{
	for (guint i = 0; i < policy->allow->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(policy->allow, i);

		if (entry->port_from == ports.from && entry->port_to == ports.to && entry_has_name(entry, name))
			return TRUE;
	}
	return FALSE;
}

VialNetPolicy *vial_net_policy_parse(const json_t *json, GError **error)
{
	g_autoptr(VialNetPolicy) policy = vial_net_policy_new_disabled();
	int mode = -1;

	if (!json || json_is_null(json))
		return g_steal_pointer(&policy);
	if (!json_is_object(json)) {
		vial_fail(error, VIAL_ERROR_INVALID, "network: must be an object");
		return NULL;
	}
	if (!vial_json_get_choice(json, "mode", VIAL_JSON_NOT_NULL, mode_names, &mode, error)) {
		g_prefix_error(error, "network: ");
		return NULL;
	}
	if (!parse_list(json, "allow_out", TRUE, policy->allow, error) || !parse_list(json, "deny_out", FALSE, policy->deny, error) ||
	    !parse_limits(json, &policy->limits, error))
		return NULL;

	VialNetPorts ports[VIAL_NET_MAX_NAME_PORTS];

	if (vial_net_policy_name_ports(policy, ports) > VIAL_NET_MAX_NAME_PORTS) {
		vial_fail(error, VIAL_ERROR_INVALID, "network: allow_out: more than %d different port ranges on names", VIAL_NET_MAX_NAME_PORTS);
		return NULL;
	}

	gboolean has_lists = policy->allow->len || policy->deny->len;

	if (mode < 0)
		mode = has_lists ? VIAL_NET_FILTERED : VIAL_NET_DISABLED;
	if (mode == VIAL_NET_DISABLED && has_lists) {
		vial_fail(error, VIAL_ERROR_INVALID, "network: allow_out and deny_out have no meaning in mode disabled; use mode filtered");
		return NULL;
	}
	policy->mode = (VialNetMode)mode;
	return g_steal_pointer(&policy);
}

static json_t *list_to_json(const GPtrArray *list)
{
	json_t *array = json_array();

	for (guint i = 0; i < list->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(list, i);

		json_array_append_new(array, json_string(entry->text));
	}
	return array;
}

static json_t *limits_to_json(const VialNetLimits *limits)
{
	json_t *json = json_object();

	if (limits->rate_mbit)
		json_object_set_new(json, "rate_mbit", json_integer(limits->rate_mbit));
	if (limits->max_connections)
		json_object_set_new(json, "max_connections", json_integer(limits->max_connections));
	return json;
}

json_t *vial_net_policy_to_json(const VialNetPolicy *policy)
{
	json_t *json = json_object();

	json_object_set_new(json, "mode", json_string(mode_names[policy->mode]));
	json_object_set_new(json, "allow_out", list_to_json(policy->allow));
	json_object_set_new(json, "deny_out", list_to_json(policy->deny));
	if (policy->limits.rate_mbit || policy->limits.max_connections)
		json_object_set_new(json, "limits", limits_to_json(&policy->limits));
	return json;
}

/* ---- verdicts ---- */

static VialNetVerdict allow(VialNetDecider by, const char *rule, const char *reason)
{
	return (VialNetVerdict){ .allowed = TRUE, .by = by, .rule = rule, .reason = reason };
}

static VialNetVerdict deny(VialNetDecider by, const char *rule, const char *reason)
{
	return (VialNetVerdict){ .allowed = FALSE, .by = by, .rule = rule, .reason = reason };
}

gboolean vial_net_port_is_resolver(guint16 port)
{
	return port == 53 || port == 853;
}

gboolean vial_net_port_is_inspected(guint16 port)
{
	return port == 80 || port == 443;
}

static const VialNetEntry *find_all(const GPtrArray *list, guint16 port)
{
	for (guint i = 0; i < list->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(list, i);

		if (entry->kind == VIAL_NET_ENTRY_ALL && entry_has_port(entry, port))
			return entry;
	}
	return NULL;
}

static const VialNetEntry *find_name(const GPtrArray *list, const char *name, guint16 port)
{
	for (guint i = 0; name && i < list->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(list, i);

		if (entry_has_name(entry, name) && entry_has_port(entry, port))
			return entry;
	}
	return NULL;
}

static const VialNetEntry *find_range(const GPtrArray *list, const VialAddress *address, guint16 port, gboolean must_name_scope)
{
	for (guint i = 0; i < list->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(list, i);

		if (entry->kind != VIAL_NET_ENTRY_RANGE || !entry_has_port(entry, port) || !vial_range_contains(&entry->range, address))
			continue;
		if (must_name_scope && vial_range_scope(&entry->range, NULL) != VIAL_SCOPE_CLOSED)
			continue;
		return entry;
	}
	return NULL;
}

const char *vial_net_policy_baseline(const VialNetPolicy *policy, guint16 port)
{
	const VialNetEntry *entry;

	if (policy->mode == VIAL_NET_DISABLED)
		return NULL;
	entry = find_all(policy->allow, port);
	if (entry)
		return entry->text;
	return policy->mode == VIAL_NET_OPEN ? "mode:open" : NULL;
}

static VialNetVerdict check_baseline(const VialNetPolicy *policy, guint16 port)
{
	const char *baseline = vial_net_policy_baseline(policy, port);
	const VialNetEntry *entry;

	if (baseline)
		return allow(VIAL_NET_BY_BASELINE, baseline, "the baseline allows all traffic");
	entry = find_all(policy->deny, port);
	if (entry)
		return deny(VIAL_NET_BY_BASELINE, entry->text, "the baseline denies all traffic");
	return deny(VIAL_NET_BY_BASELINE, "default", "no rule allows it");
}

VialNetVerdict vial_net_policy_check_connection(const VialNetPolicy *policy, const char *name, const char *denied_name, const VialAddress *address,
                                                guint16 port)
{
	const char *label;
	VialScope scope = vial_address_scope(address, &label);
	const VialNetEntry *entry;

	if (policy->mode == VIAL_NET_DISABLED)
		return deny(VIAL_NET_BY_MODE, "mode:disabled", "the network is disabled");
	if (scope == VIAL_SCOPE_SEALED)
		return deny(VIAL_NET_BY_SCOPE, label, "the address is never reachable");
	entry = find_range(policy->allow, address, port, scope == VIAL_SCOPE_CLOSED);
	if (entry)
		return allow(VIAL_NET_BY_RANGE, entry->text, "an address rule allows it");
	if (scope == VIAL_SCOPE_CLOSED)
		return deny(VIAL_NET_BY_SCOPE, label, "the range is closed unless allow_out names an address or range in it");
	if (vial_net_port_is_resolver(port))
		return deny(VIAL_NET_BY_SCOPE, "resolver", "the sandbox's only resolver is ours; an address rule can open others");
	entry = find_name(policy->allow, name, port);
	if (entry)
		return allow(VIAL_NET_BY_NAME, entry->text, "a name rule allows it");
	entry = find_range(policy->deny, address, port, FALSE);
	if (entry)
		return deny(VIAL_NET_BY_RANGE, entry->text, "an address rule denies it");
	entry = find_name(policy->deny, name, port);
	if (!entry)
		entry = find_name(policy->deny, denied_name, port);
	if (entry)
		return deny(VIAL_NET_BY_NAME, entry->text, "a name rule denies it");
	return check_baseline(policy, port);
}

VialNetVerdict vial_net_policy_check_name_port(const VialNetPolicy *policy, const char *name, guint16 port)
{
	const VialNetEntry *entry;

	if (policy->mode == VIAL_NET_DISABLED)
		return deny(VIAL_NET_BY_MODE, "mode:disabled", "the network is disabled");
	if (vial_net_port_is_resolver(port))
		return deny(VIAL_NET_BY_SCOPE, "resolver", "the sandbox's only resolver is ours; an address rule can open others");
	entry = find_name(policy->allow, name, port);
	if (entry)
		return allow(VIAL_NET_BY_NAME, entry->text, "a name rule allows it");
	entry = find_name(policy->deny, name, port);
	if (entry)
		return deny(VIAL_NET_BY_NAME, entry->text, "a name rule denies it");
	return check_baseline(policy, port);
}

static gboolean is_every_port(const VialNetEntry *entry)
{
	return entry->port_from <= 1 && entry->port_to == G_MAXUINT16;
}

VialNetVerdict vial_net_policy_check_name(const VialNetPolicy *policy, const char *name)
{
	if (policy->mode == VIAL_NET_DISABLED)
		return deny(VIAL_NET_BY_MODE, "mode:disabled", "the network is disabled");
	for (guint i = 0; i < policy->allow->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(policy->allow, i);

		if (entry_has_name(entry, name))
			return allow(VIAL_NET_BY_NAME, entry->text, "a name rule allows it");
	}
	for (guint i = 0; i < policy->deny->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(policy->deny, i);

		if (entry_has_name(entry, name) && is_every_port(entry))
			return deny(VIAL_NET_BY_NAME, entry->text, "a name rule denies it");
	}
	if (policy->mode == VIAL_NET_OPEN)
		return allow(VIAL_NET_BY_BASELINE, "mode:open", "the baseline allows all traffic");
	for (guint i = 0; i < policy->allow->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(policy->allow, i);

		if (entry->kind == VIAL_NET_ENTRY_ALL)
			return allow(VIAL_NET_BY_BASELINE, entry->text, "the baseline allows all traffic");
	}
	for (guint i = 0; i < policy->deny->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(policy->deny, i);

		if (entry->kind == VIAL_NET_ENTRY_ALL)
			return deny(VIAL_NET_BY_BASELINE, entry->text, "the baseline denies all traffic");
	}
	return deny(VIAL_NET_BY_BASELINE, "default", "no rule allows it");
}

gboolean vial_net_policy_names_address(const VialNetPolicy *policy, const VialAddress *address, guint16 port)
{
	guint8 full = address->family == AF_INET ? 32 : 128;

	for (guint i = 0; i < policy->allow->len; i++) {
		const VialNetEntry *entry = g_ptr_array_index(policy->allow, i);

		if (entry->kind == VIAL_NET_ENTRY_RANGE && entry->range.prefix == full && entry_has_port(entry, port) &&
		    vial_address_equal(&entry->range.address, address))
			return TRUE;
	}
	return FALSE;
}

gboolean vial_net_policy_has_names(const VialNetPolicy *policy)
{
	const GPtrArray *lists[] = { policy->allow, policy->deny };

	for (guint l = 0; l < G_N_ELEMENTS(lists); l++)
		for (guint i = 0; i < lists[l]->len; i++) {
			const VialNetEntry *entry = g_ptr_array_index(lists[l], i);

			if (entry->kind == VIAL_NET_ENTRY_NAME || entry->kind == VIAL_NET_ENTRY_WILDCARD)
				return TRUE;
		}
	return FALSE;
}
