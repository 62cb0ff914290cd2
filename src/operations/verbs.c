/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/verbs.h"

static const VialVerbRules rules[VIAL_N_VERBS] = {
	/*                              name                 role            sandbox makes  record watching */
	[VIAL_VERB_TEMPLATE_READ] = { "template.read", VIAL_ROLE_USER, FALSE, FALSE, NULL, TRUE },
	[VIAL_VERB_SANDBOX_CREATE] = { "sandbox.create", VIAL_ROLE_USER, FALSE, TRUE, NULL },
	[VIAL_VERB_SANDBOX_LIST] = { "sandbox.list", VIAL_ROLE_USER, FALSE, FALSE, NULL, TRUE },
	[VIAL_VERB_SANDBOX_READ] = { "sandbox.read", VIAL_ROLE_USER, TRUE, FALSE, NULL, TRUE },
	[VIAL_VERB_SANDBOX_DELETE] = { "sandbox.delete", VIAL_ROLE_USER, TRUE, FALSE, NULL, TRUE },
	[VIAL_VERB_LIFECYCLE_CHANGE] = { "lifecycle.change", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_PAUSE] = { "pause", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_RESUME] = { "resume", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_HIBERNATE] = { "hibernate", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_WAKE] = { "wake", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_SNAPSHOT_TAKE] = { "snapshot.take", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_SNAPSHOT_READ] = { "snapshot.read", VIAL_ROLE_USER, FALSE, FALSE, NULL, TRUE },
	[VIAL_VERB_SNAPSHOT_DELETE] = { "snapshot.delete", VIAL_ROLE_USER, FALSE, FALSE, NULL, TRUE },
	[VIAL_VERB_FORK] = { "fork", VIAL_ROLE_USER, TRUE, TRUE, NULL },
	[VIAL_VERB_PROMOTE] = { "promote", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_NETWORK_READ] = { "network.read", VIAL_ROLE_USER, TRUE, FALSE, NULL, TRUE },
	[VIAL_VERB_NETWORK_CHANGE] = { "network.change", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_EXEC] = { "exec", VIAL_ROLE_USER, TRUE, FALSE, "exec" },
	[VIAL_VERB_PTY] = { "pty", VIAL_ROLE_USER, TRUE, FALSE, "pty" },
	[VIAL_VERB_RUN] = { "run", VIAL_ROLE_USER, TRUE, FALSE, "run" },
	[VIAL_VERB_CONTEXT_READ] = { "context.read", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_CONTEXT_CHANGE] = { "context.change", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_PROCESS_READ] = { "process.read", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_PROCESS_CHANGE] = { "process.change", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_PORT_READ] = { "port.read", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_TUNNEL] = { "tunnel", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_PREVIEW_CREATE] = { "preview.create", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_LOGS] = { "logs", VIAL_ROLE_USER, TRUE, FALSE, NULL, TRUE },
	[VIAL_VERB_METRICS] = { "metrics", VIAL_ROLE_USER, TRUE, FALSE, NULL, TRUE },
	[VIAL_VERB_FILE_READ] = { "file.read", VIAL_ROLE_USER, TRUE, FALSE, NULL },
	[VIAL_VERB_FILE_WRITE] = { "file.write", VIAL_ROLE_USER, TRUE, FALSE, NULL },
};

const VialVerbRules *vial_verb_rules(VialVerb verb)
{
	return &rules[verb];
}
