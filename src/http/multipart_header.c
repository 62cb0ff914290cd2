/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header fields with parameters, as browsers and HTTP libraries write them: a quoted string may have \" and \\ (curl), or %22, %0D and %0A for what
 * cannot stand in it (browsers, httpx, undici), and UTF-8 as it is; name*=UTF-8''… (RFC 5987) goes before name=… .
 */
#include "http/multipart_header.h"

#include <string.h>

#include "http/multipart.h"
#include "util/error.h"

/* Parameters */

typedef struct {
	char *plain, *extended; /* name=, name*= */
} Value;

static void value_clear(Value *value)
{
	g_free(value->plain);
	g_free(value->extended);
}

static gboolean is_token(char c)
{
	return c > ' ' && c < 0x7f && !strchr("()<>@,;:\\\"/[]?={}", c);
}

static const char *skip_blank(const char *at)
{
	return at + strspn(at, " \t\r\n");
}

/* A quoted string, whose first quote is passed; NULL: it has no end. */
static const char *read_quoted(const char *at, GString *out)
{
	for (; *at && *at != '"'; at++) {
		if (*at == '\\' && (at[1] == '"' || at[1] == '\\'))
			at++;
		g_string_append_c(out, *at);
	}
	return *at ? at + 1 : NULL;
}

/* RFC 5987: UTF-8'language'text%20in%20escapes. NULL: none that we know. */
static char *read_extended(const char *text)
{
	const char *language = strchr(text, '\''), *encoded = language ? strchr(language + 1, '\'') : NULL;

	if (!encoded || g_ascii_strncasecmp(text, "utf-8'", strlen("utf-8'")) != 0)
		return NULL;
	return g_uri_unescape_string(encoded + 1, NULL);
}

static gboolean keep(char **slot, char *text)
{
	if (*slot || !text) {
		g_free(text);
		return FALSE;
	}
	*slot = text;
	return TRUE;
}

/* "; name=value" ...: those of `names`. FALSE: not valid, or one of them twice. */
static gboolean read_parameters(const char *at, const char *const *names, Value *out_values)
{
	while (*(at = skip_blank(at))) {
		g_autoptr(GString) value = g_string_new(NULL);
		const char *name;
		gsize length;
		gboolean is_extended;

		if (*at++ != ';')
			return FALSE;
		name = at = skip_blank(at);
		while (is_token(*at))
			at++;
		length = (gsize)(at - name);
		at = skip_blank(at);
		if (*name == '\0' || *name == ';') /* an empty one */
			continue;
		if (length == 0 || *at++ != '=')
			return FALSE;
		at = skip_blank(at);
		if (*at == '"') {
			at = read_quoted(at + 1, value);
		} else {
			/* Wider than a token: filenames were always written so. */
			while (*at && *at != ';' && *at != '\r' && *at != '\n')
				g_string_append_c(value, *at++);
			g_strchomp(value->str);
		}
		if (!at)
			return FALSE;
		is_extended = name[length - 1] == '*';
		length -= is_extended;
		for (gsize i = 0; names[i]; i++) {
			if (strlen(names[i]) != length || g_ascii_strncasecmp(names[i], name, length) != 0)
				continue;
			if (!keep(is_extended ? &out_values[i].extended : &out_values[i].plain,
			          is_extended ? read_extended(value->str) : g_strdup(value->str)))
				return FALSE;
		}
	}
	return TRUE;
}

/* What browsers escape in names, and nothing else: they leave % as it is. */
static void unescape(char *text)
{
	char *out = text;

	for (const char *at = text; *at; out++) {
		gboolean is_escape =
			g_ascii_strncasecmp(at, "%22", 3) == 0 || g_ascii_strncasecmp(at, "%0d", 3) == 0 || g_ascii_strncasecmp(at, "%0a", 3) == 0;

		*out = is_escape ? (char)(g_ascii_xdigit_value(at[1]) << 4 | g_ascii_xdigit_value(at[2])) : *at;
		at += is_escape ? 3 : 1;
	}
	*out = '\0';
}

static char *take(Value *value)
{
	if (value->extended)
		return g_steal_pointer(&value->extended);
	if (value->plain)
		unescape(value->plain);
	return g_steal_pointer(&value->plain);
}

/* The boundary */

