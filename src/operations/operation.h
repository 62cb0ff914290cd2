/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations: what a client may ask for, whatever dialect it speaks. Each takes who asks (VialCaller), a typed request and either a
 * function that is told the outcome or a sink that hears typed events. Operations know nothing of HTTP. Main thread only.
 *
 * The order of things, the same for all: a function that begins an operation admits it (vial_operation_admit(): the right, the
 * sandbox, draining), then checks the request's values (validate.h, limits.h), then begins its record (entry.h) and the work. What is refused by then
 * is returned as FALSE or NULL with an error, and nothing will be called. Else the outcome (`done`, or the sink's `end`) comes exactly once and last,
 * whatever happens to the guest, unless the operation is cancelled: then nothing comes any more.
 *
 * Back-pressure: a sink's events return TRUE to say "enough for now". The guest is then given no more credit, and stops, until
 * vial_operation_drained().
 */
#pragma once

#include "auth/identity.h"
#include "operations/origin.h"
#include "operations/verbs.h"
#include "service/agents.h"
#include "service/sandbox.h"

/* Which agent something is about, where no sandbox says so yet; what is not known is NULL or 0. */
typedef struct {
	const char *agent, *session, *user;
	gint64 version;
} VialAbout;

/* Who asks, by way of a surface. Borrowed for the call. */
typedef struct {
	VialApp *app;
	const VialIdentity *principal;
	/* The one sandbox that a preview's token gives access to (tunnel.h), for tunnels only; the principal is who made the preview, or NULL. */
	const char *granted_sandbox;
	const VialOrigin *origin; /* NULL: not known */
	const VialAbout *about;   /* NULL: nothing but what the sandbox says */
} VialCaller;

/*
 * The one place where it is decided whether a caller may do something at all; verbs.c is the table. The sandbox is looked up here
 * and nowhere else: *out_sandbox (NULL for verbs that are about none) is borrowed. `n_new` is how many sandboxes it will make. A refusal is recorded.
 */
gboolean vial_operation_admit(const VialCaller *caller, VialVerb verb, const char *sandbox_id, guint n_new, VialSandbox **out_sandbox,
                              GError **error);

/* A key that is narrowed to agents, templates or networks has nothing to do with the sandboxes of others. */
gboolean vial_operation_may_touch(const VialCaller *caller, const VialSandbox *sandbox, GError **error);

/*
 * The same for what is about an agent of the caller's project, or about a sandbox that an agent's session is still to get; `name` NULL: about none in
 * particular, and *out_agent is left alone.
 */
gboolean vial_operation_admit_agent(const VialCaller *caller, VialVerb verb, const char *name, VialAgent **out_agent, GError **error);
/* Whether the installation takes so many more sandboxes. */
gboolean vial_operation_has_room(VialApp *app, guint n_new, GError **error);

/* Whose things a caller may look at: its own project's, or with `wanted` that one, which only an operator may name if it is another. NULL with an
 * error. */
const char *vial_operation_project(const VialCaller *caller, VialVerb verb, const char *wanted, GError **error);

/* An operation under way that talks with a guest. It is gone after `end`, and after cancel. The functions accept NULL, for what has ended. */
typedef struct VialOperation VialOperation;

/* The client has left: ends what runs. Nothing is called afterwards. */
void vial_operation_cancel(VialOperation *operation);
/* The sink, which was full, takes events again. */
void vial_operation_drained(VialOperation *operation);
/* For a sink that always says it is full, and counts: so many bytes of what it was given have gone. */
void vial_operation_taken(VialOperation *operation, gsize size);

/* Operations that are sent bytes (an upload, a command's input, a terminal, a tunnel): at most room() at a time; the sink's `writable` says when
 * there is room again after there was none. */
gsize vial_operation_room(const VialOperation *operation);
void vial_operation_write(VialOperation *operation, const void *bytes, gsize size);
void vial_operation_write_end(VialOperation *operation);

/* Outcomes without a value, and with a document: a JSON object of known fields (shapes.h), borrowed. */
typedef void (*VialOperationDone)(const GError *error, gpointer data);
typedef void (*VialDocumentDone)(json_t *document, const GError *error, gpointer data);
