/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long sandboxes are awake, with how many processors and how much memory: charged to their project when they fall asleep or end, and every minute
 * in between (audit/usage.h keeps the sums). Durations are the monotonic clock's; which day they fall on is the wall clock's.
 */
#pragma once

#include "service/sandbox.h"

VialMeter *vial_meter_new(VialApp *app);
void vial_meter_free(VialMeter *meter); /* accepts NULL; charges what is awake */

/* Its state has changed; called by whoever changes it, and once for each that was adopted. */
void vial_meter_state_changed(VialSandbox *sandbox, VialState from, VialState to);
/* One that outlived the last viald goes on from where that one had charged it. */
void vial_meter_adopted(VialSandbox *sandbox);
/* One that did not: there is nothing more to charge. */
void vial_meter_lost(VialSandbox *sandbox);
/* What is awake, up to now: so that whoever asks is told the truth. */
void vial_meter_charge_all(VialMeter *meter);
