/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/cell.h"
#include "cli/commands.h"
#include "cli/create_options.h"
#include "cli/output.h"

enum { CODE_MAX_BYTES = 8 * 1024 * 1024 };

static char *language_name, *sandbox_given, *out_dir;
static gint64 timeout_seconds;
static gboolean is_raw, keeps_undo;

static const VialOption options[] = {
	{ 'l', "lang", VIAL_OPTION_STRING, &language_name, "NAME", "python, javascript (TypeScript too) or bash; else the file's suffix says it",
	  "python javascript bash" },
	{ 's', "sandbox", VIAL_OPTION_STRING, &sandbox_given, "ID", "in this sandbox, whose variables stay", "@sandbox" },
	{ 'o', "out", VIAL_OPTION_STRING, &out_dir, "DIR", "save figures and changed files here", "@directory" },
	{ 0, "timeout", VIAL_OPTION_DURATION, &timeout_seconds, "TIME", "interrupt it after this time, with status 124", NULL },
	{ 0, "undo", VIAL_OPTION_FLAG, &keeps_undo, NULL, "keep the state before it, for `vial undo`", NULL },
	{ 0, "raw", VIAL_OPTION_FLAG, &is_raw, NULL, "let escape sequences through to our terminal", NULL },
	VIAL_CREATE_OPTIONS,
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_run_syntax = {
	.arguments = "FILE|- [ARGUMENT...]",
	.description = "Runs the file as one cell of a notebook: output as it comes, then the value of the last expression. Without\n"
		       "--sandbox it runs in a sandbox of its own, which is removed afterwards. JavaScript ends when its event loop\n"
		       "is empty. The status is what the code exits with, else 0 when it ran through and 1 when it raised an error.\n"
		       "Arguments that begin with - come after --.\n"
		       "\n"
		       "  vial run plot.py --out figures\n"
		       "  vial run convert.py in.csv out.parquet\n"
		       "  echo '6*7' | vial run -",
	.options = options,
	.min_arguments = 1,
	.max_arguments = -1,
	.completes = "@file",
};

static char *read_code(const char *file, GError **error)
{
	g_autoptr(GString) code = g_string_new(NULL);
	FILE *stream = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
	if (!stream) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s cannot be read: %s", file, g_strerror(errno));
		return NULL;
	}
	char buffer[64 * 1024];
	for (gsize size; (size = fread(buffer, 1, sizeof buffer, stream)) > 0 && code->len <= CODE_MAX_BYTES;)
		g_string_append_len(code, buffer, (gssize)size);
	int problem = ferror(stream) ? errno : 0;
	if (stream != stdin)
		fclose(stream);
	if (problem)
		g_set_error(error, VIAL_HTTP_ERROR, problem == EINTR ? VIAL_HTTP_INTERRUPTED : VIAL_HTTP_FAILED, "%s cannot be read: %s", file,
		            g_strerror(problem));
	else if (code->len > CODE_MAX_BYTES)
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s is larger than %d MiB: is it code?", file, CODE_MAX_BYTES >> 20);
	else if (!g_utf8_validate_len(code->str, code->len, NULL))
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s is not UTF-8 text", file);
	else
		return g_string_free(g_steal_pointer(&code), FALSE);
	return NULL;
}

/* From --lang, the suffix, or a first line such as "#!/usr/bin/env python3". NULL: cannot tell. */
static const char *find_language(const char *file, const char *code)
{
	if (language_name)
		return vial_cell_language(language_name);
	const char *dot = strrchr(file, '.'), *slash = strrchr(file, '/');
	const char *language = dot && (!slash || dot > slash) ? vial_cell_language(dot + 1) : NULL;
	if (language)
		return language;
	if (g_str_has_prefix(code, "#!")) {
		g_autofree char *first = g_strndup(code, strcspn(code, "\r\n"));
		g_strchomp(first);
		const char *word = first + 2;
		for (const char *c = word; *c; c++)
			if (*c == '/' || *c == ' ')
				word = c + 1;
		g_autofree char *bare = g_strdup(word);
		language = vial_cell_language(bare);
		if (language)
			return language;
	}
	return strcmp(file, "-") == 0 ? "python" : NULL;
}

/* argv[0] is the file's name without its place: that is nobody's business in the sandbox. */
static json_t *run_body(const char *code, const char *language, int argc, char **argv)
{
	json_t *body = json_pack("{s:s, s:s}", "code", code, "language", language), *words = json_array();
	g_autofree char *name = g_path_get_basename(argv[0]);
	for (int i = 0; i < argc; i++)
		json_array_append_new(words, json_string(i == 0 ? name : argv[i]));
	json_object_set_new(body, "argv", words);
	if (timeout_seconds)
		json_object_set_new(body, "timeout_ms", json_integer(timeout_seconds * 1000));
	if (keeps_undo)
		json_object_set_new(body, "undo", json_true());
	return body;
}

static int run_collected(VialCli *cli, VialCell *cell, json_t *body)
{
	GError *error = NULL;
	g_autoptr(json_t) execution = NULL;
	g_autofree char *path = vial_api_path("/sandboxes/%s/run", cell->sandbox_id);
	if (!vial_api_run(cli, path, body, &execution, &error))
		return vial_output_fail_remote(cli, error);
	vial_output_json(execution);
	if (out_dir && !vial_cell_save(cell, execution, &error))
		return vial_output_fail_remote(cli, error);
	if (json_is_true(json_object_get(execution, "timed_out")))
		return VIAL_EXIT_TIMEOUT;
	return (int)CLAMP(vial_api_integer(execution, "exit_code", 0), 0, 255);
}

int vial_run_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	if (keeps_undo && !sandbox_given)
		return vial_output_usage(cli, "--undo needs --sandbox: the one that is made for this is gone afterwards");
	g_autofree char *code = read_code(argv[0], &error);
	if (!code)
		return vial_output_fail_remote(cli, error);
	const char *language = find_language(argv[0], code);
	if (!language && language_name)
		return vial_output_usage(cli, "\"%s\" is no language of ours: python, javascript or bash", language_name);
	if (!language)
		return vial_output_usage(cli, "which language is %s? Say it with --lang", argv[0]);
	g_autoptr(VialEphemeral) sandbox = vial_ephemeral_new(cli, sandbox_given, &error);
	if (!sandbox)
		return vial_output_fail_remote(cli, error);
	const char *id = vial_ephemeral_id(sandbox);
	VialCell cell = { .cli = cli, .sandbox_id = id, .out_dir = out_dir, .is_raw = is_raw, .is_program = !sandbox_given };
	if (cli->is_json)
		return run_collected(cli, &cell, run_body(code, language, argc, argv));
	g_autofree char *path = vial_api_path("/sandboxes/%s/run/stream", id);
	if (!vial_cell_run(&cell, path, run_body(code, language, argc, argv), &error))
		return vial_output_fail_remote(cli, error);
	return vial_cell_exit_status(&cell);
}
