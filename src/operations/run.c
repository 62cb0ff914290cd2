/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/run.h"

#include <string.h>

#include "operations/guest.h"
#include "operations/input.h"
#include "operations/limits.h"
#include "operations/facts.h"
#include "operations/run_private.h"
#include "operations/validate.h"
#include "util/ansi.h"
#include "util/json.h"
#include "util/utf8.h"

#define TRACEBACK_MAX_BYTES (1024 * 1024)
#define FILES_MAX 10000
/* Of an error's name and value, in a record. */
#define RECORD_TEXT_BYTES 2048

typedef struct {
	const VialRunSink *sink;
	gpointer data;
	GDestroyNotify free_data;
	VialInput code;     /* only when it does not fit into the OPEN */
	gsize inline_bytes; /* of what does */
	gboolean is_raw;
	gboolean keeps_undo;
	VialRunBudget budget;
	guint64 output_bytes, results_bytes; /* so far */
	guint n_other_events;
	gboolean has_error;
	char *error_name, *error_value; /* for the record */
	VialUtf8 utf8[2];
	VialAnsi ansi[2];
} Run;

/* What the agent may say */

typedef struct {
	const char *event;
	const char *name, *value, *traceback;
	gboolean is_main_result;
	const char *display_id;
	gboolean is_update, wait;
} Event;

VIAL_SHAPE(event_shape, { "event", VIAL_SHAPE_TOKEN, TRUE, 0, 32, NULL, G_STRUCT_OFFSET(Event, event) },
           { "name", VIAL_SHAPE_TEXT, FALSE, 0, 4096, NULL, G_STRUCT_OFFSET(Event, name) },
           { "value", VIAL_SHAPE_TEXT, FALSE, 0, TRACEBACK_MAX_BYTES, NULL, G_STRUCT_OFFSET(Event, value) },
           { "traceback", VIAL_SHAPE_TEXT, FALSE, 0, TRACEBACK_MAX_BYTES, NULL, G_STRUCT_OFFSET(Event, traceback) },
           { "is_main_result", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, G_STRUCT_OFFSET(Event, is_main_result) },
           { "display_id", VIAL_SHAPE_TEXT, FALSE, 0, 1024, NULL, G_STRUCT_OFFSET(Event, display_id) },
           { "is_update", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, G_STRUCT_OFFSET(Event, is_update) },
           { "wait", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, G_STRUCT_OFFSET(Event, wait) });

VIAL_SHAPE(file_shape, { "path", VIAL_SHAPE_TEXT, TRUE, 0, 3 * VIAL_PATH_MAX_BYTES, NULL, 0 },
           { "size", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, 0 }, { "mime", VIAL_SHAPE_TOKEN, TRUE, 0, 128, NULL, 0 },
           { "sha256", VIAL_SHAPE_TOKEN, FALSE, 0, 64, NULL, 0 }, { "deleted", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, 0 });

