/* SPDX-License-Identifier: Apache-2.0 */
/* What `viald --doctor` and `vial doctor` show: whether this host has what sandboxes need. Blocking. */
#pragma once

#include <jansson.h>

#include "util/config.h"

/* {"checks":[{"name","ok","detail","advice"?,"needed"?}],"engine":{"chosen","reason"},"version"} */
json_t *vial_doctor(const VialConfig *config);
