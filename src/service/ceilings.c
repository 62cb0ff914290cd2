/* SPDX-License-Identifier: Apache-2.0 */
/* What may be asked for at all, however much room there is: the project's ceilings, and those of the key, which can only be lower. */
#include <string.h>

#include "service/project.h"
#include "service/quota.h"

static const VialQuotas *project_quotas(VialApp *app, const VialIdentity *principal)
{
	const VialProject *project = vial_projects_find(app->projects, principal->project);

	return project ? project->quotas : NULL;
}

/* A template's name in a list means all its tags, and the name alone is the latest. */
static gboolean has_untagged(const VialIdentity *principal, const char *name)
{
	g_autofree char *bare = g_strndup(name, strcspn(name, ":")), *latest = g_strdup_printf("%s:latest", name);

	return vial_allow_has_template(principal->allow, bare) || (!strchr(name, ':') && vial_allow_has_template(principal->allow, latest));
}

/* A list may have a template's name or one of its others. */
gboolean vial_ceiling_template(VialApp *app, const VialIdentity *principal, const char *name, GError **error)
{
	const VialTemplate *template = vial_templates_find_in(app->templates, principal->project, name);

	if (vial_allow_has_template(principal->allow, name) || has_untagged(principal, name))
		return TRUE;
	for (gsize i = 0; template && template->aliases && template->aliases[i]; i++)
		if (vial_allow_has_template(principal->allow, template->aliases[i]))
			return TRUE;
	return vial_fail(error, VIAL_ERROR_FORBIDDEN, "this key is not for the template \"%s\" (allow.templates)", name);
}

gboolean vial_ceiling_agentless(const VialIdentity *principal, GError **error)
{
	return vial_allow_has_agent(principal->allow, NULL) ||
	       vial_fail(error, VIAL_ERROR_FORBIDDEN, "this key makes sandboxes only through certain agents (allow.agents)");
}

gboolean vial_ceiling_network(VialApp *app, const VialIdentity *principal, const char *mode, GError **error)
{
	if (!vial_allow_has_network_mode(principal->allow, mode))
		return vial_fail(error, VIAL_ERROR_FORBIDDEN, "this key is not for sandboxes whose network is %s (allow.network_modes)", mode);
	if (!vial_quotas_allow_mode(principal->limits, mode))
		return vial_fail(error, VIAL_ERROR_FORBIDDEN, "this key is not for sandboxes whose network is %s (network_modes in its limits)",
		                 mode);
	if (!vial_quotas_allow_mode(project_quotas(app, principal), mode))
		return vial_fail(error, VIAL_ERROR_FORBIDDEN,
		                 "the project %s may not have sandboxes whose network is %s; an operator can allow it (network_modes in its quotas)",
		                 principal->project, mode);
	return TRUE;
}

gboolean vial_ceiling_size(VialApp *app, const VialIdentity *principal, const VialLimits *limits, GError **error)
{
	gboolean is_for_key = vial_quotas_allow_size(principal->limits, limits->cpu, limits->memory_mb);

	if (is_for_key && vial_quotas_allow_size(project_quotas(app, principal), limits->cpu, limits->memory_mb))
		return TRUE;
	return vial_fail(error, VIAL_ERROR_FORBIDDEN,
	                 "a sandbox of %g processors and %" G_GINT64_FORMAT " MB fits into no tier that %s %s may use (tiers)", limits->cpu,
	                 limits->memory_mb, is_for_key ? "the project" : "the key", is_for_key ? principal->project : principal->name);
}

static gint64 lower(gint64 ceiling, const VialQuotas *quotas)
{
	gint64 own = quotas ? quotas->max_ttl_seconds : VIAL_NO_QUOTA;

	if (own == VIAL_NO_QUOTA)
		return ceiling;
	return ceiling == 0 ? MAX(own, 1) : MIN(ceiling, MAX(own, 1));
}

gint64 vial_ceiling_ttl(VialApp *app, const VialIdentity *principal)
{
	return lower(lower(0, project_quotas(app, principal)), principal->limits);
}
