/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/host_process.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/fd.h"

#define PID_FILE "shim.pid"
/* Only a broken kernel takes that long. */
#define DEATH_MS 10000

gboolean vial_host_write_json(const char *dir, const char *name, json_t *document, GError **error)
{
	g_autofree char *text = json_dumps(document, JSON_INDENT(1));
	g_autofree char *path = g_build_filename(dir, name, NULL);
	g_autoptr(GError) problem = NULL;

	json_decref(document);
	return g_file_set_contents_full(path, text, -1, G_FILE_SET_CONTENTS_NONE, 0600, &problem) ||
	       vial_fail(error, VIAL_ERROR_NO_SPACE, "%s", problem->message);
}

/* Behind the name, which may hold anything, come fields 3 onward; the start time is field 22. NULL: no such process. */
static char *start_time(int pid)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/stat", pid), *stat = NULL;
	g_auto(GStrv) fields = NULL;
	const char *name_end;

	if (pid <= 1 || !g_file_get_contents(path, &stat, NULL, NULL))
		return NULL;
	name_end = strrchr(stat, ')');
	fields = g_strsplit(name_end ? name_end + 2 : "", " ", 22);
	return g_strv_length(fields) > 19 ? g_strdup(fields[19]) : NULL;
}

gboolean vial_host_process_record(const char *dir, pid_t pid, GError **error)
{
	g_autofree char *started = start_time(pid), *path = g_build_filename(dir, PID_FILE, NULL), *text = NULL;
	g_autoptr(GError) problem = NULL;

	if (!started)
		return vial_fail(error, VIAL_ERROR_UNAVAILABLE, "the sandbox's host process has ended already");
	text = g_strdup_printf("%d %s\n", (int)pid, started);
	return g_file_set_contents_full(path, text, -1, G_FILE_SET_CONTENTS_NONE, 0600, &problem) ||
	       vial_fail(error, VIAL_ERROR_NO_SPACE, "%s", problem->message);
}

pid_t vial_host_process_find(const char *dir)
{
	g_autofree char *path = g_build_filename(dir, PID_FILE, NULL), *text = NULL, *started = NULL;
	g_auto(GStrv) recorded = NULL;

	if (!g_file_get_contents(path, &text, NULL, NULL))
		return 0;
	recorded = g_strsplit(g_strstrip(text), " ", 2);
	if (g_strv_length(recorded) < 2)
		return 0;
	started = start_time(atoi(recorded[0]));
	return g_strcmp0(started, recorded[1]) == 0 ? atoi(recorded[0]) : 0;
}

void vial_host_process_kill(const char *dir)
{
	pid_t pid = vial_host_process_find(dir);
	vial_autofd int process = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	/* Looked at again with the descriptor in hand: from here on it cannot become another's. */
	if (process < 0 || vial_host_process_find(dir) != pid)
		return;
	syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0);
	/* Its children die with it: only then does nobody make anew what the caller is about to remove. */
	poll(&(struct pollfd){ .fd = process, .events = POLLIN }, 1, DEATH_MS);
}
