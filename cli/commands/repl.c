/* SPDX-License-Identifier: Apache-2.0 */
/* Read, run, print, in a session of its own: its variables live until the REPL ends, and a Ctrl-C interrupts only the cell. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/cell.h"
#include "cli/commands.h"
#include "cli/create_options.h"
#include "cli/editor.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/sanitize.h"

enum { COMPLETE_TIMEOUT_MS = 2000 };

static char *language_name, *sandbox_given, *out_dir;
static gboolean is_raw;

static const VialOption options[] = {
	{ 'l', "lang", VIAL_OPTION_STRING, &language_name, "NAME", "python (the default), javascript (TypeScript too) or bash",
	  "python javascript bash" },
	{ 's', "sandbox", VIAL_OPTION_STRING, &sandbox_given, "ID", "in this sandbox instead of a new one", "@sandbox" },
	{ 'o', "out", VIAL_OPTION_STRING, &out_dir, "DIR", "save figures and changed files here", "@directory" },
	{ 0, "raw", VIAL_OPTION_FLAG, &is_raw, NULL, "let escape sequences through to our terminal", NULL },
	VIAL_CREATE_OPTIONS,
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_repl_syntax = {
	.arguments = "[OPTION...]",
	.description = "Enter runs what is complete and else begins a new line; Alt-Enter always begins one. Up and down move in the\n"
		       "cell, then in the history; Ctrl-R searches it. Tab completes a name, or shows what it may become. Ctrl-C\n"
		       "interrupts a running cell, Ctrl-D leaves.\n"
		       "\n"
		       "  :lang NAME   another language, in the same sandbox\n"
		       "  :restart     a fresh kernel, its variables gone\n"
		       "  :help, :quit",
	.options = options,
};

typedef struct {
	VialCli *cli;
	const char *sandbox_id;
	const char *language;
	GHashTable *sessions; /* language → session id, made on first use */
	VialEditor *editor;
	VialCell cell;
	int number;
} Repl;

static const char *session_id(Repl *repl, GError **error)
{
	const char *known = g_hash_table_lookup(repl->sessions, repl->language);
	if (known)
		return known;
	g_autoptr(json_t) session = NULL;
	g_autofree char *path = vial_api_path("/sandboxes/%s/repl/sessions", repl->sandbox_id);
	if (!vial_api_call(repl->cli, "POST", path, json_pack("{s:s}", "language", repl->language), &session, error))
		return NULL;
	char *id = vial_api_text(session, "id");
	g_hash_table_insert(repl->sessions, g_strdup(repl->language), id);
	return id;
}

static gboolean post_to_session(Repl *repl, const char *verb, GError **error)
{
	const char *id = g_hash_table_lookup(repl->sessions, repl->language);
	if (!id)
		return TRUE;
	g_autofree char *path = vial_api_path("/sandboxes/%s/repl/sessions/%s", repl->sandbox_id, id);
	g_autofree char *full = g_strconcat(path, "/", verb, NULL);
	return vial_api_call(repl->cli, "POST", full, NULL, NULL, error);
}

/* Ctrl-C while a cell runs: the kernel is interrupted, and the stream goes on to tell how the cell ended. */
static gboolean on_interrupt(gpointer data)
{
	g_autoptr(GError) error = NULL;
	if (post_to_session(data, "interrupt", &error))
		return TRUE;
	vial_output_note(((Repl *)data)->cli, "the cell could not be interrupted: %s", error->message);
	return FALSE;
}

/* The kernels know their names: asked for in a cell of its own (guest/kernels, "complete"). Shells quote in their own way; the others as JSON does.
 */
static char *completing_code(const char *language, const char *before)
{
	if (strcmp(language, "bash") == 0) {
		g_autofree char *quoted = g_shell_quote(before);
		return g_strdup_printf("__vial_complete %s", quoted);
	}
	g_autoptr(json_t) text = json_string(before);
	char *literal = text ? json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
	const char *form = strcmp(language, "python") == 0 ? "__import__(\"vial_kernel.complete\").complete.show(%s)"
	                                                   : "globalThis[Symbol.for(\"vial.complete\")](%s)";
	char *code = literal ? g_strdup_printf(form, literal) : NULL;
	free(literal);
	return code;
}

static GStrv complete(const char *before, gpointer data)
{
	Repl *repl = data;
	g_autoptr(json_t) execution = NULL;
	const char *id = session_id(repl, NULL);
	g_autofree char *code = completing_code(repl->language, before);
	if (!id || !code)
		return NULL;
	g_autofree char *path = vial_api_path("/sandboxes/%s/repl/sessions/%s/run", repl->sandbox_id, id);
	if (!vial_api_call(repl->cli, "POST", path, json_pack("{s:s, s:i}", "code", code, "timeout_ms", COMPLETE_TIMEOUT_MS), &execution, NULL))
		return NULL;
	const char *text = vial_api_string(execution, "stdout");
	g_auto(GStrv) lines = g_strsplit(text ? text : "", "\n", -1);
	GPtrArray *words = g_ptr_array_new();
	/* They come from the sandbox: nothing that a terminal would take for a command. The first may be empty, the others not. */
	for (char **line = lines; *line; line++) {
		g_autofree char *clean = vial_sanitize_line(*line);
		if (strcmp(clean, *line) == 0 && (words->len == 0 || *clean))
			g_ptr_array_add(words, g_steal_pointer(&clean));
	}
	g_ptr_array_add(words, NULL);
	return (GStrv)g_ptr_array_free(words, FALSE);
}

