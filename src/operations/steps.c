/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/steps.h"

#include <string.h>

#include "operations/dockerfile.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "service/build_files.h"
#include "util/error.h"
#include "util/json.h"

static gboolean complain(gsize index, GError **error, const char *what)
{
	return vial_fail(error, VIAL_ERROR_INVALID, "field \"steps[%" G_GSIZE_FORMAT "]\" %s", index, what);
}

static json_t *read_copy(json_t *copy, gsize index, GError **error)
{
	static const char *const fields[] = { "archive", "from", "to", "user", "mode" };
	gsize known = 0;

	for (gsize i = 0; i < G_N_ELEMENTS(fields); i++) {
		const json_t *value = json_object_get(copy, fields[i]);

		known += value != NULL;
		if (value ? !json_is_string(value) : i < 3)
			return complain(index, error, "must have texts in \"copy\": archive, from and to"), NULL;
	}
	if (json_object_size(copy) != known)
		return complain(index, error, "must have nothing in \"copy\" but archive, from, to, user and mode"), NULL;
	return json_pack("{s:O}", "copy", copy);
}

static json_t *read_step(json_t *given, gsize index, gboolean may_copy, char **workdir, GError **error)
{
	static const char *const kinds[] = { "run", "env", "workdir" };
	const char *kind = NULL;
	json_t *value = NULL, *user = json_object_get(given, "user");

	if (!json_is_object(given))
		return complain(index, error, "must be an object"), NULL;
	if (may_copy && json_object_size(given) == 1 && json_object_get(given, "copy"))
		return read_copy(json_object_get(given, "copy"), index, error);
	for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++) {
		json_t *found = json_object_get(given, kinds[i]);

		if (!found)
			continue;
		if (kind)
			return complain(index, error, "must have one of run, env and workdir, not several"), NULL;
		kind = kinds[i];
		value = found;
	}
	if (!kind || json_object_size(given) != (user ? 2 : 1) || (user && strcmp(kind, "run") != 0))
		return complain(index, error, "must have one of run, env and workdir, and nothing else but, beside run, its user"), NULL;
	if (strcmp(kind, "run") == 0 && !json_is_string(value) && !json_is_array(value))
		return complain(index, error, "must have a shell line or a list of words in \"run\""), NULL;
	if (strcmp(kind, "env") == 0 && (!json_is_object(value) || json_object_size(value) == 0))
		return complain(index, error, "must have an object with names and values in \"env\""), NULL;
	if (user && !json_is_string(user))
		return complain(index, error, "must have a name in \"user\""), NULL;
	if (strcmp(kind, "workdir") != 0)
		return json_pack("{s:O, s:O*}", kind, value, "user", user);
	if (!json_is_string(value) || json_string_length(value) == 0 || json_string_length(value) > VIAL_PATH_MAX_BYTES)
		return complain(index, error, "must have a path in \"workdir\""), NULL;
	char *joined = vial_workdir_join(*workdir, json_string_value(value));

	g_free(*workdir);
	*workdir = joined;
	return json_pack("{s:s}", kind, joined);
}

json_t *vial_steps_read(json_t *given, const char *workdir, gboolean may_copy, GError **error)
{
	g_autoptr(json_t) steps = json_array();
	g_autofree char *current = g_strdup(workdir);
	json_t *item;
	gsize i;

	if (json_array_size(given) > VIAL_STEPS_MAX)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"steps\" has too many elements: at most %d", VIAL_STEPS_MAX), NULL;
	json_array_foreach (given, i, item) {
		json_t *step = read_step(item, i, may_copy, &current, error);

		if (!step)
			return NULL;
		json_array_append_new(steps, step);
	}
	return g_steal_pointer(&steps);
}

/* No step may have a name that only looks like one: what the shell cannot read, nobody meant. */
static gboolean check_names(json_t *env, GError **error)
{
	const char *name;
	json_t *value;

	json_object_foreach (env, name, value)
		for (const char *c = name; *c; c++)
			if (!(g_ascii_isalpha(*c) || *c == '_' || (c > name && g_ascii_isdigit(*c))))
				return vial_fail(error, VIAL_ERROR_INVALID, "\"%.64s\" is no name of an environment variable", name);
	return vial_check_env(env, error);
}

static const char *text_of(const json_t *copy, const char *field)
{
	return json_string_value(json_object_get(copy, field));
}

static gboolean check_mode(const char *mode, GError **error)
{
	gsize length = mode ? strlen(mode) : 1;

	return (length >= 1 && length <= 4 && (!mode || strspn(mode, "01234567") == length)) ||
	       vial_fail(error, VIAL_ERROR_INVALID, "copy: the mode must have one to four octal digits, as 0644");
}

static gboolean check_copy(const json_t *copy, GError **error)
{
	const char *archive = text_of(copy, "archive"), *from = text_of(copy, "from");
	g_auto(GStrv) parts = g_strsplit(from ? from : "", "/", -1);

	if (!archive || !vial_build_file_is_name(archive))
		return vial_fail(error, VIAL_ERROR_INVALID, "copy: an archive is called by the 64 hexadecimal digits of its content's SHA-256");
	if (g_strv_contains((const char *const *)parts, ".."))
		return vial_fail(error, VIAL_ERROR_INVALID, "copy: what is copied must lie within the archive, not at %.200s", from);
	return vial_check_required("from", from, VIAL_PATH_MAX_BYTES, error) &&
	       vial_check_required("to", text_of(copy, "to"), VIAL_PATH_MAX_BYTES, error) &&
	       vial_check_text("user", text_of(copy, "user"), VIAL_USER_MAX_BYTES, error) && check_mode(text_of(copy, "mode"), error);
}

static gboolean check_step(const json_t *step, GError **error)
{
	json_t *command = json_object_get(step, "run"), *env = json_object_get(step, "env"), *args = json_object_get(step, "args");

	if ((args && !check_names(args, error)) ||
	    !vial_check_text("user", json_string_value(json_object_get(step, "user")), VIAL_USER_MAX_BYTES, error))
		return FALSE;
	if (json_object_get(step, "copy"))
		return check_copy(json_object_get(step, "copy"), error);
	if (json_is_array(command))
		return vial_check_argv(command, error);
	if (command)
		return vial_check_required("run", json_string_value(command), VIAL_COMMAND_MAX_BYTES, error);
	return !env || check_names(env, error);
}

gboolean vial_steps_check(const json_t *steps, GError **error)
{
	const json_t *step;
	gsize i;

	json_array_foreach ((json_t *)steps, i, step) {
		const json_t *line = json_object_get(step, "line");

		if (check_step(step, error))
			continue;
		if (line)
			g_prefix_error(error, "dockerfile, line %d: ", (int)json_integer_value(line));
		else
			g_prefix_error(error, "steps[%d]: ", (int)i);
		return FALSE;
	}
	return TRUE;
}
