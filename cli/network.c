/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/network.h"

static void set_list(json_t *network, const char *field, const GPtrArray *entries)
{
	if (!entries)
		return;
	json_t *list = json_array();
	for (guint i = 0; i < entries->len; i++)
		json_array_append_new(list, json_string(g_ptr_array_index(entries, i)));
	json_object_set_new(network, field, list);
}

json_t *vial_network_json(const char *mode, const GPtrArray *allow, const GPtrArray *deny, gint64 rate_mbit, gint64 max_connections)
{
	json_t *network = json_pack("{s:s}", "mode", mode);
	json_t *limits = json_object();
	set_list(network, "allow_out", allow);
	set_list(network, "deny_out", deny);
	if (rate_mbit >= 0)
		json_object_set_new(limits, "rate_mbit", json_integer(rate_mbit));
	if (max_connections >= 0)
		json_object_set_new(limits, "max_connections", json_integer(max_connections));
	if (json_object_size(limits) > 0)
		json_object_set(network, "limits", limits);
	json_decref(limits);
	return network;
}
