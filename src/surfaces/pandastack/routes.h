/* SPDX-License-Identifier: Apache-2.0 */
/* What PandaStack's clients call beside the native API's paths; where they share a path, the native handlers answer (shared/pandastack.h). */
#pragma once

#include "http/request.h"

extern const VialRouteTable vial_pandastack_table;
