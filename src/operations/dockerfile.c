/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read line by line: a logical line is one with its continuations (a backslash at the end; comments and empty lines within are passed over), and what
 * follows a RUN with here-documents up to their ends. Variables are put in where Docker does it, in ENV and WORKDIR; in a RUN they are the shell's
 * affair, which finds ARGs in its environment.
 */
#include "operations/dockerfile.h"

#include <string.h>

#include "operations/dockerfile_copy.h"
#include "util/error.h"
#include "util/json.h"

/* What a guest's programs have when nobody said otherwise: `ENV PATH=/opt/bin:$PATH` must mean that (agent/env.c). */
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define MAX_HEREDOCS 8
#define MAX_VALUE_BYTES (32 * 1024)
/* Of all values that ENVs and ARGs set, with their names: $NAME makes much out of little. ARGs are kept with every RUN, so they may be less. */
#define MAX_VALUES_BYTES (256 * 1024)
#define MAX_ARGS_BYTES (32 * 1024)
/* ${A:-${B:-...}}: each level looks for its end in what the one around it has. */
#define MAX_BRACES 16
/* Of one COPY: flags, a source for each step, the destination. */
#define MAX_COPY_WORDS (VIAL_STEPS_MAX + 16)
/* What Windows' editors put before the first line. Docker does not see it either. */
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

typedef struct {
	const char *at;           /* the next line */
	guint line;               /* its number */
	guint began;              /* the first line of the instruction */
	json_t *given;            /* args */
	json_t *used;             /* names of args that an ARG has asked for */
	json_t *args;             /* ARGs in force */
	gboolean args_are_shared; /* with a step, which keeps them as they are */
	gsize args_bytes, values_bytes;
	json_t *env; /* of the base and of ENV so far */
	char *workdir;
	const char *context; /* the archive that a COPY copies from; NULL: there is none */
	json_t *steps;
} Reader;

static gboolean complain(const Reader *reader, GError **error, const char *format, ...) G_GNUC_PRINTF(3, 4);

static gboolean complain(const Reader *reader, GError **error, const char *format, ...)
{
	g_autofree char *text = NULL, *valid = NULL;
	va_list args;

	va_start(args, format);
	text = g_strdup_vprintf(format, args);
	va_end(args);
	valid = g_utf8_make_valid(text, -1); /* what was cut to a length may have lost half a character */
	return vial_fail_with(error, VIAL_ERROR_INVALID, json_pack("{s:i}", "line", (int)reader->began), "dockerfile, line %u: %s", reader->began,
	                      valid);
}

/* Lines */

/* The next one without its end; NULL: there is none. Free it. */
static char *next_line(Reader *reader)
{
	const char *end;
	gsize size;
	char *line;

	if (!*reader->at)
		return NULL;
	end = strchr(reader->at, '\n');
	size = end ? (gsize)(end - reader->at) : strlen(reader->at);
	line = g_strndup(reader->at, size);
	reader->at += size + (end ? 1 : 0);
	reader->line++;
	if (size > 0 && line[size - 1] == '\r')
		line[size - 1] = '\0';
	return line;
}

static gboolean is_blank(const char *line)
{
	return line[strspn(line, " \t")] == '\0';
}

static gboolean is_comment(const char *line)
{
	return line[strspn(line, " \t")] == '#';
}

/* Whether a line goes on with the next one, without the backslash then. */
static gboolean cut_continuation(char *line)
{
	gsize size = strlen(line);

	while (size > 0 && (line[size - 1] == ' ' || line[size - 1] == '\t'))
		size--;
	if (size == 0 || line[size - 1] != '\\')
		return FALSE;
	line[size - 1] = '\0';
	return TRUE;
}

/* An instruction with its continuations; NULL at the end of the file. Free it. */
static char *next_instruction(Reader *reader)
{
	GString *text = NULL;
	char *line;

	while ((line = next_line(reader))) {
		g_autofree char *owned = line;
		gboolean goes_on;

		if (is_comment(line) || is_blank(line))
			continue;
		if (!text) {
			text = g_string_new(NULL);
			reader->began = reader->line;
		}
		goes_on = cut_continuation(line);
		g_string_append(text, line);
		if (!goes_on)
			break;
	}
	return text ? g_strstrip(g_string_free(text, FALSE)) : NULL;
}

/* Variables */

