/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which network slot belongs to which host process. Every guest starts in a slot of its own with everything closed; its
 * owner's policy is put in force before user code runs, and can be changed while it lives. Main thread only.
 */
#pragma once

#include <jansson.h>

#include "engine/engine.h"
#include "net/net.h"
#include "util/config.h"

typedef struct VialSlots VialSlots;

VialSlots *vial_slots_new(const VialConfig *config, GError **error);
/* After all adoptions: sweeps what nobody adopted, if it may. */
void vial_slots_start(VialSlots *slots, gboolean may_sweep);
/* Before the end: hands out no more and gives back the ones that are ready. Those in use stay known until vial_slots_free(). */
void vial_slots_close(VialSlots *slots); /* accepts NULL */
void vial_slots_free(VialSlots *slots);
VialNet *vial_slots_net(VialSlots *slots);

/* A closed slot for this host process; *out_netns is borrowed until its release. */
gboolean vial_slots_acquire(VialSlots *slots, const char *host_id, const char **out_netns, GError **error);
/* What the guest calls itself in its slot. Static. */
const VialGuestNet *vial_slots_guest_net(void);
/* For a guest whose network is a TAP: a new one into its slot. -1 and an error on failure; the caller's. */
int vial_slots_open_tap(VialSlots *slots, const char *host_id, GError **error);
gboolean vial_slots_adopt(VialSlots *slots, const char *host_id, const char *name, json_t *network);
void vial_slots_release(VialSlots *slots, const char *host_id);

/*
 * A guest that goes to sleep may keep its connections (vial_net_slot_shut). Its slot is shut before it is saved: FALSE where nothing gets through
 * anyway. If it has any it is parked, under its sandbox's name, for as long as a peer may have patience; else swept like any other. Who has parked
 * one gets it back once, for the next host process, and reopens it when that has restored the guest; FALSE if there is none any more.
 */
gboolean vial_slots_shut(VialSlots *slots, const char *host_id);
void vial_slots_reopen(VialSlots *slots, const char *host_id);
void vial_slots_park(VialSlots *slots, const char *host_id, const char *sandbox_id);
gboolean vial_slots_has_parked(VialSlots *slots, const char *sandbox_id);
gboolean vial_slots_unpark(VialSlots *slots, const char *sandbox_id, const char *host_id, const char **out_netns);
void vial_slots_drop_parked(VialSlots *slots, const char *sandbox_id);

VialNetSlot *vial_slots_find(VialSlots *slots, const char *host_id);
const char *vial_slots_name(VialSlots *slots, const char *host_id); /* for the record; NULL if it has none */

/*
 * A request's policy object, checked, as it is kept and shown: a new reference. Limits above the operator's are refused
 * here; one that was kept and is above them since they were lowered is narrowed when it is put in force.
 */
json_t *vial_slots_read_network(const VialConfig *config, json_t *network, GError **error);
/*
 * `network` is the API's policy object, or NULL for disabled. `done` when it is in force, limits and all; it is called before this returns when it is
 * in force already, as for most guests of the pool, or cannot be. Changes of one guest keep their order.
 */
void vial_slots_set_policy(VialSlots *slots, const char *host_id, json_t *network, VialNetDone done, gpointer data);
/* The resolver the guest should use under its policy; NULL for none. */
const char *vial_slots_nameserver(VialSlots *slots, const char *host_id);
