/* SPDX-License-Identifier: Apache-2.0 */
/* Replacing a living sandbox's network policy: outside the guest first, then in its resolv.conf. */
#include "service/sandbox_private.h"
#include "service/slots.h"
#include "util/json.h"

#define TELL_TIMEOUT_MS 10000

/* The guest's resolv.conf follows the mode; programs that have read the old one ask a resolver that refuses them. */
static void tell_guest(VialSandbox *sandbox)
{
	const char *nameserver = vial_slots_nameserver(sandbox->app->slots, sandbox->host_id);
	g_autofree char *line = nameserver ? g_strdup_printf("nameserver %s\n", nameserver) : g_strdup("");
	g_autofree char *script = g_strdup_printf("printf '%%s' '%s' > /etc/resolv.conf", line);
	VialChannel *channel = vial_sandbox_channel(sandbox);

	if (!channel)
		return;
	vial_channel_call(channel, json_pack("{s:s, s:s?}", "op", "net.resolver", "nameserver", nameserver), TELL_TIMEOUT_MS, NULL, NULL);
	/* An agent that was there before this viald may not know that one. */
	vial_channel_call(channel, json_pack("{s:s, s:[s, s, s], s:s}", "op", "exec", "argv", "sh", "-c", script, "user", "root"), TELL_TIMEOUT_MS,
	                  NULL, NULL);
}

/* A transition like the others: a wake or a fork under way would put the policy in force that it began with, over the new one. */
typedef struct {
	VialTransition base;
	json_t *network;
	VialSandboxDone done;
	gpointer data;
} Change;

static void on_in_force(const GError *error, gpointer data)
{
	Change *change = data;
	VialSandbox *sandbox = change->base.sandbox;

	if (!error) {
		json_decref(sandbox->network);
		sandbox->network = json_incref(change->network);
		if (sandbox->state == VIAL_STATE_RUNNING)
			tell_guest(sandbox);
	}
	vial_transition_end(&change->base, error);
}

static void change_begin(VialTransition *transition)
{
	Change *change = (Change *)transition;
	VialSandbox *sandbox = transition->sandbox;

	/* One that is hibernated has no slot: it gets the new policy when it wakes. */
	if (sandbox->state == VIAL_STATE_HIBERNATED)
		on_in_force(NULL, change);
	else
		vial_slots_set_policy(sandbox->app->slots, sandbox->host_id, change->network, on_in_force, change);
}

static void change_settle(VialTransition *transition, const GError *error)
{
	g_autofree Change *change = (Change *)transition;

	change->done(error ? NULL : transition->sandbox, error, change->data);
	json_decref(change->network);
}

static const VialTransitionOps change_ops = {
	.participle = "given another network policy",
	.from = VIAL_FROM(RUNNING) | VIAL_FROM(PAUSED) | VIAL_FROM(HIBERNATED),
	.begin = change_begin,
	.settle = change_settle,
};

void vial_sandbox_set_network(VialSandbox *sandbox, json_t *network, VialSandboxDone done, gpointer data)
{
	Change *change = g_new0(Change, 1);

	change->network = network;
	change->done = done;
	change->data = data;
	vial_transition_push(&change->base, &change_ops, sandbox, VIAL_QUEUE_LAST);
}
