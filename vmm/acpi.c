/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See acpi.h; ACPI 6.4. Hardware-reduced: no SCI, no PM timer. MADT is what makes more than one vCPU possible (Debian's cloud kernel has
 * no MP table parser). virtio-mmio devices are LNRO0005 with edge interrupts, so that a plain irqfd serves. VMGenID
 * tells a kernel from 5.18 on that it runs again from a snapshot, by a generic event device.
 */
#include "acpi.h"

#include <errno.h>
#include <string.h>

#include "aml.h"
#include "layout.h"
#include "virtio/device.h"

#define FADT_BYTES 276u
#define FADT_FLAG_WBINVD (1u << 0)
#define FADT_FLAG_POWER_BUTTON (1u << 4)
#define FADT_FLAG_SLEEP_BUTTON (1u << 5)
#define FADT_FLAG_RESET_REGISTER (1u << 10)
#define FADT_FLAG_HARDWARE_REDUCED (1u << 20)
#define BOOT_ARCH_NO_VGA (1u << 2)
#define BOOT_ARCH_NO_MSI (1u << 3)
#define BOOT_ARCH_NO_RTC (1u << 5) /* else the kernel waits seconds for it */

struct table_header {
	char signature[4];
	uint32_t length;
	uint8_t revision;
	uint8_t checksum;
	char oem[6];
	char oem_table[8];
	uint32_t oem_revision;
	char creator[4];
	uint32_t creator_revision;
} __attribute__((packed));

struct placer {
	const struct vial_memory *memory;
	uint64_t next;
	int error;
};

static uint8_t checksum(const uint8_t *bytes, size_t length)
{
	uint8_t sum = 0;

	while (length-- > 0)
		sum = (uint8_t)(sum + *bytes++);
	return (uint8_t)-sum;
}

/* Completes the header of a table whose body is in place, and copies it to the guest. Returns its address. */
static uint64_t place(struct placer *placer, const char signature[4], uint8_t revision, uint8_t *table, size_t length)
{
	struct table_header header = { .length = (uint32_t)length, .revision = revision, .oem_revision = 1, .creator_revision = 1 };
	uint64_t address = placer->next;

	memcpy(header.signature, signature, 4);
	memcpy(header.oem, "VIAL  ", 6);
	memcpy(header.oem_table, "VIALVMM ", 8);
	memcpy(header.creator, "VIAL", 4);
	memcpy(table, &header, sizeof(header));
	table[offsetof(struct table_header, checksum)] = checksum(table, length);
	if (address + length > VIAL_ACPI_TABLES_END)
		placer->error = -ENOSPC;
	else if (vial_memory_write(placer->memory, address, table, length) < 0)
		placer->error = -EFAULT;
	placer->next = (address + length + 63) & ~63ull;
	return address;
}

/* Extended interrupt descriptor: consumer, edge, active high, exclusive or shared. */
static size_t put_interrupt(uint8_t *out, uint32_t gsi, bool is_shared)
{
	const uint8_t start[] = { 0x89, 0x06, 0x00, is_shared ? 0x0b : 0x03, 0x01 };

	memcpy(out, start, sizeof(start));
	memcpy(out + sizeof(start), &gsi, sizeof(gsi));
	return sizeof(start) + sizeof(gsi);
}

static void add_virtio(struct vial_aml *aml, unsigned index, bool is_shared)
{
	static const uint8_t memory_start[] = { 0x86, 0x09, 0x00, 0x01 };
	uint32_t range[2] = { (uint32_t)(VIAL_MMIO_START + index * VIAL_VIRTIO_MMIO_BYTES), VIAL_VIRTIO_MMIO_BYTES };
	uint8_t resources[32];
	size_t length = sizeof(memory_start) + sizeof(range);
	char name[4] = { 'V', 'I', (char)('0' + index / 10), (char)('0' + index % 10) };
	size_t device = vial_aml_open_device(aml, name);

	vial_aml_name_string(aml, "_HID", "LNRO0005");
	vial_aml_name_integer(aml, "_UID", index);
	vial_aml_name_integer(aml, "_CCA", 1);
	memcpy(resources, memory_start, sizeof(memory_start));
	memcpy(resources + sizeof(memory_start), range, sizeof(range));
	length += put_interrupt(resources + length, VIAL_VIRTIO_GSI(index), is_shared);
	vial_aml_resources(aml, resources, length);
	vial_aml_close(aml, device);
}

static void add_generation(struct vial_aml *aml)
{
	const uint32_t address[2] = { (uint32_t)VIAL_GENERATION_ADDRESS, 0 };
	uint8_t resources[16];
	size_t device = vial_aml_open_device(aml, "VGEN");
	size_t method;

	/* Linux before 6.10 matches only the _CID, later ones the _HID too. */
	vial_aml_name_string(aml, "_HID", "VMGENCTR");
	vial_aml_name_string(aml, "_CID", "VM_Gen_Counter");
	vial_aml_name_string(aml, "_DDN", "VM_Gen_Counter");
	vial_aml_name_integers(aml, "ADDR", address, 2);
	vial_aml_close(aml, device);

	device = vial_aml_open_device(aml, "GED_");
	vial_aml_name_string(aml, "_HID", "ACPI0013");
	vial_aml_name_integer(aml, "_UID", 0);
	vial_aml_resources(aml, resources, put_interrupt(resources, VIAL_GENERATION_GSI, false));
	method = vial_aml_open_method(aml, "_EVT", 1);
	vial_aml_bytes(aml, "\x86\\\x2e_SB_VGEN\x0a\x80", 13); /* Notify (\_SB.VGEN, 0x80) */
	vial_aml_close(aml, method);
	vial_aml_close(aml, device);
}

