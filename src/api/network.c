/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's network: show and replace its policy, ask what it would say, and see what happened. */
#include "api/guest.h"
#include "api/handlers.h"
#include "service/slots.h"
#include "util/json.h"

#define MAX_EVENTS 1000

void vial_api_network_get(VialRequest *request)
{
	VialSandbox *sandbox = vial_guest_sandbox(request);

	if (sandbox)
		vial_request_reply_json(request, 200, json_incref(sandbox->network));
}

/* The guest's resolv.conf follows the mode; programs that have read the old one ask a resolver that refuses them. */
static void tell_guest(VialSandbox *sandbox)
{
	const char *nameserver = vial_slots_nameserver(sandbox->app->slots, sandbox->host_id);
	g_autofree char *line = nameserver ? g_strdup_printf("nameserver %s\n", nameserver) : g_strdup("");
	g_autofree char *script = g_strdup_printf("printf '%%s' '%s' > /etc/resolv.conf", line);

	if (vial_sandbox_channel(sandbox))
		vial_channel_call(vial_sandbox_channel(sandbox),
		                  json_pack("{s:s, s:[s, s, s], s:s}", "op", "exec", "argv", "sh", "-c", script, "user", "root"), 10000, NULL, NULL);
}

void vial_api_network_put(VialRequest *request)
{
	VialSandbox *sandbox = vial_guest_sandbox(request);
	g_autoptr(json_t) network = NULL;
	g_autoptr(GError) error = NULL;

	if (!sandbox)
		return;
	network = vial_slots_read_network(sandbox->app->config, vial_request_json(request), &error);
	/* A sleeping sandbox has no slot: it gets the new policy when it wakes. */
	if (!network || (vial_slots_find(sandbox->app->slots, sandbox->host_id) &&
	                 !vial_slots_set_policy(sandbox->app->slots, sandbox->host_id, network, &error))) {
		vial_request_reply_error(request, g_steal_pointer(&error));
		return;
	}
	json_decref(sandbox->network);
	sandbox->network = g_steal_pointer(&network);
	if (sandbox->state == VIAL_STATE_RUNNING)
		tell_guest(sandbox);
	vial_guest_store_and_reply(request, sandbox, json_incref(sandbox->network));
}

/* The running sandbox's slot; NULL after having answered. */
static VialNetSlot *find_slot(VialRequest *request)
{
	VialSandbox *sandbox = vial_guest_sandbox(request);
	VialNetSlot *slot = sandbox ? vial_slots_find(sandbox->app->slots, sandbox->host_id) : NULL;

	if (sandbox && !slot)
		vial_request_reply_fail(request, VIAL_ERROR_CONFLICT, "the sandbox is %s and has no network now", vial_state_name(sandbox->state));
	return slot;
}

void vial_api_network_check(VialRequest *request)
{
	VialNetSlot *slot = find_slot(request);
	g_autoptr(GError) error = NULL;
	const char *host = NULL;
	gint64 port = 443;
	json_t *answer;

	if (!slot)
		return;
	if (!vial_json_get_string(vial_request_json(request), "host", VIAL_JSON_REQUIRED | VIAL_JSON_NONEMPTY, 253, &host, &error) ||
	    !vial_json_get_int(vial_request_json(request), "port", 0, 1, 65535, &port, &error) ||
	    !(answer = vial_net_slot_check(slot, host, (guint16)port, &error))) {
		vial_request_reply_error(request, g_steal_pointer(&error));
		return;
	}
	vial_request_reply_json(request, 200, answer);
}

void vial_api_network_events(VialRequest *request)
{
	VialNetSlot *slot = find_slot(request);
	const char *after_text = vial_request_query(request, "after"), *limit_text = vial_request_query(request, "limit");
	guint64 after = 0, limit = MAX_EVENTS;

	if (!slot)
		return;
	if ((after_text && !g_ascii_string_to_unsigned(after_text, 10, 0, G_MAXUINT64, &after, NULL)) ||
	    (limit_text && !g_ascii_string_to_unsigned(limit_text, 10, 1, MAX_EVENTS, &limit, NULL)))
		return vial_request_reply_fail(request, VIAL_ERROR_INVALID, "after must be a number, limit one from 1 to %d", MAX_EVENTS);
	vial_request_reply_json(request, 200, vial_net_slot_events(slot, after, (guint)limit));
}
