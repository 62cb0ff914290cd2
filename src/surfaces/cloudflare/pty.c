/* SPDX-License-Identifier: Apache-2.0 */
/* GET …/pty: the clients wait for "ready", and then type the one command that they want run. */
#include "surfaces/cloudflare/handlers.h"
#include "surfaces/shared/terminal.h"

void vial_cloudflare_pty(VialRequest *request)
{
	static const VialTerminalDialect dialect = { .exit_field = "code", .error_field = "message", .greeting = "{\"type\":\"ready\"}" };
	VialExecRequest size;
	GError *error = NULL;

	if (vial_terminal_decode(request, &size, &error))
		vial_terminal_await(request, &size, &dialect);
	else
		vial_request_reply_error(request, error);
}