static void add_serial(struct vial_aml *aml)
{
	static const uint8_t resources[] = { 0x47, 0x01, 0xf8, 0x03, 0xf8, 0x03, 0x01, 0x08, 0x22, 1u << VIAL_SERIAL_GSI, 0x00 };
	size_t device = vial_aml_open_device(aml, "COM1");

	vial_aml_name_integer(aml, "_HID", 0x0105d041); /* EISA id PNP0501 */
	vial_aml_name_integer(aml, "_UID", 0);
	vial_aml_resources(aml, resources, sizeof(resources));
	vial_aml_close(aml, device);
}

static uint64_t place_dsdt(struct placer *placer, const struct vial_acpi_config *config)
{
	static const uint32_t sleep_type[2] = { 5, 5 };
	uint8_t table[4096] = { 0 };
	struct vial_aml aml = { .bytes = table, .capacity = sizeof(table), .used = sizeof(struct table_header) };
	size_t scope;

	vial_aml_name_integers(&aml, "_S5_", sleep_type, 2);
	scope = vial_aml_open_scope(&aml, "_SB_");
	for (unsigned i = 0; i < config->devices; i++)
		add_virtio(&aml, i, config->devices > VIAL_VIRTIO_GSIS);
	add_generation(&aml);
	if (config->has_serial)
		add_serial(&aml);
	vial_aml_close(&aml, scope);
	if (aml.is_full)
		placer->error = -ENOSPC;
	return place(placer, "DSDT", 2, table, aml.used);
}

static void put_port(uint8_t *at, uint64_t port)
{
	/* Generic address: I/O space, 8 bits wide, byte access. */
	at[0] = 1;
	at[1] = 8;
	at[3] = 1;
	memcpy(at + 4, &port, sizeof(port));
}

static uint64_t place_fadt(struct placer *placer, uint64_t dsdt)
{
	uint8_t table[FADT_BYTES] = { 0 };
	uint16_t boot_arch = BOOT_ARCH_NO_VGA | BOOT_ARCH_NO_MSI | BOOT_ARCH_NO_RTC;
	uint32_t flags = FADT_FLAG_WBINVD | FADT_FLAG_POWER_BUTTON | FADT_FLAG_SLEEP_BUTTON | FADT_FLAG_RESET_REGISTER | FADT_FLAG_HARDWARE_REDUCED;
	uint32_t dsdt_low = (uint32_t)dsdt;

	memcpy(table + 40, &dsdt_low, sizeof(dsdt_low));
	memcpy(table + 109, &boot_arch, sizeof(boot_arch));
	memcpy(table + 112, &flags, sizeof(flags));
	put_port(table + 116, VIAL_KEYBOARD_PORT);
	table[128] = 0xfe; /* reset value */
	table[131] = 4;    /* minor revision */
	memcpy(table + 140, &dsdt, sizeof(dsdt));
	put_port(table + 244, VIAL_SLEEP_PORT);
	put_port(table + 256, VIAL_SLEEP_PORT + 1);
	memcpy(table + 268, "VIALVMM ", 8);
	return place(placer, "FACP", 6, table, sizeof(table));
}

static uint64_t place_madt(struct placer *placer, unsigned vcpus)
{
	uint8_t table[sizeof(struct table_header) + 8 + 8 * VIAL_MAX_VCPUS + 12] = { 0 };
	uint32_t lapic = (uint32_t)VIAL_LAPIC_ADDRESS;
	uint32_t ioapic = (uint32_t)VIAL_IOAPIC_ADDRESS;
	uint8_t *at = table + sizeof(struct table_header);

	memcpy(at, &lapic, sizeof(lapic));
	at += 8;
	for (unsigned i = 0; i < vcpus; i++, at += 8) {
		at[0] = 0; /* processor local APIC */
		at[1] = 8;
		at[2] = at[3] = (uint8_t)i;
		at[4] = 1; /* enabled */
	}
	at[0] = 1; /* IOAPIC, its inputs are GSI 0 and up */
	at[1] = 12;
	memcpy(at + 4, &ioapic, sizeof(ioapic));
	at += 12;
	return place(placer, "APIC", 5, table, (size_t)(at - table));
}

static int place_rsdp(const struct vial_memory *memory, uint64_t xsdt)
{
	uint8_t rsdp[36] = { 0 };
	uint32_t length = sizeof(rsdp);

	memcpy(rsdp, "RSD PTR ", 8);
	memcpy(rsdp + 9, "VIAL  ", 6);
	rsdp[15] = 2;
	memcpy(rsdp + 20, &length, sizeof(length));
	memcpy(rsdp + 24, &xsdt, sizeof(xsdt));
	rsdp[8] = checksum(rsdp, 20);
	rsdp[32] = checksum(rsdp, sizeof(rsdp));
	return vial_memory_write(memory, VIAL_RSDP_ADDRESS, rsdp, sizeof(rsdp));
}

int vial_acpi_write(const struct vial_memory *memory, const struct vial_acpi_config *config)
{
	struct placer placer = { .memory = memory, .next = VIAL_ACPI_TABLES_ADDRESS };
	uint8_t xsdt[sizeof(struct table_header) + 2 * sizeof(uint64_t)] = { 0 };
	uint64_t entries[2];
	uint64_t address;

	if (config->vcpus == 0 || config->vcpus > VIAL_MAX_VCPUS || config->devices > VIAL_MAX_DEVICES)
		return -EINVAL;
	entries[0] = place_fadt(&placer, place_dsdt(&placer, config));
	entries[1] = place_madt(&placer, config->vcpus);
	memcpy(xsdt + sizeof(struct table_header), entries, sizeof(entries));
	address = place(&placer, "XSDT", 1, xsdt, sizeof(xsdt));
	return placer.error ? placer.error : place_rsdp(memory, address);
}
