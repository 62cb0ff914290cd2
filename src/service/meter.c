/* SPDX-License-Identifier: Apache-2.0 */
#include "service/meter.h"

#include <time.h>

#include "audit/audit.h"
#include "service/sandbox_private.h"
#include "util/time.h"

#define TICK_SECONDS 60
/* In one entry of the spool. */
#define MAX_CHARGES 2000

struct VialMeter {
	VialApp *app;
	guint tick; /* while there is anything awake */
};

static gboolean is_charged(VialState state)
{
	return state == VIAL_STATE_RUNNING || state == VIAL_STATE_PAUSED || state == VIAL_STATE_HIBERNATING;
}

/* From where it was charged last up to now. */
static void add_charge(VialCharges *charges, VialSandbox *sandbox, gboolean is_last)
{
	gint64 now_ms = vial_time_monotonic_ms(), until_ms = sandbox->charged_ms + (now_ms - sandbox->charged_monotonic_ms);

	vial_charges_add(charges, &(VialCharge){
					  .sandbox = sandbox->id,
					  .project = sandbox->project,
					  .template_name = sandbox->template_name,
					  .agent = sandbox->agent,
					  .key_id = sandbox->key_id,
					  .from_ms = sandbox->charged_ms,
					  .until_ms = until_ms,
					  .cpu = sandbox->limits.cpu,
					  .memory_mb = sandbox->limits.memory_mb,
					  .is_last = is_last,
				  });
	sandbox->charged_ms = is_last ? 0 : until_ms;
	sandbox->charged_monotonic_ms = now_ms;
}

static void charge_one(VialSandbox *sandbox, gboolean is_last)
{
	VialCharges *charges = vial_charges_new();

	add_charge(charges, sandbox, is_last);
	vial_audit_charge(sandbox->app->audit, charges);
}

void vial_meter_charge_all(VialMeter *meter)
{
	VialCharges *charges = vial_charges_new();
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, meter->app->sandboxes->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (((VialSandbox *)value)->charged_ms > 0) {
			add_charge(charges, value, FALSE);
			if (vial_charges_count(charges) < MAX_CHARGES)
				continue;
			vial_audit_charge(meter->app->audit, charges);
			charges = vial_charges_new();
		}
	vial_audit_charge(meter->app->audit, charges);
}

static gboolean has_awake(VialMeter *meter)
{
	GHashTableIter iter;
	gpointer value;

	g_hash_table_iter_init(&iter, meter->app->sandboxes->by_id);
	while (g_hash_table_iter_next(&iter, NULL, &value))
		if (((VialSandbox *)value)->charged_ms > 0)
			return TRUE;
	return FALSE;
}

static gboolean on_tick(gpointer data)
{
	VialMeter *meter = data;

	vial_meter_charge_all(meter);
	if (has_awake(meter))
		return G_SOURCE_CONTINUE;
	meter->tick = 0;
	return G_SOURCE_REMOVE;
}

static void begin(VialSandbox *sandbox, gint64 from_ms)
{
	VialMeter *meter = sandbox->app->meter;

	sandbox->charged_ms = from_ms;
	sandbox->charged_monotonic_ms = vial_time_monotonic_ms();
	if (meter && !meter->tick)
		meter->tick = g_timeout_add_seconds(TICK_SECONDS, on_tick, meter);
}

void vial_meter_state_changed(VialSandbox *sandbox, VialState from, VialState to)
{
	if (!is_charged(from) && is_charged(to)) {
		begin(sandbox, vial_time_now_ms());
		charge_one(sandbox, FALSE); /* of nothing, but from now on it is known from when */
	} else if (is_charged(from) && !is_charged(to) && sandbox->charged_ms > 0) {
		charge_one(sandbox, TRUE);
	}
}

static gint64 uptime_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (gint64)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* It cannot have lived longer than the machine, whatever the wall clock says. */
void vial_meter_adopted(VialSandbox *sandbox)
{
	GHashTable *meters = vial_audit_meters(sandbox->app->audit);
	const gint64 *until_ms = meters ? g_hash_table_lookup(meters, sandbox->id) : NULL;
	gint64 now_ms = vial_time_now_ms(), missed_ms = until_ms ? CLAMP(now_ms - *until_ms, 0, uptime_ms()) : 0;

	begin(sandbox, now_ms - missed_ms);
	sandbox->charged_monotonic_ms -= missed_ms;
	charge_one(sandbox, FALSE);
}

void vial_meter_lost(VialSandbox *sandbox)
{
	GHashTable *meters = vial_audit_meters(sandbox->app->audit);

	if (!meters || !g_hash_table_contains(meters, sandbox->id))
		return;
	begin(sandbox, vial_time_now_ms());
	charge_one(sandbox, TRUE);
}

VialMeter *vial_meter_new(VialApp *app)
{
	VialMeter *meter = g_new0(VialMeter, 1);

	meter->app = app;
	return meter;
}

void vial_meter_free(VialMeter *meter)
{
	if (!meter)
		return;
	g_clear_handle_id(&meter->tick, g_source_remove);
	if (meter->app->sandboxes) /* a start that was given up has none */
		vial_meter_charge_all(meter);
	g_free(meter);
}
