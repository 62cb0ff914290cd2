/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The whole life of the zone's init; the agent starts it as its own program with this as argv[1]. */
#define VIAL_ZONE_INIT_ARGUMENT "zone-init"
int vial_zone_init_main(void);
