/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files for the COPY steps of a build, which a client sends ahead (service/build_files.h): it asks for a ticket under its own name for them, 64
 * hexadecimal digits, and whoever shows that ticket sends them, once and within an hour, with the rights that the asking key has then. Tickets are in
 * memory, a bounded number of each project. The names are the project's; those of a key that is narrowed or limited are its own.
 */
#pragma once

#include "operations/operation.h"

typedef struct VialUploads VialUploads;

VialUploads *vial_uploads_new(void);
void vial_uploads_free(VialUploads *uploads); /* accepts NULL */

/* A ticket, to be freed, and whether there are files of that name already, which what is sent takes the place of. NULL with an error. */
char *vial_op_upload_offer(const VialCaller *caller, const char *name, gboolean *out_is_present, GError **error);
/* Who asked for it: a new reference. The ticket is spent. NULL with FORBIDDEN: there is none, or it is for another name. */
VialIdentity *vial_uploads_claim(VialApp *app, const char *ticket, const char *name, GError **error);
/* The hash of what the project has under that name, borrowed until the loop runs; NULL without an error: nothing. */
const char *vial_op_upload_find(const VialCaller *caller, const char *name, GError **error);

/* One that is being sent. */
typedef struct VialUpload VialUpload;
typedef struct {
	void (*writable)(gpointer data); /* it takes bytes again */
	VialOperationDone end;           /* once, unless it is cancelled; the upload is gone then. It may come within write() */
} VialUploadSink;

/* `size_bytes` is what will come; -1: nobody knows. */
VialUpload *vial_op_upload_begin(const VialCaller *caller, const char *name, gint64 size_bytes, const VialUploadSink *sink, gpointer data,
                                 GError **error);
gboolean vial_upload_write(VialUpload *upload, const void *bytes, gsize size); /* FALSE: enough for now */
void vial_upload_finish(VialUpload *upload);
void vial_upload_cancel(VialUpload *upload); /* nothing is kept; accepts NULL */
