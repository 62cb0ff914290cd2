/* SPDX-License-Identifier: Apache-2.0 */
/* Resume hooks (ops.h) for what the kernel knows about this sandbox's identity. */
#pragma once

#include <stdint.h>

#include "ops.h"

/* Before anything of the guest runs. 0 or -errno. */
int vial_identity_init(void);
/* The wall clock. */
int64_t vial_identity_now_ns(void);

vial_resume_fn vial_identity_entropy, vial_identity_clock, vial_identity_hostname;
