/* SPDX-License-Identifier: Apache-2.0 */
/* Building a template, building it again, and watching. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/commands/template.h"
#include "cli/network.h"
#include "cli/output.h"
#include "cli/stream.h"

enum { FILE_MAX_BYTES = 1024 * 1024 };

static char *file_name, *tag_name, *base_name, *network_mode, *warm_name, *start_command, *ready_command, *start_user, *tier_name;
static GPtrArray *build_args, *secret_names, *allowed, *denied;
static gint64 memory_mb = -1, disk_mb = -1, timeout_seconds = -1;
static double cpu = -1;
static gboolean no_cache, is_detached, does_follow, is_raw;

#define SECRET_OPTION                                                                                             \
	{                                                                                                         \
		0, "secret", VIAL_OPTION_LIST, &secret_names, "NAME",                                             \
			"give the steps this variable of our environment; it is in no layer, log or record", NULL \
	}
#define CACHE_OPTION                                                                                                 \
	{                                                                                                            \
		0, "no-cache", VIAL_OPTION_FLAG, &no_cache, NULL, "run the steps also if they were run before", NULL \
	}
#define DETACH_OPTION                                                                                           \
	{                                                                                                       \
		'd', "detach", VIAL_OPTION_FLAG, &is_detached, NULL, "do not watch: print the build's id", NULL \
	}
#define END                                                       \
	{                                                         \
		0, NULL, VIAL_OPTION_FLAG, NULL, NULL, NULL, NULL \
	}

const VialOption vial_template_build_options[] = {
	{ 'f', "file", VIAL_OPTION_STRING, &file_name, "FILE", "the Dockerfile, - for standard input (else ./Dockerfile)", "@file" },
	{ 't', "tag", VIAL_OPTION_STRING, &tag_name, "NAME[:TAG]", "what it is called", NULL },
	{ 0, "base", VIAL_OPTION_STRING, &base_name, "TEMPLATE", "what it is built on", "@template" },
	{ 0, "build-arg", VIAL_OPTION_LIST, &build_args, "K=V", "a value for an ARG; several times", NULL },
	SECRET_OPTION,
	{ 0, "network", VIAL_OPTION_STRING, &network_mode, "MODE", "of the build: disabled (as without), open or filtered",
	  "disabled open filtered" },
	{ 0, "allow", VIAL_OPTION_LIST, &allowed, "HOST", "let the build reach this; implies filtered", NULL },
	{ 0, "deny", VIAL_OPTION_LIST, &denied, "HOST", "but not this", NULL },
	{ 0, "warm", VIAL_OPTION_STRING, &warm_name, "FILE", "Python that runs before baking, so that every sandbox starts with it done", "@file" },
	{ 0, "start", VIAL_OPTION_STRING, &start_command, "COMMAND",
	  "a shell line that is started before baking, and goes on running in every sandbox", NULL },
	{ 0, "ready", VIAL_OPTION_STRING, &ready_command, "COMMAND", "one that succeeds once what was started is ready", NULL },
	{ 0, "start-user", VIAL_OPTION_STRING, &start_user, "USER", "who runs these two (else user)", NULL },
	{ 0, "tier", VIAL_OPTION_STRING, &tier_name, "TIER", "size of the build and of its sandboxes", "2x2 2x4 2x8 2x16 4x2 4x4 4x8 4x16" },
	{ 0, "cpu", VIAL_OPTION_NUMBER, &cpu, "N", "processors, instead of a tier", NULL },
	{ 0, "memory", VIAL_OPTION_MEMORY, &memory_mb, "SIZE", "memory, instead of a tier", NULL },
	{ 0, "disk", VIAL_OPTION_MEMORY, &disk_mb, "SIZE", "disk", NULL },
	{ 0, "timeout", VIAL_OPTION_DURATION, &timeout_seconds, "TIME", "of the whole build (else 30m)", NULL },
	CACHE_OPTION,
	DETACH_OPTION,
	END,
};
const VialOption vial_template_rebuild_options[] = { SECRET_OPTION, CACHE_OPTION, DETACH_OPTION, END };
const VialOption vial_template_logs_options[] = {
	{ 'f', "follow", VIAL_OPTION_FLAG, &does_follow, NULL, "go on until the build is over; its end is the exit status", NULL },
	{ 0, "raw", VIAL_OPTION_FLAG, &is_raw, NULL, "let escape sequences through to our terminal", NULL },
	END,
};

/* Watching */