static const char *look_up(const Reader *reader, const char *name)
{
	const char *value = json_string_value(json_object_get(reader->env, name));

	if (!value)
		value = json_string_value(json_object_get(reader->args, name));
	return value ? value : strcmp(name, "PATH") == 0 ? DEFAULT_PATH : NULL;
}

static gboolean is_name_start(char c)
{
	return g_ascii_isalpha(c) || c == '_';
}

static gsize name_length(const char *text)
{
	gsize length = 0;

	if (is_name_start(text[0]))
		while (g_ascii_isalnum(text[length]) || text[length] == '_')
			length++;
	return length;
}

static gboolean expand(const Reader *reader, const char *text, gsize size, guint depth, GString *out, GError **error);

/* ${NAME}, ${NAME:-otherwise}, ${NAME:+instead}: *at is behind the brace, and then behind the other. */
static gboolean expand_braces(const Reader *reader, const char **at, const char *end, guint depth_before, GString *out, GError **error)
{
	const char *close = *at;
	g_autofree char *name = g_strndup(*at, name_length(*at));
	const char *value, *rest = *at + strlen(name);
	int depth = 1;

	if (depth_before == MAX_BRACES)
		return complain(reader, error, "\"${\" within \"${\": at most %d levels", MAX_BRACES);
	for (; close < end; close++) {
		depth += *close == '{' ? 1 : *close == '}' ? -1 : 0;
		if (depth == 0)
			break;
	}
	if (close == end || !*name)
		return complain(reader, error, "\"${\" must be followed by a name and \"}\"");
	value = look_up(reader, name);
	*at = close + 1;
	if (rest == close) {
		g_string_append(out, value ? value : "");
		return TRUE;
	}
	if (rest[0] != ':' || (rest[1] != '-' && rest[1] != '+'))
		return complain(reader, error, "of ${%s…} only ${%s}, ${%s:-otherwise} and ${%s:+instead} are known", name, name, name, name);
	if (rest[1] == '-' && value && *value) {
		g_string_append(out, value);
		return TRUE;
	}
	if (rest[1] == '+' && (!value || !*value))
		return TRUE;
	return expand(reader, rest + 2, (gsize)(close - rest - 2), depth_before + 1, out, error);
}

/* Variables only; quotes have been dealt with. */
static gboolean expand(const Reader *reader, const char *text, gsize size, guint depth, GString *out, GError **error)
{
	const char *at = text, *end = text + size;

	while (at < end) {
		gsize length;

		if (*at == '\\' && at + 1 < end && at[1] == '$') {
			g_string_append_c(out, '$');
			at += 2;
		} else if (*at == '$' && at + 1 < end && at[1] == '{') {
			at += 2;
			if (!expand_braces(reader, &at, end, depth, out, error))
				return FALSE;
		} else if (*at == '$' && at + 1 < end && (length = name_length(at + 1)) > 0) {
			g_autofree char *name = g_strndup(at + 1, length);
			const char *value = look_up(reader, name);

			g_string_append(out, value ? value : "");
			at += 1 + length;
		} else {
			g_string_append_c(out, *at++);
		}
		if (out->len > MAX_VALUE_BYTES)
			return complain(reader, error, "a value is longer than %d bytes", MAX_VALUE_BYTES);
	}
	return TRUE;
}

/* One word with its quotes taken off and its variables put in: *at is at its beginning, and then behind it. */
static gboolean read_word(const Reader *reader, const char **at, GString *out, GError **error)
{
	const char *c = *at;

	while (*c && *c != ' ' && *c != '\t') {
		const char *end;

		if (*c == '\'') {
			end = strchr(c + 1, '\'');
			if (!end)
				return complain(reader, error, "a quote ' is not closed");
			g_string_append_len(out, c + 1, end - c - 1);
			c = end + 1;
		} else if (*c == '"') {
			g_autoptr(GString) inner = g_string_new(NULL);

			for (end = c + 1; *end && *end != '"'; end++) {
				if (*end == '\\' && (end[1] == '"' || end[1] == '\\'))
					end++;
				else if (*end == '\\' && end[1] == '$')
					g_string_append_c(inner, *end++);
				g_string_append_c(inner, *end);
			}
			if (!*end)
				return complain(reader, error, "a quote \" is not closed");
			if (!expand(reader, inner->str, inner->len, 0, out, error))
				return FALSE;
			c = end + 1;
		} else {
			g_autoptr(GString) inner = g_string_new(NULL);

			for (; *c && !strchr(" \t'\"", *c); c++) {
				if (*c == '\\' && c[1] && c[1] != '$')
					c++;
				else if (*c == '\\' && c[1] == '$')
					g_string_append_c(inner, *c++);
				else if (*c == '$' && c[1] == '{')
					while (*c && *c != '}' && *c != '\'' && *c != '"')
						g_string_append_c(inner, *c++);
				if (!*c || strchr("'\"", *c))
					break;
				g_string_append_c(inner, *c);
			}
			if (!expand(reader, inner->str, inner->len, 0, out, error))
				return FALSE;
		}
	}
	*at = c;
	return TRUE;
}

