/* SPDX-License-Identifier: Apache-2.0 */
/* The commands: a line into an operation, and its events into lines. Nothing is judged here. */
#include <string.h>

#include "auth/keys.h"
#include "line_connection.h"
#include "operations/exec.h"
#include "operations/limits.h"
#include "operations/run.h"
#include "operations/sandboxes.h"
#include "operations/snapshots.h"
#include "service/app.h"
#include "util/json.h"

typedef struct {
	VialLineConnection *connection;
	char **words;
	guint n_words;
	GBytes *block; /* what followed the line, or NULL */
	VialCaller caller;
} Command;

/* FIELD=VALUE */

static const char *field(const Command *command, const char *name)
{
	gsize length = strlen(name);

	for (guint i = 1; i < command->n_words; i++)
		if (strncmp(command->words[i], name, length) == 0 && command->words[i][length] == '=')
			return command->words[i] + length + 1;
	return NULL;
}

static gint64 number(const Command *command, const char *name, gint64 otherwise)
{
	const char *text = field(command, name);

	return text ? g_ascii_strtoll(text, NULL, 10) : otherwise;
}

/* PREFIX.NAME:VALUE words as an object; the name may be anything, so that it can be wrong. */
static json_t *map(const Command *command, const char *prefix)
{
	g_autofree char *start = g_strconcat(prefix, ".", NULL);
	json_t *object = NULL;

	for (guint i = 1; i < command->n_words; i++) {
		const char *colon = strchr(command->words[i], ':');
		g_autofree char *name = NULL;

		if (!g_str_has_prefix(command->words[i], start) || !colon)
			continue;
		name = g_strndup(command->words[i] + strlen(start), (gsize)(colon - command->words[i]) - strlen(start));
		object = object ? object : json_object();
		json_object_set_new(object, name, json_string(colon + 1));
	}
	return object;
}

static const char *word(const Command *command, guint index)
{
	return index < command->n_words ? command->words[index] : "";
}

static void begin(VialLineConnection *connection, VialOperation *operation, const GError *error)
{
	connection->operation = operation;
	if (!operation)
		vial_line_refuse(connection, error);
}

/* Events of run and exec */

static const char *const stream_names[] = { [VIAL_OUTPUT_STDOUT] = "stdout", [VIAL_OUTPUT_STDERR] = "stderr" };

static gboolean on_text(VialOutputStream stream, const char *text, gsize size, gpointer data)
{
	return vial_line_send_block(data, stream_names[stream], text, size);
}

static gboolean on_bytes(VialOutputStream stream, GBytes *bytes, gpointer data)
{
	return vial_line_send_block(data, stream_names[stream], g_bytes_get_data(bytes, NULL), g_bytes_get_size(bytes));
}

static gboolean on_result(const VialRunResult *result, gpointer data)
{
	g_autofree char *text = vial_json_dump(result->bundle);

	return vial_line_send_block(data, "result", text, strlen(text));
}

static gboolean on_error(const VialRunError *error, gpointer data)
{
	return vial_line_send_block(data, "error", error->name, strlen(error->name));
}

static void on_run_end(const VialRunEnd *end, const GError *error, gpointer data)
{
	if (error)
		return vial_line_refuse(data, error);
	vial_line_send(data, "end %d\n", end->has_error ? 1 : 0);
	vial_line_done(data);
}

static void on_exec_end(const VialExecEnd *end, const GError *error, gpointer data)
{
	if (error)
		return vial_line_refuse(data, error);
	vial_line_send(data, "end %d\n", (int)end->exit_code);
	vial_line_done(data);
}

static void run(Command *command)
{
	static const VialRunSink sink = { .output = on_text, .result = on_result, .error = on_error, .end = on_run_end };
	g_autoptr(json_t) env = map(command, "env");
	g_autoptr(GError) error = NULL;
	VialRunRequest request = {
		.code = command->block,
		.language = field(command, "language"),
		.context = field(command, "context"),
		.timeout_ms = number(command, "timeout_ms", 0),
		.max_output_bytes = number(command, "max_output_bytes", VIAL_UNSAID),
		.env = env,
	};
	VialOperation *operation = vial_op_run(&command->caller, word(command, 1), &request, &sink, command->connection, &error);

	begin(command->connection, operation, error);
}

static void exec(Command *command)
{
	static const VialExecSink sink = { .output = on_bytes, .end = on_exec_end };
	const char *bytes = g_bytes_get_data(command->block, NULL);
	g_autofree char *line = bytes ? g_strndup(bytes, g_bytes_get_size(command->block)) : g_strdup("");
	g_autoptr(json_t) env = map(command, "env");
	g_autoptr(GError) error = NULL;
	VialExecRequest request = {
		.cmd = line,
		.cwd = field(command, "cwd"),
		.user = field(command, "user"),
		.timeout_seconds = (double)number(command, "timeout_seconds", 0),
		.env = env,
	};
	VialOperation *operation = vial_op_exec(&command->caller, word(command, 1), &request, &sink, command->connection, &error);

	begin(command->connection, operation, error);
}

