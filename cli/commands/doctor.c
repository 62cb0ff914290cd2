/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine can do is viald's knowledge: `viald --doctor --json` prints
 *   {"checks":[{"name","ok","detail","advice","needed"?}], "engine":{"chosen","reason"}}
 * and works while no daemon runs. What only a client can see is added here: does viald answer, is the key good.
 */
#include <gio/gio.h>
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/output.h"

const VialSyntax vial_doctor_syntax = {
	.arguments = "",
	.description = "Looks at this machine and at viald, says what is wrong and what to do about it, and why which engine is\n"
		       "used. Works also while viald does not run. Ends with status 1 when something is wrong.",
};

static void add_check(json_t *checks, const char *name, gboolean is_ok, const char *detail, const char *advice)
{
	json_array_append_new(checks, json_pack("{s:s, s:b, s:s, s:s}", "name", name, "ok", is_ok, "detail", detail ? detail : "", "advice",
	                                        is_ok || !advice ? "" : advice));
}

/* viald's binary: beside ours, as after a build or an installation, else in PATH. Free it. */
static char *find_viald(void)
{
	g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
	g_autofree char *directory = self ? g_path_get_dirname(self) : NULL;
	g_autofree char *beside = directory ? g_build_filename(directory, "viald", NULL) : NULL;
	if (beside && g_file_test(beside, G_FILE_TEST_IS_EXECUTABLE))
		return g_steal_pointer(&beside);
	return g_find_program_in_path("viald");
}

/* The report, or NULL and one failed check. */
static json_t *ask_viald(const char *viald, json_t *checks)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *out = NULL;
	g_autoptr(GSubprocess) process =
		g_subprocess_new(G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_SILENCE, &error, viald, "--doctor", "--json", NULL);
	if (process && g_subprocess_communicate_utf8(process, NULL, NULL, &out, NULL, &error)) {
		json_t *report = json_loads(out ? out : "", 0, NULL);
		if (json_is_object(report))
			return report;
		json_decref(report);
	}
	g_autofree char *detail = g_strdup_printf("%s --doctor gave no report%s%s", viald, error ? ": " : "", error ? error->message : "");
	add_check(checks, "host", FALSE, detail, "is it the viald that belongs to this vial? build both with `make build`");
	return NULL;
}

/* The gVisor that viald uses may be another than the one it would find now, with this environment: what it says of itself counts. */
static void check_engine(json_t *checks, const json_t *me)
{
	const char *engine = vial_api_string(me, "engine"), *version = vial_api_string(me, "engine_version");
	const char *warning = vial_api_string(me, "engine_warning");
	if (!engine || !version)
		return;
	for (gsize i = 0; i < json_array_size(checks); i++)
		if (g_strcmp0(vial_api_string(json_array_get(checks, i), "name"), engine) == 0)
			json_array_remove(checks, i--);
	g_autofree char *detail = warning ? g_strdup_printf("viald uses an old one: %s", warning) : g_strdup_printf("viald uses %s", version);
	add_check(checks, engine, !warning, detail, "run `make up`, which brings a current one; docs/gvisor.md");
	json_object_set_new(json_array_get(checks, json_array_size(checks) - 1), "needed", json_false());
}

static void check_server(VialCli *cli, json_t *checks)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(json_t) health = NULL, me = NULL;
	if (!vial_api_call(cli, "GET", "/v1/healthz", NULL, &health, &error)) {
		add_check(checks, "viald", FALSE, error->message, NULL);
		return;
	}
	const char *version = vial_api_string(health, "version");
	g_autofree char *answers = g_strdup_printf("%s answers at %s", version ? version : "viald", cli->url);
	add_check(checks, "viald", TRUE, answers, NULL);
	if (version && strcmp(version, VIAL_VERSION) != 0) {
		g_autofree char *detail = g_strdup_printf("viald is %s, vial is %s", version, VIAL_VERSION);
		add_check(checks, "versions", FALSE, detail, "use a vial of the same version");
	}
	if (!vial_api_call(cli, "GET", "/v1/me", NULL, &me, &error)) {
		add_check(checks, "key", FALSE, error->message, NULL);
		return;
	}
	g_autofree char *detail = g_strdup_printf("accepted (from %s)", cli->key_source ? cli->key_source : "nowhere");
	add_check(checks, "key", TRUE, detail, NULL);
	check_engine(checks, me);
}

/* A check that did not succeed but is marked as not needed says what could be better, and is no failure. */
static gboolean is_failure(const json_t *check)
{
	return !json_is_true(json_object_get(check, "ok")) && !json_is_false(json_object_get(check, "needed"));
}

static gboolean all_well(const json_t *checks)
{
	for (gsize i = 0; i < json_array_size(checks); i++)
		if (is_failure(json_array_get(checks, i)))
			return FALSE;
	return TRUE;
}

static void print_check(VialCli *cli, const json_t *check)
{
	gboolean is_ok = json_is_true(json_object_get(check, "ok"));
	g_autofree char *name = vial_api_line(check, "name"), *detail = vial_api_line(check, "detail");
	g_autofree char *advice = vial_api_line(check, "advice");
	const char *mark = is_ok ? "✓" : is_failure(check) ? "✗" : "–";
	const char *style = is_ok ? "32" : is_failure(check) ? "31" : "2";
	if (cli->is_quiet && !is_failure(check))
		return;
	printf("%s%s%s %-10s %s\n", vial_output_style(cli, style), mark, vial_output_style(cli, "0"), name, detail);
	if (!is_ok && *advice)
		printf("  %-10s %s→ %s%s\n", "", vial_output_style(cli, "1"), advice, vial_output_style(cli, "0"));
}

int vial_doctor_run(VialCli *cli, int argc, char **argv)
{
	g_autoptr(json_t) checks = json_array();
	g_autofree char *viald = find_viald();
	g_autoptr(json_t) report = viald ? ask_viald(viald, checks) : NULL;
	if (report)
		json_array_extend(checks, json_object_get(report, "checks"));
	check_server(cli, checks);
	const json_t *engine = json_object_get(report, "engine");
	if (cli->is_json) {
		g_autoptr(json_t) answer = json_pack("{s:O, s:O?}", "checks", checks, "engine", engine);
		vial_output_json(answer);
		return all_well(checks) ? VIAL_EXIT_OK : VIAL_EXIT_ERROR;
	}
	if (!viald)
		vial_output_note(cli, "there is no viald beside vial or in PATH, so this machine itself was not examined");
	for (gsize i = 0; i < json_array_size(checks); i++)
		print_check(cli, json_array_get(checks, i));
	if (engine && !cli->is_quiet) {
		g_autofree char *chosen = vial_api_line(engine, "chosen"), *reason = vial_api_line(engine, "reason");
		gboolean is_sentence = *chosen && g_str_has_prefix(reason, chosen); /* "gvisor, because …" */
		printf("\nEngine: %s%s%s%s%s\n", vial_output_style(cli, "1"), *chosen ? chosen : "none", vial_output_style(cli, "0"),
		       *reason && !is_sentence ? ", because " : "", is_sentence ? reason + strlen(chosen) : reason);
	}
	return all_well(checks) ? VIAL_EXIT_OK : VIAL_EXIT_ERROR;
}
