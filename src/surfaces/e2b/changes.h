/* SPDX-License-Identifier: Apache-2.0 */
/* What happened to files, as E2B tells it, from what the operations tell. */
#pragma once

#include "http/request.h"

/* Appends the FilesystemEvents of one change ({event, path, from?}); `root` is what is watched, from which names are told. */
void vial_e2b_changes_add(json_t *events, const char *root, const char *event, const char *path, const char *from);

/*
 * Adds to each of these events the entry it is about, where there is (still) one; `filled` gets the same list back, later or at once. The request is
 * the one that will be answered, `user` who looks.
 */
typedef void (*VialE2bChangesFilled)(json_t *events, gpointer data);
void vial_e2b_changes_fill(VialRequest *request, json_t *events, const char *root, const char *user, VialE2bChangesFilled filled, gpointer data);
