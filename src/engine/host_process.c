/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/host_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/fd.h"
#include "util/json.h"
#include "util/log.h"

#define PID_FILE "shim.pid"
#define EXIT_FILE "exit.json"
#define REASON_FILE "reason"
#define MAX_SMALL_FILE 4096
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

/* The beginning of a file that somebody else may have written: no link, no device, no more than we want. NULL: none. */
static char *read_small(const char *dir, const char *name)
{
	g_autofree char *path = g_build_filename(dir, name, NULL);
	vial_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char text[MAX_SMALL_FILE + 1];
	ssize_t size = fd < 0 ? -1 : read(fd, text, MAX_SMALL_FILE);

	return size > 0 ? g_strndup(text, (gsize)size) : NULL;
}

/* Behind the name, which may hold anything, come fields 3 onward; the start time is field 22. NULL: no such process. */
static char *start_time(int pid)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/stat", pid), *stat = NULL;
	g_auto(GStrv) fields = NULL;
	const char *name_end;

	if (pid <= 1 || pid == getpid() || !g_file_get_contents(path, &stat, NULL, NULL))
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
	g_autofree char *text = read_small(dir, PID_FILE), *started = NULL;
	g_auto(GStrv) recorded = NULL;
	guint64 pid;

	if (!text)
		return 0;
	recorded = g_strsplit(g_strstrip(text), " ", 2);
	if (g_strv_length(recorded) < 2 || !g_ascii_string_to_unsigned(recorded[0], 10, 2, G_MAXINT32, &pid, NULL))
		return 0;
	started = start_time((int)pid);
	return g_strcmp0(started, recorded[1]) == 0 ? (pid_t)pid : 0;
}

int vial_host_process_open(pid_t pid)
{
	return pid > 1 && pid != getpid() ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

gboolean vial_host_process_is_alive(int process_fd)
{
	return poll(&(struct pollfd){ .fd = process_fd, .events = POLLIN }, 1, 0) == 0;
}

void vial_host_process_end(int process_fd)
{
	syscall(SYS_pidfd_send_signal, process_fd, SIGKILL, NULL, 0);
}

void vial_host_process_kill(const char *dir)
{
	pid_t pid = vial_host_process_find(dir);
	vial_autofd int process = vial_host_process_open(pid);

	/* Looked at again with the descriptor in hand: from here on it cannot become another's. */
	if (process < 0 || vial_host_process_find(dir) != pid)
		return;
	vial_host_process_end(process);
	/* Its children die with it: only then does nobody make anew what the caller is about to remove. */
	poll(&(struct pollfd){ .fd = process, .events = POLLIN }, 1, DEATH_MS);
}

json_t *vial_host_read_exit(const char *dir)
{
	g_autofree char *text = read_small(dir, EXIT_FILE);

	return text ? vial_json_parse_object(text, strlen(text), NULL) : NULL;
}

void vial_host_note_reason(const char *dir, const char *reason)
{
	g_autofree char *path = g_build_filename(dir, REASON_FILE, NULL);
	g_autoptr(GError) error = NULL;

	if (!g_file_set_contents_full(path, reason, -1, G_FILE_SET_CONTENTS_NONE, 0600, &error))
		vial_log_warning("engine", "why a sandbox was ended could not be noted", "reason", reason, "error", error->message);
}

char *vial_host_reason(const char *dir)
{
	return read_small(dir, REASON_FILE);
}
