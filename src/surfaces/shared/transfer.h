/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of any size through an exchange, at the pace of the slower side: a request's body into an operation, and an operation's bytes as the answer.
 */
#pragma once

#include "operations/files.h"
#include "surfaces/shared/surface.h"

/* Up: for a route with VIAL_ROUTE_STREAM_BODY. The functions are the sink's; the exchange is their data. */
VialExchange *vial_upload_new(VialRequest *request);
void vial_upload_begun(VialOperation *operation, gpointer exchange);
void vial_upload_writable(gpointer exchange);

/* Down: a 200 with the raw bytes. What fails before the first of them is an ordinary error; after that the connection is broken. The exchange is its
 * data. */
extern const VialReadSink vial_download_sink;
