/* SPDX-License-Identifier: Apache-2.0 */
/* process.Process: what is asked of a process that runs, each with one answer. */
#include <string.h>

#include "operations/exec.h"
#include "operations/limits.h"
#include "operations/processes.h"
#include "operations/terminal.h"
#include "surfaces/e2b/data.h"
#include "surfaces/e2b/process.h"
#include "util/base64.h"
#include "util/json.h"

/* How the agent ends a line that it has cut (agent/cmdline.h). */
#define CUT "\342\200\246"

/* Messages */

gboolean vial_e2b_process_pid(const json_t *message, gint64 *out_pid, GError **error)
{
	json_t *process = NULL;
	const char *tag = NULL;

	*out_pid = 0;
	if (!vial_decode_object(message, "process", &process, error) || !vial_decode_int(process, "pid", out_pid, error) ||
	    !vial_decode_text(process, "tag", &tag, error))
		return FALSE;
	if (*out_pid <= 0)
		return vial_fail(error, VIAL_ERROR_NOT_FOUND, "there is no such process");
	return TRUE;
}

GBytes *vial_e2b_process_bytes(const json_t *message, GError **error)
{
	json_t *input = NULL;
	const char *text = NULL;
	GBytes *bytes;

	if (!vial_decode_object(message, "input", &input, error) || !vial_decode_text(input, "stdin", &text, error) ||
	    !vial_decode_text(input, "pty", &text, error))
		return NULL;
	if (!text) {
		vial_fail(error, VIAL_ERROR_INVALID, "input has neither stdin nor pty");
		return NULL;
	}
	bytes = vial_base64_decode(text);
	if (!bytes)
		vial_fail(error, VIAL_ERROR_INVALID, "what is to be put in is not Base64");
	return bytes;
}

gboolean vial_e2b_terminal_size(const json_t *message, gboolean *out_is_terminal, gint64 *out_rows, gint64 *out_cols, GError **error)
{
	json_t *pty = NULL, *size = NULL;

	if (!vial_decode_object(message, "pty", &pty, error) || !vial_decode_object(pty, "size", &size, error))
		return FALSE;
	*out_is_terminal = pty != NULL;
	return vial_decode_int(size, "rows", out_rows, error) && vial_decode_int(size, "cols", out_cols, error);
}

/* Calls */

/* The words that it was started with, where they are known in full; the environment, which may have secrets, is told to nobody. */
static json_t *config_json(const json_t *process)
{
	const char *line = json_string_value(json_object_get(process, "cmd"));
	json_t *args = json_array(), *config;
	g_auto(GStrv) words = NULL;

	if (g_str_has_suffix(line, CUT) || !g_shell_parse_argv(line, NULL, &words, NULL))
		words = NULL;
	for (char **word = words ? words + 1 : NULL; word && *word; word++)
		json_array_append_new(args, json_string(*word));
	config = json_pack("{s:o, s:o, s:{}, s:O*}", "cmd", json_string(words ? words[0] : line), "args", args, "envs", "cwd",
	                   json_object_get(process, "cwd"));
	return config;
}

static void on_list(json_t *document, const GError *error, gpointer data)
{
	VialRequest *request = data;
	json_t *processes = json_array(), *process;
	gsize i;

	json_array_foreach (json_object_get(document, "processes"), i, process) {
		if (g_strcmp0(json_string_value(json_object_get(process, "state")), "running") == 0)
			json_array_append_new(processes,
			                      json_pack("{s:O, s:o}", "pid", json_object_get(process, "pid"), "config", config_json(process)));
	}
	if (error)
		vial_e2b_reply_error(request, error);
	else
		vial_request_reply_json(request, 200, json_pack("{s:O}", "processes", processes));
	json_decref(processes);
	vial_request_unref(request);
}

void vial_e2b_process_list(VialRequest *request)
{
	g_autoptr(GError) error = NULL;
	VialCaller caller;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	caller = vial_surface_question(request);
	vial_e2b_begun(request, vial_op_process_list(&caller, vial_surface_sandbox(request), on_list, request, &error), &error);
}

void vial_e2b_process_update(VialRequest *request)
{
	const json_t *body = vial_request_json(request);
	gint64 pid, rows = VIAL_UNSAID, cols = VIAL_UNSAID;
	g_autoptr(GError) error = NULL;
	gboolean has_terminal;
	VialCaller caller;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	caller = vial_surface_question(request);
	vial_e2b_begun(request,
	               vial_e2b_process_pid(body, &pid, &error) && vial_e2b_terminal_size(body, &has_terminal, &rows, &cols, &error) &&
	                       vial_op_terminal_resize(&caller, vial_surface_sandbox(request), pid, rows, cols, vial_e2b_reply_empty_message, request,
	                                               &error),
	               &error);
}

void vial_e2b_process_send_signal(VialRequest *request)
{
	const json_t *body = vial_request_json(request);
	g_autoptr(GError) error = NULL;
	const char *name = "SIGNAL_SIGTERM";
	VialCaller caller;
	gint64 pid;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	caller = vial_surface_question(request);
	vial_e2b_begun(request,
	               vial_e2b_process_pid(body, &pid, &error) && vial_decode_text(body, "signal", &name, &error) &&
	                       (g_str_has_prefix(name, "SIGNAL_SIG") ||
	                        vial_fail(&error, VIAL_ERROR_INVALID, "signal is SIGNAL_SIGTERM or SIGNAL_SIGKILL")) &&
	                       vial_op_process_signal(&caller, vial_surface_sandbox(request), pid, name + strlen("SIGNAL_SIG"),
	                                              vial_e2b_reply_empty_message, request, &error),
	               &error);
}

/* Input */

static void on_fed(const char *path, gint64 bytes, const GError *error, gpointer data)
{
	VialExchange *exchange = data;

	if (error)
		return vial_e2b_exchange_fail(exchange, error);
	vial_request_reply_json(exchange->request, 200, json_object());
	vial_exchange_end(exchange);
}

static void feed(VialRequest *request, gboolean closes)
{
	static const VialWriteSink sink = { .end = on_fed };
	const json_t *body = vial_request_json(request);
	VialOperation *operation = NULL;
	g_autoptr(GBytes) bytes = NULL;
	g_autoptr(GError) error = NULL;
	VialExchange *exchange;
	VialCaller caller;
	gint64 pid;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	caller = vial_surface_caller(request);
	exchange = vial_exchange_new(request, NULL, NULL);
	if (vial_e2b_process_pid(body, &pid, &error) && (bytes = closes ? g_bytes_new_static("", 0) : vial_e2b_process_bytes(body, &error)))
		operation = vial_op_process_input(&caller, vial_surface_sandbox(request), pid, closes, bytes, &sink, exchange, &error);
	vial_e2b_exchange_begin(exchange, operation, &error);
}

void vial_e2b_process_send_input(VialRequest *request)
{
	feed(request, FALSE);
}

void vial_e2b_process_close_stdin(VialRequest *request)
{
	feed(request, TRUE);
}
