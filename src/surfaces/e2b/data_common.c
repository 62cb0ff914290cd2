/* SPDX-License-Identifier: Apache-2.0 */
/* What the data plane's handlers share: errors in the caller's words, and what E2B means by a user and a path. */
#include <string.h>

#include "surfaces/e2b/control.h"
#include "surfaces/e2b/data.h"
#include "util/json.h"

/* Errors */

static gboolean is_connect(const VialRequest *request)
{
	const char *path = vial_request_path(request);

	return g_str_has_prefix(path, "/process.") || g_str_has_prefix(path, "/filesystem.");
}

/* Of a stream that has not begun: its errors are in its last frame, too. */
static gboolean is_stream(const VialRequest *request)
{
	const char *type = vial_request_header(request, "Content-Type");

	return is_connect(request) && type && g_str_has_prefix(type, "application/connect+");
}

json_t *vial_e2b_data_error_body(const VialRequest *request, unsigned status, const GError *error)
{
	return is_connect(request) ? vial_connect_error_json(error) : vial_e2b_error_body(request, status, error);
}

/* A user that the sandbox does not have is to E2B somebody who may not. */
static gboolean is_unknown_user(const GError *error)
{
	return g_error_matches(error, VIAL_ERROR, VIAL_ERROR_INVALID) && g_str_has_prefix(error->message, "there is no user ");
}

void vial_e2b_reply_error(VialRequest *request, const GError *error)
{
	g_autoptr(GError) unknown = is_unknown_user(error) ? g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAUTHORIZED, error->message) : NULL;

	if (unknown)
		error = unknown;
	if (vial_e2b_is_gone(request))
		vial_e2b_reply_gone(request);
	else if (is_stream(request))
		vial_connect_reply_error(request, error);
	else if (is_connect(request))
		vial_request_reply_json(request, vial_connect_status(error), vial_connect_error_json(error));
	else
		vial_request_reply_error(request, g_error_copy(error));
}

void vial_e2b_begun(VialRequest *request, gboolean is_begun, GError **error)
{
	if (is_begun)
		return;
	vial_e2b_reply_error(request, *error);
	vial_request_unref(request);
}

void vial_e2b_exchange_fail(VialExchange *exchange, const GError *error)
{
	vial_e2b_reply_error(exchange->request, error);
	vial_exchange_end(exchange);
}

static void on_gone(VialRequest *request, gpointer data)
{
	VialExchange *exchange = data;

	vial_operation_cancel(exchange->operation);
	vial_exchange_end(exchange);
}

void vial_e2b_exchange_begin(VialExchange *exchange, VialOperation *operation, GError **error)
{
	g_autoptr(GError) refusal = operation ? NULL : g_steal_pointer(error);

	if (!operation)
		return vial_e2b_exchange_fail(exchange, refusal);
	exchange->operation = operation;
	vial_request_on_gone(exchange->request, on_gone, exchange);
}

void vial_e2b_stream_end(VialConnect *connect, const GError *error)
{
	VialExchange *exchange = connect->exchange;

	if (error && !connect->is_open)
		return vial_e2b_exchange_fail(exchange, error);
	if (!error || !vial_e2b_is_gone(exchange->request))
		return vial_connect_end(connect, error);
	/* The clients take a connection that breaks for a sandbox that was ended, look at its health, and say so. */
	vial_request_stream_abort(exchange->request);
	vial_exchange_end(exchange);
}

/* Answers of calls; `data` is the request */

void vial_e2b_reply_empty_message(json_t *document, const GError *error, gpointer data)
{
	VialRequest *request = data;

	if (error)
		vial_e2b_reply_error(request, error);
	else
		vial_request_reply_json(request, 200, json_object());
	vial_request_unref(request);
}

/* Users and paths */

char *vial_e2b_user(const VialRequest *request)
{
	const char *authorization = vial_request_header(request, "Authorization");
	g_autofree char *text = NULL;
	g_autofree guchar *decoded = NULL;
	gsize size;

	if (!authorization || g_ascii_strncasecmp(authorization, "Basic ", 6) != 0)
		return NULL;
	decoded = g_base64_decode(authorization + 6, &size);
	text = g_strndup((const char *)decoded, size);
	text[strcspn(text, ":")] = '\0';
	return *text && g_utf8_validate(text, -1, NULL) ? g_steal_pointer(&text) : NULL;
}

static char *home_of(const char *user)
{
	if (user && strcmp(user, "root") == 0)
		return g_strdup("/root");
	return g_strconcat("/home/", user ? user : "user", NULL);
}

char *vial_e2b_path(const char *user, const char *path)
{
	g_autofree char *home = home_of(user);

	if (!path || !*path || strcmp(path, "~") == 0)
		return g_steal_pointer(&home);
	if (path[0] == '/')
		return g_strdup(path);
	return g_strconcat(home, "/", g_str_has_prefix(path, "~/") ? path + 2 : path, NULL);
}
