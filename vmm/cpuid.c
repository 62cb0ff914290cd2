/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See cpuid.h. Hidden: nested virtualisation, performance counters, AMX (8 KiB more of state), and of KVM's own features everything but
 * the clock: async page faults, steal time, PV EOI and their kin keep state in guest memory that a snapshot would have to know of.
 */
#include "cpuid.h"

#include <asm/kvm_para.h>
#include <string.h>

#define BIT(n) (1u << (n))

#define LEAF1_ECX_MONITOR BIT(3)
#define LEAF1_ECX_VMX BIT(5)
#define LEAF1_ECX_PDCM BIT(15)
#define LEAF1_ECX_TSC_DEADLINE BIT(24)
#define LEAF1_ECX_HYPERVISOR BIT(31)
#define LEAF1_EDX_HTT BIT(28)
#define LEAF7_EBX_SGX BIT(2)
#define LEAF7_EDX_AMX (BIT(22) | BIT(24) | BIT(25))
#define XCR0_AMX (BIT(17) | BIT(18))
#define LEAF80000001_ECX_SVM BIT(2)
#define LEAF80000001_ECX_PERFCTR (BIT(23) | BIT(24) | BIT(28))
#define LEAF80000001_ECX_TOPOEXT BIT(22)

#define KVM_FEATURES_KEPT \
	(BIT(KVM_FEATURE_CLOCKSOURCE) | BIT(KVM_FEATURE_NOP_IO_DELAY) | BIT(KVM_FEATURE_CLOCKSOURCE2) | BIT(KVM_FEATURE_CLOCKSOURCE_STABLE_BIT))

static void clear_registers(struct kvm_cpuid_entry2 *entry)
{
	entry->eax = entry->ebx = entry->ecx = entry->edx = 0;
}

static void restrict_leaf7(struct kvm_cpuid_entry2 *entry)
{
	if (entry->index == 0) {
		entry->ebx &= ~LEAF7_EBX_SGX;
		entry->edx &= ~LEAF7_EDX_AMX;
	} else if (entry->index == 1) {
		entry->eax &= ~BIT(21); /* AMX-FP16 */
	}
}

static void restrict_entry(struct kvm_cpuid_entry2 *entry, bool has_tsc_deadline)
{
	switch (entry->function) {
	case 1:
		entry->ecx &= ~(LEAF1_ECX_MONITOR | LEAF1_ECX_VMX | LEAF1_ECX_PDCM);
		entry->ecx |= LEAF1_ECX_HYPERVISOR | (has_tsc_deadline ? LEAF1_ECX_TSC_DEADLINE : 0);
		break;
	case 7:
		restrict_leaf7(entry);
		break;
	case 0xa:  /* performance counters */
	case 0x12: /* SGX */
	case 0x1d: /* AMX tiles */
	case 0x1e:
	case 0x80000022:
		clear_registers(entry);
		break;
	case 0xd:
		if (entry->index == 0)
			entry->eax &= ~XCR0_AMX;
		else if (entry->index == 17 || entry->index == 18)
			clear_registers(entry);
		break;
	case KVM_CPUID_FEATURES:
		entry->eax &= KVM_FEATURES_KEPT;
		break;
	case 0x80000001:
		entry->ecx &= ~(LEAF80000001_ECX_SVM | LEAF80000001_ECX_PERFCTR | LEAF80000001_ECX_TOPOEXT);
		break;
	case 0x8000000a: /* SVM */
		clear_registers(entry);
		break;
	}
}

void vial_cpuid_restrict(struct kvm_cpuid2 *cpuid, bool has_tsc_deadline)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < cpuid->nent; i++) {
		restrict_entry(&cpuid->entries[i], has_tsc_deadline);
		/* Host topology: ours is the APIC ids alone, one core per vCPU. */
		if (cpuid->entries[i].function != 0xb && cpuid->entries[i].function != 0x1f)
			cpuid->entries[kept++] = cpuid->entries[i];
	}
	cpuid->nent = kept;
}

void vial_cpuid_for_vcpu(struct kvm_cpuid2 *cpuid, unsigned index, unsigned count)
{
	for (unsigned i = 0; i < cpuid->nent; i++) {
		struct kvm_cpuid_entry2 *entry = &cpuid->entries[i];

		switch (entry->function) {
		case 1:
			entry->ebx = (entry->ebx & 0x0000ffffu) | index << 24 | count << 16;
			if (count > 1)
				entry->edx |= LEAF1_EDX_HTT;
			else
				entry->edx &= ~LEAF1_EDX_HTT;
			break;
		case 4: /* Intel: cores per package, no cache shared between them */
			entry->eax = (entry->eax & 0x3fffu) | (count - 1) << 26;
			break;
		case 0x80000008: /* AMD: number of cores - 1 */
			entry->ecx = count - 1;
			break;
		}
	}
}
