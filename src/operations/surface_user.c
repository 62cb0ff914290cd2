/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/surface_user.h"

#include <string.h>

const char *vial_surface_user(const VialCaller *caller)
{
	return caller->origin && strcmp(caller->origin->surface, "pandastack") == 0 ? "root" : NULL;
}
