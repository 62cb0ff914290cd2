/* SPDX-License-Identifier: Apache-2.0 */
/* The dialect at a glance. */
#include "surfaces/podflare/routes.h"

#include "operations/limits.h"
#include "operations/verbs.h"
#include "surfaces/podflare/handlers.h"

#define SANDBOX "/v1/sandboxes/{id}"
#define SPACE "/v1/spaces/{id}"
#define PTY SANDBOX "/pty/{pid}"
/* Bodies with code or input in them; JSON may need several bytes for one. */
#define LARGE VIAL_REQUEST_MAX_BYTES

/* What no other dialect has a word for. */
#define OWN(prefix)                                                                                          \
	{ "POST", prefix SANDBOX "/merge_into/{winner}", vial_podflare_merge_into, 0, 0, VIAL_VERB_MERGE },  \
		{ "POST", prefix SPACE "/resume", vial_podflare_space_resume, 0, 0, VIAL_VERB_WAKE },        \
		{ "DELETE", prefix SPACE, vial_podflare_space_delete, 0, 0, VIAL_VERB_SANDBOX_DELETE },      \
		{ "POST", prefix SANDBOX "/pty", vial_podflare_pty_create, 0, 0, VIAL_VERB_PTY },            \
		{ "GET", prefix PTY "/attach", vial_podflare_pty_attach, 0, 0, VIAL_VERB_PROCESS_READ },     \
		{ "POST", prefix PTY "/input", vial_podflare_pty_input, 0, LARGE, VIAL_VERB_PROCESS_INPUT }, \
		{ "POST", prefix PTY "/read", vial_podflare_pty_read, 0, 0, VIAL_VERB_PROCESS_READ },        \
		{ "POST", prefix PTY "/resize", vial_podflare_pty_resize, 0, 0, VIAL_VERB_TERMINAL_RESIZE }, \
	{                                                                                                    \
		"POST", prefix PTY "/kill", vial_podflare_pty_kill, 0, 0, VIAL_VERB_PROCESS_SIGNAL           \
	}

static const VialRoute routes[] = {
	{ "GET", "/podflare/v1/healthz", vial_podflare_healthz, VIAL_ROUTE_PUBLIC, 0, VIAL_VERB_HEALTH },
	{ "POST", "/podflare/v1/sandboxes", vial_podflare_create, 0, 0, VIAL_VERB_SANDBOX_CREATE },
	{ "DELETE", "/podflare" SANDBOX, vial_podflare_destroy, 0, 0, VIAL_VERB_SANDBOX_DELETE },
	{ "POST", "/podflare" SANDBOX "/fork", vial_podflare_fork, 0, 0, VIAL_VERB_FORK },
	{ "POST", "/podflare" SANDBOX "/exec", vial_podflare_exec, 0, LARGE, VIAL_VERB_RUN },
	{ "GET", "/podflare" SANDBOX "/replay", vial_podflare_replay, 0, 0, VIAL_VERB_AUDIT_READ },
	{ "GET", "/podflare" SANDBOX "/pty", vial_podflare_pty_list, 0, 0, VIAL_VERB_PROCESS_READ },
	OWN("/podflare"),
	OWN(""),
};

const VialRouteTable vial_podflare_table = { .name = "podflare", .routes = routes, .n_routes = G_N_ELEMENTS(routes) };
