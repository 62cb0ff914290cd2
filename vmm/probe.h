/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is this machine's /dev/kvm good enough? Runs a small 64-bit guest (probe_guest.S) with SSE, AVX, XSAVE, CMPXCHG16B and a trip to ring 3, and
 * times it. A /dev/kvm that merely opens proves nothing: some are paravirtual and emulate what they cannot run.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fingerprint.h"

struct vial_probe {
	bool is_usable;
	bool is_complete;             /* everything ran, however slowly */
	char reason[160];             /* one sentence */
	uint64_t loops_per_ms;        /* of an add-and-branch loop */
	uint64_t exit_ns;             /* one I/O exit and back */
	int last_step;                /* how far the guest came */
	uint32_t exit_reason;         /* KVM's, where it stopped */
	struct vial_fingerprint host; /* what snapshots made here are bound to */
};

void vial_probe_run(struct vial_probe *out_probe);
/* Prints the result as one line of JSON. 0 when usable, 1 when not. */
int vial_probe_main(void);

/* probe_guest.S */
extern const uint8_t vial_probe_guest_start[], vial_probe_guest_end[];
