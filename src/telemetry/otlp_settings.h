/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the settings otlp_* say, checked: a URL that libcurl understands as we do, and headers that are one line each. Errors are sentences for
 * whoever wrote the settings and never hold a header's value, which may be a secret. Blocks for one small file; at start.
 */
#pragma once

#include <curl/curl.h>
#include <glib.h>

#include "util/config.h"

#define VIAL_OTLP_MAX_HEADERS 32
#define VIAL_OTLP_HEADER_MAX_BYTES 8192 /* name and value */

typedef struct {
	char *url;                  /* of the traces: {endpoint}/v1/traces */
	struct curl_slist *headers; /* "name: value" */
} VialOtlpSettings;

/* otlp_endpoint is not empty. On failure `out` is as it was. */
gboolean vial_otlp_settings_read(const VialConfig *config, VialOtlpSettings *out, GError **error);
void vial_otlp_settings_clear(VialOtlpSettings *settings);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(VialOtlpSettings, vial_otlp_settings_clear)