static const char *skip_blanks(const char *text)
{
	return text + strspn(text, " \t");
}

/* Instructions */

static gboolean add_step(Reader *reader, const char *kind, json_t *value, GError **error)
{
	json_t *step;

	if (json_array_size(reader->steps) == VIAL_STEPS_MAX) {
		json_decref(value);
		return complain(reader, error, "a build has at most %d steps; join some with &&", VIAL_STEPS_MAX);
	}
	step = json_pack("{s:o, s:i}", kind, value, "line", (int)reader->began);
	if (!step)
		return complain(reader, error, "it is not UTF-8");
	json_array_append_new(reader->steps, step);
	return TRUE;
}

static gboolean count_value(Reader *reader, const char *name, const char *value, GError **error)
{
	reader->values_bytes += strlen(name) + strlen(value);
	return reader->values_bytes <= MAX_VALUES_BYTES ||
	       complain(reader, error, "the values of all ENVs and ARGs together are longer than %d bytes", MAX_VALUES_BYTES);
}

static gboolean read_env(Reader *reader, const char *text, GError **error)
{
	g_autoptr(json_t) pairs = json_object();
	gsize length = name_length(text);
	const char *at = text;

	if (length > 0 && (text[length] == ' ' || text[length] == '\t')) { /* the old form: all that follows is the value */
		g_autofree char *name = g_strndup(text, length);
		g_autoptr(GString) value = g_string_new(NULL);

		text = skip_blanks(text + length);
		if (!expand(reader, text, strlen(text), 0, value, error) || !count_value(reader, name, value->str, error))
			return FALSE;
		json_object_set_new(pairs, name, json_string(value->str));
		at = "";
	}
	while (*at) {
		g_autoptr(GString) value = g_string_new(NULL);
		g_autofree char *name = NULL;

		length = name_length(at);
		if (length == 0 || at[length] != '=')
			return complain(reader, error, "ENV must be followed by NAME=value, or by NAME and a value");
		name = g_strndup(at, length);
		at += length + 1;
		if (!read_word(reader, &at, value, error) || !count_value(reader, name, value->str, error))
			return FALSE;
		json_object_set_new(pairs, name, json_string(value->str));
		at = skip_blanks(at);
	}
	if (json_object_size(pairs) == 0)
		return complain(reader, error, "ENV must be followed by NAME=value");
	json_object_update(reader->env, pairs);
	return add_step(reader, "env", g_steal_pointer(&pairs), error);
}

static gboolean set_arg(Reader *reader, const char *name, const char *value, GError **error)
{
	const char *before = json_string_value(json_object_get(reader->args, name));

	if (!count_value(reader, name, value, error))
		return FALSE;
	reader->args_bytes += strlen(value) + (before ? 0 : strlen(name)) - (before ? strlen(before) : 0);
	if (reader->args_bytes > MAX_ARGS_BYTES)
		return complain(reader, error, "the ARGs together are longer than %d bytes", MAX_ARGS_BYTES);
	if (reader->args_are_shared) {
		json_t *copy = json_copy(reader->args);

		json_decref(reader->args);
		reader->args = copy;
		reader->args_are_shared = FALSE;
	}
	json_object_set_new(reader->args, name, json_string(value));
	return TRUE;
}

