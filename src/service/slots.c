/* SPDX-License-Identifier: Apache-2.0 */
#include "service/slots.h"

#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/log.h"

/* Servers give up on a silent client after one to ten minutes. */
#define PATIENCE_SECONDS 600
/* Those who sleep must not take the slots of those who want to live: beyond this the one that has slept longest loses its connections. */
#define MAX_PARKED 256

typedef struct {
	VialSlots *slots;
	char *sandbox_id;
	VialNetSlot *slot;
	gint64 since_us;
	guint timer;
} Parked;

struct VialSlots {
	VialNet *net;
	GHashTable *by_host; /* host id -> VialNetSlot */
	GHashTable *parked;  /* sandbox id -> Parked */
	guint16 sealed_ports[2];
};

/* The port of our own listener: no policy may open it to a sandbox. */
static guint16 listen_port(const char *listen)
{
	const char *colon = g_str_has_prefix(listen, "unix:") ? NULL : strrchr(listen, ':');

	return colon ? (guint16)atoi(colon + 1) : 0;
}

static void parked_free(gpointer data)
{
	Parked *parked = data;

	g_clear_handle_id(&parked->timer, g_source_remove);
	vial_net_slot_release(parked->slot);
	g_free(parked->sandbox_id);
	g_free(parked);
}

static gboolean on_patience_lost(gpointer data)
{
	Parked *parked = data;

	parked->timer = 0;
	g_hash_table_remove(parked->slots->parked, parked->sandbox_id);
	return G_SOURCE_REMOVE;
}

VialSlots *vial_slots_new(const VialConfig *config, GError **error)
{
	VialSlots *slots = g_new0(VialSlots, 1);
	VialNetConfig net = { .data_dir = config->data_dir, .sealed_ports = slots->sealed_ports };

	slots->sealed_ports[0] = listen_port(config->listen);
	net.limits.rate_mbit = (guint)config->network_rate_mbit;
	net.limits.max_connections = (guint)config->network_max_connections;
	if (config->resolvers && *config->resolvers)
		net.resolvers = (const char *const *)config->resolvers;
	slots->by_host = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	slots->parked = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, parked_free);
	slots->net = vial_net_new(&net, error);
	if (slots->net)
		return slots;
	vial_slots_free(slots);
	return NULL;
}

void vial_slots_start(VialSlots *slots, gboolean may_sweep)
{
	vial_net_start(slots->net, may_sweep);
}

void vial_slots_close(VialSlots *slots)
{
	if (!slots)
		return;
	g_hash_table_remove_all(slots->parked);
	vial_net_close(slots->net);
}

void vial_slots_free(VialSlots *slots)
{
	if (!slots)
		return;
	g_hash_table_unref(slots->parked);
	g_hash_table_unref(slots->by_host);
	vial_net_free(slots->net);
	g_free(slots);
}

VialNet *vial_slots_net(VialSlots *slots)
{
	return slots->net;
}

VialNetSlot *vial_slots_find(VialSlots *slots, const char *host_id)
{
	return g_hash_table_lookup(slots->by_host, host_id);
}

const char *vial_slots_name(VialSlots *slots, const char *host_id)
{
	VialNetSlot *slot = vial_slots_find(slots, host_id);

	return slot ? vial_net_slot_name(slot) : NULL;
}

static gboolean is_within(const char *field, guint asked, gint64 most, GError **error)
{
	return (gint64)asked <= most ||
	       vial_fail(error, VIAL_ERROR_INVALID, "network: limits: %s must be between 1 and %" G_GINT64_FORMAT " here", field, most);
}

json_t *vial_slots_read_network(const VialConfig *config, json_t *json, GError **error)
{
	g_autoptr(VialNetPolicy) policy = vial_net_policy_parse(json, error);

	if (!policy || !is_within("rate_mbit", policy->limits.rate_mbit, config->network_rate_mbit, error) ||
	    !is_within("max_connections", policy->limits.max_connections, config->network_max_connections, error))
		return NULL;
	return vial_net_policy_to_json(policy);
}

gboolean vial_slots_acquire(VialSlots *slots, const char *host_id, const char **out_netns, GError **error)
{
	VialNetSlot *slot = vial_net_slot_acquire(slots->net, host_id, NULL, NULL, error);

	if (!slot)
		return FALSE;
	g_hash_table_replace(slots->by_host, g_strdup(host_id), slot);
	*out_netns = vial_net_slot_netns_path(slot);
	return TRUE;
}

const VialGuestNet *vial_slots_guest_net(void)
{
	static const VialGuestNet net = {
		.mac = VIAL_NET_GUEST_MAC,
		.v4 = VIAL_NET_GUEST_V4 "/" G_STRINGIFY(VIAL_NET_PREFIX_V4),
		.gateway_v4 = VIAL_NET_GATEWAY_V4,
		.v6 = VIAL_NET_GUEST_V6 "/" G_STRINGIFY(VIAL_NET_PREFIX_V6),
		.gateway_v6 = VIAL_NET_GATEWAY_V6,
	};

	return &net;
}

