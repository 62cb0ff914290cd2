/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a template is made, in our steps: each of theirs is one of ours, so that a failed one can be told by its number. They run with bash as `user`
 * in his home, unless the client says otherwise; what there is nothing like here is refused by its number and name.
 */
#include <string.h>

#include "operations/uploads.h"
#include "surfaces/e2b/control.h"
#include "util/json.h"

#define IMAGES "e2bdev/"
#define HOME "/home/user"

static const char *text_at(const json_t *args, gsize index)
{
	const char *text = json_string_value(json_array_get(args, index));

	return text && *text ? text : NULL;
}

static json_t *run_step(const json_t *args, const char *user)
{
	const char *own = text_at(args, 1);

	return json_pack("{s:[s, s, s, s], s:s}", "run", "/bin/bash", "-l", "-c", text_at(args, 0) ? text_at(args, 0) : "", "user", own ? own : user);
}

static json_t *env_step(const json_t *args)
{
	json_t *env = json_object();

	for (gsize i = 0; i + 1 < json_array_size(args); i += 2)
		if (text_at(args, i))
			json_object_set(env, text_at(args, i), json_array_get(args, i + 1));
	return json_pack("{s:o}", "env", env);
}

/*
 * What lies in the archive of a source: a path, or of a pattern the folder before its first wildcard. Which files of that folder match the client has
 * decided, who sends no others.
 */
static char *copied_path(const char *source)
{
	g_autofree char *path = g_canonicalize_filename(source, "/");
	gsize wild = strcspn(path, "*?[{");
	const char *folder_end = path[wild] ? g_strrstr_len(path, (gssize)wild, "/") : path + wild;
	g_autofree char *cut = g_strndup(path + 1, folder_end > path ? (gsize)(folder_end - path) - 1 : 0);

	return g_strdup(*cut ? cut : ".");
}

static json_t *copy_step(const VialCaller *caller, gsize index, const json_t *given, const char *user, GError **error)
{
	const json_t *args = json_object_get(given, "args");
	const char *source = text_at(args, 0), *target = text_at(args, 1), *owner = text_at(args, 2), *mode = text_at(args, 3);
	const char *name = json_string_value(json_object_get(given, "filesHash")), *archive;
	g_autofree char *from = source ? copied_path(source) : NULL;

	if (!source || !name)
		return vial_fail(error, VIAL_ERROR_INVALID, "step %d: COPY needs a source, a destination and filesHash", (int)index + 1), NULL;
	archive = vial_op_upload_find(caller, name, error);
	if (archive)
		return json_pack("{s:{s:s, s:s, s:s, s:s, s:s*}}", "copy", "archive", archive, "from", from, "to", target ? target : "./", "user",
		                 owner ? owner : user, "mode", mode);
	if (!*error)
		vial_fail(error, VIAL_ERROR_INVALID,
		          "COPY %.200s: its files were not sent, or are not kept any more: ask where to (files/%.64s) and send them", source, name);
	g_prefix_error(error, "step %d: ", (int)index + 1);
	return NULL;
}

static json_t *step_json(const VialCaller *caller, gsize index, const json_t *given, const char **user, GError **error)
{
	const char *type = json_string_value(json_object_get(given, "type"));
	const json_t *args = json_object_get(given, "args");

	if (g_strcmp0(type, "RUN") == 0)
		return run_step(args, *user);
	if (g_strcmp0(type, "ENV") == 0)
		return env_step(args);
	if (g_strcmp0(type, "WORKDIR") == 0)
		return json_pack("{s:s}", "workdir", text_at(args, 0) ? text_at(args, 0) : HOME);
	if (g_strcmp0(type, "USER") == 0) {
		/* Its own step fails where there is no such user. */
		*user = text_at(args, 0) ? text_at(args, 0) : "user";
		return json_pack("{s:[s, s, s]}", "run", "id", "--", *user);
	}
	if (g_strcmp0(type, "COPY") == 0)
		return copy_step(caller, index, given, *user, error);
	vial_fail(error, VIAL_ERROR_INVALID, "step %d: %.32s is no step here: there are RUN, COPY, ENV, WORKDIR and USER", (int)index + 1,
	          type ? type : "what has no type");
	return NULL;
}

static gboolean decode_steps(const VialCaller *caller, json_t *given, const char **user, VialTemplateBuildRequest *out, GError **error)
{
	const json_t *item;
	gsize i;

	out->steps = json_array();
	out->may_copy = TRUE;
	json_array_foreach (given, i, item) {
		json_t *step = step_json(caller, i, item, user, error);

		if (!step)
			return FALSE;
		out->no_cache |= json_is_true(json_object_get(item, "force"));
		json_array_append_new(out->steps, step);
	}
	/* A template that is only another name for its base: a build has a step, so it has one that does nothing. */
	if (json_array_size(out->steps) == 0)
		json_array_append_new(out->steps, json_pack("{s:[s]}", "run", "true"));
	return TRUE;
}

static const char *said(const char *text)
{
	return text && *text ? text : NULL;
}

/* Their own images are what this one's are called; others are nobody's here. */
static gboolean decode_base(VialArena *arena, const json_t *body, VialTemplateBuildRequest *out, GError **error)
{
	const char *image = NULL, *template = NULL;

	if (!vial_decode_text(body, "fromImage", &image, error) || !vial_decode_text(body, "fromTemplate", &template, error))
		return FALSE;
	if (template)
		out->base = vial_e2b_plain_name(arena, template);
	else if (image && g_str_has_prefix(image, IMAGES))
		out->base = vial_arena_copy(arena, image + strlen(IMAGES), strcspn(image + strlen(IMAGES), ":"));
	else
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "fromImage: images of registries are not fetched here; begin with a template (from_template), for instance "
		                 "\"code-interpreter\"");
	return TRUE;
}

gboolean vial_e2b_build_decode(VialArena *arena, const VialCaller *caller, const json_t *body, VialTemplateBuildRequest *out, GError **error)
{
	const char *start = NULL, *ready = NULL, *user = "user";
	json_t *steps = NULL;

	if (!decode_base(arena, body, out, error) || !vial_decode_text(body, "startCmd", &start, error) ||
	    !vial_decode_text(body, "readyCmd", &ready, error) || !vial_decode_list(body, "steps", &steps, error) ||
	    !vial_decode_bool(body, "force", &out->no_cache, error))
		return FALSE;
	out->workdir = HOME;
	if (!decode_steps(caller, steps, &user, out, error))
		return FALSE;
	out->start_command = said(start);
	out->ready_command = said(ready);
	if (out->start_command || out->ready_command)
		out->start_user = user; /* as the last of the steps */
	return TRUE;
}
