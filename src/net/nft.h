/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnftables bound to one network namespace. A text of several commands is one kernel transaction: all or nothing, and milliseconds, so while
 * sandboxes live it belongs on VIAL_LANE_NET. Any thread, one command at a time in the whole process: the library has caches that are not ours.
 */
#pragma once

#include <glib.h>

typedef struct VialNft VialNft;

VialNft *vial_nft_new(int ns_fd, GError **error);
/*
 * Closing waits for rules that the kernel is still destroying, anybody's (5-15 ms measured): keep one per namespace, use it
 * again, and free it on a worker thread. Accepts NULL.
 */
void vial_nft_free(VialNft *nft);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialNft, vial_nft_free)

gboolean vial_nft_run(VialNft *nft, const char *commands, GError **error);
/* The same, without a message: is it so? */
gboolean vial_nft_test(VialNft *nft, const char *command);
