/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/oidc_rules.h"

#include <string.h>

#include "util/error.h"
#include "util/json.h"

/* Rules with commas between them, as in the settings. */
static VialOidcRules *read_rules(const char *text, GError **error)
{
	g_auto(GStrv) texts = g_strsplit(text, ",", -1);

	for (gsize i = 0; texts[i]; i++)
		g_strstrip(texts[i]);
	return vial_oidc_rules_new((const char *const *)texts, error);
}

/* "project:role", or NULL for nothing. */
static void expect(const char *rules_text, const char *claims_text, const char *wanted, const char *expected)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(VialOidcRules) rules = read_rules(rules_text, &error);
	g_autoptr(json_t) claims = vial_json_parse_object(claims_text, strlen(claims_text), NULL);
	g_autofree char *project = NULL, *found = NULL;
	VialRole role;

	g_assert_no_error(error);
	g_assert_nonnull(claims);
	if (vial_oidc_rules_apply(rules, claims, wanted, &project, &role, &error))
		found = g_strdup_printf("%s:%s", project, vial_role_name(role));
	else
		g_assert_error(error, VIAL_ERROR, VIAL_ERROR_FORBIDDEN);
	if (g_strcmp0(found, expected) != 0)
		g_error("%s with %s gives %s, not %s", rules_text, claims_text, found, expected);
}

static void expect_unreadable(const char *text, const char *word)
{
	g_autoptr(GError) error = NULL;

	g_assert_null(read_rules(text, &error));
	g_assert_error(error, VIAL_ERROR, VIAL_ERROR_INVALID);
	if (!strstr(error->message, word) || (text[0] && !strstr(error->message, text)))
		g_error("\"%s\" does not say \"%s\" and \"%s\"", error->message, word, text);
}

#define EXAMPLE                                                                                                                            \
	"groups=ml-platform -> default:operator, department=data -> analytics:developer, email=*@example.com -> sandbox:viewer, sub=* -> " \
	"default:viewer"

static void test_the_first_that_matches(void)
{
	expect(EXAMPLE, "{\"sub\": \"u\", \"groups\": [\"a\", \"ml-platform\"], \"department\": \"data\"}", NULL, "default:operator");
	expect(EXAMPLE, "{\"sub\": \"u\", \"groups\": \"ml-platform\"}", NULL, "default:operator");
	expect(EXAMPLE, "{\"sub\": \"u\", \"groups\": [\"ml-platform-x\"], \"department\": \"data\"}", NULL, "analytics:developer");
	expect(EXAMPLE, "{\"sub\": \"u\", \"email\": \"a@example.com\"}", NULL, "sandbox:viewer");
	expect(EXAMPLE, "{\"sub\": \"u\", \"email\": \"a@example.com.evil.org\"}", NULL, "default:viewer");
	expect(EXAMPLE, "{\"sub\": \"u\"}", NULL, "default:viewer");
	expect("groups=a -> x:viewer", "{\"sub\": \"u\"}", NULL, NULL);
	expect("groups=a -> x:viewer", "{\"groups\": []}", NULL, NULL);
}

static void test_the_project_that_is_wanted(void)
{
	const char *person = "{\"sub\": \"u\", \"groups\": [\"ml-platform\"], \"department\": \"data\", \"email\": \"a@example.com\"}";

	expect(EXAMPLE, person, "analytics", "analytics:developer");
	expect(EXAMPLE, person, "sandbox", "sandbox:viewer");
	expect(EXAMPLE, person, "default", "default:operator");
	expect(EXAMPLE, person, "secret", NULL);
	expect(EXAMPLE, "{\"sub\": \"u\"}", "analytics", NULL);
	expect("a=1 -> x:viewer, a=1 -> x:admin", "{\"a\": \"1\"}", "x", "x:viewer");
}

