/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two namespaces and two veth pairs of a slot, and the host's part of the plumbing. Blocking (milliseconds); the
 * functions on slots are for worker threads.
 */
#pragma once

#include <glib.h>

#include "net/address.h"

#define VIAL_SLOT_NUMBERS 32768

typedef struct {
	guint number;            /* unique on this host: the interface's name guards it */
	char *name;              /* vial-<tag>-<number>: the guest's namespace */
	char *gate_name;         /* <name>-gate */
	char host_interface[16]; /* vl<number> */
} VialWiring;

void vial_wiring_clear(VialWiring *wiring);
/* The names that follow from tag and number. */
void vial_wiring_name(VialWiring *wiring, const char *tag, guint number);
/* From "vial-<tag>-<number>" back; FALSE when it is not a name of this tag. */
gboolean vial_wiring_parse(VialWiring *wiring, const char *tag, const char *name);

/* Makes everything under the first free number from wiring->number on; leaves nothing behind on failure. */
gboolean vial_wiring_build(VialWiring *wiring, const char *tag, const char *alias, guint first_number, guint mtu, guint64 bytes_per_second,
                           GError **error);
/* The index of the host's end; 0 when it is gone. */
int vial_wiring_host_index(const VialWiring *wiring);
/* Gives the guest's namespace its addresses back, which a runsc that lived there took, for the next one. */
gboolean vial_wiring_renew_guest(const VialWiring *wiring, GError **error);
/* Removes whatever is there. */
void vial_wiring_remove(const VialWiring *wiring);
gboolean vial_wiring_set_rate(int gate_fd, guint64 bytes_per_second, GError **error);
/* A TAP in place of the gate's veth end; the fd is the caller's. */
int vial_wiring_open_tap(int gate_fd, guint64 bytes_per_second, GError **error);
gboolean vial_wiring_traffic(int gate_fd, guint64 *out_from_guest, guint64 *out_to_guest);

/* Numbers of the slots with this tag that exist in any part, as guint. */
GArray *vial_wiring_list(const char *tag);

typedef struct {
	guint mtu;         /* of the way out */
	GArray *addresses; /* the host's own, VialAddress */
} VialHostFacts;

/* Looks around, and lets the host forward where it does not yet. *facts starts as zeros. */
gboolean vial_host_refresh(VialHostFacts *facts, GError **error);
