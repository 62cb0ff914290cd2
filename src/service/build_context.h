/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a build's context, where a client sends them one by one with the Dockerfile: they become one archive among the files of builds
 * (build_files.h), which COPY steps name. What arrives is spooled to a file without a name in the data directory, so nothing is left of a client that
 * leaves or of a viald that is killed; when all have come, they are packed in the order of their names. So the same files are the same archive,
 * however they were sent, and a build that was made of them is found again.
 *
 * Nobody says what may be executed: what begins as a script (#!) or as a program (ELF) does may be, by everybody.
 *
 * A file, its bytes, the next file and so on, then finish() or abort(). Main thread only.
 */
#pragma once

#include "service/build_files.h"

#define VIAL_BUILD_CONTEXT_FILES_MAX 10000
#define VIAL_BUILD_CONTEXT_NAMES_MAX_BYTES (4 * 1024 * 1024)

typedef struct VialBuildContext VialBuildContext;

/*
 * NULL with an error when there is no room for it: then nothing is called. Else the sink's `end` comes once, also within write() and finish(), and
 * the context is gone afterwards.
 */
VialBuildContext *vial_build_context_new(VialApp *app, const char *project, const VialBuildFileSink *sink, gpointer data, GError **error);
/* The next one; `name` is a stranger's. FALSE with an error: it cannot be one of these files, or there are too many; then nothing has changed. */
gboolean vial_build_context_add(VialBuildContext *context, const char *name, GError **error);
/* FALSE: enough for now, or it has failed. */
gboolean vial_build_context_write(VialBuildContext *context, const void *bytes, gsize size);
/* That was all; there was at least one. */
void vial_build_context_finish(VialBuildContext *context);
/* Nothing is kept, and nothing is called. Accepts NULL. */
void vial_build_context_abort(VialBuildContext *context);