char *vial_multipart_boundary(const char *content_type, GError **error)
{
	static const char type[] = "multipart/form-data";
	static const char *const names[] = { "boundary", NULL };
	Value value = { NULL, NULL };
	g_autofree char *boundary = NULL;
	gboolean is_valid;

	if (!content_type || g_ascii_strncasecmp(content_type, type, strlen(type)) != 0 || !strchr("; \t", content_type[strlen(type)])) {
		vial_fail(error, VIAL_ERROR_INVALID, "the body must be a form: its Content-Type multipart/form-data");
		return NULL;
	}
	is_valid = read_parameters(content_type + strlen(type), names, &value);
	boundary = g_steal_pointer(&value.plain);
	value_clear(&value);
	for (const char *at = boundary; is_valid && at && *at; at++)
		is_valid = *at >= ' ' && *at < 0x7f;
	if (is_valid && boundary && *boundary && strlen(boundary) <= VIAL_MULTIPART_BOUNDARY_MAX_BYTES && !g_str_has_suffix(boundary, " "))
		return g_steal_pointer(&boundary);
	vial_fail(error, VIAL_ERROR_INVALID, "the Content-Type must have a boundary of 1 to %d visible characters",
	          VIAL_MULTIPART_BOUNDARY_MAX_BYTES);
	return NULL;
}

/* A part's header */

static gboolean is_field(const char *line, const char *name, const char **out_value)
{
	gsize length = strlen(name);

	if (g_ascii_strncasecmp(line, name, length) != 0 || line[length] != ':')
		return FALSE;
	*out_value = skip_blank(line + length + 1);
	return TRUE;
}

static gboolean parse_disposition(const char *value, char **out_name, char **out_filename)
{
	static const char type[] = "form-data";
	static const char *const names[] = { "name", "filename", NULL };
	Value values[2] = { 0 };
	gboolean is_valid = g_ascii_strncasecmp(value, type, strlen(type)) == 0 && read_parameters(value + strlen(type), names, values) &&
	                    (values[0].plain || values[0].extended);

	if (is_valid) {
		*out_name = take(&values[0]);
		*out_filename = take(&values[1]);
	}
	value_clear(&values[0]);
	value_clear(&values[1]);
	return is_valid;
}

/* A line that begins with a blank goes on with the one before. */
static void unfold(char *text)
{
	for (char *at = text; (at = strstr(at, "\r\n")); at += 2)
		if (at[2] == ' ' || at[2] == '\t')
			at[0] = at[1] = ' ';
}

static gboolean parse_line(const char *line, char **out_name, char **out_filename, char **out_content_type, GError **error)
{
	const char *value;

	if (is_field(line, "Content-Disposition", &value))
		return (!*out_name && parse_disposition(value, out_name, out_filename)) ||
		       vial_fail(error, VIAL_ERROR_INVALID, "a part's Content-Disposition must be form-data with a name");
	if (is_field(line, "Content-Type", &value)) {
		g_free(*out_content_type);
		*out_content_type = g_strdup(value);
	}
	if (is_field(line, "Content-Transfer-Encoding", &value) && g_ascii_strcasecmp(value, "binary") != 0 &&
	    g_ascii_strcasecmp(value, "8bit") != 0 && g_ascii_strcasecmp(value, "7bit") != 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "a part's Content-Transfer-Encoding must be binary");
	return TRUE;
}

gboolean vial_multipart_header_parse(const char *text, gsize size, char **out_name, char **out_filename, char **out_content_type, GError **error)
{
	g_autofree char *header = g_strndup(text, size), *name = NULL, *filename = NULL, *content_type = NULL;
	g_auto(GStrv) lines = NULL;

	if (strlen(header) != size || !g_utf8_validate(header, (gssize)size, NULL))
		return vial_fail(error, VIAL_ERROR_INVALID, "a part's header must be UTF-8 without NUL");
	unfold(header);
	lines = g_strsplit(header, "\r\n", -1);
	for (gsize i = 0; lines[i]; i++)
		if (!parse_line(g_strchomp(lines[i]), &name, &filename, &content_type, error))
			return FALSE;
	if (!name)
		return vial_fail(error, VIAL_ERROR_INVALID, "a part has no Content-Disposition");
	/* An escape may have become anything. */
	if (!g_utf8_validate(name, -1, NULL) || (filename && !g_utf8_validate(filename, -1, NULL)))
		return vial_fail(error, VIAL_ERROR_INVALID, "a part's name must be UTF-8");
	*out_name = g_steal_pointer(&name);
	*out_filename = g_steal_pointer(&filename);
	*out_content_type = g_steal_pointer(&content_type);
	return TRUE;
}
