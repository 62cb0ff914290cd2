/* SPDX-License-Identifier: Apache-2.0 */
/* The one table that says what each error code means to an HTTP client, and the detail that an error may carry. */
#include "util/error.h"

typedef struct {
	json_t *detail; /* shared by copies; nobody changes it */
} VialErrorPrivate;

static void vial_error_private_init(VialErrorPrivate *private)
{
	private->detail = NULL;
}

static void vial_error_private_copy(const VialErrorPrivate *from, VialErrorPrivate *to)
{
	to->detail = json_incref(from->detail);
}

static void vial_error_private_clear(VialErrorPrivate *private)
{
	json_decref(private->detail);
}

G_DEFINE_EXTENDED_ERROR(VialError, vial_error)

static const struct {
	unsigned status;
	const char *type;
} meanings[] = {
	[VIAL_ERROR_INTERNAL] = { 500, "internal" },
	[VIAL_ERROR_INVALID] = { 400, "invalid" },
	[VIAL_ERROR_UNAUTHORIZED] = { 401, "unauthorized" },
	[VIAL_ERROR_FORBIDDEN] = { 403, "forbidden" },
	[VIAL_ERROR_NOT_FOUND] = { 404, "not_found" },
	[VIAL_ERROR_METHOD] = { 405, "invalid" },
	[VIAL_ERROR_CONFLICT] = { 409, "conflict" },
	[VIAL_ERROR_TOO_LARGE] = { 413, "invalid" },
	[VIAL_ERROR_QUOTA] = { 429, "quota" },
	[VIAL_ERROR_NO_SPACE] = { 507, "quota" },
	[VIAL_ERROR_UNAVAILABLE] = { 503, "unavailable" },
	[VIAL_ERROR_TIMEOUT] = { 504, "timeout" },
	[VIAL_ERROR_GATEWAY] = { 502, "unavailable" },
};

static void fail(GError **error, VialErrorCode code, json_t *detail, const char *format, va_list args)
{
	if (!error) {
		json_decref(detail);
		return;
	}
	GError *made = g_error_new_valist(VIAL_ERROR, (int)code, format, args);
	vial_error_get_private(made)->detail = detail;
	g_propagate_error(error, made);
}

gboolean vial_fail(GError **error, VialErrorCode code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fail(error, code, NULL, format, args);
	va_end(args);
	return FALSE;
}

gboolean vial_fail_with(GError **error, VialErrorCode code, json_t *detail, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fail(error, code, detail, format, args);
	va_end(args);
	return FALSE;
}

const json_t *vial_error_detail(const GError *error)
{
	return error && error->domain == VIAL_ERROR ? vial_error_get_private(error)->detail : NULL;
}

/* Errors of other domains (GIO, GKeyFile) that reach a client are by definition ones nobody translated: ours. */
static gsize meaning_of(const GError *error)
{
	if (!error || error->domain != VIAL_ERROR || error->code < 0 || (gsize)error->code >= G_N_ELEMENTS(meanings))
		return VIAL_ERROR_INTERNAL;
	return (gsize)error->code;
}

unsigned vial_error_http_status(const GError *error)
{
	return meanings[meaning_of(error)].status;
}

const char *vial_error_type(const GError *error)
{
	return meanings[meaning_of(error)].type;
}
