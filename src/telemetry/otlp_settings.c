/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/otlp_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/fd.h"

#define TRACES_PATH "/v1/traces"
#define MAX_FILE_BYTES (64 * 1024)

void vial_otlp_settings_clear(VialOtlpSettings *settings)
{
	g_clear_pointer(&settings->url, g_free);
	for (struct curl_slist *header = settings->headers; header; header = header->next)
		explicit_bzero(header->data, strlen(header->data));
	g_clear_pointer(&settings->headers, curl_slist_free_all);
}

/* ---- where to ---- */

static char *url_part(CURLU *url, CURLUPart part)
{
	char *text = NULL, *copy;

	if (curl_url_get(url, part, &text, 0) != CURLUE_OK)
		return NULL;
	copy = g_strdup(text);
	curl_free(text);
	return copy;
}

/* NULL, or what is wrong with it: the end of a sentence that begins "must be". libcurl reads it, so that nobody later reads it otherwise. */
static const char *find_fault(CURLU *url, const char *endpoint)
{
	CURLUcode code = curl_url_set(url, CURLUPART_URL, endpoint, CURLU_DISALLOW_USER);

	if (code == CURLUE_USER_NOT_ALLOWED)
		return "without a user or password; those belong in otlp_headers_file";
	if (code != CURLUE_OK)
		return "an address like http://127.0.0.1:4318";
	g_autofree char *scheme = url_part(url, CURLUPART_SCHEME), *query = url_part(url, CURLUPART_QUERY);
	g_autofree char *fragment = url_part(url, CURLUPART_FRAGMENT), *path = url_part(url, CURLUPART_PATH);
	if (!scheme || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
		return "an http:// or https:// address";
	if (query || fragment)
		return "without ? and #";
	if (path && g_str_has_suffix(path, TRACES_PATH))
		return "without " TRACES_PATH ", which is added to it";
	return NULL;
}

static char *make_url(const char *endpoint, GError **error)
{
	gsize length = strlen(endpoint);
	CURLU *url = curl_url();

	while (length > 0 && endpoint[length - 1] == '/')
		length--;
	g_autofree char *base = g_strndup(endpoint, length);
	const char *fault = find_fault(url, base);
	curl_url_cleanup(url);
	if (!fault)
		return g_strconcat(base, TRACES_PATH, NULL);
	/* Not quoted when it may hold a password. */
	if (strchr(base, '@'))
		vial_fail(error, VIAL_ERROR_INVALID, "otlp_endpoint must be %s", fault);
	else
		vial_fail(error, VIAL_ERROR_INVALID, "otlp_endpoint is \"%s\", but must be %s", endpoint, fault);
	return NULL;
}

/* ---- with which headers ---- */

static gboolean is_token(const char *name)
{
	for (const char *c = name; *c; c++)
		if (!g_ascii_isalnum(*c) && !strchr("!#$%&'*+-.^_`|~", *c))
			return FALSE;
	return *name != '\0';
}

static gboolean is_one_line(const char *value)
{
	for (const char *c = value; *c; c++)
		if (((guint8)*c < 0x20 && *c != '\t') || *c == 0x7f)
			return FALSE;
	return TRUE;
}

/* What says how the request is to be read is ours to say. */
static gboolean is_ours(const char *name)
{
	static const char *const ours[] = { "content-type", "content-length", "content-encoding", "transfer-encoding",
		                            "connection",   "expect",         "upgrade",          NULL };
	g_autofree char *lower = g_ascii_strdown(name, -1);

	return g_strv_contains(ours, lower);
}

/* Blanks around a name or value are not part of it (RFC 9110, 5.5). A line's end is no blank, so it is never overlooked. */
static char *trim_blanks(char *text)
{
	text += strspn(text, " \t");
	for (gsize length = strlen(text); length > 0 && strchr(" \t", text[length - 1]); length--)
		text[length - 1] = '\0';
	return text;
}

/* `text` is one name and value with a separator between; it is taken apart in place. */
static gboolean add_header(VialOtlpSettings *settings, const char *source, char *text, char separator, GError **error)
{
	char *value = strchr(text, separator);
	guint n_headers = 0;

	for (struct curl_slist *header = settings->headers; header; header = header->next)
		n_headers++;
	if (n_headers == VIAL_OTLP_MAX_HEADERS)
		return vial_fail(error, VIAL_ERROR_INVALID, "%s: there are more than %d headers", source, VIAL_OTLP_MAX_HEADERS);
	if (!value)
		return vial_fail(error, VIAL_ERROR_INVALID, "%s: a header must be written name%cvalue, but one has no \"%c\"", source, separator,
		                 separator);
	*value++ = '\0';
	text = trim_blanks(text);
	value = trim_blanks(value);
	if (!is_token(text))
		return vial_fail(error, VIAL_ERROR_INVALID, "%s: a header's name may have letters, digits and -_. in it, and one has something else",
		                 source);
	if (is_ours(text))
		return vial_fail(error, VIAL_ERROR_INVALID, "%s: the header \"%s\" is set by viald itself", source, text);
	if (!is_one_line(value))
		return vial_fail(error, VIAL_ERROR_INVALID, "%s: the value of the header \"%s\" has a line break or another control character in it",
		                 source, text);
	if (!*value)
		return vial_fail(error, VIAL_ERROR_INVALID, "%s: the header \"%s\" has no value", source, text);
	if (strlen(text) + strlen(value) > VIAL_OTLP_HEADER_MAX_BYTES)
		return vial_fail(error, VIAL_ERROR_INVALID, "%s: the header \"%.64s\" is longer than %d bytes", source, text,
		                 VIAL_OTLP_HEADER_MAX_BYTES);
	g_autofree char *line = g_strdup_printf("%s: %s", text, value);
	settings->headers = curl_slist_append(settings->headers, line);
	explicit_bzero(line, strlen(line));
	return TRUE;
}

static gboolean add_list(VialOtlpSettings *settings, char *const *list, GError **error)
{
	for (gsize i = 0; list[i]; i++) {
		g_autofree char *text = g_strdup(list[i]);
		if (!add_header(settings, "otlp_headers", text, '=', error))
			return FALSE;
	}
	return TRUE;
}

/*
 * The operator's own file, perhaps on a read-only mount, so its mode is not mended as that of our own keys is. A group may be let in on purpose; that
 * everybody was is what a forgotten umask looks like.
 */
static gboolean check_mode(const char *path, GError **error)
{
	struct stat status;

	if (stat(path, &status) < 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "otlp_headers_file: %s: %s", path, g_strerror(errno));
	if (S_ISREG(status.st_mode) && (status.st_mode & 027))
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "otlp_headers_file: %s has mode %03o, so others may read or change the secrets in it; chmod it to 600", path,
		                 (unsigned)status.st_mode & 0777);
	return TRUE;
}

