/* SPDX-License-Identifier: Apache-2.0 */
/* Between agents.c, agent_versions.c and agent_delete.c. */
#pragma once

#include "service/agents.h"

struct VialAgents {
	VialApp *app;
	GHashTable *by_name; /* "project/name" -> VialAgent */
};

/* What is under way in the store that makes another version the active one, or a new one: agent_versions.c. */
struct VialAgentChanges {
	GQueue adding;  /* versions, by their numbers; the first is being stored */
	guint n_active; /* of all that are being stored, those that say which is active */
};

VialAgentChanges *vial_agent_changes_new(void);
void vial_agent_changes_free(VialAgentChanges *changes);
/* The agent is going: so is the record of the version that is just being stored. */
void vial_agent_changes_forget(VialAgent *agent);
/* What the versions weigh that are on their way to the disk. */
gint64 vial_agent_changes_bytes(const VialAgent *agent);
char *vial_agent_version_id(const VialAgent *agent, gint64 number);
void vial_agent_version_free(gpointer version); /* accepts NULL */

void vial_agent_unref(gpointer agent);
/* With `active` as its active version, and together with that one's record if it is new. */
void vial_agent_store_active(const VialAgent *agent, gint64 active, const VialAgentVersionRecord *version, VialStoreDone done, gpointer data);
void vial_agent_store(const VialAgent *agent, VialStoreDone done, gpointer data);
/* Out of the registry and out of the store, with its versions. */
void vial_agent_forget(VialAgent *agent, VialStoreDone done, gpointer data);
