/* SPDX-License-Identifier: Apache-2.0 */
#include "net/nft.h"

#include <nftables/libnftables.h>
#include <string.h>

#include "net/lowfd.h"
#include "net/netns.h"
#include "util/error.h"

struct VialNft {
	struct nft_ctx *context;
};

static GMutex library;

static gboolean open_context(gpointer data)
{
	VialNft *nft = data;

	nft->context = nft_ctx_new(NFT_CTX_DEFAULT);
	return nft->context != NULL;
}

static void close_context(gpointer data)
{
	VialNft *nft = data;

	g_clear_pointer(&nft->context, nft_ctx_free);
}

VialNft *vial_nft_new(int ns_fd, GError **error)
{
	g_autoptr(VialNft) nft = g_new0(VialNft, 1);
	gboolean is_open;

	/* The context opens its netlink socket here and keeps it; the socket stays in the namespace it was made in. */
	if (!vial_netns_enter(ns_fd, error))
		return NULL;
	g_mutex_lock(&library);
	is_open = vial_lowfd_open(open_context, close_context, nft);
	g_mutex_unlock(&library);
	vial_netns_leave();
	if (!is_open) {
		vial_fail(error, VIAL_ERROR_UNAVAILABLE, "libnftables cannot be started: too many descriptors are open for another network");
		return NULL;
	}
	nft_ctx_buffer_error(nft->context);
	nft_ctx_buffer_output(nft->context);
	return g_steal_pointer(&nft);
}

void vial_nft_free(VialNft *nft)
{
	if (!nft)
		return;
	if (nft->context) {
		nft_ctx_free(nft->context);
		vial_lowfd_closed();
	}
	g_free(nft);
}

gboolean vial_nft_run(VialNft *nft, const char *commands, GError **error)
{
	g_autofree char *message = NULL;
	int rc;

	g_mutex_lock(&library);
	rc = nft_run_cmd_from_buffer(nft->context, commands);
	message = g_strdup(nft_ctx_get_error_buffer(nft->context));
	nft_ctx_get_output_buffer(nft->context);
	g_mutex_unlock(&library);
	if (rc == 0)
		return TRUE;
	return vial_fail(error, VIAL_ERROR_INTERNAL, "nftables refused the rules: %s", g_strstrip(message));
}

gboolean vial_nft_test(VialNft *nft, const char *command)
{
	gboolean is_so;

	g_mutex_lock(&library);
	is_so = nft_run_cmd_from_buffer(nft->context, command) == 0;
	nft_ctx_get_error_buffer(nft->context);
	nft_ctx_get_output_buffer(nft->context);
	g_mutex_unlock(&library);
	return is_so;
}
