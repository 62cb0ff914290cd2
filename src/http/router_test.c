/* SPDX-License-Identifier: Apache-2.0 */
/* The route tree, and the decoding below it. */
#include "http/router.h"

#include "http/uri.h"

static const VialRoute routes[] = {
	{ "GET", "/v1/things", NULL, 0, 0 },
	{ "POST", "/v1/things", NULL, 0, 0 },
	{ "GET", "/v1/things/{id}", NULL, 0, 0 },
	{ "GET", "/v1/things/{id}/parts/{part}", NULL, 0, 0 },
	{ "GET", "/v1/things/all", NULL, 0, 0 },
	{ "GET", "/v1/things/{thing}/files/{path...}", NULL, 0, 0 },
	{ "ANY", "/v1/proxy/{port}/{path...}", NULL, VIAL_ROUTE_ANY_METHOD, 0 },
};

static void match(const char *method, const char *path, VialArena *arena, VialRouteMatch *out)
{
	static const VialRouteTable table = { .name = "test", .routes = routes, .n_routes = G_N_ELEMENTS(routes) };
	VialRouter *router = vial_router_new();

	vial_router_add(router, &table);
	vial_arena_init(arena);
	vial_router_match(router, arena, method, path, out);
	/* Names belong to the router; copy what the tests look at. */
	for (gsize i = 0; i < out->n_params; i++)
		out->names[i] = vial_arena_copy(arena, out->names[i], strlen(out->names[i]));
	vial_router_free(router);
}

static void expect_route(const char *method, const char *path, gssize index, const char *last_name, const char *last_value)
{
	VialArena arena;
	VialRouteMatch found;

	match(method, path, &arena, &found);
	g_assert_true(found.route == (index < 0 ? NULL : &routes[index]));
	if (last_name) {
		g_assert_cmpstr(found.names[found.n_params - 1], ==, last_name);
		g_assert_cmpstr(found.values[found.n_params - 1], ==, last_value);
	}
	vial_arena_clear(&arena);
}

static void test_finds(void)
{
	expect_route("GET", "/v1/things", 0, NULL, NULL);
	expect_route("POST", "/v1/things", 1, NULL, NULL);
	expect_route("HEAD", "/v1/things", 0, NULL, NULL);
	expect_route("GET", "/v1/things/x", 2, "id", "x");
	expect_route("GET", "/v1/things/all", 4, NULL, NULL);
	expect_route("GET", "/v1/things/all/parts/7", 3, "part", "7");
	expect_route("GET", "/v1/things/x%2Fy", 2, "id", "x/y");
	expect_route("GET", "/v1/things/x/files", 5, "path", "");
	expect_route("GET", "/v1/things/x/files/", 5, "path", "");
	expect_route("GET", "/v1/things/x/files/a//b%2F%ff", 5, "path", "a//b%2F%ff");
	expect_route("BREW", "/v1/proxy/80/a", 6, "path", "a");
	expect_route("GET", "/v1/things/", -1, NULL, NULL);
	expect_route("GET", "/v1/things//parts/1", -1, NULL, NULL);
	expect_route("GET", "/v1", -1, NULL, NULL);
	expect_route("GET", "", -1, NULL, NULL);
	expect_route("GET", "/", -1, NULL, NULL);
}

static void test_tells_methods_and_malformed_paths(void)
{
	VialArena arena;
	VialRouteMatch found;

	match("DELETE", "/v1/things", &arena, &found);
	g_assert_null(found.route);
	g_assert_true(found.path_exists);
	g_assert_cmpstr(found.allow, ==, "GET, HEAD, POST");
	vial_arena_clear(&arena);
	match("GET", "/v1/things/%00", &arena, &found);
	g_assert_true(found.is_malformed);
	vial_arena_clear(&arena);
	match("GET", "/v1/things/\x82", &arena, &found);
	g_assert_true(found.is_malformed);
	vial_arena_clear(&arena);
	match("GET", "/v1/things/%c3%28/parts/1", &arena, &found);
	g_assert_true(found.is_malformed);
	vial_arena_clear(&arena);
}

static void test_endless_paths(void)
{
	g_autoptr(GString) path = g_string_new(NULL);

	for (int i = 0; i < 5000; i++)
		g_string_append(path, "/v1");
	expect_route("GET", path->str, -1, NULL, NULL);
	g_string_prepend(path, "/v1/proxy/80");
	expect_route("GET", path->str, 6, "path", path->str + strlen("/v1/proxy/80/"));
}

static void test_decodes(void)
{
	VialArena arena;
	VialPair *pairs = NULL;
	gsize count = 0;

	vial_arena_init(&arena);
	g_assert_cmpstr(vial_uri_decode(&arena, "a%20b+c", 7, FALSE), ==, "a b+c");
	g_assert_cmpstr(vial_uri_decode(&arena, "a%20b+c", 7, TRUE), ==, "a b c");
	g_assert_null(vial_uri_decode(&arena, "%0", 2, FALSE));
	g_assert_null(vial_uri_decode(&arena, "%", 1, FALSE));
	g_assert_null(vial_uri_decode(&arena, "%00", 3, FALSE));
	g_assert_null(vial_uri_decode(&arena, "%80", 3, FALSE));
	g_assert_true(vial_query_parse(&arena, "a=1&&b&c=%3D=&=x", &pairs, &count, NULL));
	g_assert_cmpuint(count, ==, 4);
	g_assert_cmpstr(pairs[1].name, ==, "b");
	g_assert_cmpstr(pairs[1].value, ==, "");
	g_assert_cmpstr(pairs[2].value, ==, "==");
	g_assert_cmpstr(pairs[3].name, ==, "");
	{
		g_autoptr(GBytes) form = g_bytes_new_static("name=x+y&dockerfile=FROM%20a%0A", 31), with_nul = g_bytes_new_static("a\0b", 3);

		g_assert_true(vial_form_parse(&arena, form, &pairs, &count, NULL));
		g_assert_cmpuint(count, ==, 2);
		g_assert_cmpstr(pairs[0].value, ==, "x y");
		g_assert_cmpstr(pairs[1].value, ==, "FROM a\n");
		g_assert_false(vial_form_parse(&arena, with_nul, &pairs, &count, NULL));
	}
	g_assert_false(vial_query_parse(&arena, "a=%zz", &pairs, &count, NULL));
	vial_arena_clear(&arena);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/router/finds", test_finds);
	g_test_add_func("/router/tells-methods-and-malformed-paths", test_tells_methods_and_malformed_paths);
	g_test_add_func("/router/endless-paths", test_endless_paths);
	g_test_add_func("/uri/decodes", test_decodes);
	return g_test_run();
}