/* The others have one answer; it may come after the client has gone. */

static void answer(gpointer data, const char *text, const GError *error)
{
	g_autoptr(VialLineConnection) connection = data;

	if (error)
		return vial_line_refuse(connection, error);
	vial_line_send(connection, "ok%s%s\n", *text ? " " : "", text);
	vial_line_done(connection);
}

static void on_created(VialSandbox *sandbox, const GError *error, gpointer data)
{
	answer(data, sandbox ? vial_sandbox_id(sandbox) : "", error);
}

static void create(Command *command)
{
	g_autoptr(json_t) env = map(command, "env"), metadata = map(command, "metadata");
	g_autoptr(GError) error = NULL;
	VialCreateRequest request = {
		.template_name = field(command, "template"),
		.cpu = (double)VIAL_UNSAID,
		.memory_mb = number(command, "memory_mb", VIAL_UNSAID),
		.ttl_seconds = number(command, "ttl_seconds", VIAL_UNSAID),
		.idle_seconds = number(command, "idle_seconds", VIAL_UNSAID),
		.on_idle = field(command, "on_idle"),
		.env = env,
		.metadata = metadata,
	};

	vial_line_connection_ref(command->connection);
	if (!vial_op_sandbox_create(&command->caller, &request, on_created, command->connection, &error))
		answer(command->connection, "", error);
}

static void on_forked(const char *tree_id, GPtrArray *children, GPtrArray *errors, const GError *error, gpointer data)
{
	g_autoptr(GString) ids = g_string_new(NULL);

	for (guint i = 0; !error && i < children->len; i++)
		g_string_append_printf(ids, "%s%s", i ? " " : "", children->pdata[i] ? vial_sandbox_id(children->pdata[i]) : "-");
	answer(data, ids->str, error);
}

static void fork_sandbox(Command *command)
{
	g_autoptr(json_t) metadata = map(command, "metadata");
	g_autoptr(GError) error = NULL;
	VialForkRequest request = { .count = g_ascii_strtoll(word(command, 2), NULL, 10), .metadata = metadata };

	vial_line_connection_ref(command->connection);
	if (!vial_op_fork(&command->caller, word(command, 1), &request, on_forked, command->connection, &error))
		answer(command->connection, "", error);
}

static void on_deleted(const GError *error, gpointer data)
{
	answer(data, "", error);
}

static void delete_sandbox(Command *command)
{
	g_autoptr(GError) error = NULL;

	vial_line_connection_ref(command->connection);
	if (!vial_op_sandbox_delete(&command->caller, word(command, 1), on_deleted, command->connection, &error))
		answer(command->connection, "", error);
}

static void show_key(Command *command)
{
	VialLineConnection *connection = command->connection;
	g_autoptr(GError) error = NULL;

	vial_line_connection_ref(connection);
	connection->identity = vial_keys_lookup(connection->app->keys, word(command, 1));
	if (!connection->identity)
		vial_fail(&error, VIAL_ERROR_UNAUTHORIZED, "this key is not known here");
	answer(connection, connection->identity ? connection->identity->project : "", error);
}

static const struct {
	const char *name;
	void (*act)(Command *command);
	gboolean has_block; /* its length is the third word */
} verbs[] = {
	{ "key", show_key, FALSE },          { "create", create, FALSE }, { "fork", fork_sandbox, FALSE },
	{ "delete", delete_sandbox, FALSE }, { "run", run, TRUE },        { "exec", exec, TRUE },
};

static gboolean act(VialLineConnection *connection, gsize verb, char **words, gsize line_bytes)
{
	Command command = { .connection = connection, .words = words, .n_words = g_strv_length(words) };
	gsize size = verbs[verb].has_block ? (gsize)g_ascii_strtoull(word(&command, 2), NULL, 10) : 0;

	if (connection->in->len - line_bytes < size)
		return FALSE;
	command.caller = (VialCaller){ .app = connection->app, .principal = connection->identity };
	if (verbs[verb].has_block)
		command.block = g_bytes_new(connection->in->data + line_bytes, size);
	g_byte_array_remove_range(connection->in, 0, (guint)(line_bytes + size));
	connection->is_busy = TRUE;
	verbs[verb].act(&command);
	g_clear_pointer(&command.block, g_bytes_unref);
	return TRUE;
}

gboolean vial_line_take_command(VialLineConnection *connection)
{
	const guint8 *end = connection->in->len ? memchr(connection->in->data, '\n', connection->in->len) : NULL;
	g_autofree char *line = end ? g_strndup((const char *)connection->in->data, (gsize)(end - connection->in->data)) : NULL;
	g_auto(GStrv) words = line ? g_strsplit(line, " ", -1) : NULL;

	if (!line)
		return FALSE;
	for (gsize i = 0; i < G_N_ELEMENTS(verbs); i++)
		if (words[0] && strcmp(words[0], verbs[i].name) == 0)
			return act(connection, i, words, strlen(line) + 1);
	vial_line_connection_close(connection);
	return FALSE;
}
