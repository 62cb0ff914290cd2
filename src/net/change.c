/* SPDX-License-Identifier: Apache-2.0 */
/*
 * begin (main: write commands) -> apply (net lane) -> applied (main: take note) -> for a policy: connections that it no longer allows are judged here
 * and cut on the lane -> done -> the next one begins.
 *
 * While a change is on the lane nothing else touches the slot's nft handle: what is done at once (building, adopting, a TAP) happens before a slot is
 * in use.
 */
#include "net/change.h"

#include "net/caps.h"
#include "net/conntrack.h"
#include "net/rules.h"
#include "net/slot.h"
#include "util/error.h"
#include "util/log.h"
#include "util/time.h"
#include "util/worker.h"

/* How long an answered address stays open beyond its TTL: programs resolve first and connect later. */
#define PIN_MIN_SECONDS 60
#define PIN_EXTRA_SECONDS 60

struct VialNetChange {
	VialNetSlot *slot;
	VialNetDone done;
	gpointer data;
	GError *error;
	/* a policy */
	VialNetPolicy *policy;
	VialNetLimits limits;
	char hash[17];
	GArray *host_open;
	gboolean prunes;
	gboolean is_in_force; /* set on the lane */
	/* an address */
	char *name;
	GArray *addresses;
	guint ttl_seconds;
	VialNetChange **handle; /* where its owner keeps it */
	gboolean is_written;
	/* for the lane: commands, NULL for none, and how to take them back */
	char *caps, *old_caps;
	gint64 rate, old_rate; /* bytes per second; -1: as it is */
	char *host_before, *rules, *host_after;
	GPtrArray *tracked; /* VialTracked: listed, then only those to cut */
};

static void change_free(VialNetChange *change)
{
	g_clear_error(&change->error);
	vial_net_policy_unref(change->policy);
	g_clear_pointer(&change->host_open, g_array_unref);
	g_clear_pointer(&change->addresses, g_array_unref);
	g_clear_pointer(&change->tracked, g_ptr_array_unref);
	g_free(change->name);
	g_free(change->caps);
	g_free(change->old_caps);
	g_free(change->host_before);
	g_free(change->rules);
	g_free(change->host_after);
	g_free(change);
}

static void finish(VialNetChange *change)
{
	if (change->handle)
		*change->handle = NULL;
	if (change->done)
		change->done(change->error, change->data);
	change_free(change);
}

static void begin_next(VialNetSlot *slot);

static void end(VialNetChange *change)
{
	VialNetSlot *slot = change->slot;

	g_queue_remove(&slot->changes, change);
	slot->is_changing = FALSE;
	finish(change);
	if (!slot->is_released)
		begin_next(slot);
	else if (!slot->is_changing)
		vial_slot_discard(slot);
}

/* ---- on the lane: nothing of the slot but its handles ---- */

static gboolean run(VialNft *nft, const char *commands, GError **error)
{
	return !commands || vial_nft_run(nft, commands, error);
}

static gboolean set_rate(const VialNetChange *change, gint64 rate, GError **error)
{
	return rate < 0 || vial_wiring_set_rate(change->slot->gate_fd, (guint64)rate, error);
}

static void apply_work(gpointer data)
{
	VialNetChange *change = data;
	VialNft *nft = change->slot->nft, *host = change->slot->net->host_nft;
	g_autoptr(GError) problem = NULL;

	if (!run(nft, change->caps, &change->error))
		return;
	if (!set_rate(change, change->rate, &change->error) || !run(host, change->host_before, &change->error) ||
	    !run(nft, change->rules, &change->error)) {
		/* The old policy stays in force, with its own limits. */
		run(nft, change->old_caps, NULL);
		set_rate(change, change->old_rate, NULL);
		return;
	}
	change->is_in_force = TRUE;
	if (!run(host, change->host_after, &problem))
		vial_log_warning("net", "the host's wall could not be updated", "error", problem->message);
	if (change->prunes)
		change->tracked = vial_conntrack_list(change->slot->gate_fd, &change->error);
}

static void cut_work(gpointer data)
{
	VialNetChange *change = data;

	vial_conntrack_delete(change->slot->gate_fd, change->tracked, &change->error);
}

/* ---- a policy ---- */

static void write_limits(VialNetChange *change)
{
	VialNetSlot *slot = change->slot;
	VialRuleCaps caps, old = vial_caps_rules(&slot->limits);

	change->limits = vial_caps_narrow(&change->policy->limits, &slot->base_limits);
	caps = vial_caps_rules(&change->limits);
	if (caps.max_connections != old.max_connections || caps.connection_rate != old.connection_rate || caps.packet_rate != old.packet_rate) {
		GString *commands = g_string_new(NULL), *back = g_string_new(NULL);

		vial_rules_caps(commands, &caps);
		vial_rules_caps(back, &old);
		change->caps = g_string_free(commands, FALSE);
		change->old_caps = g_string_free(back, FALSE);
	}
	if (change->limits.rate_mbit != slot->limits.rate_mbit) {
		change->rate = (gint64)vial_caps_bytes_per_second(&change->limits);
		change->old_rate = (gint64)vial_caps_bytes_per_second(&slot->limits);
	}
}

