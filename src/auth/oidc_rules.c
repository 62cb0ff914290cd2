/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/oidc_rules.h"

#include <string.h>

#include "util/error.h"
#include "util/json.h"

#define MAX_RULES 256
#define MAX_RULE_BYTES 1024
#define VALUE_AS_PROJECT "{value}"

typedef struct {
	char *claim;
	char *pattern;
	char *project; /* NULL: the value */
	VialRole role;
} Rule;

struct VialOidcRules {
	GPtrArray *rules; /* Rule */
};

/* ---- reading ---- */

static void rule_free(gpointer pointer)
{
	Rule *rule = pointer;

	if (!rule)
		return;
	g_free(rule->claim);
	g_free(rule->pattern);
	g_free(rule->project);
	g_free(rule);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Rule, rule_free)

static gboolean refuse(const char *text, const char *reason, GError **error)
{
	return vial_fail(error, VIAL_ERROR_INVALID, "the rule \"%s\" in oidc_rules cannot be read: %s", text, reason);
}

/* `CLAIM=VALUE` */
static gboolean read_condition(Rule *rule, const char *condition, const char *text, GError **error)
{
	const char *equals = strchr(condition, '=');

	if (!equals)
		return refuse(text, "before -> it must have CLAIM=VALUE", error);
	rule->claim = g_strstrip(g_strndup(condition, (gsize)(equals - condition)));
	rule->pattern = g_strstrip(g_strdup(equals + 1));
	if (!rule->claim[0] || !rule->pattern[0])
		return refuse(text, "neither the claim nor the value may be empty", error);
	return TRUE;
}

/* `PROJECT:ROLE` */
static gboolean read_grant(Rule *rule, const char *grant, const char *text, GError **error)
{
	g_auto(GStrv) parts = g_strsplit(grant, ":", -1);

	if (g_strv_length(parts) != 2)
		return refuse(text, "behind -> it must have PROJECT:ROLE", error);
	g_strstrip(parts[0]);
	g_strstrip(parts[1]);
	if (!vial_role_parse(parts[1], &rule->role))
		return refuse(text, "the role must be viewer, runner, developer, admin or operator", error);
	if (strcmp(parts[0], VALUE_AS_PROJECT) != 0) {
		if (!vial_project_name_is_valid(parts[0]))
			return refuse(text, "a project is 1 to 63 of a-z, 0-9 and -, not - at the ends, or {value}", error);
		rule->project = g_strdup(parts[0]);
	}
	if (rule->role == VIAL_ROLE_OPERATOR && g_strcmp0(rule->project, VIAL_DEFAULT_PROJECT) != 0)
		return refuse(text, "an operator rules from the project " VIAL_DEFAULT_PROJECT ", so it must say " VIAL_DEFAULT_PROJECT ":operator",
		              error);
	return TRUE;
}

static Rule *read_rule(const char *text, GError **error)
{
	g_autoptr(Rule) rule = g_new0(Rule, 1);
	const char *arrow = g_strrstr(text, "->");
	g_autofree char *condition = NULL;

	if (strlen(text) > MAX_RULE_BYTES) {
		refuse(text, "it is longer than 1024 bytes", error);
		return NULL;
	}
	if (!arrow) {
		refuse(text, "it must look like CLAIM=VALUE -> PROJECT:ROLE", error);
		return NULL;
	}
	condition = g_strndup(text, (gsize)(arrow - text));
	if (!read_condition(rule, condition, text, error) || !read_grant(rule, arrow + 2, text, error))
		return NULL;
	return g_steal_pointer(&rule);
}

VialOidcRules *vial_oidc_rules_new(const char *const *texts, GError **error)
{
	g_autoptr(VialOidcRules) rules = g_new0(VialOidcRules, 1);

	rules->rules = g_ptr_array_new_with_free_func(rule_free);
	for (gsize i = 0; texts[i]; i++) {
		Rule *rule = read_rule(texts[i], error);

		if (!rule)
			return NULL;
		g_ptr_array_add(rules->rules, rule);
	}
	if (rules->rules->len == 0 || rules->rules->len > MAX_RULES) {
		vial_fail(error, VIAL_ERROR_INVALID, "oidc_rules has %u rules, but must have 1 to %d: without one nobody can sign in",
		          rules->rules->len, MAX_RULES);
		return NULL;
	}
	return g_steal_pointer(&rules);
}

void vial_oidc_rules_free(VialOidcRules *rules)
{
	if (!rules)
		return;
	g_clear_pointer(&rules->rules, g_ptr_array_unref);
	g_free(rules);
}

/* ---- matching ---- */

/* Only the last star is ever tried again, so the time is at most the product of the lengths. */
static gboolean matches(const char *pattern, const char *text)
{
	const char *star = NULL, *from = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			from = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++from;
		} else {
			return FALSE;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

const char *vial_oidc_claims_email(const json_t *claims)
{
	const json_t *verified = json_object_get(claims, "email_verified");

	/* Some providers write the word instead of the value. */
	if (verified && !json_is_true(verified) && g_strcmp0(json_string_value(verified), "true") != 0)
		return NULL;
	return json_string_value(json_object_get(claims, "email"));
}

static const json_t *find_claim(const json_t *claims, const char *path)
{
	const json_t *found = json_object_get(claims, path);
	const char *dot = strchr(path, '.');

	while (!found && dot && json_is_object(claims)) {
		g_autofree char *first = g_strndup(path, (gsize)(dot - path));

		claims = json_object_get(claims, first);
		path = dot + 1;
		dot = strchr(path, '.');
		found = json_object_get(claims, path);
	}
	return found;
}

/* NULL for what has no text: null, objects, arrays. */
static char *text_of(const json_t *value)
{
	if (json_is_string(value))
		return g_strdup(json_string_value(value));
	return json_is_number(value) || json_is_boolean(value) ? vial_json_dump(value) : NULL;
}

/* The project that this value gives by this rule; NULL: none. To be freed. */
static char *give(const Rule *rule, const json_t *value, const char *wanted)
{
	g_autofree char *text = text_of(value);
	const char *project = rule->project ? rule->project : text;

	if (!text || !matches(rule->pattern, text) || !vial_project_name_is_valid(project) || (wanted && strcmp(wanted, project) != 0))
		return NULL;
	return g_strdup(project);
}

static char *apply(const Rule *rule, const json_t *claims, const char *wanted)
{
	const json_t *found = find_claim(claims, rule->claim), *element;
	char *project;
	gsize i;

	if (strcmp(rule->claim, "email") == 0 && !vial_oidc_claims_email(claims))
		return NULL;
	if (!json_is_array(found))
		return give(rule, found, wanted);
	json_array_foreach (found, i, element) {
		project = give(rule, element, wanted);
		if (project)
			return project;
	}
	return NULL;
}

gboolean vial_oidc_rules_apply(const VialOidcRules *rules, const json_t *claims, const char *wanted, char **out_project, VialRole *out_role,
                               GError **error)
{
	for (guint i = 0; i < rules->rules->len; i++) {
		const Rule *rule = rules->rules->pdata[i];
		char *project = apply(rule, claims, wanted);

		if (project) {
			*out_project = project;
			*out_role = rule->role;
			return TRUE;
		}
	}
	if (wanted)
		return vial_fail(error, VIAL_ERROR_FORBIDDEN, "no rule of this installation gives you a role in the project \"%s\"", wanted);
	return vial_fail(error, VIAL_ERROR_FORBIDDEN,
	                 "you are known to the identity provider, but no rule of this installation gives you a role in a project");
}
