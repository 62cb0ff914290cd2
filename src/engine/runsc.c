/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runsc.h"

#include <stdlib.h>
#include <string.h>

#include "util/error.h"

/* systrap, the platform we rely on, appeared in 2023. */
#define OLDEST_RELEASE 20230400
#define VERSION_PREFIX "runsc version "

void vial_runsc_clear(VialRunsc *runsc)
{
	g_clear_pointer(&runsc->path, g_free);
	g_clear_pointer(&runsc->version, g_free);
	g_clear_pointer(&runsc->warning, g_free);
}

/* What a command prints, or NULL if it cannot be run or fails. */
static char *output_of(const char *program, const char *argument, const char *topic)
{
	char *arguments[] = { (char *)program, (char *)argument, (char *)topic, NULL };
	g_autofree char *output = NULL;
	int status;

	if (!g_spawn_sync(NULL, arguments, NULL, G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL, &output, NULL, &status, NULL) || status != 0)
		return NULL;
	return g_steal_pointer(&output);
}

/* 20260905, or 0 if the version names no date. */
static gint64 release_of(const char *version)
{
	const char *digits = strpbrk(version, "~-");
	gint64 release = g_ascii_strtoll(digits ? digits + 1 : version, NULL, 10);

	return release >= 20000000 && release < 30000000 ? release : 0;
}

/* A build without a date may be any: its content names it. */
static char *name_by_content(const char *version, const char *path, GError **error)
{
	g_autoptr(GMappedFile) file = g_mapped_file_new(path, FALSE, error);
	g_autofree char *hash = NULL;

	if (!file)
		return NULL;
	hash = g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)g_mapped_file_get_contents(file), g_mapped_file_get_length(file));
	return g_strdup_printf("%s+%.12s", version, hash);
}

static char *find_path(const char *setting, const char *data_dir)
{
	g_autofree char *ours = g_build_filename(data_dir, "runsc", "current", "runsc", NULL);

	if (strcmp(setting, "auto") != 0)
		return g_find_program_in_path(setting);
	/* The file itself: sandboxes that outlive us keep to the one they were made with, whatever becomes current. */
	if (g_file_test(ours, G_FILE_TEST_IS_EXECUTABLE))
		return realpath(ours, NULL);
	return g_find_program_in_path("runsc");
}

static gboolean examine(VialRunsc *runsc, GError **error)
{
	g_autofree char *output = output_of(runsc->path, "--version", NULL), *help = NULL, *version = NULL;
	gint64 release;

	if (!output || !g_str_has_prefix(output, VERSION_PREFIX))
		return vial_fail(error, VIAL_ERROR_UNAVAILABLE, "%s does not run (`%s --version` failed); name another as runsc=, or run `make up`",
		                 runsc->path, runsc->path);
	version = g_strndup(output + strlen(VERSION_PREFIX), strcspn(output + strlen(VERSION_PREFIX), "\n"));
	release = release_of(version);
	if (release > 0 && release < OLDEST_RELEASE)
		return vial_fail(error, VIAL_ERROR_UNAVAILABLE,
		                 "runsc %s is too old (no systrap platform); run `make up`, which brings a current one", version);
	runsc->version = release > 0 ? g_steal_pointer(&version) : name_by_content(version, runsc->path, error);
	help = output_of(runsc->path, "help", "restore");
	runsc->is_current = help && strstr(help, "-background") != NULL;
	if (!runsc->is_current)
		runsc->warning = g_strdup_printf("runsc %s is old: every sandbox that waits takes 3 to 6 %% of a core, and forking, hibernating and "
		                                 "waking take three times as long as with a current one",
		                                 runsc->version);
	return runsc->version != NULL;
}

gboolean vial_runsc_find(const char *setting, const char *data_dir, VialRunsc *out_runsc, GError **error)
{
	g_auto(VialRunsc) runsc = { .path = find_path(setting, data_dir) };

	if (!runsc.path)
		return vial_fail(error, VIAL_ERROR_UNAVAILABLE,
		                 "%s%s is not installed; run `make up`, which brings gVisor, or give its path as runsc=",
		                 strcmp(setting, "auto") == 0 ? "" : "the program ", strcmp(setting, "auto") == 0 ? "runsc" : setting);
	if (!examine(&runsc, error))
		return FALSE;
	*out_runsc = runsc;
	runsc = (VialRunsc){ 0 };
	return TRUE;
}
