/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/surface_user.h"

const char *vial_surface_user(const VialCaller *caller)
{
	static const char *const of_root[] = { "pandastack", "podflare", "cloudflare", NULL };

	return caller->origin && g_strv_contains(of_root, caller->origin->surface) ? "root" : NULL;
}