static gboolean add_lines(VialOtlpSettings *settings, const char *path, char *content, gsize size, GError **error)
{
	g_autofree char *source = g_strdup_printf("otlp_headers_file (%s)", path);

	if (strlen(content) != size)
		return vial_fail(error, VIAL_ERROR_INVALID, "%s is not a text", source);
	for (char *line = content, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		gsize length = strlen(line);
		if (length > 0 && line[length - 1] == '\r')
			line[length - 1] = '\0';
		line = trim_blanks(line);
		if (*line && *line != '#' && !add_header(settings, source, line, ':', error))
			return FALSE;
	}
	return TRUE;
}

static gboolean add_file(VialOtlpSettings *settings, const char *path, GError **error)
{
	gsize size = 0;
	gboolean is_added;

	if (!check_mode(path, error))
		return FALSE;
	g_autofree char *content = vial_file_read_at(AT_FDCWD, path, MAX_FILE_BYTES, &size, error);
	if (!content) {
		g_prefix_error(error, "otlp_headers_file: ");
		return FALSE;
	}
	is_added = add_lines(settings, path, content, size, error);
	explicit_bzero(content, size);
	return is_added;
}

gboolean vial_otlp_settings_read(const VialConfig *config, VialOtlpSettings *out, GError **error)
{
	g_auto(VialOtlpSettings) settings = { 0 };

	settings.url = make_url(config->otlp_endpoint, error);
	if (!settings.url)
		return FALSE;
	if (!config->otlp_service_name[0])
		return vial_fail(error, VIAL_ERROR_INVALID, "otlp_service_name must not be empty: collectors sort spans by it");
	if (!add_list(&settings, config->otlp_headers, error))
		return FALSE;
	if (config->otlp_headers_file[0] && !add_file(&settings, config->otlp_headers_file, error))
		return FALSE;
	*out = settings;
	settings = (VialOtlpSettings){ 0 };
	return TRUE;
}
