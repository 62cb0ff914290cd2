/* SPDX-License-Identifier: Apache-2.0 */
/* One installation is one data directory; a host may have several. Any thread. */
#pragma once

#include "util/config.h"

/* Eight hex digits that tell this data directory's kernel objects from another's. To be freed. */
char *vial_installation_tag(const VialConfig *config);
