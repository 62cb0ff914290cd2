/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the files of this folder: an operation's conversation with a guest's agent. It acquires the sandbox (which wakes it), opens one
 * stream, gives credit back as fast as the sink takes what came, keeps the call's record, and lets go of everything exactly once.
 *
 * What the agent says is judged by shapes (shapes.h). An answer that makes no sense fails the operation and ends the sandbox: a guest
 * whose agent lies is of no use to anybody.
 */
#pragma once

#include "engine/channel.h"
#include "operations/operation.h"
#include "operations/shapes.h"
#include "service/calls.h"
#include "wire/wire.h"

/* Any may be NULL except closed. Those that return gboolean say whether the sink is full. */
typedef struct {
	/* The record has begun; the last words into the OPEN. */
	void (*opening)(VialOperation *operation, json_t *open);
	void (*opened)(VialOperation *operation);
	gboolean (*data)(VialOperation *operation, unsigned channel, GBytes *bytes);
	gboolean (*event)(VialOperation *operation, json_t *event);
	void (*eof)(VialOperation *operation, unsigned channel);
	void (*writable)(VialOperation *operation);
	/* The end. `result` or `error`; the operation is freed when it returns. */
	void (*closed)(VialOperation *operation, json_t *result, const GError *error);
} VialGuestEvents;

/*
 * Opens `open` (consumed) in an admitted sandbox. `detail` (consumed, may be NULL) is what the call's record says of it, for verbs
 * that have one. `state` is freed with the operation. NULL with an error when the sandbox cannot be used.
 */
VialOperation *vial_guest_start(VialVerb verb, VialSandbox *sandbox, json_t *open, json_t *detail, const VialGuestEvents *events, gpointer state,
                                GDestroyNotify free_state, GError **error);

gpointer vial_guest_state(const VialOperation *operation);
VialSandbox *vial_guest_sandbox(const VialOperation *operation);
VialStream *vial_guest_stream(const VialOperation *operation);
VialCall *vial_guest_call(const VialOperation *operation); /* NULL for verbs without a record */
/* Another question on a stream of its own in place of the one that has just closed. To be called from `closed`, which will come again. */
void vial_guest_continue(VialOperation *operation, json_t *open);
/* Ends the call's record; without this it is recorded as cancelled. `outcome` (may be NULL) is consumed. */
void vial_guest_end_call(VialOperation *operation, const char *status, json_t *outcome);
void vial_guest_fail_call(VialOperation *operation, const GError *error);

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

/* One question, one answer of that shape, within VIAL_QUESTION_TIMEOUT_MS. Consumes `question`. `shape` NULL: the answer says nothing. */
gboolean vial_guest_ask(VialSandbox *sandbox, json_t *question, const VialShape *shape, VialDocumentDone done, gpointer data, GError **error);
