/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/dockerfile.h"

#include <string.h>

#include "util/error.h"
#include "util/json.h"

#define CONTEXT "the archive"

static json_t *must_parse(const char *text, json_t *args, json_t *env)
{
	g_autoptr(GError) error = NULL;
	json_t *steps = vial_dockerfile_parse(text, args, env, NULL, NULL, &error);

	g_assert_no_error(error);
	return steps;
}

/* As compact JSON without the line numbers. */
static void compare(const char *text, json_t *steps, const char *expected)
{
	g_autoptr(json_t) wanted = json_loads(expected, 0, NULL);
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

static void expect(const char *text, const char *expected)
{
	g_autoptr(json_t) steps = must_parse(text, NULL, NULL);

	compare(text, steps, expected);
}

static void refuse_with(const char *text, const char *context, const char *said)
{
	g_autoptr(GError) error = NULL;
	json_t *steps = vial_dockerfile_parse(text, NULL, NULL, NULL, context, &error);

	g_assert_null(steps);
	g_assert_error(error, VIAL_ERROR, VIAL_ERROR_INVALID);
	if (!strstr(error->message, said))
		g_error("\"%s\" does not say \"%s\"", error->message, said);
	g_assert_true(g_utf8_validate(error->message, -1, NULL));
}

static void refuse(const char *text, const char *said)
{
	refuse_with(text, NULL, said);
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
	g_assert_null(vial_dockerfile_parse("RUN make", unknown, NULL, NULL, NULL, &error));
	g_assert_nonnull(strstr(error->message, "args.NOPE"));
	refuse("ARG", "line 1: ARG");
}

/* COPY */

/* Of each step "from", "to" and what else there is; every one has the archive. */
static void expect_copies(const char *text, const char *workdir, const char *expected)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(json_t) steps = vial_dockerfile_parse(text, NULL, NULL, workdir, CONTEXT, &error), copies = json_array();
	json_t *step;
	gsize i;

	g_assert_no_error(error);
	json_array_foreach (steps, i, step) {
		json_t *copy = json_object_get(step, "copy");

		if (!copy)
			continue;
		g_assert_cmpstr(json_string_value(json_object_get(copy, "archive")), ==, CONTEXT);
		json_object_del(copy, "archive");
		json_array_append(copies, copy);
	}
	compare(text, copies, expected);
}

static void refuse_copy(const char *text, const char *said)
{
	refuse_with(text, CONTEXT, said);
}

static void test_copies(void)
{
	expect_copies("COPY a /b", NULL, "[{\"from\": \"a\", \"to\": \"/b\"}]");
	expect_copies("copy \\\n  a \\\n  /b/\n", NULL, "[{\"from\": \"a\", \"to\": \"/b/\"}]");
	expect_copies("COPY . /app", NULL, "[{\"from\": \".\", \"to\": \"/app\"}]");
	expect_copies("COPY / /\nCOPY ./ /./", NULL, "[{\"from\": \".\", \"to\": \"/\"}, {\"from\": \".\", \"to\": \"/\"}]");
	expect_copies("COPY ./a//b/./c/ /x/../y", NULL, "[{\"from\": \"a/b/c\", \"to\": \"/y\"}]");
	expect_copies(
		"COPY a *.py src/[a-c]? /lib/", NULL,
		"[{\"from\": \"a\", \"to\": \"/lib/\"}, {\"from\": \"*.py\", \"to\": \"/lib/\"}, {\"from\": \"src/[a-c]?\", \"to\": \"/lib/\"}]");
	expect_copies("COPY [a-z]* /x/", NULL, "[{\"from\": \"[a-z]*\", \"to\": \"/x/\"}]");
	expect_copies("COPY [\"a b\", \"c'd\", \"/x y/\"]", NULL, "[{\"from\": \"a b\", \"to\": \"/x y/\"}, {\"from\": \"c'd\", \"to\": \"/x y/\"}]");
	expect_copies("COPY \"a b\" '/c d/' ", NULL, "[{\"from\": \"a b\", \"to\": \"/c d/\"}]");
	expect_copies("COPY grüße.txt /ü", NULL, "[{\"from\": \"grüße.txt\", \"to\": \"/ü\"}]");
	expect_copies("COPY --chown=user a /b", NULL, "[{\"from\": \"a\", \"to\": \"/b\", \"user\": \"user\"}]");
	expect_copies("COPY --chmod=755 --chown=1000:staff [\"a\", \"/b\"]", NULL,
	              "[{\"from\": \"a\", \"to\": \"/b\", \"user\": \"1000:staff\", \"mode\": \"755\"}]");
}

static void test_copies_follow_the_workdir(void)
{
	/* Where a sandbox's commands begin is the sandbox's to know. */
	expect_copies("COPY a b\nCOPY a .\nCOPY a b c/\nCOPY a /d", NULL,
	              "[{\"from\": \"a\", \"to\": \"b\"}, {\"from\": \"a\", \"to\": \"./\"}, {\"from\": \"a\", \"to\": \"c/\"}, {\"from\": \"b\", "
	              "\"to\": \"c/\"}, "
	              "{\"from\": \"a\", \"to\": \"/d\"}]");
	expect_copies("COPY a b", "/base", "[{\"from\": \"a\", \"to\": \"/base/b\"}]");
	expect_copies(
		"WORKDIR /srv\nWORKDIR app\nCOPY a .\nCOPY a b ./\nCOPY a ..\nCOPY a b/.", "/base",
		"[{\"from\": \"a\", \"to\": \"/srv/app/\"}, {\"from\": \"a\", \"to\": \"/srv/app/\"}, {\"from\": \"b\", \"to\": \"/srv/app/\"}, "
		"{\"from\": \"a\", \"to\": \"/srv/\"}, {\"from\": \"a\", \"to\": \"/srv/app/b/\"}]");
}

