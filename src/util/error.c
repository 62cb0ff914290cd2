/* SPDX-License-Identifier: Apache-2.0 */
/* The one table that says what each error code means to an HTTP client. */
#include "util/error.h"

G_DEFINE_QUARK(vial - error - quark, vial_error)

static const struct {
	unsigned status;
	const char *type;
} meanings[] = {
	[VIAL_ERROR_INTERNAL] = { 500, "internal" },
	[VIAL_ERROR_INVALID] = { 400, "invalid" },
	[VIAL_ERROR_UNAUTHORIZED] = { 401, "unauthorized" },
	[VIAL_ERROR_FORBIDDEN] = { 403, "unauthorized" },
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

gboolean vial_fail(GError **error, VialErrorCode code, const char *format, ...)
{
	va_list args;

	if (!error)
		return FALSE;
	va_start(args, format);
	g_autoptr(GError) made = g_error_new_valist(VIAL_ERROR, (int)code, format, args);
	va_end(args);
	g_propagate_error(error, g_steal_pointer(&made));
	return FALSE;
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
