/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox's host process and its agent say about themselves, decoded: every field has a type and a bound, and what comes out is ours, never
 * a pointer into the message. A message that does not fit its description is a lie; the error's text says what is wrong with it, and the caller
 * ends the channel with it. No number in a message is a pid, a path or a size on the host.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "util/error.h"

/* Of a sentence that goes into an answer, a record or a log. */
#define VIAL_MESSAGE_TEXT_BYTES 1024
#define VIAL_MESSAGE_GENERATION_BYTES 64

/* new, created, running, paused, exited: ours, static. NULL and an error for anything else. */
const char *vial_message_state(const json_t *message, GError **error);

/* A host process's CLOSE: which call it answers, 1 to `last_tag`, and whether well. *out_refusal is its own reason when not. */
gboolean vial_message_host_answer(const json_t *message, guint last_tag, guint *out_tag, GError **out_refusal, GError **error);

/* The agent's CLOSE, likewise. */
gboolean vial_message_agent_answer(const json_t *message, GError **out_refusal, GError **error);

/* The agent's HELLO: either a refusal, or what it has confirmed. */
typedef struct {
	char *refusal; /* NULL: none */
	gint64 version;
	char generation[VIAL_MESSAGE_GENERATION_BYTES + 1];
	gint64 wall_clock_us; /* 0: not said; an agent of an older build has checked by itself */
	gboolean has_all;     /* entropy, clock, hostname and kernels are its own */
} VialAgentHello;

gboolean vial_message_hello(const json_t *message, VialAgentHello *out_hello, GError **error);
void vial_agent_hello_clear(VialAgentHello *hello);

/* A guest's sentence as one line of ours: at most VIAL_MESSAGE_TEXT_BYTES, without control characters. `fallback` when it is no text or empty. */
char *vial_message_text(const json_t *value, const char *fallback);

/* FALSE: so many values that the parsed document would be far larger than its text. */
gboolean vial_message_is_bounded(const char *text, gsize size);