static void test_copies_with_variables(void)
{
	expect_copies("ARG A=src\nENV TO=/opt W=user\nCOPY --chown=$W:${W} ${A}/x $A$NO/y \"$TO/${SUB:-sub}/\"", NULL,
	              "[{\"from\": \"src/x\", \"to\": \"/opt/sub/\", \"user\": \"user:user\"}, {\"from\": \"src/y\", \"to\": \"/opt/sub/\", "
	              "\"user\": \"user:user\"}]");
	expect_copies("ENV A='a b'\nCOPY [\"$A\", \"/\\\\$A\"]\nCOPY '$A' $A", "/",
	              "[{\"from\": \"a b\", \"to\": \"/$A\"}, {\"from\": \"$A\", \"to\": \"/a b\"}]");
	refuse_copy("ENV A=../x\nCOPY $A /b", "line 2: \"../x\" leads out of");
}

static void test_copies_that_are_refused(void)
{
	refuse_copy("RUN a\nCOPY", "line 2: COPY must be followed by");
	refuse_copy("COPY a", "line 1: COPY must be followed by");
	refuse_copy("COPY []", "line 1: COPY must be followed by");
	refuse_copy("COPY [1, \"/b\"]", "line 1: COPY [...] must be a list of strings");
	refuse_copy("COPY a b /c", "line 1: a COPY of several sources");
	refuse_copy("COPY ../a /b", "\"../a\" leads out of the files");
	refuse_copy("COPY a/../../b /b", "leads out of the files");
	refuse_copy("COPY \"\" /b", "a source must be a path");
	refuse_copy("COPY a \"\"", "the destination must be a path");
	refuse_copy("COPY 'a", "a quote ' is not closed");
	refuse_copy("COPY --from=other /a /b", "COPY --from is not supported: there are no other stages");
	refuse_copy("COPY --link a /b", "COPY --link is not supported");
	refuse_copy("COPY --parents a /b", "COPY --parents is not supported");
	refuse_copy("COPY --exclude=*.o a /b", "COPY --exclude is not supported");
	refuse_copy("COPY --quiet a /b", "COPY --quiet is not known here");
	refuse_copy("COPY --üüüüüüüüüüüüüüüüüüüüüüü a /b", "is not known here");
	refuse_copy("COPY --chmod=u+x a /b", "octal digits");
	refuse_copy("COPY --chmod=99 a /b", "octal digits");
	refuse_copy("COPY --chmod a /b", "octal digits");
	refuse_copy("COPY --chown= a /b", "a user, or user:group");
	refuse_copy("COPY --chown=a:b:c a /b", "a user, or user:group");
	refuse_copy("COPY --chown=-R a /b", "a user, or user:group");
	refuse_copy("COPY \"--chown=a b\" a /b", "a user, or user:group");
	refuse_copy("COPY https://example.com/a /b", "COPY takes no addresses");
	refuse_copy("COPY git@example.com:a.git /b", "COPY takes no addresses");
	refuse_copy("COPY <<EOF /b\nx\nEOF\n", "a here-document is not copied");
	refuse_copy("ADD a /b", "line 1: ADD is not supported");
	refuse("COPY a /b", "line 1: COPY is not supported: a build has no folder of files");
}

static void test_copies_are_bounded(void)
{
	g_autoptr(GString) many = g_string_new("COPY"), long_one = g_string_new("COPY ");
	g_autofree char *value = g_strnfill(4096, 'a');

	for (int i = 0; i <= VIAL_STEPS_MAX; i++)
		g_string_append(many, " a");
	g_string_append(many, " /b/");
	refuse_copy(many->str, "at most 128 steps");
	for (int i = 0; i < 2 * VIAL_STEPS_MAX; i++)
		g_string_insert(many, strlen("COPY"), " a");
	refuse_copy(many->str, "COPY has too many sources");
	g_string_append_printf(long_one, "%s /b", value);
	refuse_copy(long_one->str, "a source must be a path");
	g_string_printf(long_one, "COPY a /%s", value);
	refuse_copy(long_one->str, "the destination must be a path");
}

static void test_whether_there_are_copies(void)
{
	g_assert_true(vial_dockerfile_copies("RUN a\nCOPY a /b\n"));
	g_assert_true(vial_dockerfile_copies("CO\\\nPY a /b\n"));
	g_assert_true(vial_dockerfile_copies("COPY --from=x a /b"));
	g_assert_true(vial_dockerfile_copies("USER me"));
	g_assert_false(vial_dockerfile_copies("RUN <<EOF\nCOPY a /b\nEOF\n# COPY a /b\n"));
	g_assert_false(vial_dockerfile_copies(""));
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
	refuse("aäääääääääääääääääääääää x", "is no instruction that is known here");
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
	g_test_add_func("/dockerfile/copies", test_copies);
	g_test_add_func("/dockerfile/copies follow the workdir", test_copies_follow_the_workdir);
	g_test_add_func("/dockerfile/copies with variables", test_copies_with_variables);
	g_test_add_func("/dockerfile/copies that are refused", test_copies_that_are_refused);
	g_test_add_func("/dockerfile/copies are bounded", test_copies_are_bounded);
	g_test_add_func("/dockerfile/whether there are copies", test_whether_there_are_copies);
	g_test_add_func("/dockerfile/refusals", test_refusals);
	g_test_add_func("/dockerfile/limits", test_limits);
	g_test_add_func("/dockerfile/what is made of variables is bounded", test_what_is_made_of_variables_is_bounded);
	return g_test_run();
}
