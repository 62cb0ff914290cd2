/* SPDX-License-Identifier: Apache-2.0 */
/* Only in the build with sanitizers (meson.build): their settings. */

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

/* Looking for leaks at the end needs ptrace, and the short programs of the same file (sudo) do not tidy up. */
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

/* What is found must end the agent, or no test would notice. */
const char *__ubsan_default_options(void)
{
	return "halt_on_error=1:print_stacktrace=1";
}
