/* SPDX-License-Identifier: Apache-2.0 */
/* Which processor the guest sees: what KVM supports, minus every feature whose state we do not save or do not want to offer. */
#pragma once

#include <linux/kvm.h>
#include <stdbool.h>

/* In place, once. */
void vial_cpuid_restrict(struct kvm_cpuid2 *cpuid, bool has_tsc_deadline);
/* The parts that differ between vCPUs: APIC ids and topology. */
void vial_cpuid_for_vcpu(struct kvm_cpuid2 *cpuid, unsigned index, unsigned count);
