/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of an operation in a guest:
 *
 *   start: the record begins → (acquired) → (the state before it is kept, if it is to be) → OPEN → events ⇄ credit → (closed) → the owner ends the
 *   record and says `end` → free
 *
 * A cancelled operation is freed at once, except while it waits for one of the first two: then by that one's callback. Callbacks may cancel
 * their own operation, so it is kept by a reference around each of them.
 */
#include "operations/guest.h"

#include "engine/engine.h"
#include "operations/limits.h"
#include "service/undo.h"
#include "util/json.h"

struct VialOperation {
	int refs;
	VialVerb verb;
	VialSandbox *sandbox;      /* NULL until acquired */
	VialStream *stream;        /* NULL until opened */
	const VialIdentity *asker; /* while it starts */
	VialIdentity *keeper;      /* of the state before it; NULL: it is not kept */
	VialEntry *entry;
	VialCall *call;
	json_t *open;
	VialTape input, output;
	guint64 event_bytes;
	const VialGuestEvents *events;
	gpointer state;
	GDestroyNotify free_state;
	gsize owed; /* given to the sink, credit held back */
	gboolean is_starting;
	gboolean is_continued;
	gboolean is_over;
	GError *refusal; /* of the acquisition, before start() has returned */
};

static void unref(VialOperation *operation)
{
	if (--operation->refs > 0)
		return;
	if (operation->free_state)
		operation->free_state(operation->state);
	vial_identity_unref(operation->keeper);
	json_decref(operation->open);
	vial_tape_clear(&operation->input);
	vial_tape_clear(&operation->output);
	if (operation->sandbox)
		vial_sandbox_release(operation->sandbox);
	g_free(operation);
}

/* Lets go of the guest; the object goes with its last reference. */
static void finish(VialOperation *operation)
{
	if (operation->is_over)
		return;
	operation->is_over = TRUE;
	g_clear_pointer(&operation->stream, vial_stream_free);
	vial_guest_end(operation, operation->events->left ? operation->events->left(operation) : "cancelled", NULL, NULL, NULL);
	unref(operation);
}

static void close_with(VialOperation *operation, json_t *result, const GError *error)
{
	operation->refs++;
	operation->events->closed(operation, result, error);
	if (!operation->is_continued)
		finish(operation);
	operation->is_continued = FALSE;
	unref(operation);
}

/* The stream */

static void settle(VialOperation *operation, gboolean is_full)
{
	if (!operation->is_over && !is_full)
		vial_operation_drained(operation);
	unref(operation);
}

static void on_data(VialStream *stream, unsigned channel, GBytes *bytes, gpointer data)
{
	VialOperation *operation = data;

	operation->refs++;
	operation->owed += g_bytes_get_size(bytes);
	vial_tape_add(&operation->output, g_bytes_get_data(bytes, NULL), g_bytes_get_size(bytes));
	settle(operation, operation->events->data && operation->events->data(operation, channel, bytes));
}

static void on_event(VialStream *stream, json_t *event, gsize size, gpointer data)
{
	VialOperation *operation = data;

	operation->refs++;
	operation->owed += size;
	operation->event_bytes += size;
	settle(operation, operation->events->event && operation->events->event(operation, event));
}

static void on_eof(VialStream *stream, unsigned channel, gpointer data)
{
	VialOperation *operation = data;

	operation->refs++;
	if (operation->events->eof)
		operation->events->eof(operation, channel);
	unref(operation);
}

static void on_writable(VialStream *stream, gpointer data)
{
	VialOperation *operation = data;

	operation->refs++;
	if (operation->events->writable)
		operation->events->writable(operation);
	unref(operation);
}

static void on_closed(VialStream *stream, json_t *result, const GError *error, gpointer data)
{
	close_with(data, result, error);
}

static void open_stream(VialOperation *operation, json_t *open)
{
	static const VialStreamEvents events = { .data = on_data, .event = on_event, .eof = on_eof, .writable = on_writable, .closed = on_closed };

	operation->owed = 0;
	operation->stream = vial_stream_open(vial_sandbox_channel(operation->sandbox), open, &events, operation);
}

/* Beginning */

static void begin(VialOperation *operation)
{
	const char *call = vial_verb_rules(operation->verb)->call;

	if (call)
		operation->call = vial_call_begin(operation->sandbox, vial_entry_id(operation->entry), call, vial_entry_body(operation->entry));
	if (operation->events->opening)
		operation->events->opening(operation, operation->open);
	open_stream(operation, g_steal_pointer(&operation->open));
	if (operation->events->opened)
		operation->events->opened(operation);
}

