/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the CLI that do no input or output: options, events, the terminal filter, tables, completeness of code. */
#include <glib.h>
#include <string.h>

#include "cli/completeness.h"
#include "cli/options.h"
#include "cli/sanitize.h"
#include "cli/sse.h"
#include "cli/table.h"
#include "cli/transfer.h"

/* --- options --- */

static gboolean flag, other;
static char *text, *secret;
static gint64 number, seconds, mib;
static GPtrArray *list;
static const VialOption options[] = {
	{ 'f', "flag", VIAL_OPTION_FLAG, &flag, NULL, "", NULL },   { 'o', "other", VIAL_OPTION_FLAG, &other, NULL, "", NULL },
	{ 't', "text", VIAL_OPTION_STRING, &text, "T", "", NULL },  { 0, "secret", VIAL_OPTION_SECRET, &secret, "S", "", NULL },
	{ 'n', "number", VIAL_OPTION_INT, &number, "N", "", NULL }, { 0, "time", VIAL_OPTION_DURATION, &seconds, "T", "", NULL },
	{ 0, "memory", VIAL_OPTION_MEMORY, &mib, "M", "", NULL },   { 'l', "list", VIAL_OPTION_LIST, &list, "L", "", NULL },
	{ 0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL },
};
static const VialOption *const tables[] = { options, NULL };

/* Parses "a b c"; the positionals, joined by '|', or the error's text. Free it. */
static char *parse(const char *line, int verbatim_after)
{
	flag = other = FALSE;
	number = seconds = mib = 0;
	g_clear_pointer(&text, g_free);
	g_clear_pointer(&secret, g_free);
	g_clear_pointer(&list, g_ptr_array_unref);
	g_auto(GStrv) words = g_strsplit(line, " ", -1);
	g_autoptr(GPtrArray) positionals = g_ptr_array_new();
	g_autoptr(GError) error = NULL;
	if (!vial_options_parse(tables, words, verbatim_after, positionals, &error))
		return g_strdup(error->message);
	g_ptr_array_add(positionals, NULL);
	return g_strjoinv("|", (char **)positionals->pdata);
}

#define ASSERT_PARSES(line, verbatim_after, expected)               \
	G_STMT_START                                                \
	{                                                           \
		g_autofree char *got = parse(line, verbatim_after); \
		g_assert_cmpstr(got, ==, expected);                 \
	}                                                           \
	G_STMT_END

static void test_options(void)
{
	ASSERT_PARSES("a -fo b --text=x=y - c", 0, "a|b|-|c");
	g_assert_true(flag && other);
	g_assert_cmpstr(text, ==, "x=y");
	ASSERT_PARSES("-n4 -n 5 --number 6 --list a -lb", 0, "");
	g_assert_cmpint(number, ==, 6);
	g_assert_cmpint(list->len, ==, 2);
	ASSERT_PARSES("a -f -- -o --bad", 0, "a|-o|--bad");
	g_assert_true(flag && !other);
	ASSERT_PARSES("id -f cmd -o -- x", 2, "id|cmd|-o|--|x");
	g_assert_true(flag && !other);
	ASSERT_PARSES("--time 2h --memory 3g", 0, "");
	g_assert_cmpint(seconds, ==, 7200);
	g_assert_cmpint(mib, ==, 3072);
	ASSERT_PARSES("--flag=1", 0, "--flag takes no value");
	ASSERT_PARSES("--text", 0, "--text wants a value (T)");
	ASSERT_PARSES("--txet x", 0, "there is no option --txet; did you mean --text?");
	ASSERT_PARSES("--zzzzzzzz", 0, "there is no option --zzzzzzzz");
	ASSERT_PARSES("-z", 0, "there is no option -z");
	ASSERT_PARSES("-n x", 0, "--number wants a whole number, not \"x\"");
	ASSERT_PARSES("--time 99999999999999999d", 0, "--time wants a duration such as 90s, 15m, 2h or 1d, not \"99999999999999999d\"");
}

static void assert_first(const char *line, const char *expected)
{
	g_auto(GStrv) words = g_strsplit(line, " ", -1);
	char **first = vial_options_first_positional(tables, words);
	g_assert_cmpstr(first ? *first : NULL, ==, expected);
}

static void test_first_positional(void)
{
	number = 7;
	assert_first("verb", "verb");
	assert_first("-f --flag verb x", "verb");
	assert_first("--text value verb", "verb");
	assert_first("--text=value verb", "verb");
	assert_first("-n 4 verb", "verb");
	assert_first("-n4 verb", "verb");
	assert_first("-fn 4 verb", "verb");
	assert_first("-ln verb", "verb"); /* the value of -l is "n" */
	assert_first("--unknown verb", "verb");
	assert_first("-f -", "-");
	assert_first("-- --text", "--text");
	assert_first("-f --text", NULL);
	assert_first("--", NULL);
	g_assert_cmpint(number, ==, 7); /* it only looks */
	g_assert_true(vial_options_have(options, "text") && !vial_options_have(options, "tex") && !vial_options_have(NULL, "text"));
}

