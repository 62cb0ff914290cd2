/* SPDX-License-Identifier: Apache-2.0 */
/* Pseudo terminals for exec. */
#pragma once

#include "users.h"

#define VIAL_PTY_MAX_CELLS 4095 /* rows or columns */

/* A non-blocking master and a slave owned by the user. 0 or -errno. */
int vial_pty_open(unsigned short rows, unsigned short columns, const struct vial_user *user, int *out_master, int *out_slave);
/* Sets the size. Linux tells the foreground program by SIGWINCH; gVisor leaves that to us (process.c). */
void vial_pty_resize(int master, unsigned short rows, unsigned short columns);
