/* SPDX-License-Identifier: Apache-2.0 */
/* What the ports proxy changes in the headers of a request on its way in and of a response on its way out. */
#pragma once

#include "surfaces/shared/proxy_reader.h"
#include "http/request.h"

typedef struct {
	unsigned port;
	char *path;          /* as the program sees it, with the query */
	char *prefix;        /* what was in front of it: "" on a preview host */
	gboolean is_upgrade; /* to a WebSocket */
	gboolean is_https;   /* between the client and us */
	/* Answers in a surface's own words where the program was not reached; FALSE: it has none for this. NULL: never. */
	gboolean (*refuse)(VialRequest *request, unsigned port, const GError *error);
} VialProxyTarget;

void vial_proxy_target_clear(VialProxyTarget *target);

/* The head of the request for the program, up to and including the empty line. */
GString *vial_proxy_request_head(VialRequest *request, const VialProxyTarget *target);

/* Everything of the response that is not about its framing becomes a header of our answer. */
void vial_proxy_copy_headers(VialRequest *request, const VialProxyTarget *target, const VialReplyReader *reader);
