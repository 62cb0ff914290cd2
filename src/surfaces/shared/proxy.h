/* SPDX-License-Identifier: Apache-2.0 */
/* One request for a program that listens in a sandbox, and its answer. */
#pragma once

#include "operations/operation.h"
#include "surfaces/shared/proxy_headers.h"

/*
 * Passes the request on through the agent's tunnel and answers it, now or later; a WebSocket becomes a tunnel. The route
 * must have VIAL_ROUTE_STREAM_BODY. Takes the target's strings.
 */
void vial_proxy_start(VialRequest *request, const VialCaller *caller, VialProxyTarget *target);
