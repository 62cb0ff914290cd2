/* SPDX-License-Identifier: Apache-2.0 */
/* For dockerfile.c: what a COPY means, once its words are read. Pure text to JSON. */
#pragma once

#include <glib.h>
#include <jansson.h>

/*
 * `words` are what follows COPY, flags first, with variables put in; `workdir` may be NULL: where a sandbox's commands begin, and what is relative
 * stays so. An array of what the steps' "copy" is, one for each source: {"archive": `context`, "from": a path or pattern in it, "to": a path,
 * "user"?, "mode"?}. NULL with an INVALID error, without the line.
 */
json_t *vial_dockerfile_copy(const GPtrArray *words, const char *workdir, const char *context, GError **error);
