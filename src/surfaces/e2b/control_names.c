/* SPDX-License-Identifier: Apache-2.0 */
/* Names of templates and snapshots: theirs may have a team before a slash, and always have a tag, which is "default" where nobody gave one. */
#include <string.h>

#include "surfaces/e2b/control.h"

#define DEFAULT_TAG ":default"

const char *vial_e2b_plain_name(VialArena *arena, const char *name)
{
	const char *slash = name ? strchr(name, '/') : NULL;
	gsize length;

	if (!name)
		return NULL;
	if (slash)
		name = slash + 1;
	length = strlen(name);
	if (g_str_has_suffix(name, DEFAULT_TAG))
		length -= strlen(DEFAULT_TAG);
	return vial_arena_copy(arena, name, length);
}

char *vial_e2b_full_name(const VialRequest *request, const char *name)
{
	const char *project = vial_request_identity(request)->project;

	return g_strdup_printf("%s/%s%s", project, name, strchr(name, ':') ? "" : DEFAULT_TAG);
}
