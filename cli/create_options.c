/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/create_options.h"

#include <string.h>

#include "cli/api.h"
#include "cli/interrupt.h"
#include "cli/output.h"

/* Long enough for a pause between two requests, short enough that a killed vial leaves nothing behind for long. */
enum { EPHEMERAL_IDLE_SECONDS = 600, EPHEMERAL_TTL_SECONDS = 24 * 3600 };

char *vial_create_template, *vial_create_engine, *vial_create_tier, *vial_create_network, *vial_create_from;
double vial_create_cpu = -1;
gint64 vial_create_memory_mib = -1, vial_create_rate_mbit = -1, vial_create_max_connections = -1;
GPtrArray *vial_create_allow, *vial_create_deny;

static gboolean set_network(json_t *body, GError **error)
{
	gboolean has_rules = vial_create_allow || vial_create_deny;
	gboolean has_limits = vial_create_rate_mbit >= 0 || vial_create_max_connections >= 0;
	const char *mode = vial_create_network ? vial_create_network : has_rules ? "filtered" : "disabled";
	if (has_limits && g_strcmp0(mode, "disabled") == 0) {
		g_set_error_literal(error, VIAL_OPTIONS_ERROR, 0,
		                    "--rate-mbit and --max-connections mean nothing without a network: add --network or --allow");
		return FALSE;
	}
	if (!vial_create_network && !has_rules)
		return TRUE;
	if (has_rules && g_strcmp0(mode, "disabled") == 0) {
		g_set_error_literal(error, VIAL_OPTIONS_ERROR, 0, "--allow and --deny mean nothing with --network disabled");
		return FALSE;
	}
	json_object_set_new(body, "network",
	                    vial_network_json(mode, vial_create_allow, vial_create_deny, vial_create_rate_mbit, vial_create_max_connections));
	return TRUE;
}

json_t *vial_create_body(GError **error)
{
	g_autoptr(json_t) body = json_object();
	if (vial_create_template && vial_create_from) {
		g_set_error_literal(error, VIAL_OPTIONS_ERROR, 0, "--template and --from exclude each other: a snapshot has its template");
		return NULL;
	}
	if (vial_create_tier && (vial_create_cpu >= 0 || vial_create_memory_mib >= 0)) {
		g_set_error_literal(error, VIAL_OPTIONS_ERROR, 0,
		                    "--tier is a size already: leave out --cpu and --memory, or ask for a size with these");
		return NULL;
	}
	if (vial_create_tier)
		json_object_set_new(body, "tier", json_string(vial_create_tier));
	if (vial_create_template)
		json_object_set_new(body, "template", json_string(vial_create_template));
	if (vial_create_from)
		json_object_set_new(body, "from_snapshot", json_string(vial_create_from));
	if (vial_create_engine)
		json_object_set_new(body, "engine", json_string(vial_create_engine));
	if (vial_create_cpu >= 0) {
		gboolean is_whole = vial_create_cpu == (double)(int)vial_create_cpu;
		json_object_set_new(body, "cpu", is_whole ? json_integer((int)vial_create_cpu) : json_real(vial_create_cpu));
	}
	if (vial_create_memory_mib >= 0)
		json_object_set_new(body, "memory_mb", json_integer(vial_create_memory_mib));
	if (!set_network(body, error))
		return NULL;
	return g_steal_pointer(&body);
}

json_t *vial_create_sandbox(VialCli *cli, json_t *body, GError **error)
{
	g_autoptr(json_t) sandbox = NULL;
	if (!vial_api_call(cli, "POST", "/v1/sandboxes", body, &sandbox, error))
		return NULL;
	if (!vial_api_string(sandbox, "id")) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s answered without a sandbox id: is it viald?", cli->url);
		return NULL;
	}
	return g_steal_pointer(&sandbox);
}

struct VialEphemeral {
	VialCli *cli;
	char *id;
	gboolean is_ours;
};

/*
 * The idle limit removes it when we are gone; the usual time to live would end a long session, so it asks for more of that,
 * and takes what it gets from a viald that allows less.
 */
static char *make_ephemeral(VialCli *cli, GError **error)
{
	g_autoptr(GError) problem = NULL;
	g_autoptr(json_t) body = vial_create_body(error);
	if (!body)
		return NULL;
	json_object_set_new(body, "idle_seconds", json_integer(EPHEMERAL_IDLE_SECONDS));
	json_object_set_new(body, "on_idle", json_string("delete"));
	json_object_set_new(body, "ttl_seconds", json_integer(EPHEMERAL_TTL_SECONDS));
	g_autoptr(json_t) sandbox = vial_create_sandbox(cli, json_incref(body), &problem);
	if (g_error_matches(problem, VIAL_HTTP_ERROR, 400) && strstr(problem->message, "ttl_seconds")) {
		g_clear_error(&problem);
		json_object_del(body, "ttl_seconds");
		sandbox = vial_create_sandbox(cli, json_incref(body), &problem);
	}
	if (!sandbox)
		g_propagate_error(error, g_steal_pointer(&problem));
	return sandbox ? vial_api_text(sandbox, "id") : NULL;
}

VialEphemeral *vial_ephemeral_new(VialCli *cli, const char *given, GError **error)
{
	char *id = given ? vial_api_sandbox_id(cli, given, error) : make_ephemeral(cli, error);
	if (!id)
		return NULL;
	VialEphemeral *ephemeral = g_new0(VialEphemeral, 1);
	ephemeral->cli = cli;
	ephemeral->id = id;
	ephemeral->is_ours = !given;
	return ephemeral;
}

void vial_ephemeral_free(VialEphemeral *ephemeral)
{
	if (!ephemeral)
		return;
	if (ephemeral->is_ours) {
		g_autoptr(GError) error = NULL;
		g_autofree char *path = vial_api_path("/sandboxes/%s", ephemeral->id);
		vial_interrupt_clear(); /* the Ctrl-C that brought us here must not stop the clean-up */
		if (!vial_api_call(ephemeral->cli, "DELETE", path, NULL, NULL, &error) && !g_error_matches(error, VIAL_HTTP_ERROR, 404) &&
		    !g_error_matches(error, VIAL_HTTP_ERROR, VIAL_HTTP_UNREACHABLE))
			vial_output_note(ephemeral->cli, "sandbox %s could not be removed: %s", ephemeral->id, error->message);
	}
	g_free(ephemeral->id);
	g_free(ephemeral);
}

const char *vial_ephemeral_id(const VialEphemeral *ephemeral)
{
	return ephemeral->id;
}

gboolean vial_ephemeral_is_ours(const VialEphemeral *ephemeral)
{
	return ephemeral->is_ours;
}

void vial_ephemeral_keep(VialEphemeral *ephemeral)
{
	ephemeral->is_ours = FALSE;
}
