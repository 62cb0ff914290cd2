/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live table. CPU is what was used between two looks; so even --once looks twice. Sandboxes that do not run are listed but
 * not asked: a request would wake them.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/status.h"
#include "cli/table.h"
#include "cli/terminal.h"

enum { FIRST_LOOK_MS = 500 };

static gboolean is_once;
static gint64 interval_seconds = 2;

static const VialOption options[] = {
	{ '1', "once", VIAL_OPTION_FLAG, &is_once, NULL, "print one table and end", NULL },
	{ 'd', "delay", VIAL_OPTION_DURATION, &interval_seconds, "TIME", "between two looks; 2s if not given", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_top_syntax = {
	.arguments = "[OPTION...]",
	.description = "q or Ctrl-C ends it.",
	.options = options,
};

typedef struct {
	json_t *sandbox, *metrics;
	double cpu_percent; /* -1: unknown */
} Row;

typedef struct {
	double cpu_ms;
	gint64 at_us;
} Sample;

static void row_clear(gpointer data)
{
	Row *row = data;
	json_decref(row->sandbox);
	json_decref(row->metrics);
}

static double cpu_since(GHashTable *samples, const char *id, const json_t *metrics)
{
	const json_t *value = json_object_get(metrics, "cpu_ms");
	if (!json_is_number(value))
		return -1;
	Sample *now = g_new0(Sample, 1), *before = g_hash_table_lookup(samples, id);
	now->cpu_ms = json_number_value(value);
	now->at_us = g_get_monotonic_time();
	double percent = -1;
	if (before && now->at_us > before->at_us && now->cpu_ms >= before->cpu_ms)
		percent = (now->cpu_ms - before->cpu_ms) * 1000 / (double)(now->at_us - before->at_us) * 100;
	g_hash_table_replace(samples, g_strdup(id), now);
	return percent;
}

static int compare_rows(gconstpointer a, gconstpointer b)
{
	double left = ((const Row *)a)->cpu_percent, right = ((const Row *)b)->cpu_percent;
	if (left != right)
		return left < right ? 1 : -1;
	return g_strcmp0(vial_api_string(((const Row *)a)->sandbox, "id"), vial_api_string(((const Row *)b)->sandbox, "id"));
}

static GArray *look(VialCli *cli, GHashTable *samples, GError **error)
{
	g_autoptr(json_t) sandboxes = vial_api_sandboxes(cli, "", error);
	if (!sandboxes)
		return NULL;
	GArray *rows = g_array_new(FALSE, TRUE, sizeof(Row));
	g_array_set_clear_func(rows, row_clear);
	g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GArray) asked = g_array_new(FALSE, FALSE, sizeof(guint));
	for (gsize i = 0; i < json_array_size(sandboxes); i++) {
		Row row = { .sandbox = json_incref(json_array_get(sandboxes, i)), .cpu_percent = -1 };
		const char *id = vial_api_string(row.sandbox, "id");
		guint index = rows->len;
		g_array_append_val(rows, row);
		if (!id || g_strcmp0(vial_api_string(row.sandbox, "status"), "running") != 0)
			continue;
		g_ptr_array_add(paths, vial_api_path("/sandboxes/%s/metrics", id));
		g_array_append_val(asked, index);
	}
	g_autofree json_t **answers = g_new0(json_t *, paths->len + 1);
	g_autofree GError **errors = g_new0(GError *, paths->len + 1);
	vial_api_call_many(cli, "GET", (char **)paths->pdata, paths->len, NULL, VIAL_API_PARALLEL, answers, errors);
	for (guint i = 0; i < paths->len; i++) {
		Row *row = &g_array_index(rows, Row, g_array_index(asked, guint, i));
		g_clear_error(&errors[i]); /* it went away in between: the next look will not list it */
		row->metrics = answers[i];
		row->cpu_percent = cpu_since(samples, vial_api_string(row->sandbox, "id"), row->metrics);
	}
	g_array_sort(rows, compare_rows);
	return rows;
}

static char *share(const json_t *metrics, const char *used_name, const char *limit_name)
{
	gint64 used = vial_api_integer(metrics, used_name, -1), limit = vial_api_integer(metrics, limit_name, -1);
	if (used < 0)
		return NULL;
	g_autofree char *first = vial_output_bytes(used * 1024);
	if (limit <= 0)
		return g_steal_pointer(&first);
	g_autofree char *second = vial_output_bytes(limit * 1024);
	return g_strdup_printf("%s / %s", first, second);
}

static char *render(VialCli *cli, GArray *rows, int width)
{
	g_autoptr(VialTable) table = vial_table_new("ID TEMPLATE STATUS >CPU% >MEMORY >DISK >PROCESSES >AGE METADATA");
	for (guint i = 0; i < rows->len; i++) {
		const Row *row = &g_array_index(rows, Row, i);
		const char *status = vial_api_string(row->sandbox, "status");
		vial_table_add(table, vial_api_string(row->sandbox, "id"));
		vial_table_add(table, vial_api_string(row->sandbox, "template"));
		vial_table_add(table, status);
		vial_table_style(table, vial_status_style(status));
		vial_table_add_take(table, row->cpu_percent >= 0 ? g_strdup_printf("%.1f", row->cpu_percent) : NULL);
		vial_table_add_take(table, share(row->metrics, "memory_used_kb", "memory_limit_kb"));
		vial_table_add_take(table, share(row->metrics, "disk_used_kb", "disk_total_kb"));
		vial_table_add_take(table, vial_api_text(row->metrics, "processes"));
		vial_table_add_take(table, vial_output_age(vial_api_string(row->sandbox, "created_at")));
		vial_table_add_take(table, vial_api_pairs(json_object_get(row->sandbox, "metadata")));
	}
	return vial_table_render(table, width, cli->has_color_out);
}

static void print_json(GArray *rows)
{
	g_autoptr(json_t) list = json_array();
	for (guint i = 0; i < rows->len; i++) {
		Row *row = &g_array_index(rows, Row, i);
		json_t *entry = json_deep_copy(row->sandbox);
		json_object_set(entry, "metrics", row->metrics ? row->metrics : json_null());
		json_object_set_new(entry, "cpu_percent", row->cpu_percent >= 0 ? json_real(row->cpu_percent) : json_null());
		json_array_append_new(list, entry);
	}
	vial_output_json(list);
}

/* The upper part of the table that fits, on a screen of its own. */
static void draw(VialCli *cli, GArray *rows)
{
	int height = 24, width = 80;
	vial_terminal_size(&height, &width);
	g_autofree char *text = render(cli, rows, width);
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
	GString *screen = g_string_new("\033[H");
	for (int i = 0; lines[i] && i < height - 1; i++)
		g_string_append_printf(screen, "%s\033[K\r\n", lines[i]);
	g_string_append(screen, "\033[J");
	vial_output_write_all(STDOUT_FILENO, screen->str, screen->len, NULL);
	g_string_free(screen, TRUE);
}

/* Until the time is over, the window changed, or the user wants to leave (FALSE). */
static gboolean wait_or_leave(int milliseconds)
{
	struct pollfd fds[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = vial_interrupt_fd(), .events = POLLIN },
		{ .fd = vial_terminal_resize_fd(), .events = POLLIN },
	};
	poll(fds, G_N_ELEMENTS(fds), milliseconds);
	vial_terminal_take_resize();
	char key = 0;
	if ((fds[0].revents & POLLIN) && read(STDIN_FILENO, &key, 1) == 1 && (key == 'q' || key == 'Q' || key == 3 || key == 4))
		return FALSE;
	return !vial_interrupt_pending() && !(fds[0].revents & (POLLHUP | POLLERR));
}

