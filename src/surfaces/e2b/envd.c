/* SPDX-License-Identifier: Apache-2.0 */
/* envd itself: whether the sandbox lives, what it uses, its environment; and what listens on its other ports. */
#include <string.h>

#include "http/websocket_handshake.h"
#include "operations/exec.h"
#include "operations/processes.h"
#include "surfaces/e2b/control.h"
#include "surfaces/e2b/data.h"
#include "surfaces/shared/proxy.h"
#include "util/json.h"
#include "util/time.h"

/* Answered without a look at who asks and without the guest, which a look must not wake. */
void vial_e2b_health(VialRequest *request)
{
	VialSandbox *sandbox = vial_e2b_look(request);

	if (!sandbox)
		return;
	if (vial_e2b_is_asleep(sandbox))
		vial_e2b_reply_gone(request);
	else
		vial_request_reply_empty(request, 204);
}

/* Metrics */

static json_int_t number(const json_t *document, const char *field)
{
	return json_integer_value(json_object_get(document, field));
}

static void on_metrics(json_t *document, const GError *error, gpointer data)
{
	VialRequest *request = data;
	VialSandbox *sandbox = error ? NULL : vial_e2b_look(request);
	double cpu, load = json_number_value(json_array_get(json_object_get(document, "load"), 0));
	json_int_t total = number(document, "memory_limit_kb"), used = number(document, "memory_used_kb");

	if (error)
		vial_e2b_reply_error(request, error);
	if (sandbox) {
		cpu = vial_sandbox_limits(sandbox)->cpu;
		vial_request_reply_json(request, 200,
		                        json_pack("{s:I, s:i, s:f, s:I, s:I, s:i, s:I, s:I, s:I, s:I}", "ts", (json_int_t)(vial_time_now_ms() / 1000),
		                                  "cpu_count", (int)MAX(cpu + 0.999, 1), "cpu_used_pct", MIN(load / MAX(cpu, 0.01), 1) * 100,
		                                  "mem_total", total * 1024, "mem_used", used * 1024, "mem_cache", 0, "mem_total_mib", total / 1024,
		                                  "mem_used_mib", used / 1024, "disk_used", number(document, "disk_used_kb") * 1024, "disk_total",
		                                  number(document, "disk_total_kb") * 1024));
	}
	vial_request_unref(request);
}

void vial_e2b_envd_metrics(VialRequest *request)
{
	g_autoptr(GError) error = NULL;
	VialCaller caller;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	caller = vial_surface_question(request);
	vial_e2b_begun(request, vial_op_metrics(&caller, vial_surface_sandbox(request), on_metrics, request, &error), &error);
}

/* The environment that commands find */

static void on_environment(const VialExecAnswer *answer, const GError *error, gpointer data)
{
	VialExchange *exchange = data;
	json_t *env;
	g_auto(GStrv) lines = NULL;

	if (error)
		return vial_e2b_exchange_fail(exchange, error);
	env = json_object();
	lines = g_strsplit(answer->output[VIAL_OUTPUT_STDOUT], "\n", -1);
	for (char **line = lines; *line; line++) {
		char *value = strchr(*line, '=');

		if (!value)
			continue;
		*value++ = '\0';
		json_object_set_new(env, *line, json_string(value));
	}
	vial_request_reply_json(exchange->request, 200, env);
	vial_exchange_end(exchange);
}

void vial_e2b_envs(VialRequest *request)
{
	g_autoptr(json_t) argv = json_pack("[s]", "env");
	VialExecRequest exec = { .argv = argv };
	g_autoptr(GError) error = NULL;
	VialExchange *exchange;
	VialCaller caller;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TOKEN))
		return;
	caller = vial_surface_caller(request);
	exchange = vial_exchange_new(request, NULL, NULL);
	vial_e2b_exchange_begin(exchange, vial_op_exec_collected(&caller, vial_surface_sandbox(request), &exec, on_environment, exchange, &error),
	                        &error);
}

/* Other ports */

/* What the agent says where nobody listens (agent/tcp.c), in the words that clients and their tests look for. */
static gboolean answer_closed(VialRequest *request, unsigned port, const GError *error)
{
	if (vial_e2b_is_gone(request))
		vial_e2b_reply_gone(request);
	else if (g_error_matches(error, VIAL_ERROR, VIAL_ERROR_UNAVAILABLE) && g_str_has_prefix(error->message, "nothing listens on port "))
		vial_request_reply_json(request, 502,
		                        json_pack("{s:s, s:s, s:i, s:i}", "sandboxId", vial_surface_sandbox(request), "message",
		                                  "The sandbox is running but port is not open", "port", (int)port, "code", 502));
	else
		return FALSE;
	return TRUE;
}

void vial_e2b_port(VialRequest *request)
{
	const char *query = vial_request_query_string(request);
	VialProxyTarget target = { 0 };
	VialCaller caller;

	if (!vial_e2b_enter(request, VIAL_E2B_BY_TRAFFIC))
		return;
	caller = vial_surface_caller(request);
	target.port = vial_e2b_port_of(request);
	target.path = g_strconcat(vial_request_path(request), *query ? "?" : "", query, NULL);
	target.prefix = g_strdup("");
	target.is_upgrade = vial_request_body_size(request) == 0 && vial_websocket_is_asked_for(request);
	target.is_https = *caller.app->config->tls_cert != '\0';
	target.refuse = answer_closed;
	vial_proxy_start(request, &caller, &target);
}
