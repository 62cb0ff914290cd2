/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See vcpu_state.h.
 *
 * Save: MP_STATE first (reading it may still process a pending INIT), VCPU_EVENTS last.
 * Load: CPUID, MP_STATE, REGS (clears pending exceptions), SREGS (carries the APIC base), XSAVE, XCRS, DEBUGREGS, LAPIC (sets the timer's
 * mode), MSRs, then the TSC deadline by itself (KVM drops it silently unless mode and TSC are already right), VCPU_EVENTS.
 */
#include "vcpu_state.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MSR_TSC 0x10u
#define MSR_TSC_DEADLINE 0x6e0u
#define MSR_PRED_CMD 0x49u
#define MSR_FLUSH_CMD 0x10bu
#define MSRS_PER_CALL 128u
#define MAX_MSRS 512u
#define MAX_CPUID_ENTRIES 256u

struct saved_vcpu {
	struct kvm_mp_state mp_state;
	uint32_t tsc_khz;
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	struct kvm_xcrs xcrs;
	struct kvm_debugregs debugregs;
	struct kvm_lapic_state lapic;
	struct kvm_vcpu_events events;
};

/* What is one structure each way, in the order of loading, which saving can bear too. */
static const struct {
	unsigned long get, set;
	size_t offset;
} plain[] = {
	{ KVM_GET_MP_STATE, KVM_SET_MP_STATE, offsetof(struct saved_vcpu, mp_state) },
	{ KVM_GET_REGS, KVM_SET_REGS, offsetof(struct saved_vcpu, regs) },
	{ KVM_GET_SREGS, KVM_SET_SREGS, offsetof(struct saved_vcpu, sregs) },
	{ KVM_GET_XCRS, KVM_SET_XCRS, offsetof(struct saved_vcpu, xcrs) }, /* the first of those behind XSAVE */
	{ KVM_GET_DEBUGREGS, KVM_SET_DEBUGREGS, offsetof(struct saved_vcpu, debugregs) },
	{ KVM_GET_LAPIC, KVM_SET_LAPIC, offsetof(struct saved_vcpu, lapic) },
};
#define BEFORE_XSAVE 3u
#define PLAIN_COUNT (sizeof(plain) / sizeof(*plain))

struct msr_block {
	struct kvm_msrs header;
	struct kvm_msr_entry entries[MSRS_PER_CALL];
};

/* Not in KVM's list on every kernel, and the kernel of the guest minds: memory types. */
static const uint32_t extra_msrs[] = {
	0x2ff, 0x277, 0x250, 0x258, 0x259, 0x268, 0x269, 0x26a, 0x26b, 0x26c, 0x26d, 0x26e, 0x26f, 0x200, 0x201,
	0x202, 0x203, 0x204, 0x205, 0x206, 0x207, 0x208, 0x209, 0x20a, 0x20b, 0x20c, 0x20d, 0x20e, 0x20f,
};

static bool is_skipped(uint32_t msr)
{
	/* Write-only commands, and performance counters, which the guest does not have. */
	return msr == MSR_PRED_CMD || msr == MSR_FLUSH_CMD || (msr >= 0xc1 && msr <= 0xc8) || (msr >= 0x186 && msr <= 0x18d) ||
	       (msr >= 0x309 && msr <= 0x30b) || (msr >= 0x38d && msr <= 0x390) || (msr >= 0xc0010000 && msr <= 0xc0010007) ||
	       (msr >= 0xc0010200 && msr <= 0xc001020b) || (msr >= 0xc0000300 && msr <= 0xc0000302);
}

static unsigned collect_indices(const struct vial_kvm *kvm, uint32_t *out)
{
	unsigned count = 0;

	for (unsigned i = 0; i < kvm->msrs->nmsrs && count < MAX_MSRS; i++) {
		if (!is_skipped(kvm->msrs->indices[i]))
			out[count++] = kvm->msrs->indices[i];
	}
	for (unsigned i = 0; i < sizeof(extra_msrs) / sizeof(*extra_msrs) && count < MAX_MSRS; i++) {
		bool is_listed = false;

		for (unsigned k = 0; k < count && !is_listed; k++)
			is_listed = out[k] == extra_msrs[i];
		if (!is_listed)
			out[count++] = extra_msrs[i];
	}
	return count;
}

/* KVM stops at the first MSR it refuses and tells how many it did; that one is left out and the rest tried again. */
static int get_msrs(int fd, const uint32_t *indices, unsigned count, struct kvm_msr_entry *out, unsigned *out_count)
{
	unsigned at = 0, kept = 0;

	while (at < count) {
		struct msr_block block = { 0 };
		unsigned part = count - at < MSRS_PER_CALL ? count - at : MSRS_PER_CALL;
		int done;

		block.header.nmsrs = part;
		for (unsigned i = 0; i < part; i++)
			block.entries[i].index = indices[at + i];
		done = vial_ioctl(fd, KVM_GET_MSRS, &block);
		if (done < 0)
			return done;
		memcpy(out + kept, block.entries, (size_t)done * sizeof(*out));
		kept += (unsigned)done;
		at += (unsigned)done < part ? (unsigned)done + 1 : part;
	}
	*out_count = kept;
	return 0;
}

