/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handlers share: find the caller's sandbox, acquire it (which wakes it), talk to its agent on one stream, and
 * let go of everything exactly once, whether the answer is complete or the client has left.
 */
#pragma once

#include "engine/channel.h"
#include "http/request.h"
#include "service/sandbox.h"

typedef struct VialSession VialSession;

struct VialSession {
	VialRequest *request;
	VialSandbox *sandbox; /* NULL until acquired */
	VialStream *stream;   /* NULL until opened */
	gpointer state;       /* the handler's own */
	GDestroyNotify free_state;
	VialStreamEvents events;
	json_t *open;
	void (*opened)(VialSession *session);
};

/*
 * Opens `open` (consumed) in the request's sandbox, with the session as the events' data. `opened` (may be NULL) is called
 * right after the stream exists. Refusals are answered here.
 */
void vial_session_start(VialRequest *request, json_t *open, const VialStreamEvents *events,
                        void (*opened)(VialSession *session), gpointer state, GDestroyNotify free_state);
/* Ends the session; cancels what still runs. Call it once the request has been answered. */
void vial_session_end(VialSession *session);
/* Answers with the error and ends. */
void vial_session_fail(VialSession *session, const GError *error);

/* The caller's sandbox of the path's {id}, or NULL after having answered 404. */
VialSandbox *vial_guest_sandbox(VialRequest *request);

/* One question to the agent; `reply` turns the result into the answer. Consumes `question`. */
typedef void (*VialReply)(VialRequest *request, json_t *result);
void vial_guest_ask(VialRequest *request, json_t *question, VialReply reply);

/* Answers 200 with `answer` (consumed) once the sandbox's record is on the disk: what somebody was told holds after a crash too. */
void vial_guest_store_and_reply(VialRequest *request, VialSandbox *sandbox, json_t *answer);

/* Copies `user` and `path` of a JSON body or a query into a question, checked. FALSE after setting error. */
gboolean vial_guest_add_path(json_t *question, const char *field, const char *path, GError **error);
gboolean vial_guest_add_user(json_t *question, const char *user, GError **error);
