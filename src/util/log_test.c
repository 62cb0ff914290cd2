/* SPDX-License-Identifier: Apache-2.0 */
#include "util/log.h"

/* Runs the calling test again in a child process, whose output can then be looked at. */
static void run_as_child(void)
{
	g_test_trap_subprocess(NULL, 0, 0);
	g_test_trap_assert_passed();
}

static void test_escapes(void)
{
	if (g_test_subprocess()) {
		vial_log_setup(VIAL_LOG_INFO, VIAL_LOG_TEXT);
		vial_log_info("test", "hostile", "value", "a\nlevel=error \"q\" \\ \x1b[2J \xff \xc3\xa9 \xf0\x9f\x98\x80 \xc2\x9b", "none",
		              (char *)NULL);
		return;
	}
	run_as_child();
	g_test_trap_assert_stderr("*level=info module=test message=\"hostile\" "
	                          "value=\"a\\u000alevel=error \\\"q\\\" \\\\ \\u001b[2J \\ufffd \\u00e9 "
	                          "\\ud83d\\ude00 \\u009b\"\n*");
}

static void test_levels(void)
{
	VialLogLevel level = VIAL_LOG_ERROR;

	if (g_test_subprocess()) {
		vial_log_setup(VIAL_LOG_WARNING, VIAL_LOG_TEXT);
		vial_log_info("test", "silent");
		vial_log_warning("test", "spoken");
		return;
	}
	run_as_child();
	g_test_trap_assert_stderr_unmatched("*silent*");
	g_test_trap_assert_stderr("*spoken*");
	g_assert_true(vial_log_level_parse("debug", &level));
	g_assert_cmpint(level, ==, VIAL_LOG_DEBUG);
	g_assert_false(vial_log_level_parse("loud", &level));
}

static void test_json(void)
{
	if (g_test_subprocess()) {
		vial_log_setup(VIAL_LOG_INFO, VIAL_LOG_JSON);
		vial_log_error("test", "one", "sandbox_id", "abc");
		return;
	}
	run_as_child();
	g_test_trap_assert_stderr("*{\"time\":\"*\",\"level\":\"error\",\"module\":\"test\",\"message\":\"one\","
	                          "\"sandbox_id\":\"abc\"}\n*");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/log/escapes", test_escapes);
	g_test_add_func("/log/levels", test_levels);
	g_test_add_func("/log/json", test_json);
	return g_test_run();
}
