/* SPDX-License-Identifier: Apache-2.0 */
#include "net/wall.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sys/file.h>
#include <unistd.h>

#include "net/netns.h"
#include "net/nft.h"
#include "net/rules.h"
#include "util/error.h"

#define LOCK_PATH "/run/vial-net.lock"

static int lock_fd = -1;

gboolean vial_wall_enter(GError **error)
{
	if (lock_fd >= 0)
		return TRUE;
	lock_fd = open(LOCK_PATH, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock_fd < 0 || flock(lock_fd, LOCK_SH) < 0)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot lock %s: %s", LOCK_PATH, g_strerror(errno));
	return TRUE;
}

/* A link of a slot, whoever's: its sandbox still stands behind the wall. */
static gboolean has_slots(void)
{
	struct if_nameindex *links = if_nameindex();
	gboolean found = links == NULL; /* not knowing is no reason to tear it down */

	for (struct if_nameindex *link = links; link && link->if_index; link++)
		found = found || g_str_has_prefix(link->if_name, VIAL_HOST_PREFIX);
	if (links)
		if_freenameindex(links);
	return found;
}

void vial_wall_leave(void)
{
	g_autoptr(VialNft) nft = NULL;

	if (lock_fd < 0)
		return;
	/* Exclusive means that nobody else lives, and whoever starts now waits until we are done. */
	if (flock(lock_fd, LOCK_EX | LOCK_NB) == 0 && !has_slots()) {
		nft = vial_nft_new(vial_netns_home(), NULL);
		if (nft)
			vial_nft_run(nft, "delete table inet vial_host\n", NULL);
	}
	close(lock_fd);
	lock_fd = -1;
}
