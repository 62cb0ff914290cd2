/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a build, one after the other, each a command in its sandbox. */
#include <string.h>

#include "service/build_files.h"
#include "service/build_run_private.h"
#include "util/json.h"
#include "wire/wire.h"

/* Of what a COPY complains, for the error's sentence. */
#define COMPLAINT_BYTES 600

void vial_build_run_clear_step(VialBuildRun *run)
{
	g_clear_pointer(&run->feed, vial_build_feed_free);
	vial_command_output_clear(&run->output);
	g_clear_pointer(&run->stream, vial_stream_free);
	if (run->complaint)
		g_string_free(g_steal_pointer(&run->complaint), TRUE);
}

static void on_data(VialStream *stream, unsigned channel, GBytes *bytes, gpointer data)
{
	VialBuildRun *run = data;
	gsize size;
	const char *printed = g_bytes_get_data(bytes, &size);

	if (run->complaint && channel == VIAL_WIRE_STDERR)
		g_string_append_len(run->complaint, printed, (gssize)MIN(size, COMPLAINT_BYTES - run->complaint->len));
	vial_command_output_take(&run->output, stream, channel, bytes);
}

static void on_event(VialStream *stream, json_t *event, gsize size, gpointer data)
{
	vial_stream_consumed(stream, size);
}

static void on_writable(VialStream *stream, gpointer data)
{
	VialBuildRun *run = data;

	if (run->feed)
		vial_build_feed_go_on(run->feed);
}

static void fail_step(VialBuildRun *run, const char *how)
{
	VialBuild *build = run->build;

	build->last_lines = vial_build_log_last(build->log);
	vial_build_log_step(build->log, build->step, (guint)json_array_size(build->steps));
	vial_build_run_fail(run, VIAL_ERROR_INVALID, "step %u of %u failed: %s", build->step, (guint)json_array_size(build->steps), how);
}

/* What a COPY says of why it has failed is better than that it has. NULL: nothing, or it is none. */
static char *complaint_of(const VialBuildRun *run)
{
	g_autofree char *text = run->complaint ? g_utf8_make_valid(run->complaint->str, (gssize)run->complaint->len) : NULL;

	if (!text)
		return NULL;
	g_strdelimit(g_strstrip(text), "\r\n\t", ' ');
	return *text ? g_steal_pointer(&text) : NULL;
}

/* By itself: what has ended it otherwise is told instead of what it said before. */
static gboolean has_exited(const json_t *result)
{
	return !json_is_true(json_object_get(result, "oom")) && !json_is_true(json_object_get(result, "zone_lost")) &&
	       !json_object_get(result, "signal");
}

static void judge(VialBuildRun *run, json_t *result, const char *complaint)
{
	g_autofree char *how = NULL;
	int code;

	if (!vial_command_end_read(result, &code, &how)) {
		vial_channel_violation(vial_sandbox_channel(run->sandbox), "a command's end without an exit code");
		return vial_build_run_fail(run, VIAL_ERROR_GATEWAY, "the sandbox of the build answered with nonsense");
	}
	if (!how)
		return vial_build_run_step(run);
	run->build->exit_code = code;
	fail_step(run, complaint && has_exited(result) ? complaint : how);
}

static void on_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	VialBuildRun *run = data;
	g_autofree char *complaint = complaint_of(run);

	vial_build_run_clear_step(run);
	if (error && vial_sandbox_channel(run->sandbox)) /* the command could not be started: no such program, no such folder */
		return fail_step(run, error->message);
	if (error)
		return vial_build_run_fail(run, VIAL_ERROR_UNAVAILABLE, "the sandbox of the build ended in step %u: %s", run->build->step,
		                           run->sandbox->reason ? run->sandbox->reason : error->message);
	judge(run, result, complaint);
}

/*
 * Secrets are in this environment only: not in the sandbox's, which its memory would keep, and not in anything that is written down. What a COPY does
 * depends on nothing that the steps have set.
 */
static json_t *step_env(VialBuildRun *run, const json_t *step)
{
	json_t *env = json_object();

	if (json_object_get(step, "copy")) {
		json_object_set_new(env, "LC_ALL", json_string("C"));
		return env;
	}
	json_object_update(env, json_object_get(step, "args"));
	json_object_update(env, run->env);
	if (json_object_get(step, "run"))
		json_object_update(env, run->build->secrets);
	return env;
}

