/* SPDX-License-Identifier: Apache-2.0 */
#include "net/caps.h"

static guint limit_or(guint value, guint fallback)
{
	if (value == G_MAXUINT)
		return 0; /* none */
	return value ? value : fallback;
}

VialNetLimits vial_caps_resolve(const VialNetLimits *own, const VialNetLimits *fallback)
{
	static const VialNetLimits nothing = { 0 };

	if (!own)
		own = &nothing;
	return (VialNetLimits){
		.rate_mbit = limit_or(own->rate_mbit, fallback->rate_mbit),
		.max_connections = limit_or(own->max_connections, fallback->max_connections),
		.connection_rate = limit_or(own->connection_rate, fallback->connection_rate),
		.packet_rate = limit_or(own->packet_rate, fallback->packet_rate),
		.dns_rate = limit_or(own->dns_rate, fallback->dns_rate),
	};
}

static guint lower_of(guint asked, guint base)
{
	return asked && (!base || asked < base) ? asked : base;
}

VialNetLimits vial_caps_narrow(const VialNetLimits *asked, const VialNetLimits *base)
{
	VialNetLimits limits = *base;

	limits.rate_mbit = lower_of(asked->rate_mbit, base->rate_mbit);
	limits.max_connections = lower_of(asked->max_connections, base->max_connections);
	return limits;
}

VialRuleCaps vial_caps_rules(const VialNetLimits *limits)
{
	return (VialRuleCaps){
		.max_connections = limits->max_connections,
		.connection_rate = limits->connection_rate,
		.packet_rate = limits->packet_rate,
	};
}

guint64 vial_caps_bytes_per_second(const VialNetLimits *limits)
{
	return (guint64)limits->rate_mbit * 125000;
}

gboolean vial_slot_set_limits(VialNetSlot *slot, VialNetLimits wanted, GError **error)
{
	VialRuleCaps caps = vial_caps_rules(&wanted), old = vial_caps_rules(&slot->limits);

	if (caps.max_connections != old.max_connections || caps.connection_rate != old.connection_rate || caps.packet_rate != old.packet_rate) {
		g_autoptr(GString) commands = g_string_new(NULL);

		vial_rules_caps(commands, &caps);
		if (!vial_nft_run(slot->nft, commands->str, error))
			return FALSE;
	}
	if (wanted.rate_mbit != slot->limits.rate_mbit && !vial_wiring_set_rate(slot->gate_fd, vial_caps_bytes_per_second(&wanted), error))
		return FALSE;
	slot->limits = wanted;
	return TRUE;
}
