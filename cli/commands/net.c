/* SPDX-License-Identifier: Apache-2.0 */
/* The network of one sandbox: show | set | check | events, one small function each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/network.h"
#include "cli/output.h"
#include "cli/table.h"

static GPtrArray *allow, *deny;
static gint64 rate_mbit = -1, max_connections = -1;

static const VialOption options[] = {
	{ 0, "allow", VIAL_OPTION_LIST, &allow, "ENTRY", "with set: what may be reached; may be repeated", NULL },
	{ 0, "deny", VIAL_OPTION_LIST, &deny, "ENTRY", "with set: what may not be reached; may be repeated", NULL },
	VIAL_NETWORK_LIMIT_OPTIONS(rate_mbit, max_connections, "with set: "),
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};

const VialSyntax vial_net_syntax = {
	.arguments = "show ID | set ID MODE | check ID HOST [PORT] | events ID",
	.description = "MODE is disabled, open or filtered; an ENTRY is an address, a range, a domain, *.domain or ALL_TRAFFIC, with\n"
		       ":port or :from-to if only some ports are meant. `set` replaces the whole policy at once.\n\n"
		       "  vial net set ID filtered --deny ALL_TRAFFIC --allow example.com:443\n"
		       "  vial net check ID example.com 443",
	.options = options,
	.min_arguments = 2,
	.max_arguments = 4,
	.completes = "show set check events",
};

static void print_list(const char *name, const json_t *list)
{
	for (gsize i = 0; i < json_array_size(list); i++) {
		const char *entry = json_string_value(json_array_get(list, i));
		g_autofree char *clean = vial_sanitize_line(entry ? entry : "-");
		printf("%s %s\n", name, clean);
	}
}

static void print_limit(const json_t *policy, const char *field, const char *unit)
{
	gint64 limit = vial_api_integer(json_object_get(policy, "limits"), field, 0);
	if (limit)
		printf("limit %" G_GINT64_FORMAT " %s\n", limit, unit);
}

static void print_policy(const json_t *policy)
{
	g_autofree char *mode = vial_api_line(policy, "mode");
	printf("mode  %s\n", mode);
	print_list("allow", json_object_get(policy, "allow_out"));
	print_list("deny ", json_object_get(policy, "deny_out"));
	print_limit(policy, "rate_mbit", "Mbit/s");
	print_limit(policy, "max_connections", "connections");
}

static void print_verdict(const json_t *verdict)
{
	g_autofree char *outcome = vial_api_line(verdict, "verdict"), *rule = vial_api_line(verdict, "rule");
	g_autofree char *reason = vial_api_line(verdict, "reason");
	printf("%s, by %s: %s\n", outcome, rule, reason);
}

static void print_events(VialCli *cli, json_t *answer)
{
	const json_t *events = vial_api_list(answer, "events");
	g_autoptr(VialTable) table = vial_table_new("TIME VERDICT KIND NAME ADDRESS >PORT RULE");
	for (gsize i = 0; i < json_array_size(events); i++) {
		const json_t *event = json_array_get(events, i);
		const char *name = json_string_value(json_object_get(event, "name"));
		const char *address = json_string_value(json_object_get(event, "address"));
		gint64 port = vial_api_integer(event, "port", 0);
		vial_table_add(table, vial_api_string(event, "time"));
		vial_table_add(table, vial_api_string(event, "verdict"));
		vial_table_add(table, vial_api_string(event, "kind"));
		vial_table_add(table, name ? name : "-");
		vial_table_add(table, address ? address : "-");
		vial_table_add_take(table, port ? g_strdup_printf("%" G_GINT64_FORMAT, port) : g_strdup("-"));
		vial_table_add(table, vial_api_string(event, "rule"));
	}
	vial_table_print(table, cli->has_color_out);
}

/* The request that a sub-command makes; NULL for one that there is not. `*out_body` may stay NULL. */
static const char *plan(VialCli *cli, int argc, char **argv, const char **out_suffix, json_t **out_body)
{
	const char *verb = argv[0];
	*out_suffix = "/network";
	if (strcmp(verb, "show") == 0 && argc == 2)
		return "GET";
	if (strcmp(verb, "set") == 0 && argc == 3) {
		*out_body = vial_network_json(argv[2], allow, deny, rate_mbit, max_connections);
		return "PUT";
	}
	if (strcmp(verb, "check") == 0 && argc >= 3) {
		*out_suffix = "/network/check";
		*out_body = json_pack("{s:s, s:i}", "host", argv[2], "port", argc > 3 ? atoi(argv[3]) : 443);
		return "POST";
	}
	*out_suffix = "/network/events";
	return strcmp(verb, "events") == 0 && argc == 2 ? "GET" : NULL;
}

int vial_net_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	json_t *body = NULL;
	const char *suffix;
	const char *method = plan(cli, argc, argv, &suffix, &body);
	if (!method)
		return vial_output_usage(cli, "say show, set, check or events, then the sandbox's id, then what it needs");
	g_autoptr(json_t) answer = NULL;
	g_autofree char *id = vial_api_sandbox_id(cli, argv[1], &error);
	if (!id) {
		json_decref(body);
		return vial_output_fail(cli, error);
	}
	g_autofree char *base = vial_api_path("/sandboxes/%s", id);
	g_autofree char *path = g_strconcat(base, suffix, NULL);
	if (!vial_api_call(cli, method, path, body, &answer, &error))
		return vial_output_fail(cli, error);
	if (cli->is_json)
		vial_output_json(answer);
	else if (strcmp(argv[0], "check") == 0)
		print_verdict(answer);
	else if (strcmp(argv[0], "events") == 0)
		print_events(cli, answer);
	else
		print_policy(answer);
	/* A script asks with `vial net check … && …`. */
	return g_strcmp0(json_string_value(json_object_get(answer, "verdict")), "deny") == 0 && strcmp(argv[0], "check") == 0 ? VIAL_EXIT_ERROR
	                                                                                                                      : VIAL_EXIT_OK;
}