/* FALSE: the REPL cannot go on. */
static gboolean run_cell(Repl *repl, const char *code, GError **error)
{
	g_autoptr(GError) problem = NULL;
	const char *id = session_id(repl, error);
	if (!id)
		return FALSE;
	g_autofree char *path = vial_api_path("/sandboxes/%s/repl/sessions/%s/run/stream", repl->sandbox_id, id);
	vial_http_on_interrupt(repl->cli->http, on_interrupt, repl);
	gboolean is_ok = vial_cell_run(&repl->cell, path, json_pack("{s:s}", "code", code), &problem);
	vial_http_on_interrupt(repl->cli->http, NULL, NULL);
	repl->number++;
	if (is_ok)
		return TRUE;
	gboolean is_refused =
		problem->domain == VIAL_HTTP_ERROR && problem->code >= 400 && problem->code < 500 && problem->code != 401 && problem->code != 404;
	if (is_refused || (g_error_matches(problem, VIAL_HTTP_ERROR, VIAL_HTTP_INTERRUPTED) && !vial_interrupt_is_final())) {
		if (is_refused)
			vial_output_note(repl->cli, "%s", problem->message);
		vial_interrupt_take();
		return TRUE;
	}
	g_propagate_error(error, g_steal_pointer(&problem));
	return FALSE;
}

/* ":word …" to us, not to the kernel. FALSE: it is none. *out_leaves is set for :quit. */
static gboolean take_command(Repl *repl, const char *cell, gboolean *out_leaves)
{
	g_autoptr(GError) error = NULL;
	if (cell[0] != ':' || !g_ascii_isalpha(cell[1]) || strchr(cell, '\n'))
		return FALSE;
	g_auto(GStrv) words = g_strsplit_set(cell + 1, " \t", 2);
	if (strcmp(words[0], "quit") == 0 || strcmp(words[0], "q") == 0 || strcmp(words[0], "exit") == 0) {
		*out_leaves = TRUE;
	} else if (strcmp(words[0], "restart") == 0) {
		if (post_to_session(repl, "restart", &error))
			vial_output_note(repl->cli, "a fresh %s kernel", repl->language);
		else
			vial_output_note(repl->cli, "%s", error->message);
	} else if (strcmp(words[0], "lang") == 0) {
		const char *language = words[1] ? vial_cell_language(g_strstrip(words[1])) : NULL;
		if (language) {
			repl->language = language;
			vial_editor_set_language(repl->editor, language);
		} else {
			vial_output_note(repl->cli, ":lang wants python, javascript or bash");
		}
	} else if (strcmp(words[0], "help") == 0) {
		puts(vial_repl_syntax.description);
	} else {
		return FALSE;
	}
	return TRUE;
}

static gboolean loop(Repl *repl, GError **error)
{
	for (;;) {
		g_autofree char *cell = NULL;
		gboolean leaves = FALSE;
		VialEditorOutcome outcome = vial_editor_read(repl->editor, repl->number, &cell);
		if (outcome == VIAL_EDITOR_END)
			return TRUE;
		if (outcome == VIAL_EDITOR_CANCELLED || !*cell)
			continue;
		if (take_command(repl, cell, &leaves)) {
			if (leaves)
				return TRUE;
			continue;
		}
		if (!run_cell(repl, cell, error))
			return FALSE;
	}
}

/* In somebody's sandbox the kernels we made would stay. */
static void end_sessions(Repl *repl)
{
	GHashTableIter iter;
	gpointer id;
	g_hash_table_iter_init(&iter, repl->sessions);
	while (g_hash_table_iter_next(&iter, NULL, &id)) {
		g_autofree char *path = vial_api_path("/sandboxes/%s/repl/sessions/%s", repl->sandbox_id, id);
		vial_interrupt_clear();
		vial_api_call(repl->cli, "DELETE", path, NULL, NULL, NULL);
	}
}

int vial_repl_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	const char *language = vial_cell_language(language_name ? language_name : "python");
	if (cli->is_json)
		return vial_output_usage(cli, "a conversation has no JSON form; try `vial run --json`");
	if (!language)
		return vial_output_usage(cli, "\"%s\" is no language of ours: python, javascript or bash", language_name);
	g_autoptr(VialEphemeral) sandbox = vial_ephemeral_new(cli, sandbox_given, &error);
	if (!sandbox)
		return vial_output_fail_remote(cli, error);
	g_autoptr(GHashTable) sessions = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	g_autoptr(VialEditor) editor = vial_editor_new(language);
	const char *id = vial_ephemeral_id(sandbox);
	Repl repl = {
		.cli = cli,
		.sandbox_id = id,
		.language = language,
		.sessions = sessions,
		.editor = editor,
		.number = 1,
		.cell = { .cli = cli, .sandbox_id = id, .out_dir = out_dir, .is_raw = is_raw },
	};
	vial_editor_set_completer(editor, complete, &repl);
	if (isatty(STDIN_FILENO))
		vial_output_note(cli, "%s in %ssandbox %s (:help, Ctrl-D leaves)", language, vial_ephemeral_is_ours(sandbox) ? "a new " : "", id);
	gboolean is_ok = loop(&repl, &error);
	if (!vial_ephemeral_is_ours(sandbox))
		end_sessions(&repl);
	return is_ok ? VIAL_EXIT_OK : vial_output_fail_remote(cli, error);
}