VIAL_SHAPE(end_shape, { "execution_count", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, G_STRUCT_OFFSET(VialRunEnd, execution_count) },
           { "duration_ms", VIAL_SHAPE_INT, TRUE, 0, G_MAXINT64, NULL, G_STRUCT_OFFSET(VialRunEnd, duration_ms) },
           { "exit_code", VIAL_SHAPE_INT, FALSE, 0, 255, NULL, G_STRUCT_OFFSET(VialRunEnd, exit_code) },
           { "timed_out", VIAL_SHAPE_BOOL, TRUE, 0, 0, NULL, G_STRUCT_OFFSET(VialRunEnd, timed_out) },
           { "kernel_restarted", VIAL_SHAPE_BOOL, TRUE, 0, 0, NULL, G_STRUCT_OFFSET(VialRunEnd, kernel_restarted) },
           { "truncated", VIAL_SHAPE_BOOL, TRUE, 0, 0, NULL, G_STRUCT_OFFSET(VialRunEnd, truncated) },
           { "cancelled", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, G_STRUCT_OFFSET(VialRunEnd, cancelled) },
           { "full_output", VIAL_SHAPE_TEXT, FALSE, 0, VIAL_PATH_MAX_BYTES, NULL, G_STRUCT_OFFSET(VialRunEnd, full_output) },
           { "results_omitted", VIAL_SHAPE_INT, FALSE, 0, G_MAXINT32, NULL, G_STRUCT_OFFSET(VialRunEnd, results_omitted) },
           { "results_lost", VIAL_SHAPE_INT, FALSE, 0, G_MAXINT32, NULL, G_STRUCT_OFFSET(VialRunEnd, results_lost) },
           { "results_file", VIAL_SHAPE_TEXT, FALSE, 0, VIAL_PATH_MAX_BYTES, NULL, G_STRUCT_OFFSET(VialRunEnd, results_file) },
           { "files", VIAL_SHAPE_LIST, FALSE, 0, FILES_MAX, &file_shape, G_STRUCT_OFFSET(VialRunEnd, files) },
           { "files_truncated", VIAL_SHAPE_BOOL, FALSE, 0, 0, NULL, G_STRUCT_OFFSET(VialRunEnd, files_truncated) });

static void run_free(gpointer data)
{
	Run *run = data;

	vial_input_clear(&run->code);
	if (run->free_data)
		run->free_data(run->data);
	g_free(run->error_name);
	g_free(run->error_value);
	g_free(run);
}

/* Into the guest */

static void on_recording(VialOperation *operation)
{
	Run *run = vial_guest_state(operation);

	vial_entry_count(vial_guest_entry(operation), run->inline_bytes, 0);
	if (run->keeps_undo)
		vial_guest_keep_undo(operation);
}

static void on_opening(VialOperation *operation, json_t *open)
{
	json_object_set_new(open, "execution_id", json_string(vial_call_id(vial_guest_call(operation))));
}

static void on_opened(VialOperation *operation)
{
	Run *run = vial_guest_state(operation);

	vial_input_push(&run->code, operation);
	if (run->sink->begun)
		run->sink->begun(operation, run->data);
}

static void on_writable(VialOperation *operation)
{
	Run *run = vial_guest_state(operation);

	vial_input_push(&run->code, operation);
}

/* Out of it */

/* Only a guest that ignores its budgets comes here. */
static gboolean abandon(VialOperation *operation)
{
	vial_guest_abandon(operation, "the sandbox sent far more than it was told an answer may have; the code was ended");
	return TRUE;
}

static gboolean on_data(VialOperation *operation, unsigned channel, GBytes *bytes)
{
	Run *run = vial_guest_state(operation);
	unsigned index = channel == VIAL_WIRE_STDERR;
	gsize size;
	const void *content = g_bytes_get_data(bytes, &size);
	g_autoptr(GString) text = g_string_sized_new(size);

	run->output_bytes += size;
	if (run->output_bytes > (guint64)run->budget.max_output_bytes * 2 * VIAL_EXCESS_FACTOR)
		return abandon(operation);
	vial_call_output(vial_guest_call(operation), index ? VIAL_JOURNAL_STDERR : VIAL_JOURNAL_STDOUT, content, size);
	vial_utf8_feed(&run->utf8[index], content, size, text);
	if (!run->is_raw)
		vial_ansi_strip(&run->ansi[index], text);
	return text->len > 0 && run->sink->output((VialOutputStream)index, text->str, text->len, run->data);
}

/* A character that never became whole. */
static void flush_text(Run *run)
{
	for (unsigned i = 0; i < 2; i++) {
		g_autoptr(GString) text = g_string_new(NULL);

		vial_utf8_finish(&run->utf8[i], text);
		if (text->len > 0)
			run->sink->output((VialOutputStream)i, text->str, text->len, run->data);
	}
}

static char *clean(const Run *run, const char *text)
{
	return run->is_raw || !text ? g_strdup(text) : vial_ansi_clean(text);
}

