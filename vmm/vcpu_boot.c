/* SPDX-License-Identifier: Apache-2.0 */
/* The first vCPU's registers at boot (vcpu_state.h). The others stay as KVM made them: Linux wakes them with INIT and SIPI. */
#include <errno.h>
#include <string.h>

#include "layout.h"
#include "vcpu_state.h"

#define PAGE_PRESENT_WRITE 3ull
#define PAGE_HUGE 0x80ull
#define CR0_PE 1ull
#define CR0_ET (1ull << 4)
#define CR0_NE (1ull << 5)
#define CR0_PG (1ull << 31)
#define CR4_PAE (1ull << 5)
#define EFER_LME (1ull << 8)
#define EFER_LMA (1ull << 10)
#define MSR_MTRR_DEF_TYPE 0x2ffu
#define MSR_MISC_ENABLE 0x1a0u
#define LVT_EXTINT 0x700u
#define LVT_NMI 0x400u

/* One PML4 entry, one PDPT entry, 512 huge pages. */
static int write_page_tables(const struct vial_memory *memory)
{
	uint64_t table[512] = { 0 };
	uint64_t pdpt = VIAL_PAGE_TABLES_ADDRESS + VIAL_PAGE_BYTES, pd = pdpt + VIAL_PAGE_BYTES;

	table[0] = pdpt | PAGE_PRESENT_WRITE;
	if (vial_memory_write(memory, VIAL_PAGE_TABLES_ADDRESS, table, sizeof(table)) < 0)
		return -EFAULT;
	table[0] = pd | PAGE_PRESENT_WRITE;
	if (vial_memory_write(memory, pdpt, table, sizeof(table)) < 0)
		return -EFAULT;
	for (uint64_t i = 0; i < 512; i++)
		table[i] = i << 21 | PAGE_PRESENT_WRITE | PAGE_HUGE;
	return vial_memory_write(memory, pd, table, sizeof(table));
}

static int set_segments(const struct vial_memory *memory, struct kvm_sregs *sregs)
{
	/* Selectors 0x10 and 0x18 are the boot protocol's __BOOT_CS and __BOOT_DS. */
	static const uint64_t gdt[4] = { 0, 0, 0x00af9b000000ffffull, 0x00cf93000000ffffull };
	struct kvm_segment code = { .limit = 0xffffffff, .selector = 0x10, .type = 0xb, .present = 1, .s = 1, .l = 1, .g = 1 };
	struct kvm_segment data = { .limit = 0xffffffff, .selector = 0x18, .type = 0x3, .present = 1, .s = 1, .db = 1, .g = 1 };

	sregs->cs = code;
	sregs->ds = sregs->es = sregs->fs = sregs->gs = sregs->ss = data;
	sregs->gdt = (struct kvm_dtable){ .base = VIAL_GDT_ADDRESS, .limit = sizeof(gdt) - 1 };
	sregs->idt = (struct kvm_dtable){ 0 };
	return vial_memory_write(memory, VIAL_GDT_ADDRESS, gdt, sizeof(gdt));
}

static int set_system_registers(const struct vial_vcpu *vcpu, const struct vial_memory *memory)
{
	struct kvm_sregs sregs;
	int result = vial_ioctl(vcpu->fd, KVM_GET_SREGS, &sregs);

	if (result >= 0)
		result = set_segments(memory, &sregs);
	if (result < 0)
		return result;
	sregs.cr3 = VIAL_PAGE_TABLES_ADDRESS;
	sregs.cr4 = CR4_PAE;
	sregs.cr0 = CR0_PE | CR0_ET | CR0_NE | CR0_PG;
	sregs.efer = EFER_LME | EFER_LMA;
	return vial_ioctl(vcpu->fd, KVM_SET_SREGS, &sregs);
}

static int set_lapic(const struct vial_vcpu *vcpu)
{
	struct kvm_lapic_state lapic;
	uint32_t lint0 = LVT_EXTINT, lint1 = LVT_NMI;
	int result = vial_ioctl(vcpu->fd, KVM_GET_LAPIC, &lapic);

	if (result < 0)
		return result;
	memcpy(lapic.regs + 0x350, &lint0, sizeof(lint0));
	memcpy(lapic.regs + 0x360, &lint1, sizeof(lint1));
	return vial_ioctl(vcpu->fd, KVM_SET_LAPIC, &lapic);
}

int vial_vcpu_boot(const struct vial_vcpu *vcpu, const struct vial_memory *memory, uint64_t entry, uint64_t argument)
{
	struct kvm_regs regs = { .rip = entry, .rsi = argument, .rsp = VIAL_BOOT_STACK_ADDRESS, .rbp = VIAL_BOOT_STACK_ADDRESS, .rflags = 2 };
	struct kvm_fpu fpu = { .fcw = 0x37f, .mxcsr = 0x1f80 };
	struct {
		struct kvm_msrs header;
		struct kvm_msr_entry entries[2];
	} msrs = {
		.header = { .nmsrs = 2 },
		/* Memory is write-back unless said otherwise, or all of it would be uncached. Fast strings are on. */
		.entries = { { .index = MSR_MTRR_DEF_TYPE, .data = 0x806 }, { .index = MSR_MISC_ENABLE, .data = 1 } },
	};
	int result = write_page_tables(memory);

	if (result >= 0)
		result = set_system_registers(vcpu, memory);
	if (result >= 0)
		result = vial_ioctl(vcpu->fd, KVM_SET_REGS, &regs);
	if (result >= 0)
		result = vial_ioctl(vcpu->fd, KVM_SET_FPU, &fpu);
	if (result >= 0)
		result = set_lapic(vcpu);
	if (result >= 0)
		vial_ioctl(vcpu->fd, KVM_SET_MSRS, &msrs); /* an AMD KVM may not know MISC_ENABLE */
	return result < 0 ? result : 0;
}
