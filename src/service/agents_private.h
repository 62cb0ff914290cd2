/* SPDX-License-Identifier: Apache-2.0 */
/* Between agents.c and agent_delete.c. */
#pragma once

#include "service/agents.h"

struct VialAgents {
	VialApp *app;
	GHashTable *by_name; /* "project/name" -> VialAgent */
};

void vial_agent_store(const VialAgent *agent, VialStoreDone done, gpointer data);
/* Out of the registry and out of the store, with its versions. */
void vial_agent_forget(VialAgent *agent, VialStoreDone done, gpointer data);
