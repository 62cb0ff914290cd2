/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that come as server-sent events with JSON in them: exec/stream, run/stream, logs?follow. */
#pragma once

#include <jansson.h>

#include "cli/cli.h"
#include "cli/output.h"

/* FALSE stops the stream; set *error. */
typedef gboolean (*VialStreamFunc)(const char *event, json_t *data, gpointer user, GError **error);

/* Returns when the stream has ended. `body` is consumed, NULL for none. */
gboolean vial_stream_perform(VialCli *cli, const char *method, const char *path, json_t *body, VialStreamFunc func, gpointer user, GError **error);

/* Writes an event's bytes: `chunk` is text, `chunk_base64` what is not valid UTF-8. */
gboolean vial_stream_write_chunk(VialSink *sink, const json_t *data, GError **error);

/* An agent's call says which sandbox it is in: that is worth a word when it is not the one it was. */
void vial_stream_note_session(VialCli *cli, const json_t *session);
