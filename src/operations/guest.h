/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the files of this folder: an operation's conversation with a guest's agent. It acquires the sandbox (which wakes it), opens one
 * stream, gives credit back as fast as the sink takes what came, keeps the operation's record, and lets go of everything exactly once.
 *
 * What the agent says is judged by shapes (shapes.h). An answer that makes no sense fails the operation and ends the sandbox: a guest
 * whose agent lies is of no use to anybody.
 */
#pragma once

#include "engine/channel.h"
#include "operations/entry.h"
#include "operations/operation.h"
#include "operations/shapes.h"
#include "service/calls.h"
#include "wire/wire.h"

/* Any may be NULL except closed. Those that return gboolean say whether the sink is full. */
typedef struct {
	/* The record has begun: what of it is to be taped (vial_guest_tape_…)? */
	void (*recording)(VialOperation *operation);
	/* The last words into the OPEN. */
	void (*opening)(VialOperation *operation, json_t *open);
	void (*opened)(VialOperation *operation);
	gboolean (*data)(VialOperation *operation, unsigned channel, GBytes *bytes);
	gboolean (*event)(VialOperation *operation, json_t *event);
	void (*eof)(VialOperation *operation, unsigned channel);
	void (*writable)(VialOperation *operation);
	/* Whoever asked has left: what the record calls that; "cancelled" where there is no function. */
	const char *(*left)(VialOperation *operation);
	/* The end. `result` or `error`; the operation is freed when it returns. Calls vial_guest_end() before it tells anybody. */
	void (*closed)(VialOperation *operation, json_t *result, const GError *error);
} VialGuestEvents;

/*
 * Opens `open` (consumed) in an admitted sandbox. `body` (consumed, may be NULL) is what the record says of it, for verbs that have one. `state` is
 * freed with the operation, also when it is refused: NULL with an error when it cannot be recorded or the sandbox cannot be used.
 */
VialOperation *vial_guest_start(const VialCaller *caller, VialVerb verb, VialSandbox *sandbox, json_t *open, json_t *body,
                                const VialGuestEvents *events, gpointer state, GDestroyNotify free_state, GError **error);

gpointer vial_guest_state(const VialOperation *operation);
VialSandbox *vial_guest_sandbox(const VialOperation *operation);
VialStream *vial_guest_stream(const VialOperation *operation);
VialCall *vial_guest_call(const VialOperation *operation); /* NULL where the journal does not hear of it */
VialEntry *vial_guest_entry(const VialOperation *operation);
/* From `recording`: the state before it is kept first (service/undo.h). If it cannot be, nothing is opened, and `closed` hears why. */
void vial_guest_keep_undo(VialOperation *operation);
/* Its record has the hash of what goes in, and so much of it as text; or of what comes out, without text. Before anything has. */
void vial_guest_tape_input(VialOperation *operation, gboolean keeps_text);
void vial_guest_tape_output(VialOperation *operation);
/* Another question on a stream of its own in place of the one that has just closed. To be called from `closed`, which will come again. */
void vial_guest_continue(VialOperation *operation, json_t *open);
/*
 * Ends the record; without this it is cancelled. `facts` (consumed, may be NULL) go into the header: exit_code, duration_ms, ... What is to be told
 * then: `error`, or why it could not be recorded (kept in *unrecorded).
 */
const GError *vial_guest_end(VialOperation *operation, const char *outcome, json_t *facts, const GError *error, GError **unrecorded);

/*
 * The agent said something that makes no sense (`problem`): *error becomes what the client is told, and the sandbox is ended with the same
 * reason. From inside `event` return vial_guest_reject() instead, which also ends the operation.
 */
void vial_guest_distrust(VialOperation *operation, const GError *problem, GError **error);
gboolean vial_guest_reject(VialOperation *operation, const GError *problem);
/* There is enough: `closed` gets neither a result nor an error, and the guest is told to stop. */
void vial_guest_conclude(VialOperation *operation);
/* The guest goes on for longer than anybody can want: ends the operation with that error, which cancels it there. The sandbox stays. */
void vial_guest_abandon(VialOperation *operation, const char *why);

/*
 * One question, one answer of that shape, within VIAL_QUESTION_TIMEOUT_MS. Consumes `question` and `body` (may be NULL). `shape` NULL: the answer
 * says nothing.
 */
gboolean vial_guest_ask(const VialCaller *caller, VialVerb verb, VialSandbox *sandbox, json_t *question, json_t *body, const VialShape *shape,
                        VialDocumentDone done, gpointer data, GError **error);
