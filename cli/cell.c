/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cell.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/stream.h"
#include "cli/transfer.h"

#define WORKSPACE "/workspace/"

/* The forms of a result that are worth a file. */
static const struct {
	const char *mime, *suffix;
	gboolean is_base64;
} figure_types[] = {
	{ "image/png", "png", TRUE },   { "image/jpeg", "jpg", TRUE },     { "image/gif", "gif", TRUE },
	{ "image/webp", "webp", TRUE }, { "image/svg+xml", "svg", FALSE }, { "application/pdf", "pdf", TRUE },
};

const char *vial_cell_language(const char *name)
{
	static const char *const names[][2] = {
		{ "python", "python" },  { "python3", "python" }, { "py", "python" },       { "javascript", "javascript" }, { "js", "javascript" },
		{ "mjs", "javascript" }, { "cjs", "javascript" }, { "node", "javascript" }, { "typescript", "javascript" }, { "ts", "javascript" },
		{ "mts", "javascript" }, /* its kernel strips types */
		{ "bash", "bash" },      { "sh", "bash" },        { "shell", "bash" },
	};
	for (gsize i = 0; i < G_N_ELEMENTS(names); i++)
		if (g_ascii_strcasecmp(name, names[i][0]) == 0)
			return names[i][1];
	return NULL;
}

static gboolean save(VialCell *cell, const char *name, const void *bytes, gsize size, GError **error)
{
	g_autofree char *path = g_build_filename(cell->out_dir, name, NULL);
	g_autoptr(GError) problem = NULL;
	if (g_mkdir_with_parents(cell->out_dir, 0777) != 0 || !g_file_set_contents(path, bytes, (gssize)size, &problem)) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s cannot be written: %s", path,
		            problem ? problem->message : g_strerror(errno));
		return FALSE;
	}
	vial_output_note(cell->cli, "saved %s", path);
	return TRUE;
}

/* *out_count: how many forms of a figure the bundle had. */
static gboolean take_figures(VialCell *cell, const json_t *bundle, int *out_count, GError **error)
{
	*out_count = 0;
	for (gsize i = 0; i < G_N_ELEMENTS(figure_types); i++) {
		const char *value = vial_api_string(bundle, figure_types[i].mime);
		if (!value)
			continue;
		if ((*out_count)++ == 0)
			cell->figures++;
		gsize size = strlen(value);
		g_autofree guchar *decoded = figure_types[i].is_base64 ? g_base64_decode(value, &size) : NULL;
		g_autofree char *name = g_strdup_printf("figure-%d.%s", cell->figures, figure_types[i].suffix);
		if (!cell->out_dir) {
			g_autofree char *shown = vial_output_bytes((gint64)size);
			vial_output_note(cell->cli, "figure %d: %s, %s (--out DIR saves it)", cell->figures, figure_types[i].mime, shown);
			return TRUE;
		}
		if (!save(cell, name, decoded ? (const void *)decoded : value, size, error))
			return FALSE;
	}
	return TRUE;
}

/* An interactive chart has no picture; its page is kept. A table's HTML is not: its text was printed. */
static gboolean take_page(VialCell *cell, const json_t *bundle, GError **error)
{
	const char *html = vial_api_string(bundle, "text/html"), *key;
	json_t *value;
	gboolean is_chart = !vial_api_string(bundle, "text/plain");
	json_object_foreach ((json_t *)bundle, key, value)
		is_chart |= g_str_has_prefix(key, "application/vnd.plotly") || g_str_has_prefix(key, "application/vnd.vega");
	if (!html || !is_chart)
		return TRUE;
	g_autofree char *name = g_strdup_printf("result-%d.html", ++cell->results);
	if (cell->out_dir)
		return save(cell, name, html, strlen(html), error);
	vial_output_note(cell->cli, "an HTML result (--out DIR saves it)");
	return TRUE;
}

