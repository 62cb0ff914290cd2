/* SPDX-License-Identifier: Apache-2.0 */
#include "service/start.h"

#include <string.h>

#include "service/build_command.h"
#include "util/json.h"

/* Without a ready command it has so long to begin its work, which is what E2B gives it. */
#define SETTLE_SECONDS 20
/* Between two runs of the ready command: short at first, so that what is ready soon is not waited for, and growing to the longest. */
#define PAUSE_MIN_MS 100
#define PAUSE_MAX_MS 2000
#define SHOWN_BYTES 500

/* One of the two while it runs, and what it last said. */
typedef struct {
	VialStart *start;
	const char *name;
	VialStream *stream; /* NULL: it does not run, or not any more */
	VialCommandOutput output;
	GString *tail;
	gboolean is_silent; /* this time: the tail is of the time before */
	char *how;          /* the ready command's last end; NULL: it has had none */
} Command;

struct VialStart {
	VialStartSpec spec;
	Command command, ready;
	guint limit; /* of it all */
	guint pause; /* until the ready command's next run, or until it has settled */
	guint pause_ms;
	gboolean is_started;
};

static void command_init(Command *command, VialStart *start, const char *name)
{
	command->start = start;
	command->name = name;
	command->output.log = start->spec.log;
	command->tail = g_string_new(NULL);
}

static void command_stop(Command *command)
{
	vial_command_output_clear(&command->output);
	g_clear_pointer(&command->stream, vial_stream_free);
}

static void command_clear(Command *command)
{
	command_stop(command);
	g_string_free(command->tail, TRUE);
	g_free(command->how);
}

static void stop(VialStart *start)
{
	g_clear_handle_id(&start->limit, g_source_remove);
	g_clear_handle_id(&start->pause, g_source_remove);
	command_stop(&start->ready);
	command_stop(&start->command); /* which detaches from it */
}

/* The last that is done here: the start may be gone when it returns. */
static void leave(VialStart *start, const char *problem)
{
	stop(start);
	start->spec.done(problem, start->spec.data);
}

static void tell(const VialStart *start, const char *what, const char *line)
{
	g_autofree char *shown = line ? g_strndup(line, SHOWN_BYTES) : NULL, *valid = shown ? g_utf8_make_valid(shown, -1) : NULL;

	if (start->spec.log)
		vial_build_log_event(start->spec.log, "%s%s%s", what, valid ? valid : "", line && strlen(line) > SHOWN_BYTES ? "..." : "");
}

static void add_lines(GString *text, const Command *command)
{
	g_autofree char *tail = vial_command_tail_text(command->tail);

	g_strchomp(tail);
	if (*tail)
		g_string_append_printf(text, "; last lines of the %s:\n%s", command->name, tail);
}

/* `what` went wrong, and what the two have said last. */
static void fail(VialStart *start, const char *what)
{
	g_autoptr(GString) text = g_string_new(what);

	add_lines(text, &start->command);
	add_lines(text, &start->ready);
	leave(start, text->str);
}

void vial_start_expire(VialStart *start)
{
	const Command *ready = &start->ready;
	g_autoptr(GString) what = g_string_new(NULL);

	g_string_printf(what, "the %s within %" G_GINT64_FORMAT " seconds",
	                !start->is_started  ? "start command was not running"
	                : start->spec.ready ? "ready command did not succeed"
	                                    : "start command had no time to settle",
	                start->spec.limit_seconds);
	if (ready->how)
		g_string_append_printf(what, ": %s", ready->how);
	if (ready->stream)
		g_string_append_printf(what, "%s its last run did not end", ready->how ? ", and" : ":");
	fail(start, what->str);
}

static gboolean on_limit(gpointer data)
{
	VialStart *start = data;

	start->limit = 0;
	vial_start_expire(start);
	return G_SOURCE_REMOVE;
}

static json_t *exec_request(const VialStart *start, const char *line)
{
	const VialStartSpec *spec = &start->spec;
	/* It goes on in sandboxes of other names than this guest's. */
	json_t *env = json_pack("{s:s}", "VIAL_SANDBOX_ID", "");

	json_object_update(env, spec->env);
	return json_pack("{s:s, s:s, s:s*, s:s*, s:o}", "op", "exec", "cmd", line, "user", spec->user, "cwd", spec->workdir, "env", env);
}

static void run(Command *command, json_t *request, const VialStreamEvents *events)
{
	const VialStartSpec *spec = &command->start->spec;

	command->is_silent = TRUE;
	command->stream = vial_stream_open(spec->channel(spec->data), request, events, command);
}

static void on_data(VialStream *stream, unsigned channel, GBytes *bytes, gpointer data)
{
	Command *command = data;
	gsize size;
	const void *printed = g_bytes_get_data(bytes, &size);

	if (command->is_silent)
		g_string_truncate(command->tail, 0);
	command->is_silent = FALSE;
	vial_command_tail_add(command->tail, printed, size);
	vial_command_output_take(&command->output, stream, channel, bytes);
}

