/* SPDX-License-Identifier: Apache-2.0 */
/* From "host:port" or "unix:/path" to a listening socket, with errors that say what to do. Blocks for name look-up. */
#pragma once

#include <glib.h>

/*
 * An address that is neither loopback nor a unix socket is refused unless is_public_allowed. out_url is what to tell
 * users; out_unix_path (NULL for TCP) is to be unlinked at the end.
 */
gboolean vial_listen(const char *address, gboolean is_public_allowed, gboolean is_tls, int *out_fd, char **out_url, char **out_unix_path,
                     GError **error);