static gboolean on_result(VialCell *cell, json_t *data, GError **error)
{
	const json_t *nested = json_object_get(data, "data");
	const json_t *bundle = json_is_object(nested) ? nested : data;
	const json_t *text = json_object_get(bundle, "text/plain");
	int figures = 0;
	if (!take_figures(cell, bundle, &figures, error))
		return FALSE;
	if (figures == 0 && !take_page(cell, bundle, error))
		return FALSE;
	if (!json_is_string(text) || figures > 0) /* a figure's text is "<Figure size 640x480 with 1 Axes>" */
		return TRUE;
	if (cell->out.last != '\n' && !vial_sink_write(&cell->out, "\n", 1, error))
		return FALSE;
	return vial_sink_write(&cell->out, json_string_value(text), json_string_length(text), error) && vial_sink_write(&cell->out, "\n", 1, error);
}

static gboolean on_error(VialCell *cell, json_t *data, GError **error)
{
	const char *text = vial_api_string(data, "traceback");
	cell->has_error = TRUE;
	if (cell->is_program && g_strcmp0(vial_api_string(data, "error_name"), "SystemExit") == 0)
		return TRUE;
	g_autofree char *joined = NULL;
	if (!text && !(text = vial_api_string(data, "error"))) {
		const char *name = vial_api_string(data, "name"), *value = vial_api_string(data, "value");
		text = joined = g_strdup_printf("%s: %s", name ? name : "error", value ? value : "");
	}
	if (cell->err.last != '\n' && !vial_sink_write(&cell->err, "\n", 1, error))
		return FALSE;
	gsize size = strlen(text);
	return vial_sink_write(&cell->err, text, size, error) && (size == 0 || text[size - 1] == '\n' || vial_sink_write(&cell->err, "\n", 1, error));
}

/* A file that the run made: its place below /workspace is kept below --out. */
static gboolean fetch_file(VialCell *cell, VialProgress *progress, int root_fd, const json_t *file, GError **error)
{
	const char *path = vial_api_string(file, "path");
	if (!path || json_is_true(json_object_get(file, "deleted")))
		return TRUE;
	const char *relative = g_str_has_prefix(path, WORKSPACE) ? path + strlen(WORKSPACE) : path;
	while (*relative == '/')
		relative++;
	g_autofree char *clean = vial_sanitize_line(relative);
	g_autofree char *directory = g_path_get_dirname(relative);
	g_autofree char *name = g_path_get_basename(relative);
	if (!vial_transfer_is_safe_name(name)) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "the sandbox named a file \"%s\", which is not copied", clean);
		return FALSE;
	}
	int dir_fd = vial_transfer_open_below(root_fd, strcmp(directory, ".") == 0 ? "" : directory, error);
	if (dir_fd < 0)
		return FALSE;
	VialTransfer transfer = { .cli = cell->cli, .progress = progress, .sandbox_id = cell->sandbox_id };
	gboolean is_ok = vial_transfer_download_file(&transfer, path, vial_api_integer(file, "size", -1), dir_fd, name, -1, error);
	close(dir_fd);
	if (is_ok) {
		vial_progress_hide(progress);
		vial_output_note(cell->cli, "saved %s/%s", cell->out_dir, clean);
	}
	return is_ok;
}

static gboolean fetch_files(VialCell *cell, const json_t *files, GError **error)
{
	if (!cell->out_dir || json_array_size(files) == 0)
		return TRUE;
	g_mkdir_with_parents(cell->out_dir, 0777);
	int root_fd = g_open(cell->out_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (root_fd < 0) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s cannot be opened: %s", cell->out_dir, g_strerror(errno));
		return FALSE;
	}
	g_autoptr(VialProgress) progress = vial_progress_new(cell->cli);
	gboolean is_ok = TRUE;
	for (gsize i = 0; is_ok && i < json_array_size(files); i++)
		is_ok = fetch_file(cell, progress, root_fd, json_array_get(files, i), error);
	close(root_fd);
	return is_ok;
}