static int watch(VialCli *cli, GHashTable *samples)
{
	GError *error = NULL;
	gboolean is_first = TRUE, goes_on = vial_terminal_raw();
	fputs("\033[?1049h\033[?25l", stdout);
	fflush(stdout);
	while (goes_on) {
		GArray *rows = look(cli, samples, &error);
		if (!rows)
			break;
		draw(cli, rows);
		g_array_unref(rows);
		goes_on = wait_or_leave(is_first ? FIRST_LOOK_MS : (int)CLAMP(interval_seconds, 1, 3600) * 1000);
		is_first = FALSE;
	}
	vial_terminal_restore();
	fputs("\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	if (error && !g_error_matches(error, VIAL_HTTP_ERROR, VIAL_HTTP_INTERRUPTED))
		return vial_output_fail(cli, error);
	g_clear_error(&error);
	return VIAL_EXIT_OK;
}

int vial_top_run(VialCli *cli, int argc, char **argv)
{
	g_autoptr(GHashTable) samples = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	if (!is_once && !cli->is_json && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO))
		return watch(cli, samples);
	GError *error = NULL;
	g_autoptr(GArray) first = look(cli, samples, &error);
	if (first && first->len > 0)
		vial_interrupt_sleep_ms(FIRST_LOOK_MS);
	g_autoptr(GArray) rows = first ? look(cli, samples, &error) : NULL;
	if (!rows)
		return vial_output_fail(cli, error);
	if (cli->is_json) {
		print_json(rows);
		return VIAL_EXIT_OK;
	}
	g_autofree char *text = render(cli, rows, 0);
	fputs(text, stdout);
	return VIAL_EXIT_OK;
}
