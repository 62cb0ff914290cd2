/* SPDX-License-Identifier: Apache-2.0 */
/* What the file operations share: reading path and user of a request, describing an entry. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include <jansson.h>

#include "stream.h"
#include "text.h"
#include "users.h"

#define VIAL_WORKSPACE "/workspace"

/* Where commands and kernels start when nobody says otherwise: the template's working directory, else the workspace. */
const char *vial_workdir(void);
/* "workdir" of a HELLO; without one it stays what it is. */
void vial_workdir_set(json_t *hello);

/* An absolute path from an absolute one or one relative to /workspace. 0, -EINVAL (empty), -ENAMETOOLONG. */
int vial_path_absolute(const char *path, char out_path[PATH_MAX]);

/*
 * "user" and the path in `field`. Closes the stream and returns false when one is wrong. /proc is refused: what the agent
 * would find there is not what the guest's programs see.
 */
bool vial_fs_request(struct vial_stream *stream, json_t *request, const char *field, char out_path[PATH_MAX], struct vial_user *out_user);
bool vial_fs_path(struct vial_stream *stream, json_t *request, const char *field, char out_path[PATH_MAX]);
/* "mode" as an octal string or a number; absent: `fallback`. */
bool vial_fs_mode(struct vial_stream *stream, json_t *request, mode_t fallback, mode_t *out_mode);

/* The entry of docs/wire.md for `path`, as the entered user sees it, maybe with the notes kept with it (fsnotes.h); NULL with errno set. */
json_t *vial_fs_entry(const char *path, bool has_notes);

/* mkdir -p of everything above the last component, as the entered user. 0 or -errno. */
int vial_fs_make_parents(const char *path);