static void test_claims_of_all_kinds(void)
{
	expect("level=3 -> x:viewer", "{\"level\": 3}", NULL, "x:viewer");
	expect("level=3 -> x:viewer", "{\"level\": \"3\"}", NULL, "x:viewer");
	expect("level=2.5 -> x:viewer", "{\"level\": [1, 2.5]}", NULL, "x:viewer");
	expect("staff=true -> x:viewer", "{\"staff\": true}", NULL, "x:viewer");
	expect("staff=true -> x:viewer", "{\"staff\": false}", NULL, NULL);
	expect("staff=* -> x:viewer", "{\"staff\": null}", NULL, NULL);
	expect("staff=* -> x:viewer", "{\"staff\": {\"a\": 1}}", NULL, NULL);
	expect("staff=* -> x:viewer", "{\"staff\": [[\"a\"], {}, null]}", NULL, NULL);
	expect("staff=* -> x:viewer", "{\"staff\": \"\"}", NULL, "x:viewer");
}

static void test_paths(void)
{
	expect("realm_access.roles=dev -> x:viewer", "{\"realm_access\": {\"roles\": [\"dev\"]}}", NULL, "x:viewer");
	expect("resource_access.vial.roles=dev -> x:viewer", "{\"resource_access\": {\"vial\": {\"roles\": [\"dev\"]}}}", NULL, "x:viewer");
	expect("https://example.com/groups=dev -> x:viewer", "{\"https://example.com/groups\": [\"dev\"]}", NULL, "x:viewer");
	expect("a.b=1 -> x:viewer", "{\"a.b\": \"1\", \"a\": {\"b\": \"2\"}}", NULL, "x:viewer");
	expect("a.b=2 -> x:viewer", "{\"a.b\": \"1\", \"a\": {\"b\": \"2\"}}", NULL, NULL);
	expect("a.b=1 -> x:viewer", "{\"a\": \"1\"}", NULL, NULL);
	expect("a..b=1 -> x:viewer", "{\"a\": {\"\": {\"b\": \"1\"}}}", NULL, "x:viewer");
	expect(".=1 -> x:viewer", "{\"a\": \"1\"}", NULL, NULL);
}

static void test_stars(void)
{
	expect("g=* -> x:viewer", "{\"g\": \"anything\"}", NULL, "x:viewer");
	expect("g=a*c -> x:viewer", "{\"g\": \"abcbc\"}", NULL, "x:viewer");
	expect("g=a*c -> x:viewer", "{\"g\": \"ac\"}", NULL, "x:viewer");
	expect("g=a*c -> x:viewer", "{\"g\": \"abcd\"}", NULL, NULL);
	expect("g=*a*b* -> x:viewer", "{\"g\": \"xxaxxbxx\"}", NULL, "x:viewer");
	expect("g=*a*b* -> x:viewer", "{\"g\": \"xxbxxaxx\"}", NULL, NULL);
	expect("g=** -> x:viewer", "{\"g\": \"\"}", NULL, "x:viewer");
	/* Nothing else is special. */
	expect("g=a? -> x:viewer", "{\"g\": \"ab\"}", NULL, NULL);
	expect("g=[ab] -> x:viewer", "{\"g\": \"a\"}", NULL, NULL);
	expect("g=[ab] -> x:viewer", "{\"g\": \"[ab]\"}", NULL, "x:viewer");
	expect("g=A -> x:viewer", "{\"g\": \"a\"}", NULL, NULL);
	expect("g=a=b -> x:viewer", "{\"g\": \"a=b\"}", NULL, "x:viewer");
	expect("g=a->b -> x:viewer", "{\"g\": \"a->b\"}", NULL, "x:viewer");
}

/* A pattern that is exponential for the careless. */
static void test_many_stars_take_no_time(void)
{
	g_autofree char *text = g_strnfill(16000, 'a'), *claims = g_strdup_printf("{\"g\": \"%s\"}", text);
	gint64 began_us = g_get_monotonic_time();

	expect("g=*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b -> x:viewer", claims, NULL, NULL);
	g_assert_cmpint(g_get_monotonic_time() - began_us, <, G_USEC_PER_SEC);
}