typedef struct {
	VialCli *cli;
	VialSink sink;
	int fd;
} Watch;

static gboolean on_line(const char *event, json_t *data, gpointer user, GError **error)
{
	Watch *watch = user;
	const json_t *text = json_object_get(data, "text");
	if (watch->cli->is_json) {
		g_autofree char *line = vial_output_json_text(data, JSON_COMPACT);
		return vial_output_write_all(watch->fd, line, strlen(line), error) && vial_output_write_all(watch->fd, "\n", 1, error);
	}
	if (!json_is_string(text))
		return TRUE;
	if (g_strcmp0(vial_api_string(data, "stream"), "event") == 0 && !vial_sink_write(&watch->sink, "==> ", 4, error))
		return FALSE;
	return vial_sink_write(&watch->sink, json_string_value(text), json_string_length(text), error) &&
	       vial_sink_write(&watch->sink, "\n", 1, error);
}

static gboolean watch_build(VialCli *cli, const char *id, gboolean follows, int fd, GError **error)
{
	Watch watch = { .cli = cli, .fd = fd };
	g_autofree char *base = vial_api_path("/templates/builds/%s/logs", id);
	g_autofree char *path = g_strdup_printf("%s?follow=%d", base, follows);
	vial_sink_init(&watch.sink, cli, fd, is_raw);
	gboolean is_ok = vial_stream_perform(cli, "GET", path, NULL, on_line, &watch, error);
	vial_sink_end(&watch.sink);
	return is_ok;
}

/* What came of it is the exit status. */
static int tell_end(VialCli *cli, const char *id, gboolean prints_name)
{
	GError *error = NULL;
	g_autoptr(json_t) build = NULL;
	g_autofree char *path = vial_api_path("/templates/builds/%s", id);
	if (!vial_api_call(cli, "GET", path, NULL, &build, &error))
		return vial_output_fail(cli, error);
	if (prints_name && cli->is_json)
		vial_output_json(build);
	g_autofree char *status = vial_api_line(build, "status"), *template = vial_api_line(build, "template"),
			*problem = vial_api_line(build, "error");
	if (strcmp(status, "ready") == 0) {
		if (prints_name && !cli->is_json)
			puts(template);
		return VIAL_EXIT_OK;
	}
	g_set_error(&error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s is not built: %s", template, *problem ? problem : status);
	return vial_output_fail(cli, error);
}

static int follow_begun(VialCli *cli, const char *method_path, json_t *body)
{
	GError *error = NULL;
	g_autoptr(json_t) build = NULL;
	if (!vial_api_call(cli, "POST", method_path, body, &build, &error))
		return vial_output_fail(cli, error);
	g_autofree char *id = vial_api_line(build, "build_id");
	if (is_detached) {
		if (cli->is_json)
			vial_output_json(build);
		else
			puts(id);
		return VIAL_EXIT_OK;
	}
	if (!watch_build(cli, id, TRUE, STDERR_FILENO, &error))
		return vial_output_fail(cli, error);
	return tell_end(cli, id, TRUE);
}

/* Asking */

static char *read_text(const char *name, GError **error)
{
	g_autoptr(GString) text = g_string_new(NULL);
	gboolean is_standard = strcmp(name, "-") == 0;
	FILE *file = is_standard ? stdin : fopen(name, "re");
	char piece[8192];
	gsize got;
	if (!file) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "cannot open %s: %m", name);
		return NULL;
	}
	while (text->len <= FILE_MAX_BYTES && (got = fread(piece, 1, sizeof piece, file)) > 0)
		g_string_append_len(text, piece, (gssize)got);
	gboolean has_failed = ferror(file);
	if (!is_standard)
		fclose(file);
	if (has_failed || text->len > FILE_MAX_BYTES || !g_utf8_validate(text->str, (gssize)text->len, NULL)) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s cannot be read, is longer than a megabyte, or is not UTF-8 text", name);
		return NULL;
	}
	return g_string_free(g_steal_pointer(&text), FALSE);
}

