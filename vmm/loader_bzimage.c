/* SPDX-License-Identifier: Apache-2.0 */
/* bzImage: a real-mode setup part, skipped, then the part that is copied to memory and entered at +0x200 in 64-bit mode. */
#include "loader.h"

#include <asm/bootparam.h>
#include <errno.h>
#include <string.h>

#include "layout.h"

#define SETUP_HEADER_OFFSET 0x1f1u
#define SECTOR_BYTES 512u
#define MINIMUM_VERSION 0x020c /* the first with xloadflags */
#define HEADER_MAGIC 0x53726448u
#define ENTRY_64_OFFSET 0x200u
#define HUGE_PAGE_BYTES (2ull << 20)

static int check(const struct setup_header *header)
{
	if (header->boot_flag != 0xaa55 || header->header != HEADER_MAGIC)
		return -ENOEXEC;
	if (header->version < MINIMUM_VERSION || !(header->xloadflags & XLF_KERNEL_64) || !header->relocatable_kernel)
		return -ENOEXEC;
	return 0;
}

int vial_loader_bzimage(const struct vial_memory *memory, const uint8_t *file, size_t size_bytes, struct vial_loaded_kernel *out_kernel)
{
	struct setup_header header;
	uint64_t load = VIAL_KERNEL_ADDRESS;
	size_t setup_bytes, payload_bytes;
	size_t header_bytes = sizeof(header);

	if (size_bytes < SETUP_HEADER_OFFSET + sizeof(header))
		return -ENOEXEC;
	memcpy(&header, file + SETUP_HEADER_OFFSET, sizeof(header));
	if (check(&header) < 0)
		return -ENOEXEC;
	setup_bytes = ((header.setup_sects ? header.setup_sects : 4u) + 1u) * (size_t)SECTOR_BYTES;
	if (setup_bytes >= size_bytes)
		return -ENOEXEC;
	payload_bytes = size_bytes - setup_bytes;
	/* The kernel unpacks itself in place: init_size is all the room it needs from its load address on. */
	if (header.init_size < payload_bytes || !vial_memory_at(memory, load, header.init_size))
		return -ENOSPC;
	vial_memory_write(memory, load, file + setup_bytes, payload_bytes);
	out_kernel->entry = load + ENTRY_64_OFFSET;
	out_kernel->end = (load + header.init_size + HUGE_PAGE_BYTES - 1) & ~(HUGE_PAGE_BYTES - 1);
	out_kernel->initrd_max = header.initrd_addr_max;
	out_kernel->command_line_max = header.cmdline_size;
	/* The header says how long it is: from 0x202 on, by the byte at 0x201. */
	if (file[0x201] + 0x202u - SETUP_HEADER_OFFSET < header_bytes)
		header_bytes = file[0x201] + 0x202u - SETUP_HEADER_OFFSET;
	memcpy(out_kernel->setup_header, &header, header_bytes);
	out_kernel->setup_header_bytes = header_bytes;
	return 0;
}
