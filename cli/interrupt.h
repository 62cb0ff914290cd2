/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals as something a loop can wait for, so that Ctrl-C ends a transfer in an orderly way: temporary files and ephemeral
 * sandboxes are removed, the terminal is restored. SIGINT can be taken (the REPL does); SIGTERM and SIGHUP are final. A
 * user who presses Ctrl-C three times without effect is out at once.
 */
#pragma once

#include <glib.h>

void vial_interrupt_install(void);
int vial_interrupt_fd(void); /* readable while a signal is pending; -1 before install */
gboolean vial_interrupt_pending(void);
gboolean vial_interrupt_is_final(void);
/* Forgets a pending SIGINT: it has been acted upon. */
void vial_interrupt_take(void);
/* Before cleaning up over the network: forgets everything, so that the clean-up's own requests run; a new Ctrl-C ends those. */
void vial_interrupt_clear(void);
/* 128 + the signal that ended us, or `otherwise`. */
int vial_interrupt_exit_status(int otherwise);
/* Sleeps; FALSE when a signal came. */
gboolean vial_interrupt_sleep_ms(int milliseconds);
