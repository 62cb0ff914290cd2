/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that make up the microVM engine. */
#pragma once

#include "engine/cgroup.h"
#include "engine/engine.h"

#define VIAL_VMM_CONFIG "vmm.json"

/* What runs above a base image: vCPUs and memory of the machine, not of the sandbox's limits. */
typedef struct {
	guint vcpus;
	guint memory_mb;
} VialMachineSize;

VialMachineSize vial_microvm_size(const VialLimits *limits);

/* A disk image of a folder, cached beside it as FOLDER.ext4; made if it is not there. Blocking, seconds the first time. */
char *vial_microvm_disk(const char *builder, const char *folder, GError **error);

/* An empty disk of that size, likewise, in `folder`. */
char *vial_microvm_empty_disk(const char *builder, const char *folder, gint64 size_mb, GError **error);

/* vmm.json as data. With an `upper_disk` that is what the guest writes to, and the root is read-only, the lowest layer. */
json_t *vial_microvm_config(const VialLaunch *launch, const char *kernel, const char *root_disk, const char *runtime_disk, const char *upper_disk);

/* The engine's `complete` and `add_child`: what the verbs need in files and descriptors. */
gboolean vial_microvm_complete(VialEngine *engine, const char *dir, const char *verb, json_t *request, GArray *fds, GError **error);
gboolean vial_microvm_add_child(VialEngine *engine, const char *dir, int tap_fd, GArray *fds, GError **error);
