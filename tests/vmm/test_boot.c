/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of what is prepared for a guest before it runs: memory, kernel loading, ACPI tables; and of the state file's reader. */
#undef NDEBUG
#include <asm/bootparam.h>
#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vmm/acpi.h"
#include "vmm/layout.h"
#include "vmm/loader.h"
#include "vmm/memory.h"
#include "vmm/state.h"

static void memory_is_reached_whole_or_not_at_all(void)
{
	struct vial_memory memory;
	uint64_t size = 4ull << 30; /* 3 GiB low, 1 GiB high */

	assert(vial_memory_create(&memory, 3) == -EINVAL && vial_memory_create(&memory, 1ull << 40) == -EINVAL);
	assert(vial_memory_create(&memory, size) == 0);
	assert(vial_memory_at(&memory, 0, 1) == memory.base);
	assert(vial_memory_at(&memory, VIAL_LOW_RAM_END - 1, 1) && !vial_memory_at(&memory, VIAL_LOW_RAM_END - 1, 2));
	assert(!vial_memory_at(&memory, VIAL_LOW_RAM_END, 1) && !vial_memory_at(&memory, 0xd0000000, 4));
	assert(vial_memory_at(&memory, VIAL_HIGH_RAM_START, 1) == memory.base + VIAL_LOW_RAM_END);
	assert(vial_memory_at(&memory, VIAL_HIGH_RAM_START, 1ull << 30) && !vial_memory_at(&memory, VIAL_HIGH_RAM_START, (1ull << 30) + 1));
	assert(!vial_memory_at(&memory, UINT64_MAX, 1) && !vial_memory_at(&memory, 0x1000, UINT64_MAX) &&
	       !vial_memory_at(&memory, UINT64_MAX - 1, 4));
	assert(vial_memory_write(&memory, VIAL_LOW_RAM_END - 2, "abc", 3) == -EFAULT);
	vial_memory_close(&memory);
}

static void make_bzimage(uint8_t *file, size_t size)
{
	struct setup_header header = {
		.setup_sects = 1,
		.boot_flag = 0xaa55,
		.header = 0x53726448,
		.version = 0x20f,
		.xloadflags = XLF_KERNEL_64,
		.relocatable_kernel = 1,
		.init_size = 1 << 20,
		.initrd_addr_max = 0x7fffffff,
		.cmdline_size = 2047,
	};

	memset(file, 0x90, size);
	memcpy(file + 0x1f1, &header, sizeof(header));
	file[0x201] = 0x6a;
}

static void a_bzimage_is_loaded(void)
{
	static uint8_t file[8192], initrd[5000];
	struct vial_memory memory;
	struct vial_loader_input input = { file, sizeof(file), initrd, sizeof(initrd), "quiet" };
	struct boot_params params;
	uint64_t entry = 0;

	assert(vial_memory_create(&memory, 64 << 20) == 0);
	make_bzimage(file, sizeof(file));
	memset(initrd, 0x11, sizeof(initrd));
	assert(vial_loader_load(&memory, &input, &entry) == 0 && entry == VIAL_KERNEL_ADDRESS + 0x200);
	assert(vial_memory_read(&memory, VIAL_BOOT_PARAMS_ADDRESS, &params, sizeof(params)) == 0);
	assert(params.e820_entries == 3 && params.hdr.type_of_loader == 0xff && params.acpi_rsdp_addr == VIAL_RSDP_ADDRESS);
	assert(params.hdr.ramdisk_size == sizeof(initrd) && params.hdr.ramdisk_image == (64 << 20) - 8192);
	assert(memcmp(vial_memory_at(&memory, VIAL_COMMAND_LINE_ADDRESS, 6), "quiet", 6) == 0);

	input.command_line = memset(malloc(3000), 'x', 3000);
	((char *)(uintptr_t)input.command_line)[2999] = 0;
	assert(vial_loader_load(&memory, &input, &entry) == -EINVAL);
	free((void *)(uintptr_t)input.command_line);
	input.command_line = "";
	input.initrd_bytes = 60 << 20;
	assert(vial_loader_load(&memory, &input, &entry) == -ENOSPC);
	input.initrd_bytes = 10;
	for (size_t cut = 0; cut < 1400; cut++) {
		input.kernel_bytes = cut;
		assert(vial_loader_load(&memory, &input, &entry) < 0 || cut > 1024);
	}
	input.kernel_bytes = sizeof(file);
	file[0x1fe] = 0;
	assert(vial_loader_load(&memory, &input, &entry) == -ENOEXEC);
	vial_memory_close(&memory);
}

