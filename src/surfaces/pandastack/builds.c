/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/templates/build: a form, with or without files. A Dockerfile becomes a build of ours, and so does `image_ref` where it names a template
 * that is here; nothing is fetched from registries, and no root file system is taken. The files of a build's context are not kept: COPY, which they
 * would be for, is refused by its line (operations/dockerfile.h).
 */
#include "operations/builds.h"

#include <math.h>
#include <string.h>

#include "http/multipart.h"
#include "http/uri.h"
#include "operations/dockerfile.h"
#include "operations/limits.h"
#include "operations/surface_network.h"
#include "operations/templates.h"
#include "surfaces/pandastack/handlers.h"
#include "surfaces/shared/pandastack.h"
#include "surfaces/shared/surface.h"
#include "util/json.h"

#define ROOTFS "rootfs"
#define NO_ROOTFS "a root file system cannot be brought along: give a Dockerfile whose FROM names a template that is here"
typedef struct {
	VialRequest *request;
	VialMultipart *multipart; /* NULL: urlencoded */
	json_t *fields;           /* texts */
	gsize fields_bytes;
	char *name;        /* of the field that is being read; NULL: of a file, which is not kept */
	GByteArray *bytes; /* of it, or of the whole body */
} Form;

static void form_free(Form *form)
{
	vial_request_on_gone(form->request, NULL, NULL);
	vial_multipart_free(form->multipart);
	json_decref(form->fields);
	g_free(form->name);
	g_byte_array_unref(form->bytes);
	vial_request_unref(form->request);
	g_free(form);
}

/* Answers, and is the form's end. */
static void refuse(Form *form, GError *error)
{
	vial_request_reply_error(form->request, error);
	form_free(form);
}

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

static gboolean begin_build(VialRequest *request, const json_t *fields, GError **error)
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
	} else { /* the same under another name: a build has at least one step */
		build.steps = nothing = json_pack("[{s:[s]}]", "run", "true");
		build.base = image;
	}
	return (!build.base || check_base(&caller, image ? "image_ref" : "FROM", build.base, error)) &&
	       vial_op_template_build(&caller, &build, on_queued, request, error);
}

/* The form is complete. */
static void build(Form *form)
{
	g_autoptr(GError) error = NULL;

	vial_surface_begun(form->request, begin_build(form->request, form->fields, &error), &error);
	form_free(form);
}

/* Fields */

static gboolean keep(Form *form, const char *name, const char *text, gsize size, GError **error)
{
	json_t *value = json_stringn(size > 0 ? text : "", size); /* of nothing there are no bytes to point to */

	if (!value || json_object_set_new(form->fields, name, value) != 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "a field of the form is no UTF-8");
	return TRUE;
}

static gboolean too_large(GError **error)
{
	return vial_fail(error, VIAL_ERROR_TOO_LARGE, "the fields of the form are too long: a Dockerfile has at most %d bytes",
	                 VIAL_DOCKERFILE_MAX_BYTES);
}

static gboolean part_begin(const VialMultipartPart *part, gpointer data)
{
	Form *form = data;
	GError *error = NULL;

	g_clear_pointer(&form->name, g_free);
	g_byte_array_set_size(form->bytes, 0);
	if (part->filename && strcmp(part->name, ROOTFS) != 0)
		return FALSE;
	if (part->filename)
		vial_fail(&error, VIAL_ERROR_INVALID, NO_ROOTFS);
	else if ((form->fields_bytes += strlen(part->name)) > VIAL_BUILD_FORM_MAX_BYTES)
		too_large(&error);
	if (error) {
		refuse(form, error);
		return TRUE;
	}
	form->name = g_strdup(part->name);
	return FALSE;
}

static gboolean part_data(const void *bytes, gsize size, gpointer data)
{
	Form *form = data;
	GError *error = NULL;

	if (!form->name)
		return FALSE;
	form->fields_bytes += size;
	if (form->fields_bytes > VIAL_BUILD_FORM_MAX_BYTES) {
		too_large(&error);
		refuse(form, error);
		return TRUE;
	}
	g_byte_array_append(form->bytes, bytes, (guint)size);
	return FALSE;
}

static gboolean part_end(gpointer data)
{
	Form *form = data;
	GError *error = NULL;

	if (!form->name || keep(form, form->name, (const char *)form->bytes->data, form->bytes->len, &error))
		return FALSE;
	refuse(form, error);
	return TRUE;
}

static void parts_end(const GError *error, gpointer data)
{
	if (error)
		refuse(data, g_error_copy(error));
	else
		build(data);
}

static const VialMultipartSink sink = { .part_begin = part_begin, .part_data = part_data, .part_end = part_end, .end = parts_end };

static void read_urlencoded(Form *form)
{
	g_autoptr(GBytes) body = g_bytes_new(form->bytes->data, form->bytes->len);
	gboolean is_read = TRUE;
	GError *error = NULL;
	VialArena arena;
	VialPair *pairs;
	gsize count;

	vial_arena_init(&arena);
	is_read = vial_form_parse(&arena, body, &pairs, &count, &error);
	for (gsize i = 0; is_read && i < count; i++)
		is_read = keep(form, pairs[i].name, pairs[i].value, strlen(pairs[i].value), &error);
	vial_arena_clear(&arena);
	if (is_read)
		build(form);
	else
		refuse(form, error);
}

/* The body */

static gboolean on_body(VialRequest *request, const void *bytes, gsize size, gpointer data)
{
	Form *form = data;
	GError *error = NULL;

	if (form->multipart)
		return vial_multipart_push(form->multipart, bytes, size);
	if (form->bytes->len + size > 3 * VIAL_BUILD_FORM_MAX_BYTES) { /* three bytes for one, where it is escaped */
		too_large(&error);
		refuse(form, error);
		return TRUE;
	}
	g_byte_array_append(form->bytes, bytes, (guint)size);
	return TRUE;
}

static void on_body_end(VialRequest *request, gboolean is_complete, gpointer data)
{
	Form *form = data;

	if (!is_complete) /* whoever left fires gone */
		return;
	if (form->multipart)
		vial_multipart_finish(form->multipart);
	else
		read_urlencoded(form);
}

static void on_gone(VialRequest *request, gpointer data)
{
	form_free(data);
}

void vial_pandastack_template_build(VialRequest *request)
{
	const char *type = vial_request_header(request, "Content-Type");
	Form *form = g_new0(Form, 1);
	GError *error = NULL;

	*form = (Form){ .request = vial_request_ref(request), .fields = json_object(), .bytes = g_byte_array_new() };
	if (type && g_ascii_strncasecmp(type, "application/x-www-form-urlencoded", strlen("application/x-www-form-urlencoded")) == 0) {
		/* as it is */
	} else if (!(form->multipart = vial_multipart_new(type, &sink, form, &error))) {
		return refuse(form, error);
	}
	vial_request_on_gone(request, on_gone, form);
	vial_request_body_read(request, on_body, on_body_end, form);
}
