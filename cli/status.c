/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/status.h"

#include <glib.h>

const char *vial_status_style(const char *status)
{
	if (g_strcmp0(status, "running") == 0)
		return "32";
	if (g_strcmp0(status, "failed") == 0)
		return "31";
	if (g_strcmp0(status, "creating") == 0)
		return "33";
	return status ? "2" : NULL;
}
