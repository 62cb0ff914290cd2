/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokens that open one sandbox's data plane, where no key is sent: X-Access-Token (also what signed addresses are signed with), and one that
 * opens only what its users may be given, its ports and the list of its contexts (E2B-Traffic-Access-Token). Derived from the installation's signing
 * key, so there is nothing to store, and they are the same over sleep, restart and another surface.
 */
#pragma once

#include "service/sandbox.h"

char *vial_e2b_token(VialApp *app, const VialSandbox *sandbox);
char *vial_e2b_traffic_token(VialApp *app, const VialSandbox *sandbox);
/* In constant time; NULL is no token. */
gboolean vial_e2b_token_check(VialApp *app, const VialSandbox *sandbox, const char *token);
gboolean vial_e2b_traffic_token_check(VialApp *app, const VialSandbox *sandbox, const char *token);
