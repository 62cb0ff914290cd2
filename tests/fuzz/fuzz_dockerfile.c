/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a Dockerfile from strangers. What is accepted is a list of steps of the four kinds, within its limits, of valid text. */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "operations/dockerfile.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* It stays within what it is copied from. */
static void check_copy(const json_t *copy)
{
	const char *from = json_string_value(json_object_get(copy, "from")), *to = json_string_value(json_object_get(copy, "to"));

	assert(from && *from && *from != '/' && strcmp(from, "..") != 0 && !g_str_has_prefix(from, "../") && !strstr(from, "/../"));
	assert(to && *to == '/' && strlen(to) < 8192);
}

static void check_step(const json_t *step)
{
	json_t *run = json_object_get(step, "run"), *env = json_object_get(step, "env"), *workdir = json_object_get(step, "workdir"), *value;
	json_t *copy = json_object_get(step, "copy");
	const char *name;

	assert(!!run + !!env + !!workdir + !!copy == 1 && json_integer_value(json_object_get(step, "line")) > 0);
	assert(!run || json_array_size(run) > 0 || json_string_length(run) > 0 || json_is_string(run));
	if (copy)
		check_copy(copy);
	assert(!workdir || json_string_value(workdir)[0] == '/');
	json_object_foreach (env, name, value)
		assert(*name && !strchr(name, '=') && json_is_string(value));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	g_autofree char *text = g_strndup((const char *)bytes, size);
	g_autoptr(json_t) args = json_pack("{s:s}", "V", "value"), env = json_pack("{s:s}", "PATH", "/base");
	g_autoptr(json_t) steps = NULL;
	g_autoptr(GError) error = NULL;
	json_t *step;
	gsize i;

	/* The surface has read JSON by then. */
	if (!g_utf8_validate(text, -1, NULL))
		return 0;
	steps = vial_dockerfile_parse(text, args, env, "/work", "archive", &error);
	assert(!steps == !!error);
	if (error)
		assert(g_utf8_validate(error->message, -1, NULL));
	assert(json_array_size(steps) <= VIAL_STEPS_MAX);
	json_array_foreach (steps, i, step)
		check_step(step);
	return 0;
}
