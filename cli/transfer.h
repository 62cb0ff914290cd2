/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file between this machine and a sandbox, streamed. Names that come from a sandbox are hostile: they are taken as one path
 * component each, links on our side are never followed, and a file appears under its name only when it is complete.
 */
#pragma once

#include "cli/output.h"
#include "cli/progress.h"

typedef struct {
	VialCli *cli;
	VialProgress *progress;
	const char *sandbox_id;
	const char *user; /* NULL: the sandbox's default */
} VialTransfer;

/* What is at a path inside; NULL with *error (404: nothing). */
json_t *vial_transfer_stat(const VialTransfer *transfer, const char *remote, GError **error);

/* `size_bytes` -1 when unknown: sent until the end of `fd`. `mode` -1: the sandbox's default. */
gboolean vial_transfer_upload(const VialTransfer *transfer, int fd, gint64 size_bytes, int mode, const char *name, const char *remote,
                              GError **error);
/* To an open descriptor, as it comes. */
gboolean vial_transfer_download(const VialTransfer *transfer, const char *remote, gint64 size_bytes, int fd, GError **error);
/* To our own output: on a terminal only what is harmless there. */
gboolean vial_transfer_show(const VialTransfer *transfer, const char *remote, gint64 size_bytes, VialSink *sink, GError **error);
/* To `name` in `dir_fd`: written beside it and renamed when complete. `mode` -1: 0666 under the umask. */
gboolean vial_transfer_download_file(const VialTransfer *transfer, const char *remote, gint64 size_bytes, int dir_fd, const char *name, int mode,
                                     GError **error);

/* One component that may be created here: not empty, no '/', not "." or "..", no NUL. */
gboolean vial_transfer_is_safe_name(const char *name);
/* Opens (making what is missing) a directory below `root_fd`; every component is checked and no link is followed. -1 on error. */
int vial_transfer_open_below(int root_fd, const char *relative, GError **error);
