/* SPDX-License-Identifier: Apache-2.0 */
/* A process's stdin: bytes wait here until its pipe or pty takes them. The writing half is declared in process.h. */
#pragma once

#include "process.h"

/* At once, whatever still waits; the source gets its credit and on_drained. */
void vial_process_input_close(struct vial_process_run *run);