static gboolean take_result(VialOperation *operation, const Event *event, json_t *bundle)
{
	Run *run = vial_guest_state(operation);
	VialRunResult result = {
		.bundle = bundle, .is_main_result = event->is_main_result, .display_id = event->display_id, .is_update = event->is_update
	};
	g_autofree char *text = NULL;
	g_autoptr(GError) problem = NULL;

	if (!json_is_object(bundle))
		vial_fail(&problem, VIAL_ERROR_GATEWAY, "field \"data\" of a result is missing");
	if (problem || !vial_bundle_check(bundle, &result.size_bytes, &problem))
		return vial_guest_reject(operation, problem);
	run->results_bytes += result.size_bytes;
	if (run->results_bytes > (guint64)run->budget.max_results_bytes * VIAL_EXCESS_FACTOR)
		return abandon(operation);
	text = clean(run, json_string_value(json_object_get(bundle, "text/plain")));
	if (text)
		json_object_set_new(bundle, "text/plain", json_string(text));
	return run->sink->result(&result, run->data);
}

static gboolean take_error(VialOperation *operation, const Event *event)
{
	Run *run = vial_guest_state(operation);
	g_autofree char *name = clean(run, event->name), *value = clean(run, event->value), *traceback = clean(run, event->traceback);
	VialRunError error = { name, value, traceback };
	g_autoptr(GError) problem = NULL;

	if (!name || !value || !traceback) {
		vial_fail(&problem, VIAL_ERROR_GATEWAY, "an error is without name, value or traceback");
		return vial_guest_reject(operation, problem);
	}
	run->has_error = TRUE;
	g_free(run->error_name);
	run->error_name = g_strdup(name);
	g_free(run->error_value);
	run->error_value = g_strdup(value);
	return run->sink->error(&error, run->data);
}

/* What is gone no longer counts: whoever draws the same thing for an hour sends more than any answer may have. */
static gboolean take_clear(Run *run, gboolean is_waiting)
{
	run->output_bytes = run->results_bytes = 0;
	return run->sink->clear && run->sink->clear(is_waiting, run->data);
}

static gboolean on_event(VialOperation *operation, json_t *json)
{
	Run *run = vial_guest_state(operation);
	g_autoptr(GError) problem = NULL;
	Event event = { NULL };

	if (!vial_shape_read(&event_shape, json, &event, &problem))
		return vial_guest_reject(operation, problem);
	if (strcmp(event.event, "clear") == 0)
		return take_clear(run, event.wait);
	if (strcmp(event.event, "result") != 0 && ++run->n_other_events > VIAL_RUN_MAX_ERRORS)
		return abandon(operation);
	if (strcmp(event.event, "result") == 0)
		return take_result(operation, &event, json_object_get(json, "data"));
	if (strcmp(event.event, "error") == 0)
		return take_error(operation, &event);
	return FALSE; /* queued */
}

/* The end */

/* What the record keeps: how it went and which files it touched, not what it showed. */
static json_t *facts(const Run *run, const VialRunEnd *end, const VialAudit *audit)
{
	json_t *json = json_pack("{s:I, s:I, s:i}", "execution_count", (json_int_t)end->execution_count, "duration_ms", (json_int_t)end->duration_ms,
	                         "exit_code", (int)end->exit_code);

	if (run->error_name)
		vial_tape_text(json, "error", run->error_name, strlen(run->error_name), RECORD_TEXT_BYTES, audit);
	if (end->timed_out)
		json_object_set_new(json, "timed_out", json_true());
	if (end->kernel_restarted)
		json_object_set_new(json, "kernel_restarted", json_true());
	if (end->truncated)
		json_object_set_new(json, "truncated", json_true());
	return json;
}

static void tell_record(VialOperation *operation, const VialRunEnd *end)
{
	const Run *run = vial_guest_state(operation);
	json_t *body = vial_entry_body(vial_guest_entry(operation));

	if (run->error_value)
		vial_tape_text(body, "error_value", run->error_value, strlen(run->error_value), RECORD_TEXT_BYTES,
		               vial_entry_audit(vial_guest_entry(operation)));
	vial_facts_files(body, end->files, end->files_truncated);
}

