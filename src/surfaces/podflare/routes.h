/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Podflare's dialect. Its client keeps the path of its base address, so all of it is under /podflare, where its word for a path is never another's.
 * What collides with nothing is under /v1 too, and there the native handlers pass on what only a Podflare client says (shared/podflare.h).
 */
#pragma once

#include "http/request.h"

extern const VialRouteTable vial_podflare_table;
