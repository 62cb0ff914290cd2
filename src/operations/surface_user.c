/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/surface_user.h"

#include <string.h>

const char *vial_surface_user(const VialCaller *caller)
{
	const char *surface = caller->origin ? caller->origin->surface : "";

	return strcmp(surface, "pandastack") == 0 || strcmp(surface, "podflare") == 0 ? "root" : NULL;
}