int vial_slots_open_tap(VialSlots *slots, const char *host_id, GError **error)
{
	VialNetSlot *slot = vial_slots_find(slots, host_id);

	if (slot)
		return vial_net_slot_open_tap(slot, error);
	vial_fail(error, VIAL_ERROR_INTERNAL, "the sandbox has no network slot");
	return -1;
}

gboolean vial_slots_adopt(VialSlots *slots, const char *host_id, const char *name, json_t *network)
{
	g_autoptr(VialNetPolicy) policy = vial_net_policy_parse(network, NULL);
	VialNetSlot *slot = vial_net_slot_adopt(slots->net, name, host_id, policy, NULL, NULL);

	if (!slot)
		return FALSE;
	g_hash_table_replace(slots->by_host, g_strdup(host_id), slot);
	return TRUE;
}

void vial_slots_release(VialSlots *slots, const char *host_id)
{
	VialNetSlot *slot = slots ? vial_slots_find(slots, host_id) : NULL;

	if (!slot) /* none, or we are going: then the next viald sweeps it */
		return;
	g_hash_table_remove(slots->by_host, host_id);
	vial_net_slot_release(slot);
}

gboolean vial_slots_shut(VialSlots *slots, const char *host_id)
{
	VialNetSlot *slot = vial_slots_find(slots, host_id);
	g_autoptr(GError) error = NULL;

	if (!slot || vial_net_slot_policy(slot)->mode == VIAL_NET_DISABLED)
		return FALSE;
	if (vial_net_slot_shut(slot, &error))
		return TRUE;
	vial_log_warning("net", "a sandbox will lose its connections", "host_id", host_id, "error", error->message);
	return FALSE;
}

void vial_slots_reopen(VialSlots *slots, const char *host_id)
{
	VialNetSlot *slot = vial_slots_find(slots, host_id);
	g_autoptr(GError) error = NULL;

	if (slot && !vial_net_slot_reopen(slot, &error))
		vial_log_warning("net", "a sandbox has lost its network", "host_id", host_id, "error", error->message);
}

static void drop_oldest(VialSlots *slots)
{
	const Parked *oldest = NULL;
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, slots->parked);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (!oldest || ((const Parked *)value)->since_us < oldest->since_us)
			oldest = value;
	if (oldest)
		g_hash_table_remove(slots->parked, oldest->sandbox_id);
}

void vial_slots_park(VialSlots *slots, const char *host_id, const char *sandbox_id)
{
	VialNetSlot *slot = vial_slots_find(slots, host_id);
	Parked *parked;

	if (!slot)
		return;
	g_hash_table_remove(slots->by_host, host_id);
	if (g_hash_table_size(slots->parked) >= MAX_PARKED)
		drop_oldest(slots);
	parked = g_new0(Parked, 1);
	parked->slots = slots;
	parked->sandbox_id = g_strdup(sandbox_id);
	parked->slot = slot;
	parked->since_us = g_get_monotonic_time();
	parked->timer = g_timeout_add_seconds(PATIENCE_SECONDS, on_patience_lost, parked);
	g_hash_table_replace(slots->parked, parked->sandbox_id, parked);
}

gboolean vial_slots_has_parked(VialSlots *slots, const char *sandbox_id)
{
	return g_hash_table_contains(slots->parked, sandbox_id);
}

gboolean vial_slots_unpark(VialSlots *slots, const char *sandbox_id, const char *host_id, const char **out_netns)
{
	Parked *parked = g_hash_table_lookup(slots->parked, sandbox_id);
	g_autoptr(GError) error = NULL;

	if (!parked)
		return FALSE;
	if (vial_net_slot_renew(parked->slot, host_id, &error)) {
		*out_netns = vial_net_slot_netns_path(parked->slot);
		g_hash_table_replace(slots->by_host, g_strdup(host_id), g_steal_pointer(&parked->slot));
	} else {
		vial_log_warning("net", "a sandbox loses its connections", "sandbox_id", sandbox_id, "error", error->message);
	}
	g_hash_table_remove(slots->parked, sandbox_id);
	return error == NULL;
}

void vial_slots_drop_parked(VialSlots *slots, const char *sandbox_id)
{
	if (slots)
		g_hash_table_remove(slots->parked, sandbox_id);
}

void vial_slots_set_policy(VialSlots *slots, const char *host_id, json_t *network, VialNetDone done, gpointer data)
{
	VialNetSlot *slot = vial_slots_find(slots, host_id);
	g_autoptr(GError) error = NULL;
	g_autoptr(VialNetPolicy) policy = vial_net_policy_parse(network, &error);

	if (policy && !slot)
		vial_fail(&error, VIAL_ERROR_INTERNAL, "the sandbox has no network slot");
	if (error || vial_net_slot_has_policy(slot, policy))
		done(error, data);
	else
		vial_net_slot_set_policy(slot, policy, done, data);
}

const char *vial_slots_nameserver(VialSlots *slots, const char *host_id)
{
	VialNetSlot *slot = vial_slots_find(slots, host_id);

	return slot && vial_net_slot_policy(slot)->mode != VIAL_NET_DISABLED ? VIAL_NET_GATEWAY_V4 : NULL;
}
