/* SPDX-License-Identifier: Apache-2.0 */
#include "util/base64url.h"

#include <string.h>

static void expect(const char *text, const char *bytes, gsize size)
{
	gsize found = 0;
	g_autofree guint8 *decoded = vial_base64url_decode(text, strlen(text), &found);

	g_assert_nonnull(decoded);
	g_assert_cmpmem(decoded, found, bytes, size);
	g_assert_cmpint(decoded[found], ==, 0);
}

static void test_decodes(void)
{
	expect("Zg", "f", 1);
	expect("Zm8", "fo", 2);
	expect("Zm9v", "foo", 3);
	expect("-_-_", "\xfb\xff\xbf", 3);
	expect("AA", "\0", 1);
}

static void test_a_value_has_one_text(void)
{
	static const char *const texts[] = { "", "Z", "Zg=", "Zg==", "Zh", "Zm9", "Zm9=", "Zm9vZ", "Zm9v=", "+/+/", "Zm 9v", "Zm9v\n", "Zm\xc3\xa4" };
	gsize size;

	for (gsize i = 0; i < G_N_ELEMENTS(texts); i++)
		g_assert_null(vial_base64url_decode(texts[i], strlen(texts[i]), &size));
	g_assert_null(vial_base64url_decode("Zm9v\0Zm9", 8, &size));
}

/* All of one to three bytes' last groups: either written back the same, or refused. */
static void test_every_group(void)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	gsize good = 0, size;

	for (int a = 0; a < 64; a++)
		for (int b = 0; b < 64; b++) {
			char text[] = { alphabet[a], alphabet[b], '\0' };
			g_autofree guint8 *bytes = vial_base64url_decode(text, 2, &size);

			good += bytes != NULL;
			if (bytes)
				g_assert_cmpint(bytes[0], ==, a << 2 | b >> 4);
		}
	g_assert_cmpuint(good, ==, 256);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/base64url/decodes", test_decodes);
	g_test_add_func("/base64url/a-value-has-one-text", test_a_value_has_one_text);
	g_test_add_func("/base64url/every-group", test_every_group);
	return g_test_run();
}
