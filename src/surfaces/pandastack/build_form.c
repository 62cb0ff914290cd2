/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/pandastack/build_form.h"

#include <string.h>

#include "http/multipart.h"
#include "http/uri.h"
#include "operations/builds.h"
#include "operations/dockerfile.h"
#include "operations/limits.h"
#include "surfaces/shared/surface.h"

#define ROOTFS "rootfs"
#define NO_ROOTFS "a root file system cannot be brought along: give a Dockerfile whose FROM names a template that is here"

typedef struct {
	VialRequest *request;
	VialBuildFormWants wants;
	VialBuildFormDone done;
	VialMultipart *multipart; /* NULL: urlencoded */
	json_t *fields;           /* texts */
	gsize fields_bytes;
	char *name;                /* of the field that is being read; NULL: of a file */
	GByteArray *bytes;         /* of it, or of the whole body */
	VialBuildContext *context; /* NULL: no file has come, or none is wanted */
	gboolean drops_files;
} Form;

static void form_free(Form *form)
{
	vial_request_on_gone(form->request, NULL, NULL);
	vial_multipart_free(form->multipart);
	vial_build_context_abort(form->context);
	json_decref(form->fields);
	g_free(form->name);
	g_byte_array_unref(form->bytes);
	vial_request_unref(form->request);
	g_free(form);
}

/* Is the form's end, as refuse() is. */
static void settle(Form *form, const char *archive)
{
	form->done(form->request, form->fields, archive, NULL);
	form_free(form);
}

static void refuse(Form *form, GError *error)
{
	form->done(form->request, NULL, NULL, error);
	g_error_free(error);
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

/* Files */

static void on_context_writable(gpointer data)
{
	Form *form = data;
	g_autoptr(VialRequest) request = vial_request_ref(form->request);

	if (vial_multipart_resume(form->multipart))
		vial_request_body_resume(request);
}

static void on_context_end(const char *hash, gint64 size_bytes, const GError *error, gpointer data)
{
	Form *form = data;

	form->context = NULL;
	if (error) {
		VialCaller caller = vial_surface_caller(form->request);

		vial_op_build_context_refused(&caller, error);
		refuse(form, g_error_copy(error));
	} else {
		settle(form, hash);
	}
}

static gboolean begin_context(Form *form, GError **error)
{
	static const VialBuildFileSink context_sink = { .writable = on_context_writable, .end = on_context_end };
	VialCaller caller = vial_surface_caller(form->request);

	form->drops_files = !form->wants(form->fields, FALSE);
	if (form->drops_files)
		return TRUE;
	form->context = vial_op_build_context(&caller, &context_sink, form, error);
	return form->context != NULL;
}

/* One of a build's context has its path there as the field's name. */
static gboolean begin_file(Form *form, const char *name, GError **error)
{
	/* With a Dockerfile it is a file that happens to be called so. */
	if (strcmp(name, ROOTFS) == 0 && !json_object_get(form->fields, "dockerfile"))
		return vial_fail(error, VIAL_ERROR_INVALID, NO_ROOTFS);
	if (!form->context && !form->drops_files && !begin_context(form, error))
		return FALSE;
	return !form->context || vial_build_context_add(form->context, name, error);
}

/* Parts */

static gboolean begin_field(Form *form, const char *name, GError **error)
{
	form->fields_bytes += strlen(name);
	if (form->fields_bytes > VIAL_BUILD_FORM_MAX_BYTES)
		return too_large(error);
	form->name = g_strdup(name);
	return TRUE;
}

static gboolean part_begin(const VialMultipartPart *part, gpointer data)
{
	Form *form = data;
	GError *error = NULL;

	g_clear_pointer(&form->name, g_free);
	g_byte_array_set_size(form->bytes, 0);
	if (part->filename ? begin_file(form, part->name, &error) : begin_field(form, part->name, &error))
		return FALSE;
	refuse(form, error);
	return TRUE;
}

static gboolean part_data(const void *bytes, gsize size, gpointer data)
{
	Form *form = data;
	GError *error = NULL;

	if (!form->name)
		return form->context && !vial_build_context_write(form->context, bytes, size);
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
	Form *form = data;

	if (error)
		return refuse(form, g_error_copy(error));
	if (form->context && !form->wants(form->fields, TRUE)) /* now that the Dockerfile is here, or will not come */
		vial_build_context_abort(g_steal_pointer(&form->context));
	if (form->context)
		vial_build_context_finish(form->context);
	else
		settle(form, NULL);
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
		settle(form, NULL);
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

void vial_build_form_read(VialRequest *request, VialBuildFormWants wants, VialBuildFormDone done)
{
	static const char urlencoded[] = "application/x-www-form-urlencoded";
	const char *type = vial_request_header(request, "Content-Type");
	Form *form = g_new0(Form, 1);
	GError *error = NULL;

	*form = (Form){ .request = vial_request_ref(request), .wants = wants, .done = done };
	form->fields = json_object();
	form->bytes = g_byte_array_new();
	if (!type || g_ascii_strncasecmp(type, urlencoded, strlen(urlencoded)) != 0) {
		form->multipart = vial_multipart_new(type, &sink, form, &error);
		if (!form->multipart)
			return refuse(form, error);
	}
	vial_request_on_gone(request, on_gone, form);
	vial_request_body_read(request, on_body, on_body_end, form);
}
