/* SPDX-License-Identifier: Apache-2.0 */
/* From "host:port" or "unix:/path" to a listening socket, with errors that say what to do. Blocks for name look-up. */
#pragma once

#include <glib.h>

/* out_url is what to tell users; out_unix_path (NULL for TCP) is to be unlinked at the end. */
gboolean vial_listen(const char *address, gboolean is_tls, int *out_fd, char **out_url, char **out_unix_path,
                     GError **error);

/* Whether every address `address` stands for is a loopback address or a unix socket. */
gboolean vial_listen_is_local(const char *address, gboolean *out_is_local, GError **error);
