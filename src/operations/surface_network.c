/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/surface_network.h"

#include <string.h>

#include "service/app.h"
#include "service/quota.h"

json_t *vial_surface_network(const VialCaller *caller)
{
	const VialConfig *config = caller->app->config;
	const struct {
		const char *surface, *mode;
	} settings[] = {
		{ "pandastack", config->pandastack_network },
		{ "podflare", config->podflare_network },
		{ "e2b", config->e2b_network },
		{ "cloudflare", config->cloudflare_network },
	};

	if (!caller->origin)
		return NULL;
	for (gsize i = 0; i < G_N_ELEMENTS(settings); i++)
		if (strcmp(caller->origin->surface, settings[i].surface) == 0 && strcmp(settings[i].mode, "disabled") != 0 &&
		    vial_ceiling_network(caller->app, caller->principal, settings[i].mode, NULL))
			return json_pack("{s:s}", "mode", settings[i].mode);
	return NULL;
}