/* Where a lost value means a broken guest: time, syscall entry, segment bases, kvm-clock. */
static bool is_essential(uint32_t msr)
{
	return msr == MSR_TSC || msr == MSR_TSC_DEADLINE || (msr >= 0x174 && msr <= 0x176) || (msr >= 0xc0000081 && msr <= 0xc0000084) ||
	       (msr >= 0xc0000100 && msr <= 0xc0000103) || (msr >= 0x4b564d00 && msr <= 0x4b564dff);
}

static int set_msrs(int fd, const struct kvm_msr_entry *entries, unsigned count)
{
	unsigned at = 0;

	while (at < count) {
		struct msr_block block = { 0 };
		unsigned part = count - at < MSRS_PER_CALL ? count - at : MSRS_PER_CALL;
		int done;

		block.header.nmsrs = part;
		memcpy(block.entries, entries + at, part * sizeof(*entries));
		done = vial_ioctl(fd, KVM_SET_MSRS, &block);
		if (done < 0)
			return done;
		at += (unsigned)done;
		if ((unsigned)done < part) {
			/* Refused: what we read is what KVM gives everybody (read-only capabilities), except for these ranges. */
			if (entries[at].data != 0 && is_essential(entries[at].index))
				return -EIO;
			at++;
		}
	}
	return 0;
}

static int save_msrs(const struct vial_vcpu *vcpu, const struct vial_kvm *kvm, struct vial_state_writer *writer)
{
	uint32_t indices[MAX_MSRS];
	struct kvm_msr_entry entries[MAX_MSRS];
	unsigned count;
	int result = get_msrs(vcpu->fd, indices, collect_indices(kvm, indices), entries, &count);

	if (result == 0)
		vial_state_put(writer, VIAL_STATE_MSRS, vcpu->index, entries, count * sizeof(*entries));
	return result;
}

static int save_cpuid(const struct vial_vcpu *vcpu, struct vial_state_writer *writer)
{
	struct {
		struct kvm_cpuid2 header;
		struct kvm_cpuid_entry2 entries[MAX_CPUID_ENTRIES];
	} *cpuid = calloc(1, sizeof(*cpuid));
	unsigned count = 0;
	int result;

	if (!cpuid)
		return -ENOMEM;
	cpuid->header.nent = MAX_CPUID_ENTRIES;
	result = vial_ioctl(vcpu->fd, KVM_GET_CPUID2, cpuid);
	/* Older kernels do not shrink the count: the rest is zero. Leaf 0 itself is never all zero. */
	while (result >= 0 && count < cpuid->header.nent &&
	       (count == 0 || cpuid->entries[count].function || cpuid->entries[count].eax || cpuid->entries[count].ebx))
		count++;
	if (result >= 0)
		vial_state_put(writer, VIAL_STATE_CPUID, vcpu->index, cpuid->entries, count * sizeof(cpuid->entries[0]));
	free(cpuid);
	return result < 0 ? result : 0;
}

static int save_xsave(const struct vial_vcpu *vcpu, const struct vial_kvm *kvm, struct vial_state_writer *writer)
{
	void *area = vial_state_reserve(writer, VIAL_STATE_XSAVE, vcpu->index, (size_t)kvm->xsave_bytes);
	bool is_big = kvm->xsave_bytes > (int)sizeof(struct kvm_xsave);

	return area ? vial_ioctl(vcpu->fd, is_big ? KVM_GET_XSAVE2 : KVM_GET_XSAVE, area) : -ENOMEM;
}

int vial_vcpu_save(const struct vial_vcpu *vcpu, const struct vial_kvm *kvm, struct vial_state_writer *writer)
{
	struct saved_vcpu saved = { 0 };
	int khz, result = 0;

	for (size_t i = 0; i < PLAIN_COUNT && result >= 0; i++)
		result = vial_ioctl(vcpu->fd, plain[i].get, (uint8_t *)&saved + plain[i].offset);
	if (result >= 0)
		result = save_xsave(vcpu, kvm, writer);
	khz = vial_ioctl(vcpu->fd, KVM_GET_TSC_KHZ, NULL);
	saved.tsc_khz = khz > 0 ? (uint32_t)khz : 0;
	if (result >= 0)
		result = save_cpuid(vcpu, writer);
	if (result >= 0)
		result = save_msrs(vcpu, kvm, writer);
	if (result >= 0)
		result = vial_ioctl(vcpu->fd, KVM_GET_VCPU_EVENTS, &saved.events);
	if (result >= 0)
		vial_state_put(writer, VIAL_STATE_VCPU, vcpu->index, &saved, sizeof(saved));
	return result < 0 ? result : 0;
}

