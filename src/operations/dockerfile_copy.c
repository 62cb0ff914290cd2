/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/dockerfile_copy.h"

#include <string.h>

#include "operations/dockerfile.h"
#include "operations/limits.h"
#include "util/error.h"
#include "util/json.h"

typedef struct {
	const char *user, *mode; /* NULL: not said */
} Flags;

/* Flags */

static const struct {
	const char *name;
	const char *reason;
} refused_flags[] = {
	{ "--from", "there are no other stages or images to copy from, only the files that were sent with the build" },
	{ "--link", "a build makes one layer, not one for each step" },
	{ "--parents", "name each source in a COPY of its own, with its folder in the destination" },
	{ "--exclude", "leave the files out of what is sent, or remove them in a RUN" },
};

static gboolean is_mode(const char *text)
{
	gsize length = strlen(text);

	return (length == 3 || length == 4) && strspn(text, "01234567") == length;
}

/* NAME, NAME:GROUP, or their numbers. */
static gboolean is_owner(const char *text)
{
	const char *colon = strchr(text, ':');

	for (const char *c = text; *c; c++)
		if (c != colon && !g_ascii_isalnum(*c) && !strchr("._-", *c))
			return FALSE;
	return *text && *text != '-' && colon != text && strlen(text) <= VIAL_USER_MAX_BYTES && (!colon || (colon[1] && colon[1] != '-'));
}

static gboolean read_flag(const char *word, Flags *flags, GError **error)
{
	gsize length = strcspn(word, "=");
	const char *value = word[length] ? word + length + 1 : "";
	g_autofree char *name = g_strndup(word, length);

	if (strcmp(name, "--chown") == 0) {
		flags->user = value;
		return is_owner(value) || vial_fail(error, VIAL_ERROR_INVALID, "COPY --chown must be a user, or user:group");
	}
	if (strcmp(name, "--chmod") == 0) {
		flags->mode = value;
		return is_mode(value) || vial_fail(error, VIAL_ERROR_INVALID, "COPY --chmod must be three or four octal digits");
	}
	for (gsize i = 0; i < G_N_ELEMENTS(refused_flags); i++)
		if (strcmp(name, refused_flags[i].name) == 0)
			return vial_fail(error, VIAL_ERROR_INVALID, "COPY %s is not supported: %s", name, refused_flags[i].reason);
	return vial_fail(error, VIAL_ERROR_INVALID, "COPY %.32s is not known here; there are --chown and --chmod", name);
}

/* Paths */

static gboolean is_url(const char *source)
{
	return strstr(source, "://") || g_str_has_prefix(source, "git@");
}

/* Within the context, whose root "/" and "." are; NULL with an error. Free it. */
static char *source_path(const char *source, GError **error)
{
	g_auto(GStrv) parts = g_strsplit(source, "/", -1);
	g_autoptr(GString) path = g_string_new(NULL);

	if (g_str_has_prefix(source, "<<"))
		return vial_fail(error, VIAL_ERROR_INVALID, "a here-document is not copied: write it in a RUN, cat > file <<EOF"), NULL;
	if (is_url(source))
		return vial_fail(error, VIAL_ERROR_INVALID, "COPY takes no addresses: fetch it in a RUN"), NULL;
	for (gsize i = 0; parts[i]; i++) {
		if (strcmp(parts[i], "..") == 0)
			return vial_fail(error, VIAL_ERROR_INVALID, "\"%.200s\" leads out of the files that were sent with the build", source), NULL;
		if (!*parts[i] || strcmp(parts[i], ".") == 0)
			continue;
		g_string_append_printf(path, "%s%s", path->len > 0 ? "/" : "", parts[i]);
	}
	if (!*source || path->len > VIAL_PATH_MAX_BYTES - 1)
		return vial_fail(error, VIAL_ERROR_INVALID, "a source must be a path of at most %d bytes", VIAL_PATH_MAX_BYTES - 1), NULL;
	return g_strdup(path->len > 0 ? path->str : ".");
}

/* Whether what is copied goes into it, by its name alone. */
static gboolean is_folder(const char *path)
{
	static const char *const ends[] = { "/", "/.", "/.." };

	for (gsize i = 0; i < G_N_ELEMENTS(ends); i++)
		if (g_str_has_suffix(path, ends[i]))
			return TRUE;
	return strcmp(path, ".") == 0 || strcmp(path, "..") == 0;
}

/* Absolute where that can be told, and with a "/" at the end if it is to be a folder. NULL with an error. Free it. */
static char *destination_path(const char *destination, const char *workdir, GError **error)
{
	g_autofree char *path = NULL;

	if (!*destination || strlen(destination) > VIAL_PATH_MAX_BYTES - 1)
		return vial_fail(error, VIAL_ERROR_INVALID, "the destination must be a path of at most %d bytes", VIAL_PATH_MAX_BYTES - 1), NULL;
	path = workdir || *destination == '/' ? vial_workdir_join(workdir, destination) : g_strdup(destination);
	return g_strconcat(path, is_folder(destination) && !g_str_has_suffix(path, "/") ? "/" : "", NULL);
}

json_t *vial_dockerfile_copy(const GPtrArray *words, const char *workdir, const char *context, GError **error)
{
	g_autoptr(json_t) copies = json_array();
	g_autofree char *destination = NULL;
	Flags flags = { 0 };
	guint first = 0;

	for (; first < words->len && g_str_has_prefix(words->pdata[first], "--"); first++)
		if (!read_flag(words->pdata[first], &flags, error))
			return NULL;
	if (words->len - first < 2)
		return vial_fail(error, VIAL_ERROR_INVALID, "COPY must be followed by at least one source and a destination"), NULL;
	destination = destination_path(words->pdata[words->len - 1], workdir, error);
	if (!destination)
		return NULL;
	if (words->len - first > 2 && !g_str_has_suffix(destination, "/"))
		return vial_fail(error, VIAL_ERROR_INVALID, "a COPY of several sources must have a destination that ends with \"/\""), NULL;
	for (guint i = first; i + 1 < words->len; i++) {
		g_autofree char *source = source_path(words->pdata[i], error);

		if (!source)
			return NULL;
		json_array_append_new(copies, json_pack("{s:s, s:s, s:s, s:s*, s:s*}", "archive", context, "from", source, "to", destination, "user",
		                                        flags.user, "mode", flags.mode));
	}
	return g_steal_pointer(&copies);
}
