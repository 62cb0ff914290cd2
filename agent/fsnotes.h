/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes that clients keep with a file ("metadata" of fs.write): extended attributes, where programs in the sandbox find them by the name that the one
 * dialect which has them (E2B's) gives them. They are as much the guest's as the file is.
 */
#pragma once

#include <jansson.h>

/* An object of strings. 0 or -errno. */
int vial_fs_notes_set(int fd, const json_t *notes);
/* As an object of strings, of a bounded number and size, as the entered user may see them; NULL: there are none. */
json_t *vial_fs_notes(const char *path);