static gboolean read_arg(Reader *reader, const char *text, GError **error)
{
	while (*text) {
		gsize length = name_length(text);
		g_autofree char *name = g_strndup(text, length);
		g_autoptr(GString) value = g_string_new(NULL);
		const char *given = json_string_value(json_object_get(reader->given, name));
		gboolean has_value = given != NULL;

		text += length;
		if (length == 0 || (*text && !strchr("= \t", *text)))
			return complain(reader, error, "ARG must be followed by NAME or NAME=value");
		if (*text == '=') {
			text++;
			has_value = TRUE;
			if (!read_word(reader, &text, value, error))
				return FALSE;
		}
		if (given)
			json_object_set_new(reader->used, name, json_true());
		if (has_value && !set_arg(reader, name, given ? given : value->str, error))
			return FALSE;
		text = skip_blanks(text);
	}
	return TRUE;
}

char *vial_workdir_join(const char *workdir, const char *path)
{
	return g_canonicalize_filename(path, workdir && *workdir ? workdir : "/");
}

static gboolean read_workdir(Reader *reader, const char *text, GError **error)
{
	g_autoptr(GString) path = g_string_new(NULL);
	const char *at = text;

	if (!read_word(reader, &at, path, error))
		return FALSE;
	if (path->len == 0 || *skip_blanks(at))
		return complain(reader, error, "WORKDIR must be followed by one path");
	if (path->len > 4095)
		return complain(reader, error, "the path is too long");
	char *joined = vial_workdir_join(reader->workdir ? reader->workdir : "/", path->str);

	g_free(reader->workdir);
	reader->workdir = joined;
	return add_step(reader, "workdir", json_string(joined), error);
}

/* The words <<EOF, <<-"EOF" of a line, outside of quotes: the ends of what follows it. */
static guint find_heredocs(const char *text, char *ends[MAX_HEREDOCS])
{
	guint count = 0;
	char quote = 0;

	for (const char *c = text; *c && count < MAX_HEREDOCS; c++) {
		const char *word = c + 2;
		gsize length;

		if (quote || *c == '\'' || *c == '"') {
			quote = quote == *c ? 0 : quote ? quote : *c;
			continue;
		}
		if (*c == '\\' && c[1]) {
			c++;
			continue;
		}
		if (c[0] != '<' || c[1] != '<' || (c > text && c[-1] == '<') || *word == '<' || (c > text && !strchr(" \t0123456789|&;", c[-1])))
			continue;
		word += *word == '-' ? 1 : 0;
		word += *word == '\'' || *word == '"' ? 1 : 0;
		length = name_length(word);
		if (length == 0)
			continue;
		ends[count++] = g_strndup(word, length);
		c = word + length - 1;
		if (c[1] == '\'' || c[1] == '"')
			c++;
	}
	return count;
}

/* Up to and with the line that ends it. */
static gboolean append_heredoc(Reader *reader, const char *end, GString *out, GError **error)
{
	char *line;

	while ((line = next_line(reader))) {
		g_autofree char *owned = line;

		g_string_append_printf(out, "\n%s", line);
		if (strcmp(line, end) == 0 || strcmp(line + strspn(line, "\t"), end) == 0)
			return TRUE;
	}
	return complain(reader, error, "the here-document <<%s is not ended by a line %s", end, end);
}

/* A RUN that is nothing but a here-document is a script. */
static char *as_script(const char *text, const char *end)
{
	g_autofree char *plain = g_strdup_printf("<<%s\n", end);
	g_autofree char *quoted = g_strdup_printf("<<'%s'\n", end), *twice = g_strdup_printf("<<\"%s\"\n", end);
	const char *forms[] = { plain, quoted, twice };

	for (gsize i = 0; i < G_N_ELEMENTS(forms); i++)
		if (g_str_has_prefix(text, forms[i]))
			return g_strndup(text + strlen(forms[i]),
			                 strlen(text) - strlen(forms[i]) - MIN(strlen(end), strlen(text) - strlen(forms[i])));
	return NULL;
}