static json_t *step_argv(const json_t *step)
{
	json_t *command = json_object_get(step, "run"), *copy = json_object_get(step, "copy");
	const char *workdir = json_string_value(json_object_get(step, "workdir"));

	if (copy)
		return vial_build_copy_argv(copy);
	if (json_is_array(command))
		return json_incref(command);
	if (command)
		return json_pack("[s, s, O]", "/bin/sh", "-c", command);
	/* Who works there is `user`. */
	return json_pack("[s, s, s, s, s]", "/bin/sh", "-c", "[ -d \"$1\" ] || install -d -o user -g user -- \"$1\"", "sh", workdir);
}

static const char *step_user(const json_t *step)
{
	const char *user = json_string_value(json_object_get(step, "user"));

	return user ? user : "root";
}

static void on_unreadable(int error_number, gpointer data)
{
	VialBuildRun *run = data;

	vial_build_run_fail(run, VIAL_ERROR_UNAVAILABLE, "the files of step %u cannot be read: %s", run->build->step, g_strerror(error_number));
}

static void feed(VialBuildRun *run, const json_t *copy)
{
	g_autofree char *path = vial_build_file_path(run->build->app, run->build->project, json_string_value(json_object_get(copy, "archive")));

	run->complaint = g_string_new(NULL);
	run->feed = vial_build_feed_new(path ? path : "", run->stream, on_unreadable, run);
}

static void execute(VialBuildRun *run, const json_t *step)
{
	static const VialStreamEvents events = { .data = on_data, .event = on_event, .writable = on_writable, .closed = on_closed };
	const json_t *copy = json_object_get(step, "copy");
	json_t *open = json_pack("{s:s, s:o, s:s, s:o}", "op", "exec", "argv", step_argv(step), "user", step_user(step), "env", step_env(run, step));

	if (run->workdir && (copy || json_object_get(step, "run")))
		json_object_set_new(open, "cwd", json_string(run->workdir));
	if (copy)
		json_object_set_new(open, "stdin", json_true());
	run->output.log = run->build->log;
	run->stream = vial_stream_open(vial_sandbox_channel(run->sandbox), open, &events, run);
	if (copy)
		feed(run, copy);
}

/* What the log says of it. */
static char *describe(const json_t *step)
{
	json_t *command = json_object_get(step, "run"), *env = json_object_get(step, "env"), *copy = json_object_get(step, "copy");
	GString *text = g_string_new(command ? "RUN " : env ? "ENV" : copy ? "COPY " : "WORKDIR ");
	const char *name;
	json_t *value;
	gsize i;

	if (json_is_array(command))
		json_array_foreach (command, i, value)
			g_string_append_printf(text, "%s%s", i ? " " : "", json_string_value(value));
	else if (command)
		g_string_append(text, json_string_value(command));
	json_object_foreach (env, name, value)
		g_string_append_printf(text, " %s=%s", name, json_string_value(value));
	if (copy)
		g_string_append_printf(text, "%s %s", json_string_value(json_object_get(copy, "from")),
		                       json_string_value(json_object_get(copy, "to")));
	else if (!command && !env)
		g_string_append(text, json_string_value(json_object_get(step, "workdir")));
	if (text->len > 500) {
		g_autofree char *valid = NULL;

		g_string_truncate(text, 500);
		valid = g_utf8_make_valid(text->str, -1);
		g_string_printf(text, "%s...", valid);
	}
	return g_string_free(text, FALSE);
}

/* Returns TRUE when it takes the sandbox's part, and goes on when that is done. */
static gboolean do_step(VialBuildRun *run, const json_t *step)
{
	const char *workdir = json_string_value(json_object_get(step, "workdir"));
	json_t *env = json_object_get(step, "env");

	if (env)
		json_object_update(run->env, env);
	if (workdir) {
		g_free(run->workdir);
		run->workdir = g_strdup(workdir);
	}
	if (run->build->is_cached || env)
		return FALSE;
	execute(run, step);
	return TRUE;
}

void vial_build_run_step(VialBuildRun *run)
{
	VialBuild *build = run->build;
	guint total = (guint)json_array_size(build->steps);

	while (run->next < total) {
		const json_t *step = json_array_get(build->steps, run->next++);
		g_autofree char *text = describe(step);

		vial_build_log_step(build->log, run->next, total);
		vial_build_log_event(build->log, "step %u of %u: %s%s", run->next, total, text,
		                     build->is_cached && !json_object_get(step, "env") ? " (cached)" : "");
		vial_build_set_phase(build, "steps", run->next);
		if (do_step(run, step))
			return;
	}
	vial_build_log_step(build->log, total, total);
	vial_build_run_keep(run);
}
