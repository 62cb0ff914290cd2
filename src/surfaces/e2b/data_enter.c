/* SPDX-License-Identifier: Apache-2.0 */
/* Which sandbox a request of the data plane is about, and whether whoever sends it may. */
#include <string.h>

#include "operations/bearer.h"
#include "operations/strangers.h"
#include "surfaces/e2b/data.h"
#include "surfaces/e2b/signature.h"
#include "surfaces/e2b/token.h"
#include "util/id.h"
#include "util/json.h"

#define ID_HEADER "E2b-Sandbox-Id"
#define PORT_HEADER "E2b-Sandbox-Port"
#define TRAFFIC_HEADER "E2B-Traffic-Access-Token"

/* Where to */

typedef struct {
	const char *id; /* NULL: said by a signature */
	unsigned port;  /* 0: not understood */
	char *host_id;  /* owned */
} Address;

static void address_clear(Address *address)
{
	g_free(address->host_id);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Address, address_clear)

static gboolean read_address(const VialRequest *request, Address *out)
{
	const char *id = vial_request_header(request, ID_HEADER), *port = vial_request_header(request, PORT_HEADER);
	guint64 number;

	/* Anything else is as good as no sandbox, and is repeated to nobody: a header may have any bytes. */
	*out = (Address){ .id = id && !vial_id_is_valid(id) ? "" : id };
	if (id || port) {
		if (port && g_ascii_string_to_unsigned(port, 10, 1, 65535, &number, NULL))
			out->port = (unsigned)number;
		return TRUE;
	}
	if (!vial_request_port_host(request, &out->port, &out->host_id))
		return FALSE;
	out->id = out->host_id;
	return TRUE;
}

static gboolean is_signed(const VialRequest *request)
{
	return strcmp(vial_request_path(request), "/files") == 0 && strstr(vial_request_query_string(request), "signature=");
}

gboolean vial_e2b_claims_servers(const VialRequest *request)
{
	g_auto(Address) address = { 0 };

	if (!read_address(request, &address))
		return is_signed(request);
	/* What names no port, or only one of the two, is told so by vial_e2b_enter(). */
	return address.port == VIAL_E2B_ENVD_PORT || address.port == VIAL_E2B_CODE_PORT || (address.port == 0 && !address.host_id);
}

/* By its headers; other ports by host name are previews, as with every surface, except for who has a token of this one's. */
gboolean vial_e2b_claims_ports(const VialRequest *request)
{
	g_auto(Address) address = { 0 };

	return read_address(request, &address) && address.port != 0 && !vial_e2b_claims_servers(request) &&
	       (!address.host_id || vial_request_header(request, TRAFFIC_HEADER));
}

unsigned vial_e2b_port_of(const VialRequest *request)
{
	g_auto(Address) address = { 0 };

	return read_address(request, &address) ? address.port : 0;
}

/* Who */

void vial_e2b_reply_gone(VialRequest *request)
{
	const char *id = vial_surface_sandbox(request);

	vial_request_reply_json(request, 502,
	                        json_pack("{s:s, s:s, s:i}", "sandboxId", id ? id : "", "message", "The sandbox was not found", "code", 502));
}

gboolean vial_e2b_is_gone(VialRequest *request)
{
	return !vial_bearer_find(vial_surface_app(request), vial_surface_sandbox(request));
}

static VialSandbox *look(VialRequest *request, gboolean *out_is_answered)
{
	g_auto(Address) address = { 0 };
	VialSandbox *sandbox;

	*out_is_answered = FALSE;
	if (!read_address(request, &address))
		return NULL;
	if (!address.id || address.port == 0) {
		*out_is_answered = TRUE;
		vial_request_reply_fail(request, VIAL_ERROR_INVALID,
		                        "a request for a sandbox has both headers, " ID_HEADER " and " PORT_HEADER ", a port from 1 to 65535");
		return NULL;
	}
	vial_surface_set_sandbox(request, address.id);
	sandbox = vial_bearer_find(vial_surface_app(request), address.id);
	if (!sandbox) {
		*out_is_answered = TRUE;
		vial_e2b_reply_gone(request);
	}
	return sandbox;
}