/* What it needs is there, or is not. */
static void go_on(VialOperation *operation, const GError *error)
{
	if (!error)
		begin(operation);
	else if (operation->is_starting)
		operation->refusal = g_error_copy(error);
	else
		close_with(operation, NULL, error);
	unref(operation);
}

static void on_kept(VialSnapshot *snapshot, const GError *error, gpointer data)
{
	VialOperation *operation = data;

	if (!operation->is_over)
		return go_on(operation, error);
	if (snapshot) /* cancelled meanwhile: nothing ran that could be undone */
		vial_undo_drop(vial_sandbox_app(operation->sandbox), snapshot);
	unref(operation);
}

static void on_acquired(VialSandbox *sandbox, const GError *error, gpointer data)
{
	VialOperation *operation = data;

	operation->sandbox = sandbox;
	if (operation->is_over) /* cancelled while it waited */
		return unref(operation);
	if (!error && operation->keeper)
		vial_undo_keep(sandbox, operation->keeper, on_kept, operation);
	else
		go_on(operation, error);
}

VialOperation *vial_guest_start(const VialCaller *caller, VialVerb verb, VialSandbox *sandbox, json_t *open, json_t *body,
                                const VialGuestEvents *events, gpointer state, GDestroyNotify free_state, GError **error)
{
	VialOperation *operation = g_new0(VialOperation, 1);

	operation->refs = 1;
	operation->verb = verb;
	operation->open = open;
	operation->events = events;
	operation->state = state;
	operation->free_state = free_state;
	operation->entry = vial_entry_begin(caller, verb, sandbox, body, error);
	if (!operation->entry) {
		finish(operation);
		return NULL;
	}
	operation->asker = caller->principal;
	if (events->recording)
		events->recording(operation);
	operation->asker = NULL;
	operation->is_starting = TRUE;
	operation->refs++; /* the acquisition's */
	vial_sandbox_acquire(sandbox, on_acquired, operation);
	operation->is_starting = FALSE;
	if (!operation->refusal)
		return operation;
	vial_guest_end(operation, "failed", NULL, operation->refusal, NULL);
	g_propagate_error(error, g_steal_pointer(&operation->refusal));
	finish(operation);
	return NULL;
}

void vial_guest_continue(VialOperation *operation, json_t *open)
{
	vial_stream_free(operation->stream);
	operation->is_continued = TRUE;
	open_stream(operation, open);
}

/* For whoever asked */

void vial_operation_cancel(VialOperation *operation)
{
	if (operation)
		finish(operation);
}

void vial_operation_drained(VialOperation *operation)
{
	if (operation)
		vial_operation_taken(operation, operation->owed);
}

void vial_operation_taken(VialOperation *operation, gsize size)
{
	if (!operation || !operation->stream)
		return;
	operation->owed -= size;
	vial_stream_consumed(operation->stream, size);
}

gsize vial_operation_room(const VialOperation *operation)
{
	return operation && operation->stream ? vial_stream_room(operation->stream) : 0;
}

void vial_operation_write(VialOperation *operation, const void *bytes, gsize size)
{
	if (!operation || !operation->stream || size == 0)
		return;
	vial_tape_add(&operation->input, bytes, size);
	vial_stream_send(operation->stream, VIAL_WIRE_MAIN, bytes, size);
}

void vial_operation_write_end(VialOperation *operation)
{
	if (operation && operation->stream)
		vial_stream_send_eof(operation->stream, VIAL_WIRE_MAIN);
}

/* For the operations */

gpointer vial_guest_state(const VialOperation *operation)
{
	return operation->state;
}

VialSandbox *vial_guest_sandbox(const VialOperation *operation)
{
	return operation->sandbox;
}

VialStream *vial_guest_stream(const VialOperation *operation)
{
	return operation->stream;
}

VialCall *vial_guest_call(const VialOperation *operation)
{
	return operation->call;
}

VialEntry *vial_guest_entry(const VialOperation *operation)
{
	return operation->entry;
}

void vial_guest_keep_undo(VialOperation *operation)
{
	operation->keeper = vial_identity_ref((VialIdentity *)operation->asker);
	json_object_set_new(vial_entry_body(operation->entry), "undo", json_true());
}

void vial_guest_tape_input(VialOperation *operation, gboolean keeps_text)
{
	vial_tape_hash(&operation->input, keeps_text ? vial_entry_text_max(operation->entry) : 0);
}

void vial_guest_tape_output(VialOperation *operation)
{
	vial_tape_hash(&operation->output, 0);
}

