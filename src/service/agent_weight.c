/* SPDX-License-Identifier: Apache-2.0 */
#include "service/agent_weight.h"

#include <string.h>

#include "service/agents_private.h"

/* What jansson allocates for a value and its place in an object, rounded up. */
#define VALUE_BYTES 128

/* As deep as what was parsed, which has a limit. */
gint64 vial_agent_document_bytes(const json_t *document)
{
	gint64 bytes = VALUE_BYTES + (gint64)json_string_length(document);
	const char *name;
	json_t *value;
	size_t index;

	json_object_foreach ((json_t *)document, name, value)
		bytes += (gint64)strlen(name) + vial_agent_document_bytes(value);
	json_array_foreach (document, index, value)
		bytes += vial_agent_document_bytes(value);
	return bytes;
}

/* A version never changes, so each is weighed once; should one be taken back, all of its agent are weighed again. */
static gint64 weigh(VialAgent *agent)
{
	if (agent->n_weighed > agent->versions->len)
		agent->n_weighed = 0, agent->weighed_bytes = 0;
	for (; agent->n_weighed < agent->versions->len; agent->n_weighed++)
		agent->weighed_bytes += vial_agent_document_bytes(((const VialAgentVersion *)agent->versions->pdata[agent->n_weighed])->document);
	return agent->weighed_bytes;
}

void vial_agents_weigh(const VialAgents *agents, const char *project, guint *out_agents, gint64 *out_bytes)
{
	GHashTableIter iter;
	gpointer value;

	*out_agents = 0;
	*out_bytes = 0;
	g_hash_table_iter_init(&iter, agents->by_name);
	while (g_hash_table_iter_next(&iter, NULL, &value)) {
		if (strcmp(((const VialAgent *)value)->project, project) != 0)
			continue;
		*out_agents += 1;
		*out_bytes += weigh(value) + vial_agent_changes_bytes(value);
	}
}

gsize vial_agent_file_size(const json_t *file)
{
	const json_t *encoded = json_object_get(file, "content_base64");
	const char *text = json_string_value(encoded);
	gsize length = json_string_length(encoded), padding = 0;

	if (!encoded)
		return json_string_length(json_object_get(file, "content"));
	if (length < 4)
		return 0;
	while (padding < 2 && text[length - 1 - padding] == '=')
		padding++;
	return length / 4 * 3 - padding;
}
