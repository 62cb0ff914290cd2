/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/bearer.h"

#include "service/app.h"

VialSandbox *vial_bearer_find(VialApp *app, const char *sandbox_id)
{
	VialSandbox *sandbox = sandbox_id ? g_hash_table_lookup(vial_sandboxes_table(app->sandboxes), sandbox_id) : NULL;

	if (!sandbox || vial_sandbox_is_ending(sandbox) || vial_sandbox_state(sandbox) == VIAL_STATE_FAILED)
		return NULL;
	return vial_sandbox_is_resting(sandbox) && !vial_sandbox_wakes_by_use(sandbox) ? NULL : sandbox;
}

VialIdentity *vial_bearer_identity(const VialSandbox *sandbox)
{
	return vial_identity_new(VIAL_PRINCIPAL_SANDBOX, vial_sandbox_id(sandbox), vial_sandbox_project(sandbox), VIAL_ROLE_RUNNER, "access token");
}

gboolean vial_bearer_is_for(const VialIdentity *identity)
{
	return identity->role >= VIAL_ROLE_RUNNER;
}