static gboolean read_run(Reader *reader, const char *text, GError **error)
{
	g_autoptr(GString) all = g_string_new(text);
	g_autoptr(json_t) words = *text == '[' ? json_loads(text, 0, NULL) : NULL;
	char *ends[MAX_HEREDOCS] = { NULL };
	guint count = words ? 0 : find_heredocs(text, ends);
	g_autofree char *script = NULL;
	gboolean is_read = TRUE;
	json_t *command, *word;
	gsize i;

	for (guint n = 0; n < count; n++) {
		is_read = is_read && append_heredoc(reader, ends[n], all, error);
		script = is_read && count == 1 ? as_script(all->str, ends[n]) : NULL;
		g_free(ends[n]);
	}
	if (!is_read)
		return FALSE;
	if (g_str_has_prefix(text, "--")) {
		g_autofree char *flag = g_strndup(text, strcspn(text, "= \t"));

		return complain(reader, error,
		                "RUN %s is not known here: a build has its own network and secrets (the fields network and secrets), and no mounts",
		                flag);
	}
	json_array_foreach (words, i, word)
		if (!json_is_string(word))
			return complain(reader, error, "RUN [...] must be a list of strings");
	if (!*text || (words && json_array_size(words) == 0))
		return complain(reader, error, "RUN must be followed by a command");
	command = json_is_array(words) ? json_incref(words) : json_string(script ? script : all->str);
	if (!add_step(reader, "run", command, error))
		return FALSE;
	if (json_object_size(reader->args) > 0) {
		json_object_set(json_array_get(reader->steps, json_array_size(reader->steps) - 1), "args", reader->args);
		reader->args_are_shared = TRUE;
	}
	return TRUE;
}

/* COPY */

static gboolean keep_word(const Reader *reader, const GString *word, GPtrArray *words, GError **error)
{
	if (words->len == MAX_COPY_WORDS)
		return complain(reader, error, "COPY has too many sources: at most %d", VIAL_STEPS_MAX);
	g_ptr_array_add(words, g_strdup(word->str));
	return TRUE;
}

/* One word at *at, which is then behind it and the blanks that follow. */
static gboolean add_word(const Reader *reader, const char **at, GPtrArray *words, GError **error)
{
	g_autoptr(GString) word = g_string_new(NULL);

	if (!read_word(reader, at, word, error))
		return FALSE;
	*at = skip_blanks(*at);
	return keep_word(reader, word, words, error);
}

/* Of a list: quotes and blanks in it are its own. */
static gboolean add_whole(const Reader *reader, const char *text, GPtrArray *words, GError **error)
{
	g_autoptr(GString) word = g_string_new(NULL);

	return expand(reader, text, strlen(text), 0, word, error) && keep_word(reader, word, words, error);
}

/* Flags, and then either words or a list of them; what is no list begins with a pattern, [a-z]*. */
static gboolean read_copy_words(const Reader *reader, const char *text, GPtrArray *words, GError **error)
{
	g_autoptr(json_t) list = NULL;
	json_t *word;
	gsize i;

	while (g_str_has_prefix(text, "--"))
		if (!add_word(reader, &text, words, error))
			return FALSE;
	list = *text == '[' ? json_loads(text, 0, NULL) : NULL;
	json_array_foreach (list, i, word) {
		if (!json_is_string(word))
			return complain(reader, error, "COPY [...] must be a list of strings");
		if (!add_whole(reader, json_string_value(word), words, error))
			return FALSE;
	}
	while (!list && *text)
		if (!add_word(reader, &text, words, error))
			return FALSE;
	return TRUE;
}

static gboolean read_copy(Reader *reader, const char *text, GError **error)
{
	g_autoptr(GPtrArray) words = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GError) problem = NULL;
	g_autoptr(json_t) copies = NULL;
	json_t *copy;
	gsize i;

	if (!read_copy_words(reader, text, words, error))
		return FALSE;
	copies = vial_dockerfile_copy(words, reader->workdir, reader->context, &problem);
	if (!copies)
		return complain(reader, error, "%s", problem->message);
	json_array_foreach (copies, i, copy)
		if (!add_step(reader, "copy", json_incref(copy), error))
			return FALSE;
	return TRUE;
}

/* What is refused, and why. */
static const struct {
	const char *name;
	const char *reason;
} refused[] = {
	{ "FROM", "what a template is built on is the field \"base\"" },
	{ "CMD", "what is to run in every sandbox is the field \"start_command\"" },
	{ "ENTRYPOINT", "what is to run in every sandbox is the field \"start_command\"" },
	{ "COPY", "a build has no folder of files to copy from; fetch them in a RUN, or write them with a here-document" },
	{ "ADD", "a build has no folder of files to add from; fetch them in a RUN, or write them with a here-document" },
	{ "USER", "steps run as root, and the code of a sandbox as \"user\"" },
	{ "VOLUME", "a sandbox has one disk" },
	{ "EXPOSE", "every port of a sandbox can be reached by its owner, and by nobody else" },
	{ "LABEL", "a template has a name and tags, and no labels" },
	{ "MAINTAINER", "a template has a name and tags, and no labels" },
	{ "HEALTHCHECK", "a sandbox is watched by viald" },
	{ "SHELL", "a RUN is run by /bin/sh; name another in the line, or use RUN [\"program\", ...]" },
	{ "ONBUILD", "there are no triggers" },
	{ "STOPSIGNAL", "a sandbox is ended as a whole" },
};