static int load_cpuid(const struct vial_vcpu *vcpu, const struct vial_state *state)
{
	size_t length;
	const uint8_t *entries = vial_state_find(state, VIAL_STATE_CPUID, vcpu->index, &length);
	struct kvm_cpuid2 *cpuid;
	int result;

	if (!entries || length % sizeof(struct kvm_cpuid_entry2) || length / sizeof(struct kvm_cpuid_entry2) > MAX_CPUID_ENTRIES)
		return -EPROTO;
	cpuid = calloc(1, sizeof(*cpuid) + length);
	if (!cpuid)
		return -ENOMEM;
	cpuid->nent = (uint32_t)(length / sizeof(struct kvm_cpuid_entry2));
	memcpy(cpuid->entries, entries, length);
	result = vial_ioctl(vcpu->fd, KVM_SET_CPUID2, cpuid);
	free(cpuid);
	return result;
}

static int load_xsave(const struct vial_vcpu *vcpu, const struct vial_kvm *kvm, const struct vial_state *state)
{
	size_t length;
	const uint8_t *area = vial_state_find(state, VIAL_STATE_XSAVE, vcpu->index, &length);

	if (!area || length != (size_t)kvm->xsave_bytes)
		return -EPROTO;
	return vial_ioctl(vcpu->fd, KVM_SET_XSAVE, (void *)(uintptr_t)area);
}

static int load_msrs(const struct vial_vcpu *vcpu, const struct vial_state *state)
{
	struct kvm_msr_entry entries[MAX_MSRS], deadline = { .index = MSR_TSC_DEADLINE }, tsc = { 0 };
	size_t length;
	const uint8_t *saved = vial_state_find(state, VIAL_STATE_MSRS, vcpu->index, &length);
	unsigned count = 0;
	int result;

	if (!saved || length % sizeof(*entries) || length > sizeof(entries))
		return -EPROTO;
	for (size_t at = 0; at < length; at += sizeof(*entries)) {
		struct kvm_msr_entry entry;

		memcpy(&entry, saved + at, sizeof(entry));
		if (entry.index == MSR_TSC_DEADLINE)
			deadline = entry;
		else
			entries[count++] = entry;
		if (entry.index == MSR_TSC)
			tsc = entry;
	}
	result = set_msrs(vcpu->fd, entries, count);
	/* A timer that fired just before the save reads 0; firing once too often is harmless, never firing is not. */
	if (deadline.data == 0)
		deadline.data = tsc.data;
	if (result == 0)
		result = set_msrs(vcpu->fd, &deadline, 1);
	return result;
}

/* 250 ppm is what a guest cannot notice and two measurements of one clock may differ by. */
static int load_tsc_rate(const struct vial_vcpu *vcpu, uint32_t saved_khz)
{
	int64_t khz = vial_ioctl(vcpu->fd, KVM_GET_TSC_KHZ, NULL);
	int64_t difference = khz > saved_khz ? khz - saved_khz : saved_khz - khz;

	if (khz <= 0 || saved_khz == 0 || difference * 4000 <= saved_khz)
		return 0;
	return vial_ioctl(vcpu->fd, KVM_SET_TSC_KHZ, (void *)(uintptr_t)saved_khz);
}

int vial_vcpu_load(const struct vial_vcpu *vcpu, const struct vial_kvm *kvm, const struct vial_state *state)
{
	struct saved_vcpu saved;
	int result = vial_state_get(state, VIAL_STATE_VCPU, vcpu->index, &saved, sizeof(saved));

	if (result >= 0)
		result = load_tsc_rate(vcpu, saved.tsc_khz);
	if (result >= 0)
		result = load_cpuid(vcpu, state);
	for (size_t i = 0; i < PLAIN_COUNT && result >= 0; i++) {
		if (i == BEFORE_XSAVE)
			result = load_xsave(vcpu, kvm, state);
		if (result >= 0)
			result = vial_ioctl(vcpu->fd, plain[i].set, (uint8_t *)&saved + plain[i].offset);
	}
	if (result >= 0)
		result = load_msrs(vcpu, state);
	if (result >= 0)
		result = vial_ioctl(vcpu->fd, KVM_SET_VCPU_EVENTS, &saved.events);
	return result < 0 ? result : 0;
}

void vial_vcpu_equalise_tsc(struct vial_vcpu *const *vcpus, unsigned count)
{
	uint64_t offset;
	struct kvm_device_attr attribute = {
		.group = KVM_VCPU_TSC_CTRL,
		.attr = KVM_VCPU_TSC_OFFSET,
		.addr = (uintptr_t)&offset,
	};

	/* Since Linux 5.16; before, KVM matches writes of the TSC that come close together by itself. */
	if (count < 2 || vial_ioctl(vcpus[0]->fd, KVM_GET_DEVICE_ATTR, &attribute) < 0)
		return;
	for (unsigned i = 1; i < count; i++)
		vial_ioctl(vcpus[i]->fd, KVM_SET_DEVICE_ATTR, &attribute);
}
