/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a new sandbox what its version says: its files, one after the other, then its packages. Each is an ordinary operation on behalf of whoever's
 * call came first, so each is on record, in the session. The sandbox is nobody's to use before the last has gone well.
 */
#include <string.h>

#include "operations/agents_private.h"
#include "operations/exec.h"
#include "operations/files.h"
#include "operations/input.h"
#include "operations/limits.h"
#include "util/json.h"

/* How much of what an installer printed is told. */
#define TAIL_BYTES 600

typedef struct {
	VialApp *app;
	VialIdentity *principal;
	VialSandbox *sandbox;
	json_t *document;
	gsize next_file, next_kind;
	VialInput content;
	VialOperation *operation;
	VialOperationDone done;
	gpointer data;
} Setup;

static const char *const kinds[] = { "pip", "npm" };

static void go_on(Setup *setup);

static void end(Setup *setup, const GError *error)
{
	setup->done(error, setup->data);
	vial_input_clear(&setup->content);
	vial_identity_unref(setup->principal);
	vial_sandbox_unref(setup->sandbox);
	json_decref(setup->document);
	g_free(setup);
}

static VialCaller caller_of(const Setup *setup)
{
	return (VialCaller){ .app = setup->app, .principal = setup->principal };
}

static void fail(Setup *setup, const GError *error, const char *what)
{
	g_autoptr(GError) told = g_error_copy(error);

	g_prefix_error(&told, "the sandbox could not be made ready for its session: %s: ", what);
	end(setup, told);
}

/* Files */

static void on_begun(VialOperation *operation, gpointer data)
{
	Setup *setup = data;

	setup->operation = operation;
	vial_input_push(&setup->content, operation);
}

static void on_writable(gpointer data)
{
	Setup *setup = data;

	vial_input_push(&setup->content, setup->operation);
}

static const char *path_of(const Setup *setup, gsize index)
{
	return json_string_value(json_object_get(json_array_get(json_object_get(setup->document, "files"), index), "path"));
}

static void on_written(const char *path, gint64 bytes, const GError *error, gpointer data)
{
	Setup *setup = data;

	setup->operation = NULL;
	if (error)
		return fail(setup, error, path_of(setup, setup->next_file - 1));
	go_on(setup);
}

static GBytes *content_of(const json_t *file)
{
	const json_t *text = json_object_get(file, "content");
	const char *encoded = json_string_value(json_object_get(file, "content_base64"));
	gsize size = 0;
	guchar *bytes;

	if (text)
		return g_bytes_new(json_string_value(text), json_string_length(text));
	if (!*encoded)
		return g_bytes_new(NULL, 0);
	bytes = g_base64_decode(encoded, &size);
	return g_bytes_new_take(bytes, size);
}

static void write_file(Setup *setup)
{
	static const VialWriteSink sink = { .begun = on_begun, .writable = on_writable, .end = on_written };
	const json_t *file = json_array_get(json_object_get(setup->document, "files"), setup->next_file++);
	VialFileRequest request = { .path = json_string_value(json_object_get(file, "path")),
		                    .mode = json_string_value(json_object_get(file, "mode")) };
	VialCaller caller = caller_of(setup);
	g_autoptr(GError) error = NULL;

	vial_input_clear(&setup->content);
	setup->content = (VialInput){ .bytes = content_of(file) };
	if (!vial_op_file_write(&caller, vial_sandbox_id(setup->sandbox), &request, &sink, setup, &error))
		fail(setup, error, request.path);
}

/* Packages */

static void on_installed(const VialExecAnswer *answer, const GError *error, gpointer data)
{
	Setup *setup = data;
	const char *kind = kinds[setup->next_kind - 1];
	g_autoptr(GError) failure = NULL;

	if (!error && (answer->end.exit_code != 0 || answer->end.timed_out)) {
		VialOutputStream stream = answer->output_size[VIAL_OUTPUT_STDERR] > 0 ? VIAL_OUTPUT_STDERR : VIAL_OUTPUT_STDOUT;
		const char *text = answer->output[stream];
		gsize size = answer->output_size[stream], skip = size > TAIL_BYTES ? size - TAIL_BYTES : 0;
		g_autofree char *valid = g_utf8_make_valid(text + skip, (gssize)(size - skip));

		vial_fail(&failure, VIAL_ERROR_GATEWAY, "%s: %s", answer->end.timed_out ? "it took too long" : "it failed", g_strstrip(valid));
		error = failure;
	}
	if (error)
		return fail(setup, error, kind);
	go_on(setup);
}

static json_t *install_command(const char *kind, const json_t *packages)
{
	json_t *argv = strcmp(kind, "pip") == 0
	                       ? json_pack("[s, s, s, s, s, s]", "python3", "-m", "pip", "install", "--no-input", "--disable-pip-version-check")
	                       : json_pack("[s, s, s, s]", "npm", "install", "--no-audit", "--no-fund");

	json_array_extend(argv, (json_t *)packages);
	return argv;
}

static void install(Setup *setup)
{
	const char *kind = kinds[setup->next_kind++];
	const json_t *packages = json_object_get(json_object_get(setup->document, "packages"), kind);
	VialCaller caller = caller_of(setup);
	g_autoptr(json_t) argv = NULL;
	g_autoptr(GError) error = NULL;
	VialExecRequest request;

	if (json_array_size(packages) == 0)
		return go_on(setup);
	argv = install_command(kind, packages);
	request = (VialExecRequest){ .argv = argv, .timeout_seconds = VIAL_AGENT_PACKAGES_TIMEOUT_SECONDS };
	if (!vial_op_exec_collected(&caller, vial_sandbox_id(setup->sandbox), &request, on_installed, setup, &error))
		fail(setup, error, kind);
}

/* All of it */

static void go_on(Setup *setup)
{
	if (setup->next_file < json_array_size(json_object_get(setup->document, "files")))
		write_file(setup);
	else if (setup->next_kind < G_N_ELEMENTS(kinds))
		install(setup);
	else
		end(setup, NULL);
}

gboolean vial_agent_needs_setup(const json_t *document)
{
	const json_t *packages = json_object_get(document, "packages");

	return json_array_size(json_object_get(document, "files")) + json_array_size(json_object_get(packages, "pip")) +
	               json_array_size(json_object_get(packages, "npm")) >
	       0;
}

void vial_agent_setup(VialApp *app, VialIdentity *principal, VialSandbox *sandbox, const json_t *document, VialOperationDone done, gpointer data)
{
	Setup *setup = g_new0(Setup, 1);

	*setup = (Setup){ .app = app,
		          .principal = vial_identity_ref(principal),
		          .sandbox = vial_sandbox_ref(sandbox),
		          .document = json_incref((json_t *)document),
		          .done = done,
		          .data = data };
	go_on(setup);
}