/* What went in and out, and what came of it. */
static void tell_facts(VialOperation *operation, VialEntry *entry, const json_t *facts)
{
	const VialAudit *audit = vial_entry_audit(entry);
	json_t *body = vial_entry_body(entry), *input = vial_tape_json(&operation->input, audit), *output = vial_tape_json(&operation->output, audit),
	       *value;
	const char *name;

	/* Where what comes out is a file, its bytes are what counts, not what is said about it. */
	vial_entry_count(entry, operation->input.bytes, operation->output.bytes + (operation->output.sum ? 0 : operation->event_bytes));
	json_object_foreach ((json_t *)facts, name, value)
		vial_entry_set(entry, name, json_incref(value));
	/* Neither does anything where there is no body. */
	if (input)
		json_object_set_new(body, "input", input);
	if (output)
		json_object_set_new(body, "output", output);
}

const GError *vial_guest_end(VialOperation *operation, const char *outcome, json_t *facts, const GError *error, GError **unrecorded)
{
	VialEntry *entry = g_steal_pointer(&operation->entry);
	g_autoptr(json_t) owned = facts;

	if (operation->call)
		vial_call_end(g_steal_pointer(&operation->call), error ? "failed" : outcome, facts);
	if (!entry)
		return error;
	tell_facts(operation, entry, facts);
	return vial_entry_end(entry, outcome, error, unrecorded);
}

/* Answers that make no sense */

static void distrust(VialSandbox *sandbox, const GError *problem, GError **error)
{
	g_autofree char *why = g_strdup_printf("an answer makes no sense: %s", problem->message);

	vial_fail(error, VIAL_ERROR_GATEWAY, "the sandbox's agent sent an answer that makes no sense: %s", problem->message);
	vial_sandbox_lost(sandbox, why);
}

void vial_guest_distrust(VialOperation *operation, const GError *problem, GError **error)
{
	distrust(operation->sandbox, problem, error);
}

gboolean vial_guest_reject(VialOperation *operation, const GError *problem)
{
	g_autoptr(GError) error = NULL;

	distrust(operation->sandbox, problem, &error);
	close_with(operation, NULL, error);
	return TRUE;
}

void vial_guest_conclude(VialOperation *operation)
{
	close_with(operation, NULL, NULL);
}

void vial_guest_abandon(VialOperation *operation, const char *why)
{
	g_autoptr(GError) error = g_error_new_literal(VIAL_ERROR, VIAL_ERROR_GATEWAY, why);

	close_with(operation, NULL, error);
}

/* Single questions */

typedef struct {
	VialSandbox *sandbox;
	VialEntry *entry;
	json_t *question;
	const VialShape *shape;
	VialDocumentDone done;
	gpointer data;
	gboolean is_starting;
	GError *refusal;
} Question;

static void question_end(Question *question, json_t *document, const GError *error)
{
	g_autoptr(GError) unrecorded = NULL;

	error = vial_entry_settle(question->entry, error, &unrecorded);
	question->done(error ? NULL : document, error, question->data);
	if (question->sandbox)
		vial_sandbox_release(question->sandbox);
	g_free(question);
}

static void on_answer(json_t *result, const GError *error, gpointer data)
{
	Question *question = data;
	g_autoptr(json_t) document = NULL;
	g_autoptr(GError) problem = NULL, refusal = NULL;

	if (!error && question->shape && !(document = vial_shape_copy(question->shape, result, &problem))) {
		distrust(question->sandbox, problem, &refusal);
		error = refusal;
	}
	question_end(question, document, error);
}

static void on_question_acquired(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Question *question = data;
	g_autoptr(json_t) json = g_steal_pointer(&question->question);

	question->sandbox = sandbox;
	if (!error)
		vial_channel_call(vial_sandbox_channel(sandbox), g_steal_pointer(&json), VIAL_QUESTION_TIMEOUT_MS, on_answer, question);
	else if (question->is_starting)
		question->refusal = g_error_copy(error);
	else
		question_end(question, NULL, error);
}

gboolean vial_guest_ask(const VialCaller *caller, VialVerb verb, VialSandbox *sandbox, json_t *json, json_t *body, const VialShape *shape,
                        VialDocumentDone done, gpointer data, GError **error)
{
	VialEntry *entry = vial_entry_begin(caller, verb, sandbox, body, error);
	Question *question;

	if (!entry) {
		json_decref(json);
		return FALSE;
	}
	question = g_new0(Question, 1);
	*question = (Question){ .entry = entry, .question = json, .shape = shape, .done = done, .data = data, .is_starting = TRUE };
	vial_sandbox_acquire(sandbox, on_question_acquired, question);
	question->is_starting = FALSE;
	if (!question->refusal)
		return TRUE;
	vial_entry_settle(question->entry, question->refusal, NULL);
	g_propagate_error(error, question->refusal);
	g_free(question);
	return FALSE;
}
