/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent carries for its kernels: native/reseed.c, compiled. */
#pragma once

#include <stddef.h>

extern const unsigned char vial_reseed_module[];
extern const size_t vial_reseed_module_size;
