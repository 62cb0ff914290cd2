/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multipart/form-data (RFC 7578) as a stream: pushed the bytes of a body as they come, it calls the sink. It does no I/O and holds no part in memory,
 * whatever its size. A sink's functions return TRUE to say "enough for now": then nothing more comes until vial_multipart_resume(), and what of the
 * pushed bytes is not used yet waits (at most what one push brought). So one can wait for a part's file to be complete before the next one begins.
 *
 * Calls: part_begin, part_data (any number), part_end for each part, then `end` once and last, whatever happens; with an error for what is none, or
 * for a body that ends too soon. The reader may be freed from within them.
 *
 *   body_read's on_data: return vial_multipart_push(…);      its on_end (complete): vial_multipart_finish(…);
 *   the operation can take more: if (vial_multipart_resume(…)) vial_request_body_resume(request);
 */
#pragma once

#include <glib.h>

#define VIAL_MULTIPART_BOUNDARY_MAX_BYTES 70        /* RFC 2046, 5.1.1 */
#define VIAL_MULTIPART_HEADER_MAX_BYTES (16 * 1024) /* of one part */
#define VIAL_MULTIPART_MAX_PARTS 10000

typedef struct {
	const char *name;
	/* As it was sent, with whatever folders; NULL: a field without a file. Text of a stranger: no path of the host's. */
	const char *filename;
	const char *content_type; /* NULL: not said */
} VialMultipartPart;

typedef struct {
	gboolean (*part_begin)(const VialMultipartPart *part, gpointer data); /* borrowed */
	gboolean (*part_data)(const void *bytes, gsize size, gpointer data);
	gboolean (*part_end)(gpointer data);
	void (*end)(const GError *error, gpointer data);
} VialMultipartSink;

typedef struct VialMultipart VialMultipart;

/* `content_type` is the request's, NULL if it has none; NULL with an error when that is not multipart/form-data with a boundary. */
VialMultipart *vial_multipart_new(const char *content_type, const VialMultipartSink *sink, gpointer data, GError **error);
void vial_multipart_free(VialMultipart *multipart);
/* FALSE: the sink has enough. */
gboolean vial_multipart_push(VialMultipart *multipart, const void *bytes, gsize size);
/* The sink takes more. TRUE: a push that was told FALSE is wanted to go on; else it still has enough, or was asked from within its own functions. */
gboolean vial_multipart_resume(VialMultipart *multipart);
/* The body is complete. */
void vial_multipart_finish(VialMultipart *multipart);
