/* SPDX-License-Identifier: Apache-2.0 */
#include "store/record.h"

#include "store/store.h"

#define TEXT(type, member)                                               \
	{                                                                \
#member, VIAL_COLUMN_TEXT, G_STRUCT_OFFSET(type, member) \
	}
#define INT(type, member)                                               \
	{                                                               \
#member, VIAL_COLUMN_INT, G_STRUCT_OFFSET(type, member) \
	}

static const VialColumn project_columns[] = {
	TEXT(VialProjectRecord, id),        TEXT(VialProjectRecord, state),     TEXT(VialProjectRecord, document),
	INT(VialProjectRecord, created_at), INT(VialProjectRecord, updated_at),
};

static const VialColumn key_columns[] = {
	TEXT(VialKeyRecord, id),       TEXT(VialKeyRecord, project),   TEXT(VialKeyRecord, role),
	TEXT(VialKeyRecord, label),    TEXT(VialKeyRecord, hash),      TEXT(VialKeyRecord, source),
	TEXT(VialKeyRecord, document), INT(VialKeyRecord, created_at), INT(VialKeyRecord, expires_at),
};

static const VialColumn key_use_columns[] = { TEXT(VialKeyUseRecord, id), INT(VialKeyUseRecord, last_used_at) };

static const VialColumn creation_columns[] = {
	TEXT(VialCreationRecord, id),
	TEXT(VialCreationRecord, project),
	TEXT(VialCreationRecord, key_id),
	INT(VialCreationRecord, created_at),
};

static const VialColumn sandbox_columns[] = {
	TEXT(VialSandboxRecord, id),        TEXT(VialSandboxRecord, project),
	TEXT(VialSandboxRecord, key_id),    TEXT(VialSandboxRecord, template_name),
	TEXT(VialSandboxRecord, engine),    TEXT(VialSandboxRecord, status),
	TEXT(VialSandboxRecord, document),  INT(VialSandboxRecord, created_at),
	INT(VialSandboxRecord, updated_at), INT(VialSandboxRecord, expires_at),
};

static const VialColumn call_columns[] = {
	TEXT(VialCallRecord, id),     TEXT(VialCallRecord, sandbox_id), TEXT(VialCallRecord, kind),      TEXT(VialCallRecord, status),
	TEXT(VialCallRecord, detail), TEXT(VialCallRecord, outcome),    INT(VialCallRecord, started_at), INT(VialCallRecord, ended_at),
};

static const VialColumn snapshot_columns[] = {
	TEXT(VialSnapshotRecord, id),         TEXT(VialSnapshotRecord, project),
	TEXT(VialSnapshotRecord, sandbox_id), TEXT(VialSnapshotRecord, template_name),
	TEXT(VialSnapshotRecord, name),       TEXT(VialSnapshotRecord, document),
	INT(VialSnapshotRecord, size_bytes),  INT(VialSnapshotRecord, created_at),
};

static const VialColumn agent_columns[] = {
	TEXT(VialAgentRecord, id),       TEXT(VialAgentRecord, project), TEXT(VialAgentRecord, name),      TEXT(VialAgentRecord, state),
	TEXT(VialAgentRecord, document), INT(VialAgentRecord, active),   INT(VialAgentRecord, created_at),
};

static const VialColumn agent_version_columns[] = {
	TEXT(VialAgentVersionRecord, id),       TEXT(VialAgentVersionRecord, agent_id),  INT(VialAgentVersionRecord, number),
	TEXT(VialAgentVersionRecord, document), INT(VialAgentVersionRecord, retired_at), INT(VialAgentVersionRecord, created_at),
};

static const VialColumn template_columns[] = {
	TEXT(VialTemplateRecord, id),   TEXT(VialTemplateRecord, project),  TEXT(VialTemplateRecord, key_id),
	TEXT(VialTemplateRecord, name), TEXT(VialTemplateRecord, document), INT(VialTemplateRecord, created_at),
};

static const VialColumn build_columns[] = {
	TEXT(VialBuildRecord, id),     TEXT(VialBuildRecord, project),  TEXT(VialBuildRecord, key_id),    TEXT(VialBuildRecord, name),
	TEXT(VialBuildRecord, status), TEXT(VialBuildRecord, document), INT(VialBuildRecord, created_at), INT(VialBuildRecord, updated_at),
};

