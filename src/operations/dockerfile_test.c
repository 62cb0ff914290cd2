/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/dockerfile.h"

#include "util/error.h"
#include "util/json.h"

static json_t *must_parse(const char *text, json_t *args, json_t *env)
{
	g_autoptr(GError) error = NULL;
	json_t *steps = vial_dockerfile_parse(text, args, env, NULL, &error);

	g_assert_no_error(error);
	return steps;
}

/* As compact JSON without the line numbers. */
static void expect(const char *text, const char *expected)
{
	g_autoptr(json_t) steps = must_parse(text, NULL, NULL), wanted = json_loads(expected, 0, NULL);
	g_autofree char *shown = NULL;
	json_t *step;
	gsize i;

	json_array_foreach (steps, i, step)
		json_object_del(step, "line");
	shown = vial_json_dump(steps);
	g_assert_nonnull(wanted);
	if (!json_equal(steps, wanted))
		g_error("%s\ngave %s\nnot  %s", text, shown, expected);
}

static void refuse(const char *text, const char *said)
{
	g_autoptr(GError) error = NULL;
	json_t *steps = vial_dockerfile_parse(text, NULL, NULL, NULL, &error);

	g_assert_null(steps);
	g_assert_error(error, VIAL_ERROR, VIAL_ERROR_INVALID);
	if (!strstr(error->message, said))
		g_error("\"%s\" does not say \"%s\"", error->message, said);
}

static void test_runs(void)
{
	expect("RUN echo a  b\n", "[{\"run\": \"echo a  b\"}]");
	expect("run echo \"$HOME\" 'x'", "[{\"run\": \"echo \\\"$HOME\\\" 'x'\"}]");
	expect("RUN [\"/bin/echo\", \"a b\"]\n", "[{\"run\": [\"/bin/echo\", \"a b\"]}]");
	expect("RUN [ -d /etc ] && echo yes\n", "[{\"run\": \"[ -d /etc ] && echo yes\"}]");
	expect("RUN a && \\\n  # in between\n\n  b && \\ \n  c\nRUN d\r\n", "[{\"run\": \"a &&   b &&   c\"}, {\"run\": \"d\"}]");
	expect("# nothing\n\n   # at all\n", "[]");
	expect("\xef\xbb\xbfRUN a\r\n", "[{\"run\": \"a\"}]");
}

static void test_heredocs(void)
{
	expect("RUN <<EOF\nset -e\necho one\nEOF\nRUN b\n", "[{\"run\": \"set -e\\necho one\\n\"}, {\"run\": \"b\"}]");
	expect("RUN python3 - <<'END' > /out\nprint(1 << 2)\nEND\n", "[{\"run\": \"python3 - <<'END' > /out\\nprint(1 << 2)\\nEND\"}]");
	expect("RUN cat <<< word && echo $((1<<3))\n", "[{\"run\": \"cat <<< word && echo $((1<<3))\"}]");
	expect("RUN cat > /a <<A && cat > /b <<B\n1\nA\n2\nB\n", "[{\"run\": \"cat > /a <<A && cat > /b <<B\\n1\\nA\\n2\\nB\"}]");
	refuse("RUN cat <<EOF\nno end\n", "line 1: the here-document <<EOF is not ended");
}

static void test_env(void)
{
	expect("ENV A=b C=\"d e\" D='$A'", "[{\"env\": {\"A\": \"b\", \"C\": \"d e\", \"D\": \"$A\"}}]");
	expect("ENV A some text here", "[{\"env\": {\"A\": \"some text here\"}}]");
	expect("ENV A=1\nENV B=$A-${A}x C=${NO:-other} D=${A:+yes} E=\\$A F=a\\ b",
	       "[{\"env\": {\"A\": \"1\"}}, {\"env\": {\"B\": \"1-1x\", \"C\": \"other\", "
	       "\"D\": \"yes\", \"E\": \"$A\", \"F\": \"a b\"}}]");
	expect("ENV PATH=/opt/bin:$PATH", "[{\"env\": {\"PATH\": \"/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"}}]");
	refuse("RUN a\nENV\n", "line 2: ENV must");
	refuse("ENV A=\"b", "line 1: a quote");
	refuse("ENV =b", "line 1");
	refuse("ENV A=${B", "line 1");
	refuse("ENV A=${B?x}", "line 1");
}

static void test_env_of_the_base(void)
{
	g_autoptr(json_t) env = json_pack("{s:s}", "PATH", "/base"), steps = must_parse("ENV PATH=/x:$PATH", NULL, env);

	g_assert_cmpstr(json_string_value(json_object_get(json_object_get(json_array_get(steps, 0), "env"), "PATH")), ==, "/x:/base");
	g_assert_cmpstr(json_string_value(json_object_get(env, "PATH")), ==, "/base");
}

