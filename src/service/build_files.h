/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of builds: archives (tar, plain or gzip) that a client sends ahead, for the COPY steps of a custom template. To the host they are bytes: it
 * writes them, counts them and streams them into the sandbox of the build (build_copy.c), which alone looks into them.
 *
 * One is known by the SHA-256 of its content, which viald computes while it is written, and belongs to one project; steps name that. Besides, a
 * client may have called it by a name of its own, 64 hexadecimal digits that mean nothing here: a later one of that name takes the name, and leaves
 * the content of the earlier where it is. On the disk, below `build-files/` of the data directory:
 *
 *     PROJECT/HASH.tar    the content; its time of modification says when it was last wanted
 *     PROJECT/NAME        a symbolic link to HASH.tar
 *
 * each put in its place by a rename after it was flushed, so that a crash leaves it whole or not at all. What no build under way needs may be
 * removed: the longest unused first when a project has no room for another, and all that nobody wanted for a week. Main thread only.
 */
#pragma once

#include "service/app.h"

/* Of a project; and so many names that clients have for them. */
#define VIAL_BUILD_FILES_MAX 1000
#define VIAL_BUILD_FILE_DAYS 7

/* Reads what there is, and removes what was being written when viald ended. Blocks. */
VialBuildFiles *vial_build_files_load(VialApp *app);
void vial_build_files_free(VialBuildFiles *files); /* accepts NULL; after the workers have stopped */

/* 64 hexadecimal digits: what may become part of a path, as a content's hash or as a client's name. */
gboolean vial_build_file_is_name(const char *name);

/* One that is being written. */
typedef struct VialBuildUpload VialBuildUpload;

typedef struct {
	/* It takes bytes again, after write() has returned FALSE. */
	void (*writable)(gpointer data);
	/*
	 * Once, and last: it is kept under `hash`, or why it could not be: TOO_LARGE, QUOTA, NO_SPACE. It may fail at any time, also within write().
	 * The upload is gone afterwards.
	 */
	void (*end)(const char *hash, gint64 size_bytes, const GError *error, gpointer data);
} VialBuildFileSink;

/*
 * `name` NULL: by its content alone. `size_bytes` is what will come, if that is known, else -1; more than it is no error. NULL with an error when
 * there is no room for it: then nothing is called. Else write() what comes, and finish() or abort().
 */
VialBuildUpload *vial_build_files_begin(VialApp *app, const char *project, const char *name, gint64 size_bytes, const VialBuildFileSink *sink,
                                        gpointer data, GError **error);
/* Room for so many more bytes that will be written later, for whoever gathers them elsewhere until then. FALSE with an error: there is none. */
gboolean vial_build_upload_reserve(VialBuildUpload *upload, gsize size, GError **error);
/* The bytes are taken. FALSE: enough for now, or it has failed. */
gboolean vial_build_upload_write(VialBuildUpload *upload, const void *bytes, gsize size);
/* That was all: `end` comes once it is on the disk. */
void vial_build_upload_finish(VialBuildUpload *upload);
/* Nothing is kept, and nothing is called. Accepts NULL. */
void vial_build_upload_abort(VialBuildUpload *upload);

/* The hash of what a client calls so, borrowed until the loop runs; NULL: there is nothing. It has been wanted now, and stays for a week. */
const char *vial_build_files_find(VialApp *app, const char *project, const char *name);
/* Whether that content is here. It has been wanted now. */
gboolean vial_build_files_have(VialApp *app, const char *project, const char *hash);
/* Where it lies. Free it. NULL: it can be none. */
char *vial_build_file_path(VialApp *app, const char *project, const char *hash);

/* All of a project's, at its end; how many are still being written. */
guint vial_build_files_delete_all(VialApp *app, const char *project);
/* Removes what has become too old; from then on this happens by itself. Once the builds are known that need some. */
void vial_build_files_start(VialApp *app);
