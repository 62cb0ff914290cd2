/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token that opens one sandbox's data plane, where no key is sent (X-Access-Token, and what signed URLs are signed with). Derived from the
 * installation's signing key, so there is nothing to store, and it is the same over sleep, restart and another surface.
 */
#pragma once

#include "service/sandbox.h"

char *vial_e2b_token(VialApp *app, const VialSandbox *sandbox);
/* In constant time; NULL is no token. */
gboolean vial_e2b_token_check(VialApp *app, const VialSandbox *sandbox, const char *token);
