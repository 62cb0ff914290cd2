/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record as it grows. An answer of viald has everything that was recorded before the question, and numbers only grow, so asking again for what is
 * newer than the last number seen neither misses nor repeats a record, also when viald was restarted in between.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands/audit.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/times.h"

enum { USUAL_COUNT = 20, PAGE = 200, WAIT_MS = 500, AWAY_MS = 1000 };

static gboolean does_follow;

const VialOption vial_audit_tail_options[] = {
	{ 'f', "follow", VIAL_OPTION_FLAG, &does_follow, NULL, "go on with what comes, until Ctrl-C", NULL },
	VIAL_AUDIT_FILTER_OPTIONS,
	VIAL_AUDIT_SEARCH_OPTIONS,
	VIAL_AUDIT_END,
};

typedef struct {
	VialCli *cli;
	char *query;
	char *chain; /* of the last record seen; NULL: none yet */
	gint64 last; /* its number */
} Tail;

/* --- lines --- */

/* Returns the cells it takes. */
static int append_cell(GString *line, const char *text, int width, const char *style, const VialCli *cli)
{
	g_autofree char *clean = vial_sanitize_line(text && *text ? text : "-");
	int used = vial_text_width(clean);
	g_string_append_printf(line, "%s%s%s%*s  ", style ? vial_output_style(cli, style) : "", clean, style ? vial_output_style(cli, "0") : "",
	                       MAX(width - used, 0), "");
	return MAX(width, used) + 2;
}

/* Columns of fixed widths: what is to come is not known yet. What does not fit makes its column wider. */
static char *format_line(const VialCli *cli, const json_t *record)
{
	GString *line = g_string_new(NULL);
	const char *outcome = vial_api_string(record, "outcome");
	g_autofree char *seq = vial_api_text(record, "seq"), *time = vial_time_local(vial_api_string(record, "time"));
	g_autofree char *who = vial_audit_who(record), *what = vial_audit_what(record), *clean = vial_sanitize_line(what);
	g_autofree char *number = g_strdup_printf("%6s", seq);
	int rows, columns, used = append_cell(line, number, 6, NULL, cli);
	used += append_cell(line, time, 19, "2", cli);
	used += append_cell(line, who, 10, NULL, cli);
	used += append_cell(line, vial_api_string(record, "project"), 8, NULL, cli);
	used += append_cell(line, vial_api_string(record, "action"), 14, NULL, cli);
	used += append_cell(line, outcome, 7, vial_audit_outcome_style(outcome), cli);
	used += append_cell(line, vial_api_string(record, "sandbox"), 20, NULL, cli);
	gboolean is_cut = isatty(STDOUT_FILENO) && vial_terminal_size(&rows, &columns);
	g_autofree char *rest = is_cut ? vial_text_cut(clean, MAX(columns - used, 16)) : g_strdup(clean);
	g_string_append(line, rest);
	return g_strchomp(g_string_free(line, FALSE));
}

static char *format(const VialCli *cli, const json_t *record)
{
	if (cli->is_json)
		return vial_output_json_text(record, JSON_COMPACT);
	return cli->is_quiet ? vial_api_line(record, "seq") : format_line(cli, record);
}

/* Oldest first; `lines` are newest first. */
static gboolean print_lines(const GPtrArray *lines, GError **error)
{
	for (guint i = lines->len; i > 0; i--) {
		const char *line = lines->pdata[i - 1];
		if (!vial_output_write_all(STDOUT_FILENO, line, strlen(line), error) || !vial_output_write_all(STDOUT_FILENO, "\n", 1, error))
			return FALSE;
	}
	return TRUE;
}

/* --- asking --- */

/* A record that is not behind the last one: another data directory, or one that was brought back from a backup. Begin with it. */
static void notice_other_chain(Tail *tail, const json_t *newest)
{
	const char *chain = vial_api_string(newest, "chain");
	if (chain && tail->chain && strcmp(chain, tail->chain) != 0) {
		vial_output_note(tail->cli, "this is another record than before: it begins anew");
		tail->last = 0;
	}
	if (chain) {
		g_free(tail->chain);
		tail->chain = g_strdup(chain);
	}
}

