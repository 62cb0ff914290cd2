/* SPDX-License-Identifier: Apache-2.0 */
/* What viald asks for with the op "start": a machine, and the files it is made of. Field names are those of docs/microvm.md. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

/* The root, the agent, one to write to, and 16 layers of a custom template. */
#define VIAL_MAX_DISKS 19u
#define VIAL_MAX_COMMAND_LINE 2047u

struct vial_config {
	unsigned vcpus;
	uint64_t memory_bytes;
	const char *kernel;
	const char *initrd;
	const char *command_line;
	struct vial_disk_config {
		const char *image;
		const char *serial;
		const char *layer; /* restore: the snapshot's disk file */
		uint64_t size_bytes;
		bool is_writable;
	} disks[VIAL_MAX_DISKS];
	unsigned disk_count;
	const char *overlay_dir; /* where unnamed overlay files are made */
	bool has_net;            /* a TAP descriptor came along */
	uint8_t mac[6];
	const char *serial_log;
	const char *restore_state; /* NULL: boot */
	const char *restore_memory;
	const char *restore_hot; /* optional list of pages to fetch first */
	bool runs;               /* at once, or parked until resume */
	bool records_hot;
	json_t *json; /* owns every string above */
};

/* Checks everything that can be checked without opening files. On failure *out_error is one sentence. Keeps a reference to `json`. */
int vial_config_parse(json_t *json, struct vial_config *out_config, const char **out_error);
void vial_config_clear(struct vial_config *config);