static void fail(VialOperation *operation, const GError *error)
{
	Run *run = vial_guest_state(operation);
	g_autoptr(GError) unrecorded = NULL;

	error = vial_guest_end(operation, "failed", NULL, error, &unrecorded);
	run->sink->end(NULL, error, run->data);
}

static void on_closed(VialOperation *operation, json_t *result, const GError *error)
{
	Run *run = vial_guest_state(operation);
	VialRunEnd end = { .has_error = run->has_error, .exit_code = run->has_error };
	g_autoptr(GError) problem = NULL, refusal = NULL;
	g_autoptr(json_t) files = NULL;
	g_autofree char *id = NULL;

	if (error)
		return fail(operation, error);
	end.execution_id = id = g_strdup(vial_call_id(vial_guest_call(operation)));
	if (!vial_shape_read(&end_shape, result, &end, &problem)) {
		vial_guest_distrust(operation, problem, &refusal);
		return fail(operation, refusal);
	}
	files = end.files = end.files ? end.files : json_array();
	flush_text(run);
	tell_record(operation, &end);
	error = vial_guest_end(operation,
	                       end.cancelled    ? "cancelled"
	                       : run->has_error ? "error"
	                                        : "done",
	                       facts(run, &end, vial_entry_audit(vial_guest_entry(operation))), NULL, &refusal);
	run->sink->end(error ? NULL : &end, error, run->data);
}

/* Beginning */

static json_t *check_code(GBytes *bytes, GError **error)
{
	gsize size;
	const char *code = g_bytes_get_data(bytes, &size);
	json_t *text;

	if (size > VIAL_CODE_MAX_BYTES)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"code\" is too long: at most %d bytes", VIAL_CODE_MAX_BYTES), NULL;
	text = size == 0 ? json_string("") : memchr(code, '\0', size) ? NULL : json_stringn(code, size);
	if (!text)
		vial_fail(error, VIAL_ERROR_INVALID, "field \"code\" must be UTF-8 text without NUL");
	return text;
}

static gboolean check_argv(json_t *argv, GError **error)
{
	gsize size = 0, i;
	json_t *word;

	if (!argv)
		return TRUE;
	if (!vial_check_argv(argv, error))
		return FALSE;
	json_array_foreach (argv, i, word) {
		if (strlen(json_string_value(word)) != json_string_length(word))
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"argv[%" G_GSIZE_FORMAT "]\" has a NUL in it", i);
		size += json_string_length(word);
	}
	return size <= VIAL_RUN_ARGV_MAX_BYTES ||
	       vial_fail(error, VIAL_ERROR_INVALID, "field \"argv\" is too long: at most %d bytes in all", VIAL_RUN_ARGV_MAX_BYTES);
}

static gboolean check(const VialRunRequest *request, GError **error)
{
	if (!request->code)
		return vial_fail(error, VIAL_ERROR_INVALID, "field \"code\" is required");
	return vial_check_text("language", request->language, VIAL_LANGUAGE_MAX_BYTES, error) && vial_check_user(request->user, error) &&
	       vial_check_int("timeout_ms", request->timeout_ms, 0, VIAL_TIMEOUT_MAX_MS, error) &&
	       vial_check_int("max_output_bytes", request->max_output_bytes, 0, VIAL_OUTPUT_MAX_BYTES, error) &&
	       vial_check_env(request->env, error) && check_argv(request->argv, error);
}