/* Lines of what is newer than the last record seen, at most `count` of them (-1: all), newest first. NULL with *error, and nothing is noted. */
static GPtrArray *fetch(Tail *tail, gint64 count, GError **error)
{
	g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func(g_free);
	gint64 cursor = 0, newest = 0;
	for (gboolean is_over = FALSE; !is_over && (count < 0 || (gint64)lines->len < count);) {
		g_autoptr(json_t) page = vial_audit_page(tail->cli, tail->query, count >= 0 ? count - lines->len : PAGE, cursor, error);
		if (!page)
			return NULL;
		const json_t *items = json_object_get(page, "items");
		if (cursor == 0)
			notice_other_chain(tail, json_array_get(items, 0));
		for (gsize i = 0; i < json_array_size(items) && !is_over; i++) {
			const json_t *record = json_array_get(items, i);
			gint64 seq = vial_api_integer(record, "seq", 0);
			newest = MAX(newest, seq);
			is_over = seq <= tail->last;
			if (!is_over)
				g_ptr_array_add(lines, format(tail->cli, record));
		}
		gint64 next = vial_api_integer(page, "next", 0);
		is_over |= next <= 0 || (cursor > 0 && next >= cursor);
		cursor = next;
	}
	tail->last = MAX(tail->last, newest);
	return g_steal_pointer(&lines);
}

/* viald is being restarted, or a proxy in front of it says so. */
static gboolean is_passing(const GError *error)
{
	return error->domain == VIAL_HTTP_ERROR && (error->code == VIAL_HTTP_UNREACHABLE || error->code == VIAL_HTTP_FAILED || error->code == 429 ||
	                                            (error->code >= 502 && error->code <= 504));
}

/* FALSE with *error when it is time to go: Ctrl-C, or the reader of our output has left. */
static gboolean pause_a_while(int milliseconds, GError **error)
{
	struct pollfd waits[] = { { .fd = vial_interrupt_fd(), .events = POLLIN }, { .fd = STDOUT_FILENO } };
	if (!vial_interrupt_pending())
		poll(waits, G_N_ELEMENTS(waits), milliseconds);
	if (vial_interrupt_pending())
		g_set_error_literal(error, VIAL_HTTP_ERROR, VIAL_HTTP_INTERRUPTED, "interrupted");
	else if (waits[1].revents & (POLLERR | POLLHUP | POLLNVAL))
		g_set_error_literal(error, VIAL_HTTP_ERROR, VIAL_HTTP_PIPE, "the output's reader left");
	else
		return TRUE;
	return FALSE;
}

static gboolean follow(Tail *tail, GError **error)
{
	gboolean is_away = FALSE;
	while (pause_a_while(is_away ? AWAY_MS : WAIT_MS, error)) {
		g_autoptr(GError) problem = NULL;
		g_autoptr(GPtrArray) lines = fetch(tail, -1, &problem);
		if (lines && is_away)
			vial_output_note(tail->cli, "viald answers again");
		if (lines && !print_lines(lines, error))
			return FALSE;
		if (!lines && !is_passing(problem)) {
			g_propagate_error(error, g_steal_pointer(&problem));
			return FALSE;
		}
		if (!lines && !is_away)
			vial_output_note(tail->cli, "%s; waiting for it", problem->message);
		is_away = !lines;
	}
	return FALSE;
}

int vial_audit_tail_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	gint64 count = vial_audit_count >= 0 ? vial_audit_count : USUAL_COUNT;
	if (does_follow && vial_audit_filters.to)
		return vial_output_usage(cli, "--follow and --to exclude each other: nothing new comes before a time that has passed");
	Tail tail = { .cli = cli, .query = vial_audit_query(cli, &error) };
	if (!tail.query)
		return vial_audit_fail(cli, error);
	/* With -n 0 too the newest is asked for: what comes is what comes behind it. */
	g_autoptr(GPtrArray) lines = fetch(&tail, MAX(count, 1), &error);
	if (lines && count == 0)
		g_ptr_array_set_size(lines, 0);
	gboolean is_ok = lines && print_lines(lines, &error) && (!does_follow || follow(&tail, &error));
	g_free(tail.query);
	g_free(tail.chain);
	return is_ok ? VIAL_EXIT_OK : vial_audit_fail(cli, error);
}