typedef struct {
	VialCell *cell;
	json_t *files;
} Run;

static gboolean on_end(Run *run, json_t *data)
{
	VialCell *cell = run->cell;
	cell->has_ended = TRUE;
	cell->has_timed_out = json_is_true(json_object_get(data, "timed_out"));
	cell->has_restarted = json_is_true(json_object_get(data, "kernel_restarted"));
	cell->exit_code = (int)vial_api_integer(data, "exit_code", 0);
	cell->has_error |= g_strcmp0(vial_api_string(data, "status"), "error") == 0;
	run->files = json_incref(json_object_get(data, "files"));
	if (json_is_true(json_object_get(data, "truncated"))) {
		g_autofree char *where = vial_api_text(data, "full_output");
		vial_output_note(cell->cli, "the output was cut%s%s", *where ? "; all of it is in the sandbox at " : "", where);
	}
	return TRUE;
}

/* An agent's call says first where it is. */
static void on_session(VialCell *cell, const json_t *data)
{
	g_free(cell->found_id);
	cell->found_id = vial_api_text(data, "sandbox_id");
	cell->sandbox_id = cell->found_id;
	vial_stream_note_session(cell->cli, data);
}

static gboolean on_event(const char *event, json_t *data, gpointer user, GError **error)
{
	Run *run = user;
	if (strcmp(event, "stdout") == 0)
		return vial_stream_write_chunk(&run->cell->out, data, error);
	if (strcmp(event, "stderr") == 0)
		return vial_stream_write_chunk(&run->cell->err, data, error);
	if (strcmp(event, "result") == 0)
		return on_result(run->cell, data, error);
	if (strcmp(event, "error") == 0)
		return on_error(run->cell, data, error);
	if (strcmp(event, "end") == 0)
		return on_end(run, data);
	if (strcmp(event, "session") == 0)
		on_session(run->cell, data);
	return TRUE;
}

gboolean vial_cell_run(VialCell *cell, const char *path, json_t *body, GError **error)
{
	Run run = { .cell = cell };
	cell->has_ended = cell->has_error = cell->has_timed_out = cell->has_restarted = FALSE;
	cell->exit_code = 0;
	vial_sink_init(&cell->out, cell->cli, STDOUT_FILENO, cell->is_raw);
	vial_sink_init(&cell->err, cell->cli, STDERR_FILENO, cell->is_raw);
	gboolean is_ok = vial_stream_perform(cell->cli, "POST", path, body, on_event, &run, error);
	if (is_ok && !cell->has_ended && !cell->has_error) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "the answer of %s ended before the code did", cell->cli->url);
		is_ok = FALSE;
	}
	vial_sink_end(&cell->out);
	vial_sink_end(&cell->err);
	is_ok = is_ok && fetch_files(cell, run.files, error);
	json_decref(run.files);
	if (is_ok && cell->has_timed_out)
		vial_output_note(cell->cli, "the time limit was reached");
	if (is_ok && cell->has_restarted && !cell->is_program)
		vial_output_note(cell->cli, "the kernel was restarted: its variables are gone");
	return is_ok;
}

gboolean vial_cell_save(VialCell *cell, const json_t *execution, GError **error)
{
	const json_t *results = json_object_get(execution, "results");
	for (gsize i = 0; i < json_array_size(results); i++) {
		int figures = 0;
		const json_t *bundle = json_array_get(results, i);
		if (!take_figures(cell, bundle, &figures, error) || (figures == 0 && !take_page(cell, bundle, error)))
			return FALSE;
	}
	return fetch_files(cell, json_object_get(execution, "files"), error);
}

int vial_cell_exit_status(const VialCell *cell)
{
	if (cell->has_timed_out)
		return VIAL_EXIT_TIMEOUT;
	if (cell->has_ended)
		return CLAMP(cell->exit_code, 0, 255);
	return cell->has_error ? VIAL_EXIT_ERROR : VIAL_EXIT_OK;
}