/* FALSE: nothing is to be expected of it any more, and `done` was told why. */
static gboolean has_ended(Command *command, const json_t *result, const GError *error, char **out_how)
{
	VialStart *start = command->start;
	g_autofree char *problem = NULL;
	int code;

	command_stop(command);
	if (error) {
		problem = g_strdup_printf("the %s could not be run: %s", command->name, error->message);
		fail(start, problem);
		return FALSE;
	}
	if (vial_command_end_read(result, &code, out_how))
		return TRUE;
	vial_channel_violation(start->spec.channel(start->spec.data), "a command's end without an exit code");
	leave(start, "the sandbox answered with nonsense");
	return FALSE;
}

/* The ready command */

static void ask(VialStart *start);

static gboolean on_pause_over(gpointer data)
{
	VialStart *start = data;

	start->pause = 0;
	ask(start);
	return G_SOURCE_REMOVE;
}

static void on_ready_event(VialStream *stream, json_t *event, gsize size, gpointer data)
{
	vial_stream_consumed(stream, size);
}

static void on_ready_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	Command *ready = data;
	VialStart *start = ready->start;
	g_autofree char *how = NULL;

	if (!has_ended(ready, result, error, &how))
		return;
	if (!how) {
		tell(start, "it is ready", NULL);
		return leave(start, NULL);
	}
	g_free(ready->how);
	ready->how = g_steal_pointer(&how);
	start->pause = g_timeout_add(start->pause_ms, on_pause_over, start);
	start->pause_ms = MIN(2 * start->pause_ms, PAUSE_MAX_MS);
}

static void ask(VialStart *start)
{
	static const VialStreamEvents events = { .data = on_data, .event = on_ready_event, .closed = on_ready_closed };
	json_t *request = exec_request(start, start->spec.ready);

	/* Else every sandbox of the template would have a list of processes that ended before it was made. */
	json_object_set_new(request, "unlisted", json_true());
	run(&start->ready, request, &events);
}

/* The start command */

static gboolean on_settled(gpointer data)
{
	VialStart *start = data;

	start->pause = 0;
	leave(start, NULL);
	return G_SOURCE_REMOVE;
}

/* Not before: a ready command that looks for a file could succeed because of one that was there already. */
static void on_started(VialStart *start)
{
	start->is_started = TRUE;
	start->pause_ms = PAUSE_MIN_MS;
	if (start->spec.ready) {
		tell(start, "waiting until the ready command succeeds: ", start->spec.ready);
		return ask(start);
	}
	tell(start, "giving it some seconds: there is no ready command", NULL);
	start->pause = g_timeout_add_seconds((guint)MIN(SETTLE_SECONDS, start->spec.limit_seconds), on_settled, start);
	g_clear_handle_id(&start->limit, g_source_remove);
}

static void on_command_event(VialStream *stream, json_t *event, gsize size, gpointer data)
{
	Command *command = data;

	vial_stream_consumed(stream, size);
	if (!command->start->is_started && g_strcmp0(json_string_value(json_object_get(event, "event")), "started") == 0)
		on_started(command->start);
}

/* One that puts itself into the background ends well, and what it has left there is waited for. */
static void on_command_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	Command *command = data;
	VialStart *start = command->start;
	g_autofree char *how = NULL, *problem = NULL;

	if (!has_ended(command, result, error, &how))
		return;
	if (how) {
		problem = g_strdup_printf("the start command failed before it was ready: %s", how);
		return fail(start, problem);
	}
	if (!start->spec.ready)
		return leave(start, NULL);
	if (!start->is_started)
		on_started(start);
}

static void begin(VialStart *start)
{
	static const VialStreamEvents events = { .data = on_data, .event = on_command_event, .closed = on_command_closed };
	json_t *request = exec_request(start, start->spec.command);

	/* Attached, it waits for the log's reader as it would in the foreground; once we leave, its output goes into the agent's ring. */
	json_object_set_new(request, "background", json_true());
	json_object_set_new(request, "attached", json_true());
	tell(start, "running the start command: ", start->spec.command);
	run(&start->command, request, &events);
}

VialStart *vial_start_begin(const VialStartSpec *spec)
{
	VialStart *start = g_new0(VialStart, 1);

	start->spec = *spec;
	start->spec.limit_seconds = CLAMP(spec->limit_seconds, 1, VIAL_START_MAX_SECONDS);
	command_init(&start->command, start, "start command");
	command_init(&start->ready, start, "ready command");
	start->limit = g_timeout_add_seconds((guint)start->spec.limit_seconds, on_limit, start);
	if (spec->command)
		begin(start);
	else
		on_started(start);
	return start;
}

void vial_start_free(VialStart *start)
{
	if (!start)
		return;
	stop(start);
	command_clear(&start->command);
	command_clear(&start->ready);
	g_free(start);
}
