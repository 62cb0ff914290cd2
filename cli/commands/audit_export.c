/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records into a file, as they come: nothing is kept in memory but the line that is just being looked at. The file appears under its name when it is
 * whole; what broke off is an error, and leaves nothing behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands/audit.h"
#include "cli/output.h"
#include "cli/progress.h"

const VialOption vial_audit_export_options[] = { VIAL_AUDIT_FILTER_OPTIONS, VIAL_AUDIT_END };

/* How the lines of an export begin (ledger/lines.h); longer than any of them. */
enum { BEGINNING = 16 };

typedef struct {
	int fd;
	VialSink *sink; /* instead of fd: our own output, if it is a terminal */
	VialProgress *progress;
	char beginning[BEGINNING]; /* of the line that is being received */
	gsize size;
	gint64 titles, shown, hidden, heads, others;
	gboolean ends_with_head, is_line_open;
} Export;

static gboolean begins(const Export *export, const char *text)
{
	return export->size >= strlen(text) && memcmp(export->beginning, text, strlen(text)) == 0;
}

static void count_line(Export *export)
{
	export->ends_with_head = begins(export, "{\"head\":");
	if (export->ends_with_head)
		export->heads++;
	else if (begins(export, "{\"record\":"))
		export->shown++;
	else if (begins(export, "{\"seq\":"))
		export->hidden++;
	else if (begins(export, "{\"vial_audit\":"))
		export->titles++;
	else
		export->others++;
	export->size = 0;
}

static void look(Export *export, const char *bytes, gsize size)
{
	while (size > 0) {
		const char *end = memchr(bytes, '\n', size);
		gsize piece = end ? (gsize)(end - bytes) : size, room = MIN(piece, BEGINNING - export->size);
		memcpy(export->beginning + export->size, bytes, room);
		export->size += room;
		export->is_line_open = !end;
		if (!end)
			return;
		count_line(export);
		bytes = end + 1;
		size -= piece + 1;
	}
}

static gboolean on_data(const void *bytes, gsize size, gpointer data, GError **error)
{
	Export *export = data;
	look(export, bytes, size);
	vial_progress_add(export->progress, size);
	return export->sink ? vial_sink_write(export->sink, bytes, size, error) : vial_output_write_all(export->fd, bytes, size, error);
}

/* It came to its end; is that the end of an export? */
static gboolean check(const Export *export, GError **error)
{
	gboolean is_empty = export->shown + export->hidden == 0;
	if (export->titles == 1 && export->others == 0 && !export->is_line_open && (is_empty || export->ends_with_head))
		return TRUE;
	g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED,
	            "the export broke off after %" G_GINT64_FORMAT " records: it does not end with a signed head", export->shown + export->hidden);
	return FALSE;
}

static gboolean receive(VialCli *cli, const char *query, Export *export, GError **error)
{
	g_autofree char *path = g_strconcat("/v1/audit/export", *query ? "?" : "", *query ? query + 1 : "", NULL);
	g_auto(VialHttpRequest)
		request = { .method = "GET", .path = path, .on_data = on_data, .data = export, .accept = "application/x-ndjson, application/json" };
	vial_progress_begin(export->progress, "records", -1);
	gboolean is_ok = vial_http_perform(cli->http, &request, error) && check(export, error);
	vial_progress_hide(export->progress);
	return is_ok;
}

static gboolean fail_file(GError **error, const char *file, int problem)
{
	g_autofree char *clean = vial_sanitize_line(file);
	g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s cannot be written: %s", clean, g_strerror(problem));
	return FALSE;
}

/* Beside it first; what people did is nobody else's business, so only the owner may read it. */
static gboolean export_to_file(VialCli *cli, const char *query, const char *file, Export *export, GError **error)
{
	g_autofree char *folder = g_path_get_dirname(file);
	g_autofree char *name = g_strdup_printf(".vial-%08x%08x.part", g_random_int(), g_random_int());
	g_autofree char *partial = g_build_filename(folder, name, NULL);
	if (g_file_test(file, G_FILE_TEST_IS_DIR))
		return fail_file(error, file, EISDIR);
	export->fd = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (export->fd < 0)
		return fail_file(error, file, errno);
	gboolean is_ok = receive(cli, query, export, error);
	if (is_ok && fsync(export->fd) != 0)
		is_ok = fail_file(error, file, errno);
	if (close(export->fd) != 0 && is_ok)
		is_ok = fail_file(error, file, errno);
	if (is_ok && rename(partial, file) != 0)
		is_ok = fail_file(error, file, errno);
	if (!is_ok)
		unlink(partial);
	return is_ok;
}

static gboolean export_to_output(VialCli *cli, const char *query, Export *export, GError **error)
{
	VialSink sink;
	vial_sink_init(&sink, cli, STDOUT_FILENO, FALSE);
	export->sink = &sink;
	gboolean is_ok = receive(cli, query, export, error);
	vial_sink_end(&sink);
	return is_ok;
}

static void report(VialCli *cli, const char *file, const Export *export)
{
	gint64 records = export->shown + export->hidden;
	if (cli->is_json && strcmp(file, "-") != 0) {
		g_autoptr(json_t) json = json_pack("{s:s, s:I, s:I, s:I}", "file", file, "records", (json_int_t)records, "shown",
		                                   (json_int_t) export->shown, "heads", (json_int_t) export->heads);
		vial_output_json(json);
		return;
	}
	if (records == 0)
		vial_output_note(cli, "no record is in it: nothing was recorded in that time");
	else
		vial_output_note(cli,
		                 "%" G_GINT64_FORMAT " records, %" G_GINT64_FORMAT " of them only as hashes, and %" G_GINT64_FORMAT
		                 " signed heads; `vial audit verify FILE --key PUBLIC_KEY` proves it",
		                 records, export->hidden, export->heads);
}

int vial_audit_export_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autofree char *query = vial_audit_query(cli, &error);
	if (!query)
		return vial_audit_fail(cli, error);
	g_autoptr(VialProgress) progress = vial_progress_new(cli);
	Export export = { .fd = -1, .progress = progress };
	gboolean is_ok =
		strcmp(argv[0], "-") == 0 ? export_to_output(cli, query, &export, &error) : export_to_file(cli, query, argv[0], &export, &error);
	if (!is_ok)
		return vial_output_fail(cli, error);
	report(cli, argv[0], &export);
	return VIAL_EXIT_OK;
}
