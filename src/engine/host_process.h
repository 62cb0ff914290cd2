/* SPDX-License-Identifier: Apache-2.0 */
/* What engines share about the process that hosts a sandbox (vial-shim, vial-vmm) and its folder. Blocking, on small files only. */
#pragma once

#include <jansson.h>
#include <sys/types.h>

#include "util/error.h"

/* How a host process is known: by its number and its start time, from us who started it or from the kernel, and held by a pidfd while we act on it.
 */

/* DIR/NAME, 0600. Consumes document. */
gboolean vial_host_write_json(const char *dir, const char *name, json_t *document, GError **error);
/* DIR/shim.pid: "pid starttime", for a process that did not write it itself. FALSE if there is no such process. */
gboolean vial_host_process_record(const char *dir, pid_t pid, GError **error);
/* The process recorded in the folder if it still is that one, same pid and same start time; else 0. */
pid_t vial_host_process_find(const char *dir);
/* Kills the process recorded in the folder if it still is that one. */
void vial_host_process_kill(const char *dir);

/* A descriptor of the process, or -1 when there is none that a sandbox could have: never ours, never init. */
int vial_host_process_open(pid_t pid);
gboolean vial_host_process_is_alive(int process_fd);
void vial_host_process_end(int process_fd); /* does not wait */

/* DIR/exit.json, which the host process has left: a small object, or NULL. It may hold anything. */
json_t *vial_host_read_exit(const char *dir);

/* Why we ended a sandbox, e.g. because its agent lied to us; kept in the folder, for its cleanup is often all that is left to say so. */
void vial_host_note_reason(const char *dir, const char *reason);
char *vial_host_reason(const char *dir); /* NULL: none */
