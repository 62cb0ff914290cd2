/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and descriptors of the verbs. The monitor is jailed: what it writes or takes over after its start it is handed, in the order of
 * docs/microvm.md. A checkpoint is a folder with `state`, `memory`, `disk` and `machine.json`, the size of the machine that fits them, and
 * a template's has `hot`, the memory that is touched first; what has
 * been written there is never changed afterwards, because restored machines have it mapped. Removing it is fine.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/host_process.h"
#include "engine/microvm_private.h"
#include "util/fd.h"
#include "util/json.h"

#define MACHINE_FILE "machine.json"
#define SOCKET_NAME "shim.sock"
#define EXIT_FILE "exit.json"
#define BACKLOG 8

static const char *const size_fields[] = { "vcpus", "memory_mb", "net" };

static gboolean add(GArray *fds, int fd, const char *what, GError **error)
{
	if (fd < 0)
		return vial_fail(error, errno == ENOSPC ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL, "cannot make %s: %s", what, g_strerror(errno));
	g_array_append_val(fds, fd);
	return TRUE;
}

/* Without a name: gone with the last process that has it. */
static gboolean add_overlay(GArray *fds, const char *dir, GError **error)
{
	return add(fds, open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), "a disk layer", error);
}

static gboolean add_new_file(GArray *fds, const char *dir, const char *name, GError **error)
{
	g_autofree char *path = g_build_filename(dir, name, NULL);

	return add(fds, open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600), path, error);
}

static json_t *load(const char *dir, const char *name, GError **error)
{
	g_autofree char *path = g_build_filename(dir, name, NULL);
	json_t *document = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);

	if (!document)
		vial_fail(error, VIAL_ERROR_CONFLICT, "%s cannot be read", path);
	return document;
}

static gboolean complete_checkpoint(const char *dir, json_t *request, GArray *fds, GError **error)
{
	const char *image = json_string_value(json_object_get(request, "image"));
	g_autoptr(json_t) config = load(dir, VIAL_VMM_CONFIG, error);
	json_t *machine;

	if (!config)
		return FALSE;
	machine = json_object();
	for (gsize i = 0; i < G_N_ELEMENTS(size_fields); i++)
		if (json_object_get(config, size_fields[i]))
			json_object_set(machine, size_fields[i], json_object_get(config, size_fields[i]));
	return vial_host_write_json(image, MACHINE_FILE, machine, error) && add_new_file(fds, image, "state", error) &&
	       add_new_file(fds, image, "memory", error) && add_new_file(fds, image, "disk", error) &&
	       (!json_is_true(json_object_get(request, "leave_running")) || add_overlay(fds, dir, error));
}

/* A machine is restored with the size it had; our folder remembers it for the next checkpoint. */
static gboolean complete_start(const char *dir, json_t *request, GError **error)
{
	const char *image = json_string_value(json_object_get(request, "image"));
	g_autoptr(json_t) machine = image ? load(image, MACHINE_FILE, error) : NULL;
	g_autoptr(json_t) config = machine ? load(dir, VIAL_VMM_CONFIG, error) : NULL;

	if (!image)
		return TRUE;
	if (!config)
		return FALSE;
	for (gsize i = 0; i < G_N_ELEMENTS(size_fields); i++) {
		json_t *value = json_object_get(machine, size_fields[i]);

		json_object_set(request, size_fields[i], value ? value : json_null());
		json_object_set(config, size_fields[i], value ? value : json_null());
	}
	return vial_host_write_json(dir, VIAL_VMM_CONFIG, json_incref(config), error);
}

gboolean vial_microvm_complete(VialEngine *engine, const char *dir, const char *verb, json_t *request, GArray *fds, GError **error)
{
	if (strcmp(verb, "checkpoint") == 0)
		return complete_checkpoint(dir, request, fds, error);
	if (strcmp(verb, "start") == 0)
		return complete_start(dir, request, error);
	if (strcmp(verb, "hotset") == 0)
		return add_new_file(fds, json_string_value(json_object_get(request, "image")), VIAL_HOT_FILE, error);
	if (strcmp(verb, "fork") == 0)
		return add_overlay(fds, dir, error) && json_object_set_new(request, "exit_files", json_true()) == 0;
	return TRUE;
}

/* The folder's path may be longer than sun_path, so the socket is made through a descriptor of the folder. */
static int listen_in(const char *dir)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	vial_autofd int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	vial_autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	g_snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" SOCKET_NAME, dir_fd);
	if (dir_fd < 0 || fd < 0 || fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, BACKLOG) < 0)
		return -1;
	return vial_fd_steal(&fd);
}

gboolean vial_microvm_add_child(VialEngine *engine, const char *dir, int tap_fd, GArray *fds, GError **error)
{
	vial_autofd int tap = tap_fd;

	if (!add(fds, listen_in(dir), "the child's socket", error) || !add_overlay(fds, dir, error))
		return FALSE;
	if (tap >= 0 && !add(fds, vial_fd_steal(&tap), "the child's network", error))
		return FALSE;
	return add_new_file(fds, dir, EXIT_FILE, error);
}