static void an_elf_is_loaded(void)
{
	static uint8_t file[8192];
	struct vial_memory memory;
	struct vial_loader_input input = { file, sizeof(file), NULL, 0, "" };
	Elf64_Ehdr header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64 },
		              .e_type = ET_EXEC,
		              .e_machine = EM_X86_64,
		              .e_entry = 0x1000010,
		              .e_phoff = 64,
		              .e_phentsize = sizeof(Elf64_Phdr),
		              .e_phnum = 1 };
	Elf64_Phdr segment = { .p_type = PT_LOAD, .p_offset = 4096, .p_paddr = 0x1000000, .p_filesz = 4096, .p_memsz = 8192 };
	uint64_t entry = 0;

	assert(vial_memory_create(&memory, 64 << 20) == 0);
	memset(file + 4096, 0x77, 4096);
	memcpy(file, &header, sizeof(header));
	memcpy(file + 64, &segment, sizeof(segment));
	assert(vial_loader_load(&memory, &input, &entry) == 0 && entry == 0x1000010);
	assert(*(uint8_t *)vial_memory_at(&memory, 0x1000fff, 1) == 0x77 && *(uint8_t *)vial_memory_at(&memory, 0x1001000, 1) == 0);
	segment.p_offset = UINT64_MAX - 10;
	memcpy(file + 64, &segment, sizeof(segment));
	assert(vial_loader_load(&memory, &input, &entry) == -ENOEXEC);
	segment.p_offset = 4096;
	segment.p_paddr = 0x1000; /* over the boot parameters */
	memcpy(file + 64, &segment, sizeof(segment));
	assert(vial_loader_load(&memory, &input, &entry) == -ENOEXEC);
	segment.p_paddr = 0xfffffffffffff000ull;
	memcpy(file + 64, &segment, sizeof(segment));
	assert(vial_loader_load(&memory, &input, &entry) == -ENOSPC);
	header.e_phoff = UINT64_MAX;
	memcpy(file, &header, sizeof(header));
	assert(vial_loader_load(&memory, &input, &entry) == -ENOEXEC);
	vial_memory_close(&memory);
}

static uint8_t sum(const uint8_t *bytes, size_t length)
{
	uint8_t total = 0;

	while (length-- > 0)
		total = (uint8_t)(total + *bytes++);
	return total;
}

/* With a file name the DSDT is written there, for `iasl -d` to take apart. */
static void acpi_tables_add_up(const char *dsdt_path)
{
	struct vial_memory memory;
	struct vial_acpi_config config = { .vcpus = 8, .devices = 7, .has_serial = true };
	const uint8_t *rsdp, *xsdt;
	uint64_t address, entries[2], dsdt;
	uint32_t length;

	assert(vial_memory_create(&memory, 16 << 20) == 0 && vial_acpi_write(&memory, &config) == 0);
	rsdp = vial_memory_at(&memory, VIAL_RSDP_ADDRESS, 36);
	assert(memcmp(rsdp, "RSD PTR ", 8) == 0 && sum(rsdp, 20) == 0 && sum(rsdp, 36) == 0);
	memcpy(&address, rsdp + 24, 8);
	xsdt = vial_memory_at(&memory, address, 52);
	assert(memcmp(xsdt, "XSDT", 4) == 0 && sum(xsdt, 52) == 0);
	memcpy(entries, xsdt + 36, sizeof(entries));
	for (int i = 0; i < 2; i++) {
		const uint8_t *table = vial_memory_at(&memory, entries[i], 36);

		memcpy(&length, table + 4, 4);
		assert(vial_memory_at(&memory, entries[i], length) && sum(table, length) == 0);
		assert(memcmp(table, i == 0 ? "FACP" : "APIC", 4) == 0);
	}
	memcpy(&dsdt, (uint8_t *)vial_memory_at(&memory, entries[0], 276) + 140, 8);
	memcpy(&length, (uint8_t *)vial_memory_at(&memory, dsdt, 36) + 4, 4);
	assert(sum(vial_memory_at(&memory, dsdt, length), length) == 0);
	if (dsdt_path) {
		FILE *file = fopen(dsdt_path, "wb");

		assert(file && fwrite(vial_memory_at(&memory, dsdt, length), length, 1, file) == 1 && fclose(file) == 0);
	}
	config.devices = VIAL_MAX_DEVICES + 1;
	assert(vial_acpi_write(&memory, &config) == -EINVAL);
	vial_memory_close(&memory);
}

static void states_are_read_back_or_refused(void)
{
	struct vial_state_writer writer;
	struct vial_state state;
	uint64_t value = 42, copy = 0;

	vial_state_begin(&writer);
	vial_state_put(&writer, VIAL_STATE_VM, 0, &value, sizeof(value));
	vial_state_put(&writer, VIAL_STATE_VCPU, 1, "abc", 3);
	vial_state_put(&writer, VIAL_STATE_PIPE_IN, 0, NULL, 0);
	assert(vial_state_end(&writer) == 0 && vial_state_parse(writer.bytes, writer.size_bytes, &state) == 0 && state.count == 3);
	assert(vial_state_get(&state, VIAL_STATE_VM, 0, &copy, 8) == 0 && copy == 42);
	assert(vial_state_get(&state, VIAL_STATE_VM, 0, &copy, 7) == -EPROTO && vial_state_get(&state, VIAL_STATE_VM, 1, &copy, 8) == -EPROTO);
	/* Every single changed bit and every shorter length is noticed. */
	for (size_t bit = 0; bit < writer.size_bytes * 8; bit++) {
		writer.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert(vial_state_parse(writer.bytes, writer.size_bytes, &state) < 0);
		writer.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (size_t length = 0; length < writer.size_bytes; length++)
		assert(vial_state_parse(writer.bytes, length, &state) < 0);
	vial_state_clear(&writer);
	vial_state_begin(&writer);
	for (unsigned i = 0; i < VIAL_STATE_MAX_SECTIONS + 1; i++)
		vial_state_put(&writer, VIAL_STATE_VM, i, &value, sizeof(value));
	assert(vial_state_end(&writer) == -EFBIG);
	vial_state_clear(&writer);
}

int main(int argc, char **argv)
{
	assert(vial_crc32c(0, "123456789", 9) == 0xe3069283u);
	memory_is_reached_whole_or_not_at_all();
	a_bzimage_is_loaded();
	an_elf_is_loaded();
	acpi_tables_add_up(argc > 1 ? argv[1] : NULL);
	states_are_read_back_or_refused();
	puts("5 boot and state tests passed");
	return 0;
}