static void test_secret_is_blotted_out(void)
{
	char word[] = "--secret=hush", *words[] = { word, NULL };
	g_autoptr(GPtrArray) positionals = g_ptr_array_new();
	g_assert_true(vial_options_parse(tables, words, 0, positionals, NULL));
	g_assert_cmpstr(secret, ==, "hush");
	g_assert_cmpstr(word, ==, "--secret=****");
}

static void test_nearest(void)
{
	static const char *const names[] = { "create", "ls", "exec", "rm", "snapshot", "snapshots", NULL };
	g_assert_cmpstr(vial_options_nearest("exce", names), ==, "exec");
	g_assert_cmpstr(vial_options_nearest("crate", names), ==, "create");
	g_assert_cmpstr(vial_options_nearest("snapshos", names), ==, "snapshot");
	g_assert_cmpstr(vial_options_nearest("snap", names), ==, "snapshot");
	g_assert_null(vial_options_nearest("frobnicate", names));
}

/* --- server-sent events --- */

static gboolean on_event(const char *event, const char *data, gsize size, gpointer user, GError **error)
{
	g_string_append_printf(user, "%s=%s;", event, data);
	g_assert_cmpint(strlen(data), ==, size);
	return strcmp(event, "stop") != 0;
}

/* The events of `bytes`, fed in pieces of every size: where the network cuts must not matter. */
static void assert_events(const char *bytes, const char *expected)
{
	for (gsize step = 1; step <= strlen(bytes); step++) {
		g_autoptr(GString) seen = g_string_new(NULL);
		g_autoptr(VialSse) sse = vial_sse_new(on_event, seen);
		for (gsize at = 0; at < strlen(bytes); at += step)
			g_assert_true(vial_sse_feed(sse, bytes + at, MIN(step, strlen(bytes) - at), NULL));
		g_assert_cmpstr(seen->str, ==, expected);
	}
}

static void test_events(void)
{
	assert_events("event: stdout\ndata: {\"chunk\":\"a\"}\n\n", "stdout={\"chunk\":\"a\"};");
	assert_events("event: a\r\ndata: 1\r\n\r\nevent: b\rdata: 2\r\r", "a=1;b=2;");
	assert_events(": comment\n\ndata: x\ndata:y\ndata\n\n", "message=x\ny\n;");
	assert_events("event: lonely\n\ndata: z\n\n", "message=z;");
	assert_events("id: 1\nretry: 5\nnonsense\ndata:  two blanks\n\n", "message= two blanks;");
	assert_events("data: never sent\n", "");
}

static void test_events_have_limits(void)
{
	g_autoptr(GString) seen = g_string_new(NULL);
	g_autoptr(VialSse) sse = vial_sse_new(on_event, seen);
	g_autoptr(GError) error = NULL;
	g_autofree char *much = g_strnfill(1 << 20, 'x');
	gboolean is_ok = TRUE;
	for (int i = 0; is_ok && i < 64; i++)
		is_ok = vial_sse_feed(sse, much, 1 << 20, &error);
	g_assert_false(is_ok);
	g_assert_nonnull(error);
}

/* --- the terminal filter --- */

static void assert_cleaned(const char *bytes, gsize size, const char *expected)
{
	for (gsize step = 1; step <= size; step++) {
		VialSanitizer sanitizer = { 0 };
		g_autoptr(GString) out = g_string_new(NULL);
		for (gsize at = 0; at < size; at += step)
			vial_sanitize(&sanitizer, bytes + at, MIN(step, size - at), out);
		vial_sanitize_end(&sanitizer, out);
		g_assert_cmpstr(out->str, ==, expected);
	}
}
#define ASSERT_CLEANED(bytes, expected) assert_cleaned(bytes, sizeof(bytes) - 1, expected)

