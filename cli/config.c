/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/config.h"

#include <string.h>

#define DEFAULT_URL "http://127.0.0.1:7070"
#define DEFAULT_DATA "/var/lib/vial"
enum { KEY_FILE_MAX = 4096 };

static gboolean fail(GError **error, const char *format, const char *text)
{
	g_set_error(error, VIAL_OPTIONS_ERROR, 0, format, text);
	return FALSE;
}

/* "unix:/path" stays; "host:7070", "http://host:7070/", "http://host:7070/v1" all become "http://host:7070". */
static gboolean normalize_url(const char *given, char **out_url, GError **error)
{
	if (g_str_has_prefix(given, "unix:/")) {
		*out_url = g_strdup(given);
		return TRUE;
	}
	g_autofree char *url = strstr(given, "://") ? g_strdup(given) : g_strconcat("http://", given, NULL);
	g_autoptr(GUri) uri = g_uri_parse(url, G_URI_FLAGS_NONE, NULL);
	if (!uri || !g_uri_get_host(uri) || !*g_uri_get_host(uri) ||
	    (strcmp(g_uri_get_scheme(uri), "http") != 0 && strcmp(g_uri_get_scheme(uri), "https") != 0))
		return fail(error, "\"%s\" is not the address of a viald: give one such as " DEFAULT_URL, given);
	gsize size = strlen(url);
	while (size > 0 && url[size - 1] == '/')
		url[--size] = '\0';
	if (g_str_has_suffix(url, "/v1"))
		url[size - 3] = '\0';
	*out_url = g_steal_pointer(&url);
	return TRUE;
}

static char *read_key(const char *path)
{
	g_autofree char *text = NULL;
	gsize size = 0;
	if (!g_file_get_contents(path, &text, &size, NULL) || size > KEY_FILE_MAX)
		return NULL;
	g_strstrip(text);
	return *text ? g_steal_pointer(&text) : NULL;
}

static gboolean find_key(VialCli *cli, const char *option, GError **error)
{
	const char *environment = g_getenv("VIAL_API_KEY");
	if (option && option[0] == '@') {
		if (!(cli->key = read_key(option + 1)))
			return fail(error, "no key can be read from %s", option + 1);
		cli->key_source = g_strdup(option + 1);
	} else if (option) {
		cli->key = g_strdup(option);
		cli->key_source = g_strdup("--key");
	} else if (environment && *environment) {
		cli->key = g_strstrip(g_strdup(environment));
		cli->key_source = g_strdup("VIAL_API_KEY");
	} else {
		const char *data = g_getenv("VIAL_DATA");
		g_autofree char *path = g_build_filename(data && *data ? data : DEFAULT_DATA, "keys", "admin.key", NULL);
		cli->key = read_key(path);
		cli->key_source = cli->key ? g_steal_pointer(&path) : NULL;
	}
	for (const char *c = cli->key; c && *c; c++) /* it becomes a header: a newline would make another one */
		if (*c <= ' ' || *c > '~')
			return fail(error, "the key from %s has a character that no key has", cli->key_source);
	return TRUE;
}

gboolean vial_config_load(VialCli *cli, const char *url, const char *key, const char *cacert, GError **error)
{
	const char *environment = g_getenv("VIAL_URL");
	if (!url)
		url = environment && *environment ? environment : DEFAULT_URL;
	if (!normalize_url(url, &cli->url, error) || !find_key(cli, key, error))
		return FALSE;
	cli->cacert = g_strdup(cacert ? cacert : g_getenv("VIAL_CACERT"));
	return TRUE;
}