/* Secrets come out of the environment, never out of the command line, which everybody's `ps` reads. */
static json_t *read_secrets(GError **error)
{
	g_autoptr(json_t) secrets = json_object();
	for (guint i = 0; secret_names && i < secret_names->len; i++) {
		const char *name = secret_names->pdata[i], *value = g_getenv(name);
		if (strchr(name, '=') || !value) {
			g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED,
			            "--secret takes the name of a variable of the environment, and there is no %.*s", (int)strcspn(name, "="), name);
			return NULL;
		}
		json_object_set_new(secrets, name, json_string(value));
	}
	return g_steal_pointer(&secrets);
}

static void set_sizes(json_t *body)
{
	if (cpu >= 0)
		json_object_set_new(body, "cpu", json_real(cpu));
	if (memory_mb >= 0)
		json_object_set_new(body, "memory_mb", json_integer(memory_mb));
	if (disk_mb >= 0)
		json_object_set_new(body, "disk_mb", json_integer(disk_mb));
	if (timeout_seconds >= 0)
		json_object_set_new(body, "timeout_seconds", json_integer(timeout_seconds));
	if (network_mode || allowed || denied)
		json_object_set_new(body, "network", vial_network_json(network_mode ? network_mode : "filtered", allowed, denied, -1, -1));
	if (no_cache)
		json_object_set_new(body, "no_cache", json_true());
}

int vial_template_build_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	if (!tag_name)
		return vial_output_usage(cli, "say what it is to be called: -t NAME");
	g_autoptr(json_t) args = vial_api_object_from_pairs(build_args, "build-arg", &error);
	if (!args)
		return vial_output_fail_usage(cli, error);
	g_autofree char *dockerfile = read_text(file_name ? file_name : "Dockerfile", &error);
	g_autofree char *warm = dockerfile && warm_name ? read_text(warm_name, &error) : NULL;
	g_autoptr(json_t) secrets = error ? NULL : read_secrets(&error);
	if (error)
		return vial_output_fail(cli, error);
	json_t *body =
		json_pack("{s:s, s:s, s:s*, s:s*, s:s*, s:s*, s:s*, s:s*}", "name", tag_name, "dockerfile", dockerfile, "base", base_name, "warm",
	                  warm, "start_command", start_command, "ready_command", ready_command, "start_user", start_user, "tier", tier_name);
	if (json_object_size(args) > 0)
		json_object_set(body, "args", args);
	if (json_object_size(secrets) > 0)
		json_object_set(body, "secrets", secrets);
	set_sizes(body);
	return follow_begun(cli, "/v1/templates", body);
}

int vial_template_rebuild_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	g_autofree char *path = vial_api_path("/templates/%s/rebuild", argv[0]);
	json_t *secrets = read_secrets(&error);
	if (!secrets)
		return vial_output_fail(cli, error);
	return follow_begun(cli, path, json_pack("{s:o, s:b}", "secrets", secrets, "no_cache", no_cache));
}

int vial_template_logs_run(VialCli *cli, int argc, char **argv)
{
	GError *error = NULL;
	if (!watch_build(cli, argv[0], does_follow, STDOUT_FILENO, &error))
		return vial_output_fail(cli, error);
	return does_follow ? tell_end(cli, argv[0], FALSE) : VIAL_EXIT_OK;
}