static void test_sanitize(void)
{
	ASSERT_CLEANED("plain\ttext\r\n\b", "plain\ttext\r\n\b");
	ASSERT_CLEANED("ünï ☃ 日本 𝄞 \xc2\xa0", "ünï ☃ 日本 𝄞 \xc2\xa0");
	ASSERT_CLEANED("\033[31mred\033[0m", "\033[31mred\033[0m");
	ASSERT_CLEANED("\033[1;38;5;8;4mgrey", "\033[1;38;5;8;4mgrey\033[0m");
	ASSERT_CLEANED("\033[38;2;8;8;8mx\033[m", "\033[38;2;8;8;8mx\033[m");
	ASSERT_CLEANED("\033[38:5:8mx\033[0m", "\033[38:5:8mx\033[0m");
	ASSERT_CLEANED("\033[8mhidden\033[1;8mtoo\033[08mtoo", "hiddentootoo");
	ASSERT_CLEANED("a\033[2J\033[H\033[6n\033[?1049h\033[>cb", "ab");
	ASSERT_CLEANED("a\033]0;title\007b\033]8;;http://x\033\\c", "abc");
	ASSERT_CLEANED("a\033]52;c;aGk=\xc2\x9c"
	               "b\007c",
	               "abc"); /* 0x9c ends a string; BEL alone is dropped */
	ASSERT_CLEANED("a\033P1$r\033\\b\033_x\033\\c\033^y\033\\d\033Xz\033\\e", "abcde");
	ASSERT_CLEANED("\033]0;x\033[31mred\033[0m", "\033[31mred\033[0m");
	ASSERT_CLEANED("a\xc2\x9b"
	               "2Jb\xc2\x9d"
	               "0;x\007c",
	               "abc"); /* 8-bit controls as UTF-8 */
	ASSERT_CLEANED("a\x9b"
	               "2Jb",
	               "ab"); /* and bare */
	ASSERT_CLEANED("a\000\001\007\013\014\016\177b", "ab");
	ASSERT_CLEANED("a\xff\xfe", "a\xef\xbf\xbd\xef\xbf\xbd");
	ASSERT_CLEANED("a\xe0\x82\x9b"
	               "2J\xc0\x9b\xe2\x98",
	               "a\xef\xbf\xbd"
	               "2J\xef\xbf\xbd\xef\xbf\xbd"); /* overlong, cut */
	ASSERT_CLEANED("a\033(0b\033#8c\033cd", "abcd");
	ASSERT_CLEANED("unfinished\033[31", "unfinished");
	ASSERT_CLEANED("line\033[31\nnext", "line\nnext");
	ASSERT_CLEANED("\033[31m\033\033[0mx", "\033[31m\033[0mx");
}

static void test_sanitize_drops_endless_sequences(void)
{
	VialSanitizer sanitizer = { 0 };
	g_autoptr(GString) out = g_string_new(NULL);
	g_autofree char *digits = g_strnfill(100000, '1');
	vial_sanitize(&sanitizer, "\033[", 2, out);
	vial_sanitize(&sanitizer, digits, 100000, out);
	vial_sanitize(&sanitizer, "mx", 2, out);
	g_assert_cmpstr(out->str, ==, "x");
}

static void test_sanitize_line(void)
{
	g_autofree char *line = vial_sanitize_line("a\nb\033[31mc\tü\xff");
	g_assert_cmpstr(line, ==, "a bc ü\xef\xbf\xbd");
}

/* --- tables --- */

static void test_table(void)
{
	g_autoptr(VialTable) table = vial_table_new("NAME >SIZE NOTE");
	vial_table_add(table, "日本");
	vial_table_add(table, "5");
	vial_table_add(table, "wide\033[2J\nname");
	vial_table_add(table, "abcdef");
	vial_table_add(table, "12345");
	vial_table_add(table, NULL);
	g_autofree char *all = vial_table_render(table, 0, FALSE);
	g_assert_cmpstr(all, ==, "NAME     SIZE  NOTE\n日本        5  wide name\nabcdef  12345  -\n");
	g_autofree char *cut = vial_table_render(table, 19, FALSE);
	g_assert_cmpstr(cut, ==, "NAME     SIZE  NOTE\n日本        5  wid…\nabcdef  12345  -\n");
	vial_table_style(table, "31");
	g_autofree char *colored = vial_table_render(table, 0, TRUE);
	g_assert_nonnull(strstr(colored, "\033[31m-\033[0m\n"));
}

/* --- is the code complete? --- */

