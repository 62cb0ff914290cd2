/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/e2b/signature.h"

#include <string.h>

#include "surfaces/e2b/token.h"
#include "surfaces/shared/surface.h"
#include "util/hash.h"
#include "util/time.h"

typedef struct {
	VialApp *app;
	const char *signature;
	char *before, *after; /* of what was signed, in front of the token and behind it */
} Claim;

static char *sign(const Claim *claim, const VialSandbox *sandbox)
{
	g_autofree char *token = vial_e2b_token(claim->app, sandbox);
	g_autofree char *text = g_strconcat(claim->before, token, claim->after, NULL);
	g_autofree char *encoded = NULL;
	guint8 digest[VIAL_SHA256_BYTES];

	vial_sha256(text, strlen(text), digest);
	encoded = g_base64_encode(digest, sizeof(digest));
	encoded[strcspn(encoded, "=")] = '\0';
	return g_strconcat("v1_", encoded, NULL);
}

static gboolean is_signed_by(const Claim *claim, const VialSandbox *sandbox)
{
	g_autofree char *expected = sign(claim, sandbox);

	return strlen(expected) == strlen(claim->signature) && vial_constant_time_equal(expected, claim->signature, strlen(expected));
}

/* The address does not say whose it is: all are tried, each in a microsecond or two. */
static VialSandbox *find_signer(const Claim *claim)
{
	GHashTableIter all;
	gpointer sandbox;

	g_hash_table_iter_init(&all, vial_sandboxes_table(claim->app->sandboxes));
	while (g_hash_table_iter_next(&all, NULL, &sandbox))
		if (!vial_sandbox_is_ending(sandbox) && vial_sandbox_state(sandbox) != VIAL_STATE_FAILED && is_signed_by(claim, sandbox))
			return sandbox;
	return NULL;
}

static const char *text_of(const VialRequest *request, const char *name)
{
	const char *text = vial_request_query(request, name);

	return text ? text : "";
}

VialSandbox *vial_e2b_signature_check(VialRequest *request, VialSandbox *sandbox, GError **error)
{
	const char *method = vial_request_method(request), *expiration = vial_request_query(request, "signature_expiration");
	g_autofree char *before =
		g_strdup_printf("%s:%s:%s:", text_of(request, "path"), strcmp(method, "POST") == 0 ? "write" : "read", text_of(request, "username"));
	g_autofree char *after = g_strdup_printf("%s%s", expiration ? ":" : "", expiration ? expiration : "");
	Claim claim = { vial_surface_app(request), text_of(request, "signature"), before, after };
	guint64 seconds;

	/* A user's name has no colon: what was signed for one file and user must not be taken apart otherwise. */
	if (strchr(text_of(request, "username"), ':')) {
		vial_fail(error, VIAL_ERROR_UNAUTHORIZED, "invalid signature");
		return NULL;
	}
	if (!sandbox)
		sandbox = find_signer(&claim);
	else if (!is_signed_by(&claim, sandbox))
		sandbox = NULL;
	if (!sandbox) {
		vial_fail(error, VIAL_ERROR_UNAUTHORIZED, "invalid signature");
	} else if (expiration &&
	           (!g_ascii_string_to_unsigned(expiration, 10, 0, G_MAXINT64, &seconds, NULL) || (gint64)seconds < vial_time_now_ms() / 1000)) {
		vial_fail(error, VIAL_ERROR_UNAUTHORIZED, "signature is already expired");
		sandbox = NULL;
	}
	return sandbox;
}