static void test_workdir(void)
{
	expect("WORKDIR /app\nWORKDIR src/../lib\nWORKDIR /x/$NO/y",
	       "[{\"workdir\": \"/app\"}, {\"workdir\": \"/app/lib\"}, {\"workdir\": \"/x/y\"}]");
	refuse("WORKDIR", "line 1: WORKDIR");
	refuse("WORKDIR /a /b", "line 1: WORKDIR");
}

static void test_args(void)
{
	g_autoptr(json_t) args = json_pack("{s:s}", "V", "2"), steps = must_parse("ARG V=1\nARG W\nRUN make\nENV X=$V", args, NULL);
	g_autoptr(json_t) unknown = json_pack("{s:s}", "NOPE", "2");
	g_autoptr(GError) error = NULL;

	g_assert_cmpuint(json_array_size(steps), ==, 2);
	g_assert_cmpstr(json_string_value(json_object_get(json_object_get(json_array_get(steps, 0), "args"), "V")), ==, "2");
	g_assert_cmpuint(json_object_size(json_object_get(json_array_get(steps, 0), "args")), ==, 1);
	g_assert_cmpstr(json_string_value(json_object_get(json_object_get(json_array_get(steps, 1), "env"), "X")), ==, "2");
	expect("ARG V=1\nRUN make", "[{\"run\": \"make\", \"args\": {\"V\": \"1\"}}]");
	g_assert_null(vial_dockerfile_parse("RUN make", unknown, NULL, NULL, &error));
	g_assert_nonnull(strstr(error->message, "args.NOPE"));
	refuse("ARG", "line 1: ARG");
}

static void test_refusals(void)
{
	static const char *const names[] = { "FROM",  "CMD",         "ENTRYPOINT", "COPY",    "ADD",        "USER",       "VOLUME", "EXPOSE",
		                             "LABEL", "HEALTHCHECK", "SHELL",      "ONBUILD", "STOPSIGNAL", "MAINTAINER", "FETCH" };

	for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
		g_autofree char *text = g_strdup_printf("# first\nRUN a \\\n b\n\n%s something\n", names[i]);
		g_autofree char *said = g_strdup_printf("line 5: %s is ", names[i]);

		refuse(text, said);
	}
	refuse("from debian", "line 1: FROM is not supported: what a template is built on");
	refuse("RUN --mount=type=secret,id=x a", "RUN --mount is not known");
	refuse("# escape=`\nRUN a", "another escape");
	refuse("RUN", "line 1: RUN must");
	refuse("RUN []", "line 1: RUN must");
	refuse("RUN [1]", "line 1: RUN [...]");
}

static void test_limits(void)
{
	g_autoptr(GString) many = g_string_new(NULL);
	g_autofree char *long_text = g_strnfill(VIAL_DOCKERFILE_MAX_BYTES + 1, '\n');

	for (int i = 0; i <= VIAL_STEPS_MAX; i++)
		g_string_append(many, "RUN a\n");
	refuse(many->str, "at most 128 steps");
	g_string_assign(many, "ENV A ");
	for (int i = 0; i < 17; i++)
		g_string_append(many, "${B:-");
	for (int i = 0; i < 17; i++)
		g_string_append_c(many, '}');
	refuse(many->str, "at most 16 levels");
	refuse(long_text, "too long");
}

/* A little text makes a lot of values, and every RUN keeps the ARGs in force. */
static void test_what_is_made_of_variables_is_bounded(void)
{
	g_autofree char *value = g_strnfill(30000, 'a');
	g_autoptr(GString) args = g_string_new(NULL), env = g_string_new(NULL);
	g_autoptr(json_t) steps = NULL;

	g_string_append_printf(args, "ARG A=%s\nRUN a\nARG B=b\nRUN b\nARG B=c C=c\n", value);
	steps = must_parse(args->str, NULL, NULL);
	g_assert_cmpuint(json_object_size(json_object_get(json_array_get(steps, 0), "args")), ==, 1);
	g_assert_cmpstr(json_string_value(json_object_get(json_object_get(json_array_get(steps, 1), "args"), "B")), ==, "b");
	g_string_append(args, "ARG D=$A\n");
	refuse(args->str, "line 6: the ARGs together");
	g_string_append_printf(env, "ENV A=%s\nENV", value);
	for (int i = 0; i < 10; i++)
		g_string_append_printf(env, " B%d=$A", i);
	refuse(env->str, "line 2: the values of all ENVs and ARGs");
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/dockerfile/runs", test_runs);
	g_test_add_func("/dockerfile/here-documents", test_heredocs);
	g_test_add_func("/dockerfile/env", test_env);
	g_test_add_func("/dockerfile/env-of-the-base", test_env_of_the_base);
	g_test_add_func("/dockerfile/workdir", test_workdir);
	g_test_add_func("/dockerfile/args", test_args);
	g_test_add_func("/dockerfile/refusals", test_refusals);
	g_test_add_func("/dockerfile/limits", test_limits);
	g_test_add_func("/dockerfile/what is made of variables is bounded", test_what_is_made_of_variables_is_bounded);
	return g_test_run();
}
