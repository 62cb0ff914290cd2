/* SPDX-License-Identifier: Apache-2.0 */
/* The opening handshake of RFC 6455, section 4.2. */
#pragma once

#include "http/request.h"

/* Whether the request asks for a WebSocket at all (the ports proxy passes such requests on). */
gboolean vial_websocket_is_asked_for(const VialRequest *request);
/* *out_answer is the value for Sec-WebSocket-Accept. */
gboolean vial_websocket_check_handshake(const VialRequest *request, char **out_answer, GError **error);
/* Sec-WebSocket-Accept for a Sec-WebSocket-Key. */
char *vial_websocket_answer(const char *key);
