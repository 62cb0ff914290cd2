/* SPDX-License-Identifier: Apache-2.0 */
/* Just enough ACPI machine language (ACPI 6.4, chapter 20) to describe our devices. Writes into a bounded buffer; overflow is sticky. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vial_aml {
	uint8_t *bytes;
	size_t capacity;
	size_t used;
	bool is_full;
};

void vial_aml_bytes(struct vial_aml *aml, const void *data, size_t length);
void vial_aml_byte(struct vial_aml *aml, uint8_t value);
/* A package is opened and closed around its content; open returns where its length goes. */
size_t vial_aml_open_scope(struct vial_aml *aml, const char name[4]);
size_t vial_aml_open_device(struct vial_aml *aml, const char name[4]);
size_t vial_aml_open_method(struct vial_aml *aml, const char name[4], unsigned arguments);
void vial_aml_close(struct vial_aml *aml, size_t opened);

void vial_aml_name_string(struct vial_aml *aml, const char name[4], const char *value);
void vial_aml_name_integer(struct vial_aml *aml, const char name[4], uint32_t value);
void vial_aml_name_integers(struct vial_aml *aml, const char name[4], const uint32_t *values, uint8_t count);
/* _CRS from already encoded resource descriptors. */
void vial_aml_resources(struct vial_aml *aml, const uint8_t *descriptors, size_t length);
