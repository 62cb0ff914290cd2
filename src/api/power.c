/* SPDX-License-Identifier: Apache-2.0 */
/* Pausing, resuming, hibernating, waking: 204 when it is so. */
#include "api/guest.h"
#include "api/handlers.h"
#include "service/sandbox.h"

static void on_done(VialSandbox *sandbox, const GError *error, gpointer data)
{
	g_autoptr(VialRequest) request = data;

	if (error)
		vial_request_reply_error(request, g_error_copy(error));
	else
		vial_request_reply_empty(request, 204);
}

/* Whoever waits for a wake holds the sandbox: this one only wanted it awake. */
static void on_awake(VialSandbox *sandbox, const GError *error, gpointer data)
{
	on_done(sandbox, error, data);
	if (sandbox)
		vial_sandbox_release(sandbox);
}

static void act(VialRequest *request, void (*verb)(VialSandbox *, VialSandboxDone, gpointer))
{
	VialSandbox *sandbox = vial_guest_sandbox(request);

	if (sandbox)
		verb(sandbox, on_done, vial_request_ref(request));
}

void vial_api_pause(VialRequest *request)
{
	act(request, vial_sandbox_pause);
}

void vial_api_resume(VialRequest *request)
{
	act(request, vial_sandbox_resume);
}

void vial_api_hibernate(VialRequest *request)
{
	act(request, vial_sandbox_hibernate);
}

void vial_api_wake(VialRequest *request)
{
	VialSandbox *sandbox = vial_guest_sandbox(request);

	if (sandbox)
		vial_sandbox_acquire(sandbox, on_awake, vial_request_ref(request));
}
