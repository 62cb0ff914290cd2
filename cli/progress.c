/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/table.h"
#include "cli/terminal.h"

enum {
	REDRAW_US = 100 * 1000,
	PATIENCE_US = 300 * 1000, /* what is over before that needs no bar */
	BAR_CELLS = 24,
	NAME_CELLS = 28,
};

struct VialProgress {
	gboolean is_shown; /* may a bar be drawn at all */
	gboolean is_drawn; /* is one on the screen now */
	char *name;
	gint64 done, size, total;
	gint64 started_us, item_started_us, drawn_us;
};

VialProgress *vial_progress_new(const VialCli *cli)
{
	VialProgress *progress = g_new0(VialProgress, 1);
	progress->is_shown = isatty(STDERR_FILENO) && !cli->is_quiet && !cli->is_json;
	progress->started_us = g_get_monotonic_time();
	return progress;
}

void vial_progress_free(VialProgress *progress)
{
	if (!progress)
		return;
	vial_progress_hide(progress);
	g_free(progress->name);
	g_free(progress);
}

void vial_progress_begin(VialProgress *progress, const char *name, gint64 size_bytes)
{
	g_free(progress->name);
	progress->name = vial_sanitize_line(name);
	progress->done = 0;
	progress->size = size_bytes;
	progress->item_started_us = g_get_monotonic_time();
}

void vial_progress_size(VialProgress *progress, gint64 size_bytes)
{
	progress->size = size_bytes;
}

static void append_bar(GString *line, double share)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	int filled = (int)(share * BAR_CELLS * 8);
	g_string_append_c(line, ' ');
	for (int i = 0; i < filled / 8; i++)
		g_string_append(line, "█");
	g_string_append(line, eighths[filled % 8]);
	for (int i = filled / 8 + (filled % 8 ? 1 : 0); i < BAR_CELLS; i++)
		g_string_append(line, "░");
	g_string_append_printf(line, " %3d%%", (int)(share * 100));
}

static void append_name(GString *line, const char *name)
{
	glong length = g_utf8_strlen(name, -1);
	if (length > NAME_CELLS) { /* the end of a path tells more than its beginning */
		g_string_append(line, "…");
		name = g_utf8_offset_to_pointer(name, length - NAME_CELLS + 1);
	}
	g_string_append(line, name);
}

static void draw(VialProgress *progress, gint64 now_us)
{
	double seconds = MAX((double)(now_us - progress->item_started_us) / 1e6, 1e-3);
	double rate = (double)progress->done / seconds;
	g_autofree char *done = vial_output_bytes(progress->done);
	g_autofree char *speed = vial_output_bytes((gint64)rate);
	GString *line = g_string_new("\r\033[K");
	append_name(line, progress->name);
	if (progress->size > 0)
		append_bar(line, CLAMP((double)progress->done / (double)progress->size, 0.0, 1.0));
	g_string_append_printf(line, "  %s  %s/s", done, speed);
	if (progress->size > progress->done && rate > 0) {
		g_autofree char *left = vial_output_duration((gint64)((double)(progress->size - progress->done) / rate) + 1);
		g_string_append_printf(line, "  %s left", left);
	}
	int rows = 0, columns = 80;
	vial_terminal_size(&rows, &columns);
	if (vial_text_width(line->str + 4) >= columns) { /* a wrapped line cannot be erased: say less */
		g_string_assign(line, "\r\033[K");
		g_string_append_printf(line, "%s  %s/s", done, speed);
	}
	fputs(line->str, stderr);
	fflush(stderr);
	g_string_free(line, TRUE);
	progress->is_drawn = TRUE;
	progress->drawn_us = now_us;
}

void vial_progress_add(VialProgress *progress, gsize bytes)
{
	progress->done += (gint64)bytes;
	progress->total += (gint64)bytes;
	if (!progress->is_shown)
		return;
	gint64 now_us = g_get_monotonic_time();
	if (now_us - progress->started_us > PATIENCE_US && now_us - progress->drawn_us > REDRAW_US)
		draw(progress, now_us);
}

void vial_progress_hide(VialProgress *progress)
{
	if (!progress->is_drawn)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	progress->is_drawn = FALSE;
}

gint64 vial_progress_total(const VialProgress *progress)
{
	return progress->total;
}

double vial_progress_seconds(const VialProgress *progress)
{
	return (double)(g_get_monotonic_time() - progress->started_us) / 1e6;
}
