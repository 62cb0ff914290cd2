/* SPDX-License-Identifier: Apache-2.0 */
/* What http.c and http_error.c share. */
#pragma once

#include "cli/http.h"

struct VialHttp {
	char *url;         /* as the user knows it */
	char *base_url;    /* scheme://host:port */
	char *socket_path; /* NULL: TCP */
	char *key;
	char *cacert;
	CURLM *multi;
	int depth; /* of nested vial_http_perform_all() */
	VialHttpInterruptFunc interrupt;
	gpointer interrupt_data;
};

gboolean vial_http_is_loopback(const VialHttp *http);
