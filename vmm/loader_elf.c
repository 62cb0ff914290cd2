/* SPDX-License-Identifier: Apache-2.0 */
/* vmlinux: an ELF executable whose segments go to their physical addresses and whose entry is startup_64. */
#include "loader.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "layout.h"

#define MAX_SEGMENTS 32u
#define INITRD_MAX 0x7fffffffull
#define COMMAND_LINE_MAX 2047u

static int load_segment(const struct vial_memory *memory, const uint8_t *file, size_t size_bytes, const Elf64_Phdr *segment,
                        struct vial_loaded_kernel *kernel)
{
	if (segment->p_type != PT_LOAD || segment->p_memsz == 0)
		return 0;
	if (segment->p_filesz > segment->p_memsz || segment->p_offset > size_bytes || segment->p_filesz > size_bytes - segment->p_offset ||
	    segment->p_paddr < VIAL_KERNEL_MINIMUM_ADDRESS)
		return -ENOEXEC;
	if (!vial_memory_at(memory, segment->p_paddr, segment->p_memsz))
		return -ENOSPC;
	vial_memory_write(memory, segment->p_paddr, file + segment->p_offset, segment->p_filesz);
	if (segment->p_paddr + segment->p_memsz > kernel->end)
		kernel->end = segment->p_paddr + segment->p_memsz;
	return 0;
}

int vial_loader_elf(const struct vial_memory *memory, const uint8_t *file, size_t size_bytes, struct vial_loaded_kernel *out_kernel)
{
	Elf64_Ehdr header;

	if (size_bytes < sizeof(header))
		return -ENOEXEC;
	memcpy(&header, file, sizeof(header));
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
	    header.e_type != ET_EXEC || header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > MAX_SEGMENTS)
		return -ENOEXEC;
	if (header.e_phoff > size_bytes || header.e_phnum * sizeof(Elf64_Phdr) > size_bytes - header.e_phoff)
		return -ENOEXEC;
	for (unsigned i = 0; i < header.e_phnum; i++) {
		Elf64_Phdr segment;
		int result;

		memcpy(&segment, file + header.e_phoff + i * sizeof(segment), sizeof(segment));
		result = load_segment(memory, file, size_bytes, &segment, out_kernel);
		if (result < 0)
			return result;
	}
	if (out_kernel->end == 0 || header.e_entry < VIAL_KERNEL_MINIMUM_ADDRESS || header.e_entry >= out_kernel->end)
		return -ENOEXEC;
	out_kernel->entry = header.e_entry;
	out_kernel->initrd_max = INITRD_MAX;
	out_kernel->command_line_max = COMMAND_LINE_MAX;
	return 0;
}