static void test_the_value_as_project(void)
{
	const char *rules = "groups=team-* -> {value}:developer, groups=* -> default:viewer";
	const char *person = "{\"groups\": [\"all\", \"team-Red\", \"team-blue\", \"team-green\"]}";

	expect(rules, person, NULL, "team-blue:developer");
	expect(rules, person, "team-green", "team-green:developer");
	expect(rules, person, "team-red", NULL);
	expect(rules, person, "default", "default:viewer");
	expect(rules, "{\"groups\": [\"team-\", \"team-a/b\", \"team-a..b\"]}", NULL, "default:viewer");
}

static void test_an_email_that_is_not_verified_is_nobodys(void)
{
	const char *rule = "email=*@example.com -> x:viewer";

	expect(rule, "{\"email\": \"a@example.com\", \"email_verified\": true}", NULL, "x:viewer");
	expect(rule, "{\"email\": \"a@example.com\", \"email_verified\": \"true\"}", NULL, "x:viewer");
	expect(rule, "{\"email\": \"a@example.com\", \"email_verified\": false}", NULL, NULL);
	expect(rule, "{\"email\": \"a@example.com\", \"email_verified\": \"false\"}", NULL, NULL);
	expect(rule, "{\"email\": \"a@example.com\", \"email_verified\": 1}", NULL, NULL);
	expect(rule, "{\"email\": \"a@example.com\", \"email_verified\": null}", NULL, NULL);
}

static void test_rules_that_cannot_be_read(void)
{
	expect_unreadable("", "nobody");
	expect_unreadable("groups", "CLAIM=VALUE -> PROJECT:ROLE");
	expect_unreadable("groups=a", "CLAIM=VALUE -> PROJECT:ROLE");
	expect_unreadable("groups -> x:viewer", "CLAIM=VALUE");
	expect_unreadable("=a -> x:viewer", "empty");
	expect_unreadable("groups= -> x:viewer", "empty");
	expect_unreadable("groups=a -> x", "PROJECT:ROLE");
	expect_unreadable("groups=a -> x:y:viewer", "PROJECT:ROLE");
	expect_unreadable("groups=a -> x:", "role");
	expect_unreadable("groups=a -> x:root", "role");
	expect_unreadable("groups=a -> x:Viewer", "role");
	expect_unreadable("groups=a -> :viewer", "project");
	expect_unreadable("groups=a -> X:viewer", "project");
	expect_unreadable("groups=a -> -x:viewer", "project");
	expect_unreadable("groups=a -> team-{value}:viewer", "project");
	expect_unreadable("groups=a -> x:operator", "default:operator");
	expect_unreadable("groups=a -> {value}:operator", "default:operator");
}

static void test_names_of_projects(void)
{
	static const char *const good[] = { "a", "0", "a-b", "default", "a--b", "0123456789012345678901234567890123456789012345678901234567890ab" };
	static const char *const bad[] = { "",    "-",        "a-",      "-a",
		                           "A",   "a_b",      "a.b",     "a b",
		                           "a\n", "\xc3\xa4", "{value}", "01234567890123456789012345678901234567890123456789012345678901ab" };

	for (gsize i = 0; i < G_N_ELEMENTS(good); i++)
		g_assert_true(vial_project_name_is_valid(good[i]));
	for (gsize i = 0; i < G_N_ELEMENTS(bad); i++)
		g_assert_false(vial_project_name_is_valid(bad[i]));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/oidc-rules/the-first-that-matches", test_the_first_that_matches);
	g_test_add_func("/oidc-rules/the-project-that-is-wanted", test_the_project_that_is_wanted);
	g_test_add_func("/oidc-rules/claims-of-all-kinds", test_claims_of_all_kinds);
	g_test_add_func("/oidc-rules/paths", test_paths);
	g_test_add_func("/oidc-rules/stars", test_stars);
	g_test_add_func("/oidc-rules/many-stars-take-no-time", test_many_stars_take_no_time);
	g_test_add_func("/oidc-rules/the-value-as-project", test_the_value_as_project);
	g_test_add_func("/oidc-rules/an-email-that-is-not-verified-is-nobodys", test_an_email_that_is_not_verified_is_nobodys);
	g_test_add_func("/oidc-rules/rules-that-cannot-be-read", test_rules_that_cannot_be_read);
	g_test_add_func("/oidc-rules/names-of-projects", test_names_of_projects);
	return g_test_run();
}
