/* SPDX-License-Identifier: Apache-2.0 */
/* A streamed request body on its way into an operation (VialWriteSink): the client is read only as fast as the guest takes it. */
#pragma once

#include "surfaces/shared/surface.h"

/* For a route with VIAL_ROUTE_STREAM_BODY. The functions are the sink's; the exchange is their data. */
VialExchange *vial_upload_new(VialRequest *request);
void vial_upload_begun(VialOperation *operation, gpointer exchange);
void vial_upload_writable(gpointer exchange);