static void test_completeness(void)
{
	static const struct {
		const char *language, *code;
		gboolean is_complete;
	} cases[] = {
		{ "python", "", TRUE },
		{ "python", "x = 1", TRUE },
		{ "python", "f(1,", FALSE },
		{ "python", "f(1,\n2)", TRUE },
		{ "python", "for x in y:", FALSE },
		{ "python", "for x in y:\n    print(x)", FALSE },
		{ "python", "for x in y:\n    print(x)\n", TRUE },
		{ "python", "if a: b()", TRUE },
		{ "python", "x = {'a': 1}", TRUE },
		{ "python", "d = {'a':\n1}", TRUE },
		{ "python", "'''abc", FALSE },
		{ "python", "'''abc\ndef'''", TRUE },
		{ "python", "s = 'it\\'s (fine'", TRUE },
		{ "python", "# comment (", TRUE },
		{ "python", "x = 1 + \\", FALSE },
		{ "python", "x = 1 + \\\n2", TRUE },
		{ "python", "@decorator", FALSE },
		{ "python", "@decorator\ndef f(): pass", FALSE },
		{ "python", "@decorator\ndef f(): pass\n", TRUE },
		{ "python", "a @ b", TRUE },
		{ "python", "x = a[1:2]", TRUE },
		{ "python", "%%bash\nls", FALSE },
		{ "python", "%%bash\nls\n", TRUE },
		{ "python", "!ls", TRUE },
		{ "python", "lambda x: x", TRUE },
		{ "javascript", "const x = 1", TRUE },
		{ "javascript", "function f() {", FALSE },
		{ "javascript", "function f() {\n}", TRUE },
		{ "javascript", "`a ${b", FALSE },
		{ "javascript", "`a ${b} c`", TRUE },
		{ "javascript", "`a\nb`", TRUE },
		{ "javascript", "`open", FALSE },
		{ "javascript", "'it\\'s {'", TRUE },
		{ "javascript", "// {", TRUE },
		{ "javascript", "/* {", FALSE },
		{ "javascript", "x =", FALSE },
		{ "javascript", "i++", TRUE },
		{ "javascript", "[1,2].map(x => {", FALSE },
		{ "bash", "echo hi", TRUE },
		{ "bash", "if true; then", FALSE },
		{ "bash", "if true; then echo; fi", TRUE },
		{ "bash", "for i in 1 2; do", FALSE },
		{ "bash", "for i in 1 2; do echo $i; done", TRUE },
		{ "bash", "echo done", TRUE },
		{ "bash", "echo if", TRUE },
		{ "bash", "echo 'open", FALSE },
		{ "bash", "echo \"a\nb\"", TRUE },
		{ "bash", "echo a \\", FALSE },
		{ "bash", "ls |", FALSE },
		{ "bash", "ls &&", FALSE },
		{ "bash", "sleep 1 &", TRUE },
		{ "bash", "cat <<EOF", FALSE },
		{ "bash", "cat <<EOF\nx", FALSE },
		{ "bash", "cat <<'EOF'\nx\nEOF", TRUE },
		{ "bash", "cat <<-EOF | wc\n\tx\n\tEOF", TRUE },
		{ "bash", "cat <<< word", TRUE },
		{ "bash", "f() {", FALSE },
		{ "bash", "f() { echo; }", TRUE },
		{ "bash", "echo ${x:-'}", TRUE },
		{ "bash", "( cd /", FALSE },
		{ "bash", "( cd / )", TRUE },
		{ "bash", "case x in a) echo;; esac", TRUE },
		{ "bash", "case x in", FALSE },
		{ "bash", "case x in\na) echo;;", FALSE },
		{ "bash", "x=$(ls", FALSE },
		{ "bash", "x=$(ls) y=(a b)", TRUE },
		{ "bash", "# if", TRUE },
	};
	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		if (vial_is_complete(cases[i].language, cases[i].code) != cases[i].is_complete)
			g_error("%s: \"%s\" should be %scomplete", cases[i].language, cases[i].code, cases[i].is_complete ? "" : "in");
}

static void test_indent(void)
{
	static const char *const cases[][2] = {
		{ "def f():", "    " }, { "def f():\n    if x:", "        " }, { "def f():\n    x", "    " }, { "x = 1", "" }, { "'''a:", "" },
	};
	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autofree char *indent = vial_next_indent("python", cases[i][0]);
		g_assert_cmpstr(indent, ==, cases[i][1]);
	}
}

static void test_safe_names(void)
{
	static const char *const bad[] = { "", ".", "..", "a/b", "/", "../x" };
	for (gsize i = 0; i < G_N_ELEMENTS(bad); i++)
		g_assert_false(vial_transfer_is_safe_name(bad[i]));
	g_assert_false(vial_transfer_is_safe_name(NULL));
	g_assert_true(vial_transfer_is_safe_name("...") && vial_transfer_is_safe_name("-rf"));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/options/parse", test_options);
	g_test_add_func("/options/first", test_first_positional);
	g_test_add_func("/options/secret", test_secret_is_blotted_out);
	g_test_add_func("/options/nearest", test_nearest);
	g_test_add_func("/sse/events", test_events);
	g_test_add_func("/sse/limits", test_events_have_limits);
	g_test_add_func("/sanitize/stream", test_sanitize);
	g_test_add_func("/sanitize/endless", test_sanitize_drops_endless_sequences);
	g_test_add_func("/sanitize/line", test_sanitize_line);
	g_test_add_func("/table", test_table);
	g_test_add_func("/repl/complete", test_completeness);
	g_test_add_func("/repl/indent", test_indent);
	g_test_add_func("/cp/names", test_safe_names);
	return g_test_run();
}