static void write_policy(VialNetChange *change)
{
	VialNetSlot *slot = change->slot;

	write_limits(change);
	vial_slot_policy_hash(&change->limits, change->policy, change->hash);
	change->rules = vial_slot_policy_rules(slot, change->policy, change->hash, slot->policy_hash[0] ? slot->policy_hash : NULL);
	change->host_open = vial_slot_wanted_host(slot, change->policy);
	change->host_before = vial_slot_host_rules(slot, NULL, change->host_open);
	change->host_after = vial_slot_host_rules(slot, slot->host_open, change->host_open);
	/* Nothing gets through a shut gate, so nothing is there to end: a guest from the pool does not wait for the kernel to walk the connections of
	 * the whole host. */
	change->prunes = slot->policy->mode != VIAL_NET_DISABLED;
}

static void policy_in_force(VialNetChange *change)
{
	VialNetSlot *slot = change->slot;

	slot->limits = change->limits;
	g_strlcpy(slot->policy_hash, change->hash, sizeof slot->policy_hash);
	vial_net_policy_unref(slot->policy);
	slot->policy = vial_net_policy_ref(change->policy);
	g_clear_pointer(&slot->host_open, g_array_unref);
	slot->host_open = g_steal_pointer(&change->host_open);
}

static void cut_done(gpointer data)
{
	end(data);
}

static void applied(gpointer data)
{
	VialNetChange *change = data;
	VialNetSlot *slot = change->slot;

	if (change->policy && change->is_in_force)
		policy_in_force(change);
	if (change->error || slot->is_released || !change->prunes)
		return end(change);
	/* New connections already go by the new rules; now the old ones. */
	vial_slot_select_cut(slot, change->tracked);
	if (change->tracked->len == 0)
		return end(change);
	vial_log_info("net", "a new policy ends connections", "sandbox_id", slot->label);
	vial_worker_run_in(VIAL_LANE_NET, cut_work, cut_done, change);
}

/* ---- an address ---- */

static void write_pin(VialNetChange *change)
{
	guint seconds = MAX(change->ttl_seconds, PIN_MIN_SECONDS) + PIN_EXTRA_SECONDS;
	gint64 until_ms = vial_time_monotonic_ms() + (gint64)seconds * 1000;
	g_autoptr(GString) commands = g_string_new(NULL);

	for (guint i = 0; i < change->addresses->len; i++) {
		const VialAddress *address = &g_array_index(change->addresses, VialAddress, i);

		vial_answers_add(change->slot->answers, change->name, address, until_ms);
		vial_rules_pin(commands, change->slot->policy, change->name, address, seconds);
	}
	change->is_written = TRUE;
	if (commands->len)
		change->rules = g_strdup(commands->str);
}

/* ---- one after the other ---- */

static void begin_next(VialNetSlot *slot)
{
	VialNetChange *change = g_queue_peek_head(&slot->changes);

	if (!change || slot->is_changing)
		return;
	slot->is_changing = TRUE;
	if (change->policy)
		write_policy(change);
	else if (!change->is_written)
		write_pin(change);
	if (change->policy || change->rules)
		vial_worker_run_in(VIAL_LANE_NET, apply_work, applied, change);
	else
		end(change);
}

static VialNetChange *change_new(VialNetSlot *slot, VialNetDone done, gpointer data)
{
	VialNetChange *change = g_new0(VialNetChange, 1);

	change->slot = slot;
	change->done = done;
	change->data = data;
	change->rate = change->old_rate = -1;
	return change;
}

void vial_net_slot_set_policy(VialNetSlot *slot, const VialNetPolicy *policy, VialNetDone done, gpointer data)
{
	VialNetChange *change = change_new(slot, done, data);

	change->policy = vial_net_policy_ref(policy);
	g_queue_push_tail(&slot->changes, change);
	begin_next(slot);
}

void vial_net_change_pin(VialNetSlot *slot, const char *name, const GArray *addresses, guint ttl_seconds, VialNetChange **out_change,
                         VialNetDone done, gpointer data)
{
	VialNetChange *change = change_new(slot, done, data);

	change->name = g_strdup(name);
	change->addresses = g_array_ref((GArray *)addresses);
	change->ttl_seconds = ttl_seconds;
	if (!slot->is_changing)
		write_pin(change);
	/* Most policies open no single addresses. */
	if (change->is_written && !change->rules)
		return finish(change);
	*out_change = change;
	change->handle = out_change;
	g_queue_push_tail(&slot->changes, change);
	begin_next(slot);
}

void vial_net_change_forget(VialNetChange *change)
{
	if (!change)
		return;
	change->done = NULL;
	change->handle = NULL;
}

gboolean vial_net_changes_stop(VialNetSlot *slot)
{
	VialNetChange *change;

	slot->is_released = TRUE;
	while (slot->changes.length > (slot->is_changing ? 1 : 0)) {
		change = g_queue_pop_tail(&slot->changes);
		vial_fail(&change->error, VIAL_ERROR_UNAVAILABLE, "the sandbox's network is gone");
		finish(change);
	}
	return !slot->is_changing;
}
