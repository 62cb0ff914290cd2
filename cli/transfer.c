/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/output.h"

typedef struct {
	const VialTransfer *transfer;
	int fd;
	gint64 left; /* to send; -1: until the end */
	const char *name;
	VialSink *sink; /* instead of fd */
} Flow;

static gboolean fail_errno(GError **error, const char *name, const char *doing)
{
	int saved = errno;
	g_autofree char *clean = vial_sanitize_line(name);
	g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s cannot be %s: %s", clean, doing, g_strerror(saved));
	return FALSE;
}

static char *fs_path(const VialTransfer *transfer, const char *route, const char *remote, int mode)
{
	g_autofree char *path = vial_api_path("/sandboxes/%s/fs", transfer->sandbox_id);
	GString *full = g_string_new(path);
	g_string_append_printf(full, "%s?path=", route);
	g_string_append_uri_escaped(full, remote, NULL, FALSE);
	if (mode >= 0)
		g_string_append_printf(full, "&mode=%04o", (unsigned)mode);
	if (transfer->user) {
		g_string_append(full, "&user=");
		g_string_append_uri_escaped(full, transfer->user, NULL, FALSE);
	}
	return g_string_free(full, FALSE);
}

json_t *vial_transfer_stat(const VialTransfer *transfer, const char *remote, GError **error)
{
	g_autofree char *path = fs_path(transfer, "/stat", remote, -1);
	json_t *entry = NULL;
	return vial_api_call(transfer->cli, "GET", path, NULL, &entry, error) ? entry : NULL;
}

/* --- up --- */

static gssize on_read(void *buffer, gsize size, gpointer data, GError **error)
{
	Flow *flow = data;
	if (flow->left >= 0)
		size = MIN(size, (gsize)flow->left); /* what was promised, even if the file has grown since */
	if (size == 0)
		return 0;
	gssize got;
	do
		got = read(flow->fd, buffer, size);
	while (got < 0 && errno == EINTR);
	if (got < 0) {
		fail_errno(error, flow->name, "read");
		return -1;
	}
	if (got == 0 && flow->left > 0) {
		g_set_error(error, VIAL_HTTP_ERROR, VIAL_HTTP_FAILED, "%s became shorter while it was read", flow->name);
		return -1;
	}
	if (flow->left >= 0)
		flow->left -= got;
	vial_progress_add(flow->transfer->progress, (gsize)got);
	return got;
}

gboolean vial_transfer_upload(const VialTransfer *transfer, int fd, gint64 size_bytes, int mode, const char *name, const char *remote, GError **error)
{
	Flow flow = { .transfer = transfer, .fd = fd, .left = size_bytes, .name = name };
	g_autofree char *path = fs_path(transfer, "", remote, mode);
	g_auto(VialHttpRequest) request = {
		.method = "PUT",
		.path = path,
		.on_read = on_read,
		.upload_size = size_bytes,
		.data = &flow,
	};
	vial_progress_begin(transfer->progress, name, size_bytes);
	return vial_http_perform(transfer->cli->http, &request, error);
}

/* --- down --- */

static gboolean on_data(const void *bytes, gsize size, gpointer data, GError **error)
{
	Flow *flow = data;
	vial_progress_add(flow->transfer->progress, size);
	return flow->sink ? vial_sink_write(flow->sink, bytes, size, error) : vial_output_write_all(flow->fd, bytes, size, error);
}

static gboolean fetch(const VialTransfer *transfer, const char *remote, gint64 size_bytes, int fd, VialSink *sink, GError **error)
{
	Flow flow = { .transfer = transfer, .fd = fd, .sink = sink };
	g_autofree char *path = fs_path(transfer, "", remote, -1);
	g_auto(VialHttpRequest) request = {
		.method = "GET",
		.path = path,
		.on_data = on_data,
		.data = &flow,
		.accept = "application/octet-stream, */*",
	};
	vial_progress_begin(transfer->progress, remote, size_bytes);
	return vial_http_perform(transfer->cli->http, &request, error);
}

gboolean vial_transfer_download(const VialTransfer *transfer, const char *remote, gint64 size_bytes, int fd, GError **error)
{
	return fetch(transfer, remote, size_bytes, fd, NULL, error);
}

gboolean vial_transfer_show(const VialTransfer *transfer, const char *remote, gint64 size_bytes, VialSink *sink, GError **error)
{
	return fetch(transfer, remote, size_bytes, -1, sink, error);
}

static mode_t current_umask(void)
{
	mode_t mask = umask(022);
	umask(mask);
	return mask;
}

gboolean vial_transfer_download_file(const VialTransfer *transfer, const char *remote, gint64 size_bytes, int dir_fd, const char *name, int mode,
                                     GError **error)
{
	/* Replacing by rename would turn a directory of that name into an error late, after the transfer: look first. */
	struct stat existing;
	if (fstatat(dir_fd, name, &existing, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(existing.st_mode)) {
		errno = EISDIR;
		return fail_errno(error, name, "written");
	}
	g_autofree char *partial = g_strdup_printf(".vial-%08x%08x.part", g_random_int(), g_random_int());
	int fd = openat(dir_fd, partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail_errno(error, name, "written");
	gboolean is_ok = vial_transfer_download(transfer, remote, size_bytes, fd, error);
	mode_t wanted = (mode >= 0 ? (mode_t)mode & 0777 : 0666) & ~current_umask(); /* never setuid from a sandbox */
	if (is_ok && (fchmod(fd, wanted) != 0 || renameat(dir_fd, partial, dir_fd, name) != 0))
		is_ok = fail_errno(error, name, "written");
	if (!is_ok)
		unlinkat(dir_fd, partial, 0);
	if (close(fd) != 0 && is_ok)
		is_ok = fail_errno(error, name, "written");
	return is_ok;
}

/* --- names --- */

gboolean vial_transfer_is_safe_name(const char *name)
{
	return name && *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

int vial_transfer_open_below(int root_fd, const char *relative, GError **error)
{
	int fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
	g_auto(GStrv) parts = g_strsplit(relative, "/", -1);
	for (int i = 0; fd >= 0 && parts[i]; i++) {
		if (!*parts[i])
			continue;
		int next = -1;
		if (!vial_transfer_is_safe_name(parts[i]))
			errno = EINVAL;
		else if (mkdirat(fd, parts[i], 0777) == 0 || errno == EEXIST)
			next = openat(fd, parts[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int saved = errno;
		close(fd);
		errno = saved;
		fd = next;
	}
	if (fd < 0)
		fail_errno(error, relative, "made a directory");
	return fd;
}