static void free_record(const VialRecordType *type, gpointer record)
{
	if (!record)
		return;
	for (gsize i = 0; i < type->n_columns; i++)
		if (type->columns[i].type == VIAL_COLUMN_TEXT)
			g_free(*vial_record_text(record, &type->columns[i]));
	g_free(record);
}

/* GPtrArray's free function gets only the record. */
#define DEFINE_FREE(name, kind)                                \
	static void name(gpointer record)                      \
	{                                                      \
		free_record(&vial_record_types[kind], record); \
	}
DEFINE_FREE(free_project, VIAL_RECORD_PROJECT)
DEFINE_FREE(free_key, VIAL_RECORD_KEY)
DEFINE_FREE(free_key_use, VIAL_RECORD_KEY_USE)
DEFINE_FREE(free_creation, VIAL_RECORD_CREATION)
DEFINE_FREE(free_sandbox, VIAL_RECORD_SANDBOX)
DEFINE_FREE(free_call, VIAL_RECORD_CALL)
DEFINE_FREE(free_snapshot, VIAL_RECORD_SNAPSHOT)
DEFINE_FREE(free_agent, VIAL_RECORD_AGENT)
DEFINE_FREE(free_agent_version, VIAL_RECORD_AGENT_VERSION)
DEFINE_FREE(free_template, VIAL_RECORD_TEMPLATE)
DEFINE_FREE(free_build, VIAL_RECORD_BUILD)

const VialRecordType vial_record_types[VIAL_N_RECORD_TYPES] = {
	[VIAL_RECORD_PROJECT] = { "projects", sizeof(VialProjectRecord), TRUE, free_project, G_N_ELEMENTS(project_columns), project_columns },
	[VIAL_RECORD_KEY_USE] = { "key_uses", sizeof(VialKeyUseRecord), FALSE, free_key_use, G_N_ELEMENTS(key_use_columns), key_use_columns },
	[VIAL_RECORD_CREATION] = { "creations", sizeof(VialCreationRecord), FALSE, free_creation, G_N_ELEMENTS(creation_columns), creation_columns },
	[VIAL_RECORD_KEY] = { "keys", sizeof(VialKeyRecord), TRUE, free_key, G_N_ELEMENTS(key_columns), key_columns },
	[VIAL_RECORD_SANDBOX] = { "sandboxes", sizeof(VialSandboxRecord), FALSE, free_sandbox, G_N_ELEMENTS(sandbox_columns), sandbox_columns },
	[VIAL_RECORD_CALL] = { "calls", sizeof(VialCallRecord), FALSE, free_call, G_N_ELEMENTS(call_columns), call_columns },
	[VIAL_RECORD_SNAPSHOT] = { "snapshots", sizeof(VialSnapshotRecord), TRUE, free_snapshot, G_N_ELEMENTS(snapshot_columns), snapshot_columns },
	[VIAL_RECORD_AGENT] = { "agents", sizeof(VialAgentRecord), TRUE, free_agent, G_N_ELEMENTS(agent_columns), agent_columns },
	[VIAL_RECORD_AGENT_VERSION] = { "agent_versions", sizeof(VialAgentVersionRecord), TRUE, free_agent_version,
	                                G_N_ELEMENTS(agent_version_columns), agent_version_columns },
	[VIAL_RECORD_TEMPLATE] = { "templates", sizeof(VialTemplateRecord), TRUE, free_template, G_N_ELEMENTS(template_columns), template_columns },
	[VIAL_RECORD_BUILD] = { "builds", sizeof(VialBuildRecord), FALSE, free_build, G_N_ELEMENTS(build_columns), build_columns },
};

gpointer vial_record_copy(const VialRecordType *type, gconstpointer record)
{
	gpointer copy = g_memdup2(record, type->size_bytes);

	for (gsize i = 0; i < type->n_columns; i++) {
		if (type->columns[i].type == VIAL_COLUMN_TEXT) {
			char **text = vial_record_text(copy, &type->columns[i]);
			*text = g_strdup(*text ? *text : "");
		}
	}
	return copy;
}
