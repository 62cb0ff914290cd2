/* SPDX-License-Identifier: Apache-2.0 */
#include "net/nft.h"

#include <nftables/libnftables.h>
#include <string.h>

#include "net/netns.h"
#include "util/error.h"

struct VialNft {
	struct nft_ctx *context;
};

VialNft *
vial_nft_new(int ns_fd, GError **error)
{
	g_autoptr(VialNft) nft = g_new0(VialNft, 1);

	/* The context opens its netlink socket here and keeps it; the socket stays in the namespace it was made in. */
	if (!vial_netns_enter(ns_fd, error))
		return NULL;
	nft->context = nft_ctx_new(NFT_CTX_DEFAULT);
	vial_netns_leave();
	if (!nft->context) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot start libnftables");
		return NULL;
	}
	nft_ctx_buffer_error(nft->context);
	nft_ctx_buffer_output(nft->context);
	return g_steal_pointer(&nft);
}

void
vial_nft_free(VialNft *nft)
{
	if (!nft)
		return;
	if (nft->context)
		nft_ctx_free(nft->context);
	g_free(nft);
}

gboolean
vial_nft_run(VialNft *nft, const char *commands, GError **error)
{
	int rc = nft_run_cmd_from_buffer(nft->context, commands);
	g_autofree char *message = g_strdup(nft_ctx_get_error_buffer(nft->context));

	nft_ctx_get_output_buffer(nft->context);
	if (rc == 0)
		return TRUE;
	return vial_fail(error, VIAL_ERROR_INTERNAL, "nftables refused the rules: %s", g_strstrip(message));
}

gboolean
vial_nft_test(VialNft *nft, const char *command)
{
	gboolean is_so = nft_run_cmd_from_buffer(nft->context, command) == 0;

	nft_ctx_get_error_buffer(nft->context);
	nft_ctx_get_output_buffer(nft->context);
	return is_so;
}
