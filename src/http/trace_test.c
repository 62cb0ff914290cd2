/* SPDX-License-Identifier: Apache-2.0 */
#include "http/trace.h"

#define TRACE_ID "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"

static void test_reads(void)
{
	VialTrace trace;

	g_assert_true(vial_trace_parse("00-" TRACE_ID "-" SPAN "-01", &trace));
	g_assert_cmpstr(trace.trace_id, ==, TRACE_ID);
	g_assert_cmpstr(trace.parent_span, ==, SPAN);
	g_assert_true(vial_trace_parse("00-" TRACE_ID "-" SPAN "-00", &trace));
	g_assert_true(vial_trace_parse("00-00000000000000000000000000000001-0000000000000001-ff", &trace));
	g_assert_cmpstr(trace.trace_id, ==, "00000000000000000000000000000001");
}

static void test_ignores_the_rest(void)
{
	static const char *const wrong[] = {
		"",
		"00",
		"00-",
		"00-" TRACE_ID,
		"00-" TRACE_ID "-",
		"00-" TRACE_ID "-" SPAN,
		"00-" TRACE_ID "-" SPAN "-",
		"00-" TRACE_ID "-" SPAN "-0",
		"00-" TRACE_ID "-" SPAN "-012",
		"00-" TRACE_ID "-" SPAN "-0g",
		"00-" TRACE_ID "-" SPAN "-01-more",
		"00-" TRACE_ID "-" SPAN "-01 ",
		" 00-" TRACE_ID "-" SPAN "-01",
		"00-" TRACE_ID "-" SPAN "-01, 00-" TRACE_ID "-" SPAN "-01",
		"01-" TRACE_ID "-" SPAN "-01",
		"ff-" TRACE_ID "-" SPAN "-01",
		"00_" TRACE_ID "-" SPAN "-01",
		"00-" TRACE_ID "_" SPAN "-01",
		"00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01",
		"00-" TRACE_ID "-B7AD6B7169203331-01",
		"00-0" TRACE_ID "-" SPAN "-01",
		"00-" TRACE_ID "-0" SPAN "-01",
		"00-00000000000000000000000000000000-" SPAN "-01",
		"00-" TRACE_ID "-0000000000000000-01",
		"00-0af7651916cd43dd8448eb211c80319-b7ad6b71692033310-01",
	};
	VialTrace trace = { "as it was", "too" };

	for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++)
		g_assert_false(vial_trace_parse(wrong[i], &trace));
	g_assert_cmpstr(trace.trace_id, ==, "as it was");
	g_assert_cmpstr(trace.parent_span, ==, "too");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/trace/reads", test_reads);
	g_test_add_func("/trace/ignores-the-rest", test_ignores_the_rest);
	return g_test_run();
}
