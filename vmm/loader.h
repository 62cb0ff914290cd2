/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts a Linux kernel, its initramfs and its command line into guest memory, by the 64-bit boot protocol (Documentation/arch/x86/boot.rst).
 * Takes a bzImage, as Debian ships it, or the ELF vmlinux out of it, which saves the guest the unpacking. The files are the
 * operator's, still nothing in them is believed without a check.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "memory.h"

struct vial_loader_input {
	const uint8_t *kernel;
	size_t kernel_bytes;
	const uint8_t *initrd; /* may be NULL */
	size_t initrd_bytes;
	const char *command_line;
};

/* 0 and the address of the first instruction, or -ENOEXEC (not a kernel we can start), -ENOSPC (does not fit), -EINVAL. */
int vial_loader_load(const struct vial_memory *memory, const struct vial_loader_input *input, uint64_t *out_entry);

/* One format each; they fill `out_setup_header` of boot_params where the format has one. */
struct vial_loaded_kernel {
	uint64_t entry;
	uint64_t end; /* first free byte behind it */
	uint64_t initrd_max;
	uint32_t command_line_max;
	uint8_t setup_header[512]; /* as at offset 0x1f1 of boot_params */
	size_t setup_header_bytes;
};
int vial_loader_bzimage(const struct vial_memory *memory, const uint8_t *file, size_t size_bytes, struct vial_loaded_kernel *out_kernel);
int vial_loader_elf(const struct vial_memory *memory, const uint8_t *file, size_t size_bytes, struct vial_loaded_kernel *out_kernel);