static gboolean refuse(const Reader *reader, const char *name, GError **error)
{
	for (gsize i = 0; i < G_N_ELEMENTS(refused); i++)
		if (strcmp(name, refused[i].name) == 0)
			return complain(reader, error, "%s is not supported: %s", name, refused[i].reason);
	return complain(reader, error, "%.32s is no instruction that is known here; there are RUN, ENV, WORKDIR and ARG", name);
}

static gboolean read_instruction(Reader *reader, const char *text, GError **error)
{
	gsize length = strcspn(text, " \t");
	g_autofree char *name = g_ascii_strup(text, (gssize)length);
	const char *rest = skip_blanks(text + length);

	if (strcmp(name, "RUN") == 0)
		return read_run(reader, rest, error);
	if (strcmp(name, "ENV") == 0)
		return read_env(reader, rest, error);
	if (strcmp(name, "ARG") == 0)
		return *rest ? read_arg(reader, rest, error) : complain(reader, error, "ARG must be followed by NAME or NAME=value");
	if (strcmp(name, "WORKDIR") == 0)
		return read_workdir(reader, rest, error);
	if (strcmp(name, "COPY") == 0 && reader->context)
		return read_copy(reader, rest, error);
	return refuse(reader, name, error);
}

/* "# escape=`" at the top would make another language of it. */
static gboolean check_directives(Reader *reader, GError **error)
{
	const char *at = reader->at;

	reader->began = 1;
	while (*at == '#') {
		const char *word = skip_blanks(at + 1);

		if (g_ascii_strncasecmp(word, "escape", 6) == 0 && *skip_blanks(word + 6) == '=' && *skip_blanks(skip_blanks(word + 6) + 1) != '\\')
			return complain(reader, error, "a line goes on after a backslash; another escape is not supported");
		at = strchr(at, '\n');
		if (!at)
			break;
		at++;
		reader->began++;
	}
	return TRUE;
}

static gboolean read_all(Reader *reader, GError **error)
{
	const char *name;
	json_t *value;
	char *text;

	if (!check_directives(reader, error))
		return FALSE;
	while ((text = next_instruction(reader))) {
		g_autofree char *owned = text;

		if (!read_instruction(reader, text, error))
			return FALSE;
	}
	json_object_foreach (reader->given, name, value)
		if (!json_object_get(reader->used, name))
			return vial_fail(error, VIAL_ERROR_INVALID, "field \"args.%s\": the dockerfile has no ARG %s", name, name);
	return TRUE;
}

json_t *vial_dockerfile_parse(const char *text, json_t *args, json_t *env, const char *workdir, const char *context, GError **error)
{
	Reader reader = { .at = g_str_has_prefix(text, BYTE_ORDER_MARK) ? text + strlen(BYTE_ORDER_MARK) : text,
		          .given = args,
		          .used = json_object(),
		          .args = json_object(),
		          .steps = json_array(),
		          .workdir = g_strdup(workdir),
		          .context = context };
	gboolean is_read;

	reader.env = env ? json_deep_copy(env) : json_object();
	if (strlen(text) > VIAL_DOCKERFILE_MAX_BYTES)
		is_read = vial_fail(error, VIAL_ERROR_INVALID, "field \"dockerfile\" is too long: at most %d bytes", VIAL_DOCKERFILE_MAX_BYTES);
	else
		is_read = read_all(&reader, error);
	json_decref(reader.used);
	json_decref(reader.args);
	json_decref(reader.env);
	g_free(reader.workdir);
	if (is_read)
		return reader.steps;
	json_decref(reader.steps);
	return NULL;
}

gboolean vial_dockerfile_copies(const char *text)
{
	g_autoptr(json_t) steps = vial_dockerfile_parse(text, NULL, NULL, NULL, "any", NULL);
	const json_t *step;
	gsize i;

	json_array_foreach (steps, i, step)
		if (json_object_get(step, "copy"))
			return TRUE;
	return !steps;
}
