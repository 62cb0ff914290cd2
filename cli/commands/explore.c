/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates in forks: fork-tree once, run every candidate in its own child at the same time, score, promote the best and let
 * the server remove the rest. On every way out that has no winner the children are removed here.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/create_options.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/table.h"

enum { FORKS_MAX = 32 };

static char *sandbox_given, *setup_line, *score_line;
static gint64 fork_count, timeout_seconds = 600;
static gboolean prefers_least, keeps_all;

static const VialOption options[] = {
	{ 's', "sandbox", VIAL_OPTION_STRING, &sandbox_given, "ID", "fork this sandbox; else a new one is made and removed at the end", "@sandbox" },
	{ 0, "setup", VIAL_OPTION_STRING, &setup_line, "LINE", "run this once, before forking", NULL },
	{ 0, "score", VIAL_OPTION_STRING, &score_line, "LINE", "run this in each fork; the last number it prints is the score", NULL },
	{ 'n', "count", VIAL_OPTION_INT, &fork_count, "N", "so many forks; candidates are taken in turn", NULL },
	{ 0, "least", VIAL_OPTION_FLAG, &prefers_least, NULL, "the least score wins instead of the greatest", NULL },
	{ 0, "timeout", VIAL_OPTION_DURATION, &timeout_seconds, "TIME", "for each candidate; 10m if not given", NULL },
	{ 0, "keep-all", VIAL_OPTION_FLAG, &keeps_all, NULL, "promote none and remove none", NULL },
	VIAL_CREATE_OPTIONS,
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_explore_syntax = {
	.arguments = "COMMAND...",
	.description = "Each COMMAND is one shell line, tried in a fork of its own. Those that end with status 0 compete: by --score,\n"
		       "without it by time. The winner's id is printed; it stays, the others are removed. In a fork, VIAL_CANDIDATE\n"
		       "is its number from 1.\n"
		       "\n"
		       "  vial explore -s 4kq 'python3 fit.py --lr 0.1' 'python3 fit.py --lr 0.01' --score 'cat accuracy'",
	.options = options,
	.min_arguments = 1,
	.max_arguments = FORKS_MAX,
};

typedef struct {
	const char *line;
	char *id;      /* the fork's; NULL when it could not be made */
	char *problem; /* why it does not compete */
	gint64 exit_code, duration_ms;
	double score;
	gboolean is_viable;
	json_t *answer; /* of its exec */
} Candidate;

typedef struct {
	VialCli *cli;
	Candidate *candidates;
	guint count;
	char *tree_id;
} Exploration;

static void exploration_clear(Exploration *exploration)
{
	for (guint i = 0; i < exploration->count; i++) {
		g_free(exploration->candidates[i].id);
		g_free(exploration->candidates[i].problem);
		json_decref(exploration->candidates[i].answer);
	}
	g_free(exploration->candidates);
	g_free(exploration->tree_id);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Exploration, exploration_clear)

static gboolean run_setup(VialCli *cli, const char *id, GError **error)
{
	if (!setup_line)
		return TRUE;
	g_autoptr(json_t) answer = NULL;
	g_autofree char *path = vial_api_path("/sandboxes/%s/exec", id);
	if (!vial_api_run(cli, path, json_pack("{s:s}", "cmd", setup_line), &answer, error))
		return FALSE;
	gint64 exit_code = vial_api_integer(answer, "exit_code", 0);
	if (exit_code == 0)
		return TRUE;
	g_autofree char *text = vial_api_text(answer, "stderr");
	g_autofree char *clean = vial_sanitize_line(g_strstrip(text));
	g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "--setup ended with status %d: %s", (int)exit_code, clean);
	return FALSE;
}

static gboolean fork_children(Exploration *exploration, const char *parent, GError **error)
{
	g_autoptr(json_t) answer = NULL;
	g_autofree char *path = vial_api_path("/sandboxes/%s/fork-tree", parent);
	json_t *body = json_pack("{s:i, s:{s:s}}", "count", (int)exploration->count, "metadata", "explore", "1");
	if (!vial_api_run(exploration->cli, path, body, &answer, error))
		return FALSE;
	const json_t *children = vial_api_list(answer, "children"), *failures = json_object_get(answer, "errors");
	gsize failed = 0;
	exploration->tree_id = vial_api_text(answer, "tree_id");
	for (guint i = 0; i < exploration->count; i++) {
		const json_t *child = json_array_get(children, i);
		Candidate *candidate = &exploration->candidates[i];
		candidate->id = g_strdup(vial_api_string(child, "id"));
		if (!candidate->id) {
			const char *sentence = json_string_value(json_array_get(failures, failed++));
			candidate->problem = g_strdup_printf("no fork: %s", sentence ? sentence : "the server gave fewer than asked");
		}
	}
	return TRUE;
}

