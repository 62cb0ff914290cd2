/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fields.h"

#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/output.h"
#include "cli/status.h"
#include "cli/times.h"

enum { LABEL_WIDTH = 20 }; /* previous_works_until */

static char *join(const json_t *list)
{
	GString *text = g_string_new(NULL);
	for (gsize i = 0; i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));
		if (!word)
			return g_string_free(text, TRUE), NULL;
		g_string_append_printf(text, "%s%s", i ? ", " : "", word);
	}
	return g_string_free(text, FALSE);
}

static char *describe(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	char *joined = json_is_array(value) ? join(value) : NULL;
	if (joined)
		return joined;
	/* A policy has lists in it, and is read as what it is. */
	if (json_is_object(value) && strcmp(name, "network") != 0)
		return vial_api_pairs(value);
	char *text = vial_api_text(object, name);
	/* The distance from now is what one wants to know. */
	g_autofree char *distance = g_str_has_suffix(name, "_at") || g_str_has_suffix(name, "_until") ? vial_time_distance(text) : NULL;
	if (!distance)
		return text;
	char *both = g_strdup_printf("%s (%s)", text, distance);
	g_free(text);
	return both;
}

char *vial_fields_text(const json_t *object, const char *name)
{
	g_autofree char *text = describe(object, name);
	return vial_sanitize_line(text);
}

void vial_fields_line(VialCli *cli, const char *name, const char *text, const char *style)
{
	g_autofree char *label = vial_sanitize_line(name), *clean = vial_sanitize_line(text);
	printf("%s%-*s%s  %s%s%s\n", vial_output_style(cli, "2"), LABEL_WIDTH, label, vial_output_style(cli, "0"),
	       style ? vial_output_style(cli, style) : "", *clean ? clean : "-", style ? vial_output_style(cli, "0") : "");
}

void vial_fields_print(VialCli *cli, const json_t *object)
{
	const char *name;
	json_t *value;
	json_object_foreach ((json_t *)object, name, value) {
		g_autofree char *text = vial_fields_text(object, name);
		vial_fields_line(cli, name, text, strcmp(name, "status") == 0 ? vial_status_style(text) : NULL);
	}
}
