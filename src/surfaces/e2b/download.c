/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /files: the bytes of one file. What is below /proc only the sandbox's programs see (agent/fspath.h), so one of them reads it: as whoever
 * asks, and with no more rights than a command of theirs.
 */
#include "operations/exec.h"
#include "operations/files.h"
#include "surfaces/e2b/data.h"
#include "util/json.h"

#define PROC "/proc/"
/* Some files of /proc have no end but that of their reader's patience. */
#define PROC_TIMEOUT_SECONDS 30

typedef struct {
	gboolean is_begun;
} Download;

static void on_opened(gint64 size_bytes, gpointer data)
{
	VialExchange *exchange = data;
	Download *download = exchange->state;

	download->is_begun = TRUE;
	vial_request_stream_begin(exchange->request, 200, "application/octet-stream", size_bytes, vial_exchange_drained, exchange);
}

static gboolean on_data(GBytes *bytes, gpointer data)
{
	VialExchange *exchange = data;

	return vial_request_stream_write(exchange->request, g_bytes_ref(bytes)) > VIAL_BODY_HIGH_BYTES;
}

static void on_read(const GError *error, gpointer data)
{
	VialExchange *exchange = data;
	Download *download = exchange->state;
	g_autoptr(GError) refusal = NULL;

	if (error && !download->is_begun) {
		if (g_error_matches(error, VIAL_ERROR, VIAL_ERROR_CONFLICT)) /* it is a folder */
			vial_fail(&refusal, VIAL_ERROR_INVALID, "%s", error->message);
		return vial_e2b_exchange_fail(exchange, refusal ? refusal : error);
	}
	if (error)
		vial_request_stream_abort(exchange->request);
	else
		vial_request_stream_end(exchange->request);
	vial_exchange_end(exchange);
}

/* Below /proc */

static void on_asked(VialOperation *operation, gpointer data)
{
	((VialExchange *)data)->operation = operation;
}

static gboolean on_printed(VialOutputStream stream, GBytes *bytes, gpointer data)
{
	VialExchange *exchange = data;
	Download *download = exchange->state;

	if (stream != VIAL_OUTPUT_STDOUT)
		return FALSE;
	if (!download->is_begun)
		on_opened(-1, exchange);
	return on_data(bytes, exchange);
}

static void on_reader_ended(const VialExecEnd *end, const GError *error, gpointer data)
{
	VialExchange *exchange = data;
	Download *download = exchange->state;
	g_autoptr(GError) refusal = NULL;

	if (!error && (end->signal || end->timed_out || end->exit_code != 0))
		vial_fail(&refusal, VIAL_ERROR_NOT_FOUND, "there is no such file below /proc, or it is not for this user");
	if (!error && !refusal && !download->is_begun)
		on_opened(0, exchange);
	on_read(error ? error : refusal, exchange);
}

static VialOperation *read_proc(const VialCaller *caller, VialExchange *exchange, const VialFileRequest *file, GError **error)
{
	static const VialExecSink sink = { .begun = on_asked, .output = on_printed, .end = on_reader_ended };
	g_autoptr(json_t) argv = json_pack("[s, s, s]", "cat", "--", file->path);
	VialExecRequest exec = { .argv = argv, .user = file->user, .cwd = "/", .timeout_seconds = PROC_TIMEOUT_SECONDS };

	return vial_op_exec(caller, vial_surface_sandbox(exchange->request), &exec, &sink, exchange, error);
}

static VialOperation *read_file(const VialCaller *caller, VialExchange *exchange, const VialFileRequest *file, GError **error)
{
	static const VialReadSink sink = { .opened = on_opened, .data = on_data, .end = on_read };

	return vial_op_file_read(caller, vial_surface_sandbox(exchange->request), file, &sink, exchange, error);
}

void vial_e2b_file_download(VialRequest *request)
{
	const char *user = vial_request_query(request, "username");
	g_autofree char *path = vial_e2b_path(user, vial_request_query(request, "path"));
	VialFileRequest file = { .path = path, .user = user };
	gboolean is_proc = g_str_has_prefix(path, PROC);
	VialOperation *operation;
	g_autoptr(GError) error = NULL;
	VialExchange *exchange;
	VialCaller caller;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_SIGNATURE))
		return;
	caller = vial_surface_caller(request);
	exchange = vial_exchange_new(request, g_new0(Download, 1), g_free);
	operation = (is_proc ? read_proc : read_file)(&caller, exchange, &file, &error);
	vial_e2b_exchange_begin(exchange, operation, &error);
}
