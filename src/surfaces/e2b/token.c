/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/e2b/token.h"

#include <string.h>

#include "util/hash.h"

#define PURPOSE "e2b data plane"

char *vial_e2b_token(VialApp *app, const VialSandbox *sandbox)
{
	guint8 digest[VIAL_SHA256_BYTES];

	vial_signing_sign(vial_keys_signing(app->keys), PURPOSE, vial_sandbox_id(sandbox), digest);
	return vial_hex_encode(digest, sizeof(digest));
}

gboolean vial_e2b_token_check(VialApp *app, const VialSandbox *sandbox, const char *token)
{
	return token && vial_signing_check(vial_keys_signing(app->keys), PURPOSE, vial_sandbox_id(sandbox), token);
}
