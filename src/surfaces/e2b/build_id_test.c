/* SPDX-License-Identifier: Apache-2.0 */
#include "surfaces/e2b/build_id.h"

#include <string.h>

#include "util/id.h"

static void check(const char *id, const char *expected)
{
	g_autofree char *uuid = vial_e2b_uuid(id), *back = vial_e2b_uuid_to_id(uuid);

	if (expected)
		g_assert_cmpstr(uuid, ==, expected);
	g_assert_cmpuint(strlen(uuid), ==, 36);
	g_assert_cmpstr(back, ==, id);
}

static void test_there_and_back(void)
{
	check("aaaaaaaaaaaaaaaaaaaa", "00000000-0000-0000-0000-000000000000");
	check("aaaaaaaaaaaaaaaaaaab", "00000000-0000-0000-0000-000000000001");
	check("99999999999999999999", NULL);
	for (int i = 0; i < 1000; i++) {
		g_autofree char *id = vial_id_new();

		check(id, NULL);
	}
}

static void test_what_is_none(void)
{
	static const char *const none[] = { "",
		                            "x",
		                            "ffffffff-ffff-ffff-ffff-ffffffffffff",
		                            "00000000-0000-0000-0000-00000000000",
		                            "00000000-0000-0000-0000-0000000000000",
		                            "0000000g-0000-0000-0000-000000000000" };

	for (gsize i = 0; i < G_N_ELEMENTS(none); i++)
		g_assert_null(vial_e2b_uuid_to_id(none[i]));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/e2b/build-id/there-and-back", test_there_and_back);
	g_test_add_func("/e2b/build-id/none", test_what_is_none);
	return g_test_run();
}