/* Runs one line in each fork that `wants`; the answer is given to `take`. */
static gboolean run_in_forks(Exploration *exploration, const char *common_line, gboolean only_viable, void (*take)(Candidate *, json_t *answer),
                             GError **error)
{
	guint count = 0;
	g_auto(GStrv) paths = g_new0(char *, exploration->count + 1);
	g_autofree json_t **bodies = g_new0(json_t *, exploration->count + 1);
	g_autofree Candidate **asked = g_new0(Candidate *, exploration->count + 1);
	for (guint i = 0; i < exploration->count; i++) {
		Candidate *candidate = &exploration->candidates[i];
		if (!candidate->id || (only_viable && !candidate->is_viable))
			continue;
		g_autofree char *number = g_strdup_printf("%u", i + 1);
		asked[count] = candidate;
		paths[count] = vial_api_path("/sandboxes/%s/exec", candidate->id);
		bodies[count++] = json_pack("{s:s, s:I, s:{s:s}}", "cmd", common_line ? common_line : candidate->line, "timeout_seconds",
		                            (json_int_t)timeout_seconds, "env", "VIAL_CANDIDATE", number);
	}
	g_autofree json_t **answers = g_new0(json_t *, count + 1);
	g_autofree GError **errors = g_new0(GError *, count + 1);
	vial_api_call_many(exploration->cli, "POST", paths, count, bodies, FORKS_MAX, answers, errors);
	for (guint i = 0; i < count; i++) {
		if (errors[i]) {
			asked[i]->is_viable = FALSE;
			asked[i]->problem = g_strdup(errors[i]->message);
		} else {
			take(asked[i], answers[i]);
		}
		g_clear_error(&errors[i]);
		json_decref(answers[i]);
		json_decref(bodies[i]);
	}
	if (vial_interrupt_pending()) {
		g_set_error_literal(error, VIAL_HTTP_ERROR, VIAL_HTTP_INTERRUPTED, "interrupted");
		return FALSE;
	}
	return TRUE;
}

static void take_outcome(Candidate *candidate, json_t *answer)
{
	candidate->answer = json_incref(answer);
	candidate->exit_code = vial_api_integer(answer, "exit_code", -1);
	candidate->duration_ms = vial_api_integer(answer, "duration_ms", 0);
	gboolean has_timed_out = json_is_true(json_object_get(answer, "timed_out"));
	candidate->is_viable = candidate->exit_code == 0 && !has_timed_out;
	if (has_timed_out)
		candidate->problem = g_strdup("ran into the time limit");
	else if (!candidate->is_viable)
		candidate->problem = g_strdup_printf("status %" G_GINT64_FORMAT, candidate->exit_code);
}

/* The last number in `text`; FALSE when it has none. */
static gboolean last_number(const char *text, double *out_number)
{
	g_auto(GStrv) words = g_strsplit_set(text, " \t\r\n", -1);
	for (guint i = g_strv_length(words); i-- > 0;) {
		char *end = NULL;
		double number = *words[i] ? g_ascii_strtod(words[i], &end) : 0;
		if (*words[i] && *end == '\0' && isfinite(number)) {
			*out_number = number;
			return TRUE;
		}
	}
	return FALSE;
}

static void take_score(Candidate *candidate, json_t *answer)
{
	g_autofree char *text = vial_api_text(answer, "stdout");
	gint64 exit_code = vial_api_integer(answer, "exit_code", -1);
	candidate->is_viable = exit_code == 0 && last_number(text, &candidate->score);
	if (exit_code != 0)
		candidate->problem = g_strdup_printf("its score ended with status %" G_GINT64_FORMAT, exit_code);
	else if (!candidate->is_viable)
		candidate->problem = g_strdup("its score printed no number");
}

static Candidate *find_winner(Exploration *exploration)
{
	Candidate *winner = NULL;
	for (guint i = 0; i < exploration->count; i++) {
		Candidate *candidate = &exploration->candidates[i];
		if (!candidate->is_viable)
			continue;
		double lead = winner ? candidate->score - winner->score : 0;
		if (prefers_least)
			lead = -lead;
		if (!winner || lead > 0 || (lead == 0 && candidate->duration_ms < winner->duration_ms))
			winner = candidate;
	}
	return winner;
}

/* Whatever promote has removed already is no error to remove again. */
static void remove_losers(Exploration *exploration, const Candidate *winner)
{
	guint count = 0;
	g_auto(GStrv) paths = g_new0(char *, exploration->count + 1);
	for (guint i = 0; i < exploration->count; i++) {
		const Candidate *candidate = &exploration->candidates[i];
		if (candidate->id && candidate != winner)
			paths[count++] = vial_api_path("/sandboxes/%s", candidate->id);
	}
	g_autofree json_t **answers = g_new0(json_t *, count + 1);
	g_autofree GError **errors = g_new0(GError *, count + 1);
	vial_interrupt_clear();
	vial_api_call_many(exploration->cli, "DELETE", paths, count, NULL, VIAL_API_PARALLEL, answers, errors);
	for (guint i = 0; i < count; i++) {
		if (errors[i] && !g_error_matches(errors[i], VIAL_HTTP_ERROR, 404))
			vial_output_note(exploration->cli, "a fork could not be removed: %s", errors[i]->message);
		g_clear_error(&errors[i]);
		json_decref(answers[i]);
	}
}

