/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's state outside its memory, as bytes: sections of (tag, index, length, CRC) between a header and an end mark. One writer,
 * used by snapshots (to a file) and forks (in memory), one reader that trusts nothing. All integers little endian; see docs/microvm.md.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define VIAL_STATE_MAGIC 0x31534d564c414956ull /* "VIALVMS1" */
#define VIAL_STATE_VERSION 1u
#define VIAL_STATE_MAX_BYTES (64u << 20)
#define VIAL_STATE_MAX_SECTIONS 256u

#define VIAL_TAG(a, b, c, d) ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)
enum vial_state_tag {
	VIAL_STATE_HOST = VIAL_TAG('H', 'O', 'S', 'T'),   /* fingerprint of CPU, kernel and build */
	VIAL_STATE_CONFIG = VIAL_TAG('C', 'O', 'N', 'F'), /* vCPUs, memory, devices: must equal the restored machine's */
	VIAL_STATE_VM = VIAL_TAG('V', 'M', ' ', ' '),     /* PIT, clock, interrupt chips */
	VIAL_STATE_VCPU = VIAL_TAG('V', 'C', 'P', 'U'),   /* index = vCPU: fixed part */
	VIAL_STATE_CPUID = VIAL_TAG('C', 'P', 'I', 'D'),  /* index = vCPU */
	VIAL_STATE_MSRS = VIAL_TAG('M', 'S', 'R', 'S'),   /* index = vCPU */
	VIAL_STATE_XSAVE = VIAL_TAG('X', 'S', 'A', 'V'),  /* index = vCPU */
	VIAL_STATE_VIRTIO = VIAL_TAG('V', 'I', 'O', 'D'), /* index = device: transport and queues */
	VIAL_STATE_DEVICE = VIAL_TAG('D', 'E', 'V', ' '), /* index = device: its own part */
	VIAL_STATE_SERIAL = VIAL_TAG('U', 'A', 'R', 'T'),
	VIAL_STATE_PIPE_IN = VIAL_TAG('P', 'I', 'P', 'I'), /* bytes on their way to the guest */
	VIAL_STATE_PIPE_OUT = VIAL_TAG('P', 'I', 'P', 'O'),
	VIAL_STATE_EPOCH = VIAL_TAG('E', 'P', 'O', 'C'),
	VIAL_STATE_END = VIAL_TAG('E', 'N', 'D', ' '),
};

struct vial_state_writer {
	uint8_t *bytes;
	size_t size_bytes;
	size_t capacity;
	uint32_t sections;
	int error; /* sticky: checked once, at the end */
};

void vial_state_begin(struct vial_state_writer *writer);
/* Room for a section's payload, zeroed; NULL when out of memory or limits, which end() reports. */
void *vial_state_reserve(struct vial_state_writer *writer, uint32_t tag, uint32_t index, size_t length);
void vial_state_put(struct vial_state_writer *writer, uint32_t tag, uint32_t index, const void *data, size_t length);
/* Sums everything up. 0, or what went wrong on the way. */
int vial_state_end(struct vial_state_writer *writer);
void vial_state_clear(struct vial_state_writer *writer);

struct vial_state_section {
	uint32_t tag;
	uint32_t index;
	const uint8_t *data;
	size_t length;
};

struct vial_state {
	struct vial_state_section sections[VIAL_STATE_MAX_SECTIONS];
	unsigned count;
};

/* Checks header, lengths and sums of all of it. 0, -EPROTO (damaged) or -ENOTSUP (another version). Keeps pointers into `bytes`. */
int vial_state_parse(const uint8_t *bytes, size_t size_bytes, struct vial_state *out_state);
const uint8_t *vial_state_find(const struct vial_state *state, uint32_t tag, uint32_t index, size_t *out_length);
/* Copies a section that has exactly this length. 0 or -EPROTO. */
int vial_state_get(const struct vial_state *state, uint32_t tag, uint32_t index, void *out, size_t length);

uint32_t vial_crc32c(uint32_t crc, const void *data, size_t length);
