/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/e2b/token.h"

#include <string.h>

#include "util/hash.h"

#define DATA_PLANE "e2b data plane"
#define TRAFFIC "e2b traffic"

static char *derive(VialApp *app, const VialSandbox *sandbox, const char *purpose)
{
	guint8 digest[VIAL_SHA256_BYTES];

	vial_signing_sign(vial_keys_signing(app->keys), purpose, vial_sandbox_id(sandbox), digest);
	return vial_hex_encode(digest, sizeof(digest));
}

char *vial_e2b_token(VialApp *app, const VialSandbox *sandbox)
{
	return derive(app, sandbox, DATA_PLANE);
}

char *vial_e2b_traffic_token(VialApp *app, const VialSandbox *sandbox)
{
	return derive(app, sandbox, TRAFFIC);
}

gboolean vial_e2b_token_check(VialApp *app, const VialSandbox *sandbox, const char *token)
{
	return token && vial_signing_check(vial_keys_signing(app->keys), DATA_PLANE, vial_sandbox_id(sandbox), token);
}

gboolean vial_e2b_traffic_token_check(VialApp *app, const VialSandbox *sandbox, const char *token)
{
	return token && vial_signing_check(vial_keys_signing(app->keys), TRAFFIC, vial_sandbox_id(sandbox), token);
}
