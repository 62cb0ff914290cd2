/* SPDX-License-Identifier: Apache-2.0 */
/* What engines share about the process that hosts a sandbox (vial-shim, vial-vmm) and its folder. Blocking, on small files only. */
#pragma once

#include <jansson.h>
#include <sys/types.h>

#include "util/error.h"

/* DIR/NAME, 0600. Consumes document. */
gboolean vial_host_write_json(const char *dir, const char *name, json_t *document, GError **error);
/* DIR/shim.pid: "pid starttime", for a process that did not write it itself. FALSE if there is no such process. */
gboolean vial_host_process_record(const char *dir, pid_t pid, GError **error);
/* The process recorded in the folder if it still is that one, same pid and same start time; else 0. */
pid_t vial_host_process_find(const char *dir);
/* Kills the process recorded in the folder if it still is that one. */
void vial_host_process_kill(const char *dir);