VialSandbox *vial_e2b_look(VialRequest *request)
{
	gboolean is_answered;
	VialSandbox *sandbox = look(request, &is_answered);

	if (!sandbox && !is_answered)
		vial_request_reply_fail(request, VIAL_ERROR_INVALID, "which sandbox? Its id is in the header " ID_HEADER);
	return sandbox;
}

static gboolean refuse(VialRequest *request, GError *error)
{
	vial_strangers_note(vial_surface_app(request)->strangers, vial_request_peer(request), NULL, error->message);
	vial_request_reply_error(request, error);
	return FALSE;
}

static gboolean shows_token(VialRequest *request, const VialSandbox *sandbox, VialE2bWay way)
{
	VialApp *app = vial_surface_app(request);

	if (vial_e2b_token_check(app, sandbox, vial_request_header(request, "X-Access-Token")))
		return TRUE;
	return way == VIAL_E2B_BY_TRAFFIC && vial_e2b_traffic_token_check(app, sandbox, vial_request_header(request, TRAFFIC_HEADER));
}

static gboolean let_in(VialRequest *request, VialIdentity *identity)
{
	vial_request_set_identity(request, identity);
	vial_identity_unref(identity);
	return TRUE;
}

/* By a signed address: whose it is, and that it is good. */
static gboolean enter_signed(VialRequest *request, VialSandbox *sandbox)
{
	GError *error = NULL;

	sandbox = vial_e2b_signature_check(request, sandbox, &error);
	if (!sandbox)
		return refuse(request, error);
	vial_surface_set_sandbox(request, vial_sandbox_id(sandbox));
	return let_in(request, vial_bearer_identity(sandbox));
}

/* Another project's sandbox is none, in the very words for one that does not exist. */
static gboolean refuse_stranger(VialRequest *request, const VialIdentity *stranger)
{
	vial_strangers_note(vial_surface_app(request)->strangers, vial_request_peer(request), stranger, "this key's project has no such sandbox");
	vial_e2b_reply_gone(request);
	return FALSE;
}

/* Programs' ports are forbidden to whoever has no token, where the sandbox's own servers do not know who asks: so do theirs say it. */
static GError *closed_door(const VialRequest *request)
{
	if (vial_e2b_claims_ports(request))
		return g_error_new_literal(VIAL_ERROR, VIAL_ERROR_FORBIDDEN,
		                           "this sandbox's ports open to its traffic access token (the header " TRAFFIC_HEADER
		                           "), which creating and connecting answer");
	return g_error_new_literal(VIAL_ERROR, VIAL_ERROR_UNAUTHORIZED,
	                           "this sandbox opens to its access token (the header X-Access-Token), which creating and connecting answer");
}

gboolean vial_e2b_enter(VialRequest *request, VialE2bWay way)
{
	const char *key = vial_request_key(request);
	g_autoptr(VialIdentity) identity = NULL;
	gboolean is_answered;
	VialSandbox *sandbox = look(request, &is_answered);

	if (is_answered)
		return FALSE;
	if (sandbox && key)
		identity = vial_surface_identify(request, key, NULL);
	if (identity && strcmp(identity->project, vial_sandbox_project(sandbox)) == 0)
		return let_in(request, g_steal_pointer(&identity));
	if (sandbox && shows_token(request, sandbox, way))
		return let_in(request, vial_bearer_identity(sandbox));
	if (way == VIAL_E2B_BY_SIGNATURE && is_signed(request))
		return enter_signed(request, sandbox);
	if (identity)
		return refuse_stranger(request, identity);
	return refuse(request, closed_door(request));
}

gboolean vial_e2b_takes_body(VialRequest *request)
{
	return vial_e2b_enter(request, is_signed(request) ? VIAL_E2B_BY_SIGNATURE : VIAL_E2B_BY_TRAFFIC);
}
