/* SPDX-License-Identifier: Apache-2.0 */
/* Which host a state belongs to. A guest that has looked at its CPU cannot be woken on another one. */
#pragma once

#include "kvm.h"
#include "state.h"

struct vial_fingerprint {
	char vendor[16];
	uint32_t signature; /* CPUID 1 EAX: family, model, stepping */
	uint32_t features;  /* CRC of everything the guest is told about its CPU */
	char kernel[64];    /* uname -r */
	char build[44];     /* build id of this program */
	uint32_t version;
};

void vial_fingerprint_get(const struct vial_kvm *kvm, struct vial_fingerprint *out);
void vial_fingerprint_save(const struct vial_kvm *kvm, struct vial_state_writer *writer);
/* 0, or -EXDEV and one sentence about the first difference. */
int vial_fingerprint_check(const struct vial_kvm *kvm, const struct vial_state *state, const char **out_error);
