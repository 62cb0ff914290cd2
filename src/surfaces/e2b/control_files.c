/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What their COPY takes along: before a build begins the client asks for each step whether its files are here, by a hash of its own over them, and
 * otherwise sends one archive to the address that it is given. There it shows no key; the address has a ticket that is as good, once.
 */
#include "operations/strangers.h"
#include "operations/uploads.h"
#include "surfaces/e2b/control.h"
#include "util/json.h"

#define TICKET "ticket"

/* Asking */

/* This very server as the client calls it; where something in front of it speaks TLS, that says so. */
static char *address_of(const VialRequest *request, const char *ticket)
{
	const char *url = vial_server_url(((VialFront *)vial_request_app(request))->server), *host = vial_request_header(request, "Host");
	gboolean is_https = g_str_has_prefix(url, "https:") || g_strcmp0(vial_request_header(request, "X-Forwarded-Proto"), "https") == 0;

	if (!host)
		return g_strdup_printf("%s%s?" TICKET "=%s", url, vial_request_path(request), ticket);
	return g_strdup_printf("%s://%s%s?" TICKET "=%s", is_https ? "https" : "http", host, vial_request_path(request), ticket);
}

void vial_e2b_template_files(VialRequest *request)
{
	VialCaller caller = vial_surface_caller(request);
	g_autofree char *ticket = NULL, *url = NULL;
	gboolean is_present = FALSE;
	GError *error = NULL;

	ticket = vial_op_upload_offer(&caller, vial_request_param(request, "hash"), &is_present, &error);
	if (!ticket)
		return vial_request_reply_error(request, error);
	url = address_of(request, ticket);
	vial_request_set_header(request, "Cache-Control", "no-store");
	/* Also where they are here: a client may insist on sending them again (force_upload). */
	vial_request_reply_json(request, 201, json_pack("{s:b, s:s}", "present", is_present, "url", url));
}

/* Sending */

typedef struct {
	VialRequest *request;
	VialUpload *upload;
} Sending;

static void sending_free(Sending *sending)
{
	vial_request_on_gone(sending->request, NULL, NULL);
	vial_request_unref(sending->request);
	g_free(sending);
}

static void on_writable(gpointer data)
{
	Sending *sending = data;

	vial_request_body_resume(sending->request);
}

static void on_end(const GError *error, gpointer data)
{
	Sending *sending = data;

	if (error)
		vial_request_reply_error(sending->request, g_error_copy(error));
	else
		vial_request_reply_empty(sending->request, 200);
	sending_free(sending);
}

static void on_gone(VialRequest *request, gpointer data)
{
	Sending *sending = data;

	vial_upload_cancel(sending->upload);
	sending_free(sending);
}

static gboolean on_body(VialRequest *request, const void *bytes, gsize size, gpointer data)
{
	Sending *sending = data;

	return vial_upload_write(sending->upload, bytes, size);
}

/* One that is cut off ends by on_gone(). */
static void on_body_end(VialRequest *request, gboolean is_complete, gpointer data)
{
	Sending *sending = data;

	if (is_complete)
		vial_upload_finish(sending->upload);
}

/* The ticket's owner, who may send from where the key may be used. */
static VialIdentity *identify(VialRequest *request, GError **error)
{
	const char *ticket = vial_request_query(request, TICKET), *peer = vial_request_peer(request);
	VialApp *app = vial_surface_app(request);
	g_autoptr(VialIdentity) identity = NULL;
	g_autoptr(GError) refusal = NULL;

	if (!ticket)
		vial_fail(&refusal, VIAL_ERROR_UNAUTHORIZED, "files of a build are sent to an address that has a ticket, which asking for it gives");
	else
		identity = vial_uploads_claim(app, ticket, vial_request_param(request, "hash"), &refusal);
	if (identity && !vial_allow_has_source(identity->allow, peer))
		vial_fail(&refusal, VIAL_ERROR_FORBIDDEN, "this key may not be used from this address (allow.source_cidrs)");
	if (!refusal)
		return g_steal_pointer(&identity);
	vial_strangers_note(app->strangers, peer, identity, refusal->message);
	g_propagate_error(error, g_steal_pointer(&refusal));
	return NULL;
}

void vial_e2b_template_files_put(VialRequest *request)
{
	static const VialUploadSink sink = { .writable = on_writable, .end = on_end };
	g_autoptr(VialIdentity) identity = NULL;
	GError *error = NULL;
	VialCaller caller;
	Sending *sending;

	identity = identify(request, &error);
	if (!identity)
		return vial_request_reply_error(request, error);
	vial_request_set_identity(request, identity);
	caller = vial_surface_caller(request);
	sending = g_new0(Sending, 1);
	sending->request = vial_request_ref(request);
	sending->upload = vial_op_upload_begin(&caller, vial_request_param(request, "hash"), vial_request_body_size(request), &sink, sending, &error);
	if (!sending->upload) {
		vial_request_reply_error(request, error);
		return sending_free(sending);
	}
	vial_request_on_gone(request, on_gone, sending);
	vial_request_body_read(request, on_body, on_body_end, sending);
}
