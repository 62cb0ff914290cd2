/* SPDX-License-Identifier: Apache-2.0 */
/* viald: reads its settings, then serves (daemon.c) or prints what it is asked for. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "daemon.h"
#include "operations/verbs.h"
#include "service/doctor.h"
#include "surfaces/shared/tables.h"
#include "util/log.h"
#include "util/time.h"

static int print_routes(void)
{
	for (const VialRouteTable *const *table = vial_surface_tables; *table; table++) {
		for (const VialRoute *route = (*table)->routes; route < (*table)->routes + (*table)->n_routes; route++) {
			const VialVerbRules *rules = vial_verb_rules(route->verb);

			g_print("%s %s %s %s %s\n", route->flags & VIAL_ROUTE_ANY_METHOD ? "ANY" : route->method, route->pattern, rules->name,
			        route->flags & VIAL_ROUTE_PUBLIC ? "public" : vial_role_name(rules->role), (*table)->name);
		}
	}
	return 0;
}

static int print_doctor(const VialConfig *config)
{
	json_t *report = vial_doctor(config);
	char *text = json_dumps(report, JSON_INDENT(2));

	g_print("%s\n", text);
	free(text);
	json_decref(report);
	return 0;
}

int main(int argc, char **argv)
{
	gboolean wants_routes = FALSE, wants_doctor = FALSE, wants_version = FALSE, as_json = FALSE;
	const GOptionEntry extra[] = {
		{ "print-routes", 0, 0, G_OPTION_ARG_NONE, &wants_routes, "list the API's routes, with the verb and the least role of each, and exit",
		  NULL },
		{ "doctor", 0, 0, G_OPTION_ARG_NONE, &wants_doctor, "say as JSON what this host can do and exit", NULL },
		{ "json", 0, 0, G_OPTION_ARG_NONE, &as_json, "with --doctor: JSON, which is its only form", NULL },
		{ "version", 0, 0, G_OPTION_ARG_NONE, &wants_version, "print the version and exit", NULL },
		{ NULL },
	};
	g_autoptr(GError) error = NULL;
	g_autoptr(VialConfig) config = vial_config_load(&argc, &argv, extra, &error);
	VialLogLevel level;

	if (!config) {
		g_printerr("viald: %s\n", error->message);
		return 1;
	}
	if (argc > 1) {
		g_printerr("viald: I do not understand \"%s\"; see viald --help\n", argv[1]);
		return 2;
	}
	if (vial_log_level_parse(config->log_level, &level))
		vial_log_setup(level, strcmp(config->log_format, "json") == 0 ? VIAL_LOG_JSON : VIAL_LOG_TEXT);
	/* Workers come and go, and each would leave megabytes in a heap of its own; what they do beside the main thread is seldom memory's. */
	mallopt(M_ARENA_MAX, 1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	vial_time_set_scale((guint)config->time_scale);
	if (wants_version) {
		g_print("viald %s\n", VIAL_VERSION);
		return 0;
	}
	if (wants_routes)
		return print_routes();
	if (wants_doctor)
		return print_doctor(config);
	return vial_daemon_run(config, NULL);
}
