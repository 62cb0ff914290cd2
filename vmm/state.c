/* SPDX-License-Identifier: Apache-2.0 */
/* See state.h. No I/O; the sum finds damage, not malice: viald signs what it stores. */
#include "state.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct header {
	uint64_t magic;
	uint32_t version;
	uint32_t reserved;
};

struct section_header {
	uint32_t tag;
	uint32_t index;
	uint64_t length;
	uint32_t crc; /* of the payload; of everything before it for the end mark */
	uint32_t reserved;
};

#define ALIGNMENT 8u

uint32_t vial_crc32c(uint32_t crc, const void *data, size_t length)
{
	static uint32_t table[256];
	const uint8_t *bytes = data;

	if (!table[1]) {
		/* Filled twice with the same values when two threads meet here: harmless. */
		for (uint32_t i = 255; i > 0; i--) {
			uint32_t value = i;

			for (int bit = 0; bit < 8; bit++)
				value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
			table[i] = value;
		}
	}
	crc = ~crc;
	while (length-- > 0)
		crc = table[(crc ^ *bytes++) & 0xff] ^ crc >> 8;
	return ~crc;
}

static size_t padded(size_t length)
{
	return (length + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static uint8_t *grow(struct vial_state_writer *writer, size_t length)
{
	uint8_t *at;

	if (writer->error)
		return NULL;
	if (length > VIAL_STATE_MAX_BYTES - writer->size_bytes) {
		writer->error = -EFBIG;
		return NULL;
	}
	if (writer->size_bytes + length > writer->capacity) {
		size_t capacity = (writer->size_bytes + length) * 2;
		uint8_t *bytes = realloc(writer->bytes, capacity);

		if (!bytes) {
			writer->error = -ENOMEM;
			return NULL;
		}
		writer->bytes = bytes;
		writer->capacity = capacity;
	}
	at = writer->bytes + writer->size_bytes;
	memset(at, 0, length);
	writer->size_bytes += length;
	return at;
}

void vial_state_begin(struct vial_state_writer *writer)
{
	struct header *header;

	*writer = (struct vial_state_writer){ 0 };
	header = (struct header *)grow(writer, sizeof(*header));
	if (header)
		*header = (struct header){ .magic = VIAL_STATE_MAGIC, .version = VIAL_STATE_VERSION };
}

void *vial_state_reserve(struct vial_state_writer *writer, uint32_t tag, uint32_t index, size_t length)
{
	struct section_header *section;

	if (length > VIAL_STATE_MAX_BYTES || writer->sections >= VIAL_STATE_MAX_SECTIONS) {
		writer->error = writer->error ? writer->error : -EFBIG;
		return NULL;
	}
	section = (struct section_header *)grow(writer, sizeof(*section) + padded(length));
	if (!section)
		return NULL;
	*section = (struct section_header){ .tag = tag, .index = index, .length = length };
	writer->sections++;
	return section + 1;
}

void vial_state_put(struct vial_state_writer *writer, uint32_t tag, uint32_t index, const void *data, size_t length)
{
	void *to = vial_state_reserve(writer, tag, index, length);

	if (to && length > 0)
		memcpy(to, data, length);
}

/* The payloads were filled after their headers, so their sums come last. */
static void sum_sections(struct vial_state_writer *writer)
{
	size_t at = sizeof(struct header);

	while (at < writer->size_bytes) {
		struct section_header *section = (struct section_header *)(writer->bytes + at);

		section->crc = vial_crc32c(0, section + 1, section->length);
		at += sizeof(*section) + padded(section->length);
	}
}

int vial_state_end(struct vial_state_writer *writer)
{
	struct section_header *end;

	if (writer->error)
		return writer->error;
	sum_sections(writer);
	end = (struct section_header *)grow(writer, sizeof(*end));
	if (!end)
		return writer->error;
	*end = (struct section_header){ .tag = VIAL_STATE_END, .index = writer->sections };
	end->crc = vial_crc32c(0, writer->bytes, writer->size_bytes - sizeof(*end));
	return 0;
}

void vial_state_clear(struct vial_state_writer *writer)
{
	free(writer->bytes);
	*writer = (struct vial_state_writer){ 0 };
}

static int parse_section(const uint8_t *bytes, size_t size_bytes, size_t *at, struct vial_state *state, bool *out_is_end)
{
	struct section_header section;

	if (size_bytes - *at < sizeof(section))
		return -EPROTO;
	memcpy(&section, bytes + *at, sizeof(section));
	if (section.tag == VIAL_STATE_END) {
		*out_is_end = true;
		if (section.length != 0 || section.reserved != 0 || section.index != state->count || *at + sizeof(section) != size_bytes ||
		    section.crc != vial_crc32c(0, bytes, *at))
			return -EPROTO;
		return 0;
	}
	*at += sizeof(section);
	if (section.length > size_bytes - *at || padded(section.length) > size_bytes - *at || state->count == VIAL_STATE_MAX_SECTIONS ||
	    section.crc != vial_crc32c(0, bytes + *at, section.length))
		return -EPROTO;
	if (vial_state_find(state, section.tag, section.index, NULL))
		return -EPROTO;
	state->sections[state->count++] = (struct vial_state_section){ section.tag, section.index, bytes + *at, section.length };
	*at += padded(section.length);
	return 0;
}

int vial_state_parse(const uint8_t *bytes, size_t size_bytes, struct vial_state *out_state)
{
	struct header header;
	size_t at = sizeof(header);
	bool is_end = false;

	out_state->count = 0;
	if (size_bytes < sizeof(header) || size_bytes > VIAL_STATE_MAX_BYTES)
		return -EPROTO;
	memcpy(&header, bytes, sizeof(header));
	if (header.magic != VIAL_STATE_MAGIC)
		return -EPROTO;
	if (header.version != VIAL_STATE_VERSION)
		return -ENOTSUP;
	while (!is_end) {
		int result = parse_section(bytes, size_bytes, &at, out_state, &is_end);

		if (result < 0)
			return result;
	}
	return 0;
}

const uint8_t *vial_state_find(const struct vial_state *state, uint32_t tag, uint32_t index, size_t *out_length)
{
	for (unsigned i = 0; i < state->count; i++) {
		if (state->sections[i].tag != tag || state->sections[i].index != index)
			continue;
		if (out_length)
			*out_length = state->sections[i].length;
		return state->sections[i].data;
	}
	return NULL;
}

int vial_state_get(const struct vial_state *state, uint32_t tag, uint32_t index, void *out, size_t length)
{
	size_t actual;
	const uint8_t *data = vial_state_find(state, tag, index, &actual);

	if (!data || actual != length)
		return -EPROTO;
	memcpy(out, data, length);
	return 0;
}
