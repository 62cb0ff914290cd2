/* SPDX-License-Identifier: Apache-2.0 */
/* What one vCPU holds: saved while it is parked, loaded into a fresh one. The order of the calls is most of the work; see the .c file. */
#pragma once

#include <stdint.h>

#include "kvm.h"
#include "state.h"
#include "vcpu.h"

int vial_vcpu_save(const struct vial_vcpu *vcpu, const struct vial_kvm *kvm, struct vial_state_writer *writer);
int vial_vcpu_load(const struct vial_vcpu *vcpu, const struct vial_kvm *kvm, const struct vial_state *state);
/* After all were loaded: every vCPU counts from the same origin. */
void vial_vcpu_equalise_tsc(struct vial_vcpu *const *vcpus, unsigned count);
/* Long mode, flat segments, the first GiB mapped one to one: as the 64-bit boot protocol wants the first vCPU. */
int vial_vcpu_boot(const struct vial_vcpu *vcpu, const struct vial_memory *memory, uint64_t entry, uint64_t argument);
