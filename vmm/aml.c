/* SPDX-License-Identifier: Apache-2.0 */
/* See aml.h. Package lengths always take three bytes: allowed, and the content need not be known first. */
#include "aml.h"

#include <string.h>

#define LENGTH_BYTES 3u

void vial_aml_bytes(struct vial_aml *aml, const void *data, size_t length)
{
	if (aml->is_full || length > aml->capacity - aml->used) {
		aml->is_full = true;
		return;
	}
	memcpy(aml->bytes + aml->used, data, length);
	aml->used += length;
}

void vial_aml_byte(struct vial_aml *aml, uint8_t value)
{
	vial_aml_bytes(aml, &value, 1);
}

static size_t open_package(struct vial_aml *aml, const uint8_t *opcode, size_t opcode_length)
{
	static const uint8_t room[LENGTH_BYTES];
	size_t at;

	vial_aml_bytes(aml, opcode, opcode_length);
	at = aml->used;
	vial_aml_bytes(aml, room, sizeof(room));
	return at;
}

size_t vial_aml_open_scope(struct vial_aml *aml, const char name[4])
{
	size_t at = open_package(aml, (const uint8_t[]){ 0x10 }, 1);

	vial_aml_bytes(aml, name, 4);
	return at;
}

size_t vial_aml_open_device(struct vial_aml *aml, const char name[4])
{
	size_t at = open_package(aml, (const uint8_t[]){ 0x5b, 0x82 }, 2);

	vial_aml_bytes(aml, name, 4);
	return at;
}

size_t vial_aml_open_method(struct vial_aml *aml, const char name[4], unsigned arguments)
{
	size_t at = open_package(aml, (const uint8_t[]){ 0x14 }, 1);

	vial_aml_bytes(aml, name, 4);
	vial_aml_byte(aml, (uint8_t)(arguments | 1u << 3)); /* serialized */
	return at;
}

void vial_aml_close(struct vial_aml *aml, size_t opened)
{
	size_t length = aml->used - opened;

	if (aml->is_full)
		return;
	aml->bytes[opened] = (uint8_t)(0x80 | (length & 0xf));
	aml->bytes[opened + 1] = (uint8_t)(length >> 4);
	aml->bytes[opened + 2] = (uint8_t)(length >> 12);
}

static void name(struct vial_aml *aml, const char text[4])
{
	vial_aml_byte(aml, 0x08);
	vial_aml_bytes(aml, text, 4);
}

static void integer(struct vial_aml *aml, uint32_t value)
{
	vial_aml_byte(aml, 0x0c);
	vial_aml_bytes(aml, &value, sizeof(value));
}

void vial_aml_name_string(struct vial_aml *aml, const char text[4], const char *value)
{
	name(aml, text);
	vial_aml_byte(aml, 0x0d);
	vial_aml_bytes(aml, value, strlen(value) + 1);
}

void vial_aml_name_integer(struct vial_aml *aml, const char text[4], uint32_t value)
{
	name(aml, text);
	integer(aml, value);
}

void vial_aml_name_integers(struct vial_aml *aml, const char text[4], const uint32_t *values, uint8_t count)
{
	size_t package;

	name(aml, text);
	package = open_package(aml, (const uint8_t[]){ 0x12 }, 1);
	vial_aml_byte(aml, count);
	for (uint8_t i = 0; i < count; i++)
		integer(aml, values[i]);
	vial_aml_close(aml, package);
}

void vial_aml_resources(struct vial_aml *aml, const uint8_t *descriptors, size_t length)
{
	static const uint8_t end_tag[] = { 0x79, 0x00 };
	size_t buffer;

	name(aml, "_CRS");
	buffer = open_package(aml, (const uint8_t[]){ 0x11 }, 1);
	integer(aml, (uint32_t)(length + sizeof(end_tag)));
	vial_aml_bytes(aml, descriptors, length);
	vial_aml_bytes(aml, end_tag, sizeof(end_tag));
	vial_aml_close(aml, buffer);
}
