/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory agents take: all of them are kept there, with the files of all their versions. Main thread only. */
#pragma once

#include "service/agents.h"

/* Of a version's document: its texts, and what a value costs besides. */
gint64 vial_agent_document_bytes(const json_t *document);
/* Of a project: its agents, those that are being deleted too, and the bytes of all their versions. */
void vial_agents_weigh(const VialAgents *agents, const char *project, guint *out_agents, gint64 *out_bytes);
/* How many bytes a file of a version holds, {content} or {content_base64} that was checked; nothing is decoded for it. */
gsize vial_agent_file_size(const json_t *file);
