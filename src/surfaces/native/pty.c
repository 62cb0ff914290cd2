/* SPDX-License-Identifier: Apache-2.0 */
/* GET …/pty: a terminal over a WebSocket; docs/cli.md has the messages. */
#include "surfaces/native/handlers.h"
#include "surfaces/podflare/handlers.h"
#include "surfaces/shared/podflare.h"
#include "surfaces/shared/terminal.h"
#include "util/json.h"

void vial_api_pty(VialRequest *request)
{
	static const VialTerminalDialect dialect = { .exit_field = "exit_code", .error_field = "error" };
	g_autoptr(json_t) shell = json_pack("[s, s]", "bash", "-l");
	VialExecRequest exec;
	GError *error = NULL;

	if (vial_podflare_is_pty_list(request))
		return vial_podflare_pty_list(request);
	if (!vial_terminal_decode(request, &exec, &error))
		return vial_request_reply_error(request, error);
	exec.cmd = vial_request_query(request, "cmd");
	exec.cwd = vial_request_query(request, "cwd");
	exec.user = vial_request_query(request, "user");
	exec.argv = exec.cmd ? NULL : shell;
	vial_terminal_start(request, &exec, &dialect);
}