static json_t *make_open(const VialRunRequest *request, json_t *code, const VialRunBudget *budget)
{
	json_t *open = json_pack("{s:s, s:I}", "op", "ctx.run", "max_output_bytes",
	                         (json_int_t)(request->max_output_bytes != VIAL_UNSAID ? MIN(request->max_output_bytes, budget->max_output_bytes)
	                                                                               : budget->default_output_bytes));

	if (json_string_length(code) <= VIAL_CODE_INLINE_BYTES)
		json_object_set(open, "code", code);
	else
		json_object_set_new(open, "code_bytes", json_integer((json_int_t)json_string_length(code)));
	if (request->context)
		json_object_set_new(open, "id", json_string(request->context));
	else
		json_object_set_new(open, "language", json_string(request->language ? request->language : "python"));
	if (!request->context && request->user)
		json_object_set_new(open, "user", json_string(request->user));
	if (!request->context && request->cwd)
		json_object_set_new(open, "cwd", json_string(request->cwd));
	if (request->timeout_ms > 0)
		json_object_set_new(open, "timeout_ms", json_integer(request->timeout_ms));
	json_object_set_new(open, "max_results_bytes", json_integer(budget->max_results_bytes));
	if (request->raw_ansi)
		json_object_set_new(open, "raw_ansi", json_true());
	if (request->images)
		json_object_set_new(open, "images", json_true());
	if (request->env)
		json_object_set(open, "env", request->env);
	if (request->argv)
		json_object_set(open, "argv", request->argv);
	return open;
}

static json_t *make_record(const VialCaller *caller, const VialRunRequest *request, const json_t *code, const json_t *open)
{
	json_t *body = json_object();

	vial_tape_text(body, "code", json_string_value(code), json_string_length(code), (gsize)caller->app->config->audit_code_max_kb * 1024,
	               caller->app->audit);
	vial_facts_copy(body, "language", json_object_get(open, "language"));
	vial_facts_copy(body, "context", json_object_get(open, "id"));
	vial_facts_copy(body, "user", json_object_get(open, "user"));
	vial_facts_copy(body, "argv", request->argv);
	vial_facts_copy(body, "timeout_ms", json_object_get(open, "timeout_ms"));
	vial_facts_env(body, request->env);
	return body;
}

VialOperation *vial_run_start(const VialCaller *caller, const char *sandbox_id, const VialRunRequest *request, const VialRunBudget *budget,
                              const VialRunSink *sink, gpointer data, GDestroyNotify free_data, GError **error)
{
	static const VialGuestEvents events = { .recording = on_recording,
		                                .opening = on_opening,
		                                .opened = on_opened,
		                                .data = on_data,
		                                .event = on_event,
		                                .writable = on_writable,
		                                .closed = on_closed };
	Run *run = g_new0(Run, 1);
	g_autoptr(json_t) code = NULL;
	VialSandbox *sandbox;
	json_t *open;

	*run = (Run){
		.sink = sink, .data = data, .free_data = free_data, .budget = *budget, .is_raw = request->raw_ansi, .keeps_undo = request->undo
	};
	if (!vial_operation_admit(caller, VIAL_VERB_RUN, sandbox_id, 0, &sandbox, error) || !check(request, error) ||
	    !(code = check_code(request->code, error))) {
		run_free(run);
		return NULL;
	}
	open = make_open(request, code, budget);
	if (json_object_get(open, "code_bytes"))
		run->code.bytes = g_bytes_ref(request->code);
	else
		run->inline_bytes = json_string_length(code);
	return vial_guest_start(caller, VIAL_VERB_RUN, sandbox, open, make_record(caller, request, code, open), &events, run, run_free, error);
}

VialOperation *vial_op_run(const VialCaller *caller, const char *sandbox_id, const VialRunRequest *request, const VialRunSink *sink, gpointer data,
                           GError **error)
{
	/* A streamed answer is taken at the client's pace: what is bounded is what the guest may send at all. */
	static const VialRunBudget budget = {
		.default_output_bytes = VIAL_OUTPUT_MAX_BYTES,
		.max_output_bytes = VIAL_OUTPUT_MAX_BYTES,
		.max_results_bytes = VIAL_OUTPUT_MAX_BYTES,
	};

	return vial_run_start(caller, sandbox_id, request, &budget, sink, data, NULL, error);
}
