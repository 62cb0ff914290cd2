/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a runsc here, and is it new enough? Asked at start and by `viald --doctor`. */
#include <string.h>

#include "engine/engine.h"

/* systrap, the platform we rely on, appeared in 2023; releases are named after their date. */
#define OLDEST_RELEASE 20230400

char *vial_gvisor_probe(const char *runsc, GError **error)
{
	char *arguments[] = { (char *)runsc, "--version", NULL };
	g_autofree char *output = NULL, *first = NULL;
	const char *digits;
	int status;

	if (!g_spawn_sync(NULL, arguments, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL, &output, NULL, &status, NULL)) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "runsc is not installed; run `make up`, which installs it, or give its path as runsc=");
		return NULL;
	}
	if (status != 0 || !g_str_has_prefix(output, "runsc version ")) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "%s does not run (`%s --version` failed); reinstall the runsc package", runsc, runsc);
		return NULL;
	}
	first = g_strndup(output + strlen("runsc version "), strcspn(output + strlen("runsc version "), "\n"));
	/* "0.0~20240729.0" from Debian, "release-20240729.0" from upstream. */
	digits = strpbrk(first, "~-");
	if (digits && g_ascii_strtoll(digits + 1, NULL, 10) > 0 && g_ascii_strtoll(digits + 1, NULL, 10) < OLDEST_RELEASE) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "runsc %s is too old (no systrap platform); install the one from your release's backports",
		          first);
		return NULL;
	}
	return g_steal_pointer(&first);
}
