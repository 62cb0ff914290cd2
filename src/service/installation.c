/* SPDX-License-Identifier: Apache-2.0 */
#include "service/installation.h"

#define TAG_LENGTH 8

char *vial_installation_tag(const VialConfig *config)
{
	g_autofree char *real = g_canonicalize_filename(config->data_dir, "/");
	g_autofree char *sum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, real, -1);

	return g_strndup(sum, TAG_LENGTH);
}
