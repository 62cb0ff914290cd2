/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal over a WebSocket: binary messages are what is shown and typed, text messages are JSON. From the client
 * {"type":"resize","rows":R,"cols":C} and {"type":"signal","signal":S}; to it an exit or an error, which is the last. The client's end is the
 * terminal's end: hang-up, as when a line is cut.
 */
#pragma once

#include "operations/exec.h"
#include "surfaces/shared/surface.h"

typedef struct {
	const char *exit_field;  /* of {"type":"exit", …}: the code */
	const char *error_field; /* of {"type":"error", …}: the sentence */
	const char *greeting;    /* a text message when it is open; NULL: none */
} VialTerminalDialect;

/* The handshake, and rows and cols of the query, with the defaults for those that are not there. */
gboolean vial_terminal_decode(VialRequest *request, VialExecRequest *out, GError **error);

/* The process is started first and the WebSocket accepted when it runs, so that what cannot be done is an ordinary error. */
void vial_terminal_start(VialRequest *request, const VialExecRequest *exec, const VialTerminalDialect *dialect);

/*
 * For clients that open a shell and type one line into it: the WebSocket is accepted first, and the first message decides. A whole line is a command:
 * it runs at the terminal, which ends with it and has its exit code. Nothing of it is echoed, and it may be longer than a line that can be typed.
 * Anything else is somebody typing, who gets a login shell.
 */
void vial_terminal_await(VialRequest *request, const VialExecRequest *size, const VialTerminalDialect *dialect);
