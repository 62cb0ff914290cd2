/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request body with Content-Encoding gzip, as a stream: pushed the bytes as they come, it calls the sink with what they expand to,
 * VIAL_INFLATE_STEP_BYTES at most at a time. A sink that returns TRUE has enough: nothing more is expanded until vial_inflate_resume(), so a body
 * that expands a thousandfold takes no more memory than any other; how much is too much in all is the sink's affair. The order of calls, and that it
 * may be freed from within the sink's functions, is as in multipart.h; one can be pushed into the other.
 */
#pragma once

#include <glib.h>

#define VIAL_INFLATE_STEP_BYTES (64 * 1024)

typedef struct {
	gboolean (*data)(const void *bytes, gsize size, gpointer data);
	void (*end)(const GError *error, gpointer data); /* once and last */
} VialInflateSink;

typedef struct VialInflate VialInflate;

/* Whether a request's Content-Encoding (NULL: none) asks for it; FALSE with an error: for something that we do not read. */
gboolean vial_inflate_is_asked(const char *content_encoding, gboolean *out_is_asked, GError **error);

VialInflate *vial_inflate_new(const VialInflateSink *sink, gpointer data);
void vial_inflate_free(VialInflate *inflater);
/* FALSE: the sink has enough. */
gboolean vial_inflate_push(VialInflate *inflater, const void *bytes, gsize size);
/* TRUE: a push that was told FALSE is wanted to go on. */
gboolean vial_inflate_resume(VialInflate *inflater);
/* The body is complete. */
void vial_inflate_finish(VialInflate *inflater);
