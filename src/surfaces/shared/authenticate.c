/* SPDX-License-Identifier: Apache-2.0 */
/* Who sends a request: a key of ours, or a token of the organisation's identity provider, which may have to be asked for its keys first. */
#include "auth/oidc.h"
#include "operations/strangers.h"
#include "service/app.h"
#include "service/project.h"
#include "surfaces/shared/surface.h"

static VialIdentity *refuse(VialRequest *request, VialErrorCode code, const char *sentence, const VialIdentity *known, GError **error)
{
	vial_strangers_note(vial_surface_app(request)->strangers, vial_request_peer(request), known, sentence);
	vial_fail(error, code, "%s", sentence);
	return NULL;
}

VialIdentity *vial_surface_identify(VialRequest *request, const char *key, GError **error)
{
	g_autoptr(VialIdentity) identity = vial_keys_lookup(vial_surface_app(request)->keys, key);

	if (!identity)
		return refuse(request, VIAL_ERROR_UNAUTHORIZED, "this key is not known here", NULL, error);
	if (!vial_allow_has_source(identity->allow, vial_request_peer(request)))
		return refuse(request, VIAL_ERROR_FORBIDDEN, "this key may not be used from this address (allow.source_cidrs)", identity, error);
	return g_steal_pointer(&identity);
}

/* People */

static void on_person(VialIdentity *identity, const GError *error, gpointer data)
{
	g_autoptr(VialRequest) request = data;
	VialApp *app = vial_surface_app(request);
	GError *refusal = NULL;

	if (error) {
		/* That the provider is away is no refusal. */
		if (!g_error_matches(error, VIAL_ERROR, VIAL_ERROR_UNAVAILABLE))
			vial_strangers_note(app->strangers, vial_request_peer(request), NULL, error->message);
		refusal = g_error_copy(error);
	} else if (!vial_projects_find(app->projects, identity->project)) {
		refuse(request, VIAL_ERROR_FORBIDDEN, "the project that your token leads to does not exist here", identity, &refusal);
	}
	vial_request_authenticated(request, refusal ? NULL : vial_identity_ref(identity), refusal);
}

void vial_surface_authenticate(VialRequest *request, const char *key, gpointer front)
{
	VialApp *app = ((VialFront *)front)->app;
	VialIdentity *identity;
	GError *error = NULL;

	/* Which of his projects a person means he says in a header; a key has one, and says nothing by it. */
	if (app->oidc && vial_oidc_looks_like_token(key))
		return vial_oidc_authenticate(app->oidc, key, vial_request_header(request, "X-Vial-Project"), on_person, vial_request_ref(request));
	identity = vial_surface_identify(request, key, &error);
	vial_request_authenticated(request, identity, error);
}
