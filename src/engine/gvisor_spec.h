/* SPDX-License-Identifier: Apache-2.0 */
/* The OCI bundle of a gVisor sandbox, as data. */
#pragma once

#include <jansson.h>

#include "engine/engine.h"

json_t *vial_gvisor_spec(const VialLaunch *launch, const char *cgroup_path);
