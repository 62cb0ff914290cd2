/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnftables bound to one network namespace. A text of several commands is one kernel transaction: all or nothing. The
 * library keeps a process-wide interface cache (unused by us: our rules match interfaces by name), so commands are for the
 * main thread.
 */
#pragma once

#include <glib.h>

typedef struct VialNft VialNft;

VialNft *vial_nft_new(int ns_fd, GError **error);
/*
 * Closing waits for rules that the kernel is still destroying, anybody's (5-15 ms measured): keep one per namespace, use it
 * again, and free it on a worker thread. It is the one call that any thread may make. Accepts NULL.
 */
void vial_nft_free(VialNft *nft);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialNft, vial_nft_free)

gboolean vial_nft_run(VialNft *nft, const char *commands, GError **error);
/* The same, without a message: is it so? */
gboolean vial_nft_test(VialNft *nft, const char *command);
