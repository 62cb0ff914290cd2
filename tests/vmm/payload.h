/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine that runs a few hand-written instructions: enough to prove run, save, restore and fork on any /dev/kvm that opens, also one that could
 * not boot a kernel. The guest counts in RBX and in memory; with I/O, each round also leaves to the monitor and back.
 */
#pragma once

#include <assert.h>
#include <elf.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vmm/clock.h"
#include "vmm/machine.h"
#include "vmm/vcpu.h"

#define PAYLOAD_ADDRESS 0x200000ull
#define PAYLOAD_COUNTER 0x300000ull

/* 1: inc %rbx; mov %rbx, counter; [out %al, $0x80;] jmp 1b */
static const uint8_t payload_count[] = { 0x48, 0x31, 0xdb, 0x48, 0xff, 0xc3, 0x48, 0x89, 0x1c, 0x25, 0x00, 0x00, 0x30, 0x00, 0xeb, 0xf3 };
static const uint8_t payload_count_io[] = {
	0x48, 0x31, 0xdb, 0x48, 0xff, 0xc3, 0x48, 0x89, 0x1c, 0x25, 0x00, 0x00, 0x30, 0x00, 0xe6, 0x80, 0xeb, 0xf1
};

/* Writes an ELF "kernel" with that code; the path is unlinked by the caller. */
static inline void payload_write_kernel(const uint8_t *code, size_t length, char *path)
{
	Elf64_Ehdr header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64 },
		              .e_type = ET_EXEC,
		              .e_machine = EM_X86_64,
		              .e_entry = PAYLOAD_ADDRESS,
		              .e_phoff = sizeof(header),
		              .e_phentsize = sizeof(Elf64_Phdr),
		              .e_phnum = 1 };
	Elf64_Phdr segment = { .p_type = PT_LOAD, .p_offset = 4096, .p_paddr = PAYLOAD_ADDRESS, .p_filesz = length, .p_memsz = 4096 };
	int fd = mkstemp(path);

	assert(fd >= 0 && pwrite(fd, &header, sizeof(header), 0) == sizeof(header));
	assert(pwrite(fd, &segment, sizeof(segment), sizeof(header)) == sizeof(segment) && pwrite(fd, code, length, 4096) == (ssize_t)length);
	close(fd);
}

static inline int payload_build(struct vial_machine *machine, json_t *json, uint16_t *epoch)
{
	struct vial_config config;
	const char *error = "";
	int result = vial_config_parse(json, &config, &error);

	vial_machine_init(machine);
	if (result == 0) {
		result = vial_machine_build(machine, &config, -1, epoch, &error);
		vial_config_clear(&config);
	}
	json_decref(json);
	if (result < 0)
		fprintf(stderr, "%s: %s\n", error, strerror(-result));
	return result;
}

static inline int payload_boot(struct vial_machine *machine, const uint8_t *code, size_t length, unsigned memory_mb)
{
	char path[] = "/tmp/vial-payload.XXXXXX";
	uint16_t epoch;
	int result;

	payload_write_kernel(code, length, path);
	result = payload_build(machine, json_pack("{s:s,s:i,s:i}", "kernel", path, "memory_mb", (int)memory_mb, "vcpus", 1), &epoch);
	unlink(path);
	return result;
}

static inline uint64_t payload_counter(const struct vial_machine *machine)
{
	return __atomic_load_n((uint64_t *)vial_memory_at(&machine->memory, PAYLOAD_COUNTER, 8), __ATOMIC_RELAXED);
}

/* True when the guest counted beyond `value` within the time. */
static inline bool payload_wait_beyond(const struct vial_machine *machine, uint64_t value, unsigned timeout_ms)
{
	uint64_t deadline = vial_clock_ns() + timeout_ms * 1000000ull;

	while (payload_counter(machine) <= value) {
		if (vial_clock_ns() > deadline)
			return false;
	}
	return true;
}
