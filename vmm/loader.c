/* SPDX-License-Identifier: Apache-2.0 */
/* See loader.h: what both formats share, which is boot_params (the "zero page"), the memory map, the initramfs and the command line. */
#include "loader.h"

#include <asm/bootparam.h>
#include <errno.h>
#include <string.h>

#include "layout.h"

#define LOADER_UNDEFINED 0xffu
#define E820_USABLE 1u
#define E820_RESERVED 2u
#define HEADER_MAGIC 0x53726448u

static void add_range(struct boot_params *params, uint64_t start, uint64_t end, uint32_t type)
{
	if (end > start)
		params->e820_table[params->e820_entries++] = (struct boot_e820_entry){ start, end - start, type };
}

static void fill_memory_map(struct boot_params *params, const struct vial_memory *memory)
{
	add_range(params, 0, VIAL_LOW_RESERVED_START, E820_USABLE);
	add_range(params, VIAL_LOW_RESERVED_START, VIAL_KERNEL_MINIMUM_ADDRESS, E820_RESERVED);
	add_range(params, VIAL_KERNEL_MINIMUM_ADDRESS, vial_memory_low_bytes(memory), E820_USABLE);
	add_range(params, VIAL_HIGH_RAM_START, VIAL_HIGH_RAM_START + vial_memory_high_bytes(memory), E820_USABLE);
}

/* As high as possible, out of the way of the kernel's own allocations. */
static int place_initrd(const struct vial_memory *memory, const struct vial_loader_input *input, const struct vial_loaded_kernel *kernel,
                        struct boot_params *params)
{
	uint64_t top = vial_memory_low_bytes(memory);
	uint64_t address;

	if (!input->initrd || input->initrd_bytes == 0)
		return 0;
	if (top > kernel->initrd_max)
		top = kernel->initrd_max + 1;
	if (input->initrd_bytes > top)
		return -ENOSPC;
	address = (top - input->initrd_bytes) & ~(VIAL_PAGE_BYTES - 1);
	if (address < kernel->end)
		return -ENOSPC;
	params->hdr.ramdisk_image = (uint32_t)address;
	params->hdr.ramdisk_size = (uint32_t)input->initrd_bytes;
	return vial_memory_write(memory, address, input->initrd, input->initrd_bytes);
}

static int place_command_line(const struct vial_memory *memory, const char *text, uint32_t maximum, struct boot_params *params)
{
	size_t length = strlen(text);

	if (length > maximum)
		return -EINVAL;
	params->hdr.cmd_line_ptr = (uint32_t)VIAL_COMMAND_LINE_ADDRESS;
	params->hdr.cmdline_size = (uint32_t)length;
	return vial_memory_write(memory, VIAL_COMMAND_LINE_ADDRESS, text, length + 1);
}

int vial_loader_load(const struct vial_memory *memory, const struct vial_loader_input *input, uint64_t *out_entry)
{
	struct vial_loaded_kernel kernel = { 0 };
	struct boot_params params = { 0 };
	int result;

	if (input->kernel_bytes >= 4 && memcmp(input->kernel, "\177ELF", 4) == 0)
		result = vial_loader_elf(memory, input->kernel, input->kernel_bytes, &kernel);
	else
		result = vial_loader_bzimage(memory, input->kernel, input->kernel_bytes, &kernel);
	if (result < 0)
		return result;
	memcpy(&params.hdr, kernel.setup_header, kernel.setup_header_bytes < sizeof(params.hdr) ? kernel.setup_header_bytes : sizeof(params.hdr));
	params.hdr.boot_flag = 0xaa55;
	params.hdr.header = HEADER_MAGIC;
	params.hdr.type_of_loader = LOADER_UNDEFINED;
	params.acpi_rsdp_addr = VIAL_RSDP_ADDRESS;
	fill_memory_map(&params, memory);
	result = place_initrd(memory, input, &kernel, &params);
	if (result == 0)
		result = place_command_line(memory, input->command_line, kernel.command_line_max, &params);
	if (result == 0)
		result = vial_memory_write(memory, VIAL_BOOT_PARAMS_ADDRESS, &params, sizeof(params));
	if (result == 0)
		*out_entry = kernel.entry;
	return result;
}
