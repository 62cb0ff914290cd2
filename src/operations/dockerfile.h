/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Dockerfile of RUN, ENV, WORKDIR, ARG and comments, as the steps of a build; and of COPY, where files came with it. Every other instruction is
 * refused by its line and name, with the reason: what it would do has another home here, or none. Pure text to JSON; nothing is run, nothing is read.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#define VIAL_DOCKERFILE_MAX_BYTES (256 * 1024)
#define VIAL_STEPS_MAX 128

/*
 * An array of steps in the order of the file: {"run": a shell line or an array of words, "user": NAME?, "args": {…}?, "line": N}, {"env": {…},
 * "line": N}, {"workdir": an absolute path, "line": N}, {"copy": {…} (dockerfile_copy.h), "line": N} for each source of a COPY. `args` (an object of
 * strings, may be NULL) are values for the file's ARGs; `env` (borrowed, may be NULL) and `workdir` (may be NULL) are what the base has. `context` is
 * the archive that is copied from; NULL: there is none, and COPY is refused. NULL with an INVALID error that names the line.
 */
json_t *vial_dockerfile_parse(const char *text, json_t *args, json_t *env, const char *workdir, const char *context, GError **error);
/* Whether anything is copied; also TRUE of what is not valid, and may have been meant to. */
gboolean vial_dockerfile_copies(const char *text);

/* `path` seen from `workdir`, without "." and "..". Free it. */
char *vial_workdir_join(const char *workdir, const char *path);
