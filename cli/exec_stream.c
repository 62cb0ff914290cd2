/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec_stream.h"

#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/output.h"
#include "cli/stream.h"

typedef struct {
	VialCli *cli;
	VialSink out, err;
	json_t *end; /* how it ended; NULL: it has not */
	int refusal; /* the status for a command that could not be started; 0: none of those */
} Output;

/* As a shell would say it. The agent's sentences are the only sign: the type is also that of a missing directory. */
static int refusal_status(const char *sentence)
{
	if (g_str_has_prefix(sentence, "command not found"))
		return 127;
	return g_str_has_prefix(sentence, "cannot run ") ? 126 : 0;
}

static gboolean on_event(const char *event, json_t *data, gpointer user, GError **error)
{
	Output *output = user;
	if (strcmp(event, "stdout") == 0)
		return vial_stream_write_chunk(&output->out, data, error);
	if (strcmp(event, "stderr") == 0)
		return vial_stream_write_chunk(&output->err, data, error);
	if (strcmp(event, "session") == 0) {
		vial_stream_note_session(output->cli, data);
	} else if (strcmp(event, "exit") == 0) {
		json_decref(output->end);
		output->end = json_incref(data);
	} else if (strcmp(event, "error") == 0) {
		g_autofree char *sentence = vial_api_text(data, "error");
		g_autofree char *clean = vial_sanitize_line(sentence);
		output->refusal = refusal_status(sentence);
		g_set_error_literal(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, clean);
		return FALSE;
	}
	return TRUE;
}

int vial_exec_status(VialCli *cli, const json_t *end)
{
	if (json_is_true(json_object_get(end, "timed_out"))) {
		vial_output_note(cli, "the time limit was reached, the command was ended");
		return VIAL_EXIT_TIMEOUT;
	}
	if (json_is_true(json_object_get(end, "oom")))
		vial_output_note(cli, "the command used more memory than the sandbox has, and was ended");
	return (int)CLAMP(vial_api_integer(end, "exit_code", 0), 0, 255);
}

int vial_exec_stream(VialCli *cli, const char *method, const char *path, json_t *body, gboolean is_raw)
{
	GError *error = NULL;
	Output output = { .cli = cli };
	g_autoptr(json_t) end = NULL;
	vial_sink_init(&output.out, cli, STDOUT_FILENO, is_raw);
	vial_sink_init(&output.err, cli, STDERR_FILENO, is_raw);
	gboolean is_ok = vial_stream_perform(cli, method, path, body, on_event, &output, &error);
	vial_sink_end(&output.out);
	vial_sink_end(&output.err);
	end = output.end;
	if (!is_ok) {
		int status = vial_output_fail_remote(cli, error);
		return output.refusal ? output.refusal : status;
	}
	if (!end)
		return vial_output_fail_remote(
			cli, g_error_new(VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "the connection to %s ended before the command did", cli->url));
	return vial_exec_status(cli, end);
}
