/* SPDX-License-Identifier: Apache-2.0 */
/* Where things are in the guest's physical address space and which interrupts they use. RAM itself is in memory.h. */
#pragma once

/* Low memory, below the reserved range of the PC. */
#define VIAL_GDT_ADDRESS 0x500ull
#define VIAL_BOOT_PARAMS_ADDRESS 0x7000ull
#define VIAL_BOOT_STACK_ADDRESS 0x8ff0ull
#define VIAL_PAGE_TABLES_ADDRESS 0x9000ull /* three pages */
#define VIAL_COMMAND_LINE_ADDRESS 0x20000ull
#define VIAL_LOW_RESERVED_START 0x9fc00ull
#define VIAL_GENERATION_ADDRESS 0xa0000ull /* 16 bytes, RAM that e820 calls reserved */
#define VIAL_RSDP_ADDRESS 0xe0000ull
#define VIAL_ACPI_TABLES_ADDRESS 0xe1000ull
#define VIAL_ACPI_TABLES_END 0xf0000ull
#define VIAL_KERNEL_MINIMUM_ADDRESS 0x100000ull
#define VIAL_KERNEL_ADDRESS 0x1000000ull

/* The device hole, 3 to 4 GiB. */
#define VIAL_MMIO_START 0xd0000000ull
#define VIAL_IOAPIC_ADDRESS 0xfec00000ull
#define VIAL_LAPIC_ADDRESS 0xfee00000ull
#define VIAL_IDENTITY_MAP_ADDRESS 0xfffbc000ull
#define VIAL_TSS_ADDRESS 0xfffbd000ull

/* Inputs of the IOAPIC. From 16 on they are free of the PC's history. */
#define VIAL_SERIAL_GSI 4u
#define VIAL_VIRTIO_FIRST_GSI 16u
#define VIAL_VIRTIO_GSIS 7u
/*
 * Devices beyond the seventh share an input with an earlier one. Linux calls every driver of a shared interrupt, each asks its own device, and an
 * edge that comes meanwhile is kept: only custom templates with layers have so many.
 */
#define VIAL_VIRTIO_GSI(index) (VIAL_VIRTIO_FIRST_GSI + (index) % VIAL_VIRTIO_GSIS)
#define VIAL_MAX_DEVICES 23u
#define VIAL_GENERATION_GSI 23u
#define VIAL_MAX_VCPUS 8u

/* I/O ports. */
#define VIAL_SERIAL_PORT 0x3f8u
#define VIAL_KEYBOARD_PORT 0x64u /* the guest's reset: command 0xfe */
#define VIAL_SLEEP_PORT 0x600u   /* ACPI sleep control: the guest's power-off */
