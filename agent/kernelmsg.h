/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel may say: the typed, bounded description of the messages on its pipe (docs/kernels.md).
 *
 * The pipe belongs to a process in which user code runs, so anybody can write to it. A message is judged in three steps: its text is scanned for
 * depth and number of values before it is parsed, so that a few bytes cannot become a mountain of objects; then every field is held against the shape
 * of its type; texts that are too long are cut. What comes out here has every required field, of the right type and within its limit.
 *
 * Three verdicts: a message; a message that is refused because it is too deep or too large (it costs its own result, nothing else); or garbage, after
 * which nothing on the pipe can be believed and the kernel is ended.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* The values of a result may be nested this deep; two levels around them are the message's own. The host refuses more than 32 in all. */
#define VIAL_RESULT_MAX_DEPTH 24
#define VIAL_MESSAGE_MAX_DEPTH (VIAL_RESULT_MAX_DEPTH + 2)
/* Parsed, each costs some 50 bytes, in the agent and again on the host. A table has at most 200 000 of them. */
#define VIAL_MESSAGE_MAX_VALUES 1000000u
/* Kernels cut their results at 16 MiB, see guest/kernels. */
#define VIAL_MESSAGE_MAX_BYTES (24u * 1024u * 1024u)

#define VIAL_ERROR_NAME_BYTES 256u
/* Kernels cut at 256 Ki characters; here that is bytes. */
#define VIAL_ERROR_TEXT_BYTES (1024u * 1024u + 1024u)
#define VIAL_DISPLAY_ID_BYTES 256u

enum vial_message_type {
	VIAL_MESSAGE_READY,
	VIAL_MESSAGE_RESULT,
	VIAL_MESSAGE_ERROR,
	VIAL_MESSAGE_ENDING,
	VIAL_MESSAGE_DONE,
	VIAL_MESSAGE_SYNC,
	VIAL_MESSAGE_RESEEDED,
	VIAL_MESSAGE_TOUCHED,
	VIAL_MESSAGE_CLEAR,
	VIAL_MESSAGE_REFUSED, /* none of the kernel's: `problem` says why one is not here */
};

struct vial_message {
	enum vial_message_type type;
	json_t *json;        /* owned; NULL when refused */
	const char *problem; /* a literal; NULL unless refused */
};

/* 0, or -EPROTO for garbage. Clear what was decoded. */
int vial_message_decode(const char *text, size_t size_bytes, struct vial_message *out_message);
void vial_message_clear(struct vial_message *message);
