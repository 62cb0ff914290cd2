/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/templates/build: a form, with or without files. A Dockerfile becomes a build of ours, and so does `image_ref` where it names a template
 * that is here; nothing is fetched from registries, and no root file system is taken. Files are the build's context, for its COPYs.
 */
#include "operations/builds.h"

#include <math.h>
#include <string.h>

#include "operations/dockerfile.h"
#include "operations/limits.h"
#include "operations/surface_network.h"
#include "operations/templates.h"
#include "surfaces/pandastack/build_form.h"
#include "surfaces/pandastack/handlers.h"
#include "surfaces/shared/pandastack.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

/* What is asked for */

/*
 * What the "FROM name" at the top of a Dockerfile names; the line becomes blank, so that the others keep their numbers. NULL: it begins with
 * something else.
 */
static char *take_from(char *text)
{
	g_autofree char *line = NULL;
	g_auto(GStrv) words = NULL;

	for (text += strspn(text, " \t\r\n"); *text == '#'; text += strspn(text, " \t\r\n"))
		text += strcspn(text, "\n");
	if (g_ascii_strncasecmp(text, "FROM", 4) != 0 || !g_ascii_isspace(text[4]))
		return NULL;
	line = g_strndup(text, strcspn(text, "\r\n"));
	memset(text, ' ', strlen(line));
	words = g_strsplit_set(line, " \t", -1);
	for (guint i = 1; words[i]; i++)
		if (*words[i] && !g_str_has_prefix(words[i], "--")) /* --platform=… */
			return g_strdup(words[i]);
	return g_strdup("");
}

/* That `name` is a template; `what` says where it was named. */
static gboolean check_base(const VialCaller *caller, const char *what, const char *name, GError **error)
{
	g_autoptr(GError) missing = NULL;
	g_autoptr(json_t) template = vial_op_template_get(caller, name, &missing);

	if (template)
		return TRUE;
	if (g_error_matches(missing, VIAL_ERROR, VIAL_ERROR_NOT_FOUND))
		return vial_fail(
			error, VIAL_ERROR_INVALID,
			"%s \"%.128s\": there is no template of that name, and images are not fetched from registries; a template of one's own "
			"is built by a Dockerfile whose FROM names one that is here",
			what, name);
	g_propagate_error(error, g_steal_pointer(&missing));
	return FALSE;
}

static gboolean read_number(const json_t *fields, const char *name, double *out, GError **error)
{
	const char *text = NULL;
	char *end = NULL;
	double value;

	if (!vial_decode_text(fields, name, &text, error))
		return FALSE;
	if (!text || !*text)
		return TRUE;
	value = g_ascii_strtod(text, &end);
	if (*end || !isfinite(value))
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be a number", name);
	*out = value;
	return TRUE;
}

static gboolean read_whole_number(const json_t *fields, const char *name, gint64 *out, GError **error)
{
	double value = NAN;

	if (!read_number(fields, name, &value, error))
		return FALSE;
	if (isnan(value))
		return TRUE;
	if (value != floor(value) || fabs(value) > G_MAXINT32)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"%s\" must be a whole number", name);
	*out = (gint64)value;
	return TRUE;
}

static gboolean read_sizes(const json_t *fields, VialTemplateBuildRequest *out, GError **error)
{
	return read_number(fields, "cpu", &out->cpu, error) && read_whole_number(fields, "memory_mb", &out->memory_mb, error) &&
	       read_whole_number(fields, "size_mb", &out->disk_mb, error);
}

/* Which of the two ways, as texts that the form keeps; "" is as good as nothing. */
static gboolean read_source(const json_t *fields, const char **out_dockerfile, const char **out_image, GError **error)
{
	const char *kernel = NULL;

	if (!vial_decode_text(fields, "dockerfile", out_dockerfile, error) || !vial_decode_text(fields, "image_ref", out_image, error) ||
	    !vial_decode_text(fields, "kernel", &kernel, error))
		return FALSE;
	if (kernel && *kernel)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"kernel\": every sandbox has the kernel of its engine");
	if (*out_dockerfile && !**out_dockerfile)
		*out_dockerfile = NULL;
	if (*out_image && !**out_image)
		*out_image = NULL;
	return !*out_dockerfile != !*out_image || vial_fail(error, VIAL_ERROR_INVALID, "give either a dockerfile or an image_ref");
}

static void on_queued(json_t *document, const GError *error, gpointer data)
{
	g_autoptr(json_t) answer = document ? vial_pandastack_build(document) : NULL;

	vial_surface_reply_accepted(answer, error, data);
}

static gboolean begin_build(VialRequest *request, const json_t *fields, const char *archive, GError **error)
{
	VialCaller caller = vial_surface_question(request);
	VialTemplateBuildRequest build = {
		.cpu = (double)VIAL_UNSAID, .memory_mb = VIAL_UNSAID, .disk_mb = VIAL_UNSAID, .timeout_seconds = VIAL_UNSAID
	};
	const char *dockerfile = NULL, *image = NULL;
	g_autofree char *text = NULL, *from = NULL;
	g_autoptr(json_t) network = vial_surface_network(&caller), nothing = NULL;

	if (!vial_decode_text(fields, "name", &build.name, error) || !read_source(fields, &dockerfile, &image, error) ||
	    !read_sizes(fields, &build, error))
		return FALSE;
	build.network = network;
	if (dockerfile) {
		build.dockerfile = text = g_strdup(dockerfile);
		build.base = from = take_from(text);
		build.context = archive;
	} else { /* the same under another name: a build has at least one step */
		build.steps = nothing = json_pack("[{s:[s]}]", "run", "true");
		build.base = image;
	}
	return (!build.base || check_base(&caller, image ? "image_ref" : "FROM", build.base, error)) &&
	       vial_op_template_build(&caller, &build, on_queued, request, error);
}

/* As long as the Dockerfile may still come nobody knows. */
static gboolean wants_files(const json_t *fields, gboolean is_whole)
{
	g_autofree char *text = g_strdup(json_string_value(json_object_get(fields, "dockerfile")));
	g_autofree char *from = text ? take_from(text) : NULL;

	return text ? vial_dockerfile_copies(text) : !is_whole;
}

static void on_form(VialRequest *request, const json_t *fields, const char *archive, const GError *error)
{
	g_autoptr(GError) refusal = NULL;

	if (error)
		vial_request_reply_error(request, g_error_copy(error));
	else
		vial_surface_begun(request, begin_build(request, fields, archive, &refusal), &refusal);
}

void vial_pandastack_template_build(VialRequest *request)
{
	vial_build_form_read(request, wants_files, on_form);
}