static gboolean promote(Exploration *exploration, const Candidate *winner, GError **error)
{
	g_autofree char *path = vial_api_path("/sandboxes/%s/promote", winner->id);
	json_t *body = json_pack("{s:b}", "cleanup_siblings", 1);
	if (*exploration->tree_id)
		json_object_set_new(body, "tree_id", json_string(exploration->tree_id));
	return vial_api_call(exploration->cli, "POST", path, body, NULL, error);
}

static void report(Exploration *exploration, const Candidate *winner)
{
	VialCli *cli = exploration->cli;
	g_autoptr(json_t) list = json_array();
	g_autoptr(VialTable) table = vial_table_new(score_line ? ">N FORK >TIME >SCORE OUTCOME COMMAND" : ">N FORK >TIME OUTCOME COMMAND");
	for (guint i = 0; i < exploration->count; i++) {
		const Candidate *candidate = &exploration->candidates[i];
		const char *outcome = candidate == winner ? "winner" : candidate->is_viable ? "ok" : candidate->problem;
		json_t *entry = json_pack("{s:s, s:s?, s:b, s:I, s:I, s:s?}", "command", candidate->line, "sandbox_id", candidate->id, "ok",
		                          candidate->is_viable, "exit_code", (json_int_t)candidate->exit_code, "duration_ms",
		                          (json_int_t)candidate->duration_ms, "error", candidate->problem);
		if (score_line && candidate->is_viable)
			json_object_set_new(entry, "score", json_real(candidate->score));
		if (candidate->answer)
			json_object_set(entry, "answer", candidate->answer);
		json_array_append_new(list, entry);
		vial_table_add_take(table, g_strdup_printf("%u", i + 1));
		vial_table_add(table, candidate->id);
		vial_table_add_take(table, g_strdup_printf("%.1f s", (double)candidate->duration_ms / 1000));
		if (score_line)
			vial_table_add_take(table, candidate->is_viable ? g_strdup_printf("%g", candidate->score) : NULL);
		vial_table_add(table, outcome);
		vial_table_style(table, candidate == winner ? "1;32" : candidate->is_viable ? NULL : "31");
		vial_table_add(table, candidate->line);
	}
	if (cli->is_json) {
		g_autoptr(json_t) answer =
			json_pack("{s:s?, s:s, s:O}", "winner", winner ? winner->id : NULL, "tree_id", exploration->tree_id, "candidates", list);
		vial_output_json(answer);
		return;
	}
	if (!cli->is_quiet) {
		g_autofree char *text = vial_table_render(table, 0, cli->has_color_err);
		fputs(text, stderr);
	}
	if (winner)
		puts(winner->id);
}

static int conclude(Exploration *exploration, Candidate *winner)
{
	GError *error = NULL;
	report(exploration, winner);
	if (keeps_all)
		return winner ? VIAL_EXIT_OK : VIAL_EXIT_ERROR;
	if (winner && !promote(exploration, winner, &error)) {
		remove_losers(exploration, winner);
		return vial_output_fail(exploration->cli, error);
	}
	remove_losers(exploration, winner);
	if (winner)
		return VIAL_EXIT_OK;
	return vial_output_fail(exploration->cli, g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "no candidate succeeded"));
}

int vial_explore_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	guint count = fork_count ? (guint)MIN(fork_count, FORKS_MAX + 1) : (guint)argc;
	if (count > FORKS_MAX || (int)count < argc)
		return vial_output_usage(cli, "--count is at least the number of commands and at most %d", FORKS_MAX);
	g_autoptr(VialEphemeral) parent = vial_ephemeral_new(cli, sandbox_given, &error);
	if (!parent)
		return vial_output_fail(cli, error);
	g_auto(Exploration) exploration = { .cli = cli, .count = count, .candidates = g_new0(Candidate, count) };
	for (guint i = 0; i < count; i++)
		exploration.candidates[i].line = argv[i % (guint)argc];
	const char *id = vial_ephemeral_id(parent);
	gboolean is_ok = run_setup(cli, id, &error) && fork_children(&exploration, id, &error) &&
	                 run_in_forks(&exploration, NULL, FALSE, take_outcome, &error) &&
	                 (!score_line || run_in_forks(&exploration, score_line, TRUE, take_score, &error));
	if (!is_ok) {
		remove_losers(&exploration, NULL);
		return vial_output_fail(cli, error);
	}
	return conclude(&exploration, find_winner(&exploration));
}
