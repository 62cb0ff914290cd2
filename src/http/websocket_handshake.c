/* SPDX-License-Identifier: Apache-2.0 */
#include "http/websocket_handshake.h"

#include <string.h>

#include "http/internal.h"

#define WEBSOCKET_GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

/* Whether a comma-separated header holds a token, without regard to case. */
static gboolean has_token(const char *list, const char *token)
{
	g_auto(GStrv) parts = g_strsplit(list ? list : "", ",", 32);

	for (gsize i = 0; parts[i]; i++)
		if (g_ascii_strcasecmp(g_strstrip(parts[i]), token) == 0)
			return TRUE;
	return FALSE;
}

gboolean vial_websocket_is_asked_for(const VialRequest *request)
{
	return !request->is_http_1_0 && has_token(vial_request_header(request, "Upgrade"), "websocket") &&
	       has_token(vial_request_header(request, "Connection"), "upgrade");
}

char *vial_websocket_answer(const char *key)
{
	g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA1);
	guint8 digest[20];
	gsize size = sizeof(digest);

	g_checksum_update(sum, (const guchar *)key, -1);
	g_checksum_update(sum, (const guchar *)WEBSOCKET_GUID, -1);
	g_checksum_get_digest(sum, digest, &size);
	return g_base64_encode(digest, size);
}

gboolean vial_websocket_check_handshake(const VialRequest *request, char **out_answer, GError **error)
{
	const char *version = vial_request_header(request, "Sec-WebSocket-Version");
	const char *key = vial_request_header(request, "Sec-WebSocket-Key");
	gsize size = 0;

	if (!vial_websocket_is_asked_for(request))
		return vial_fail(error, VIAL_ERROR_INVALID, "this route is a WebSocket: send Connection: Upgrade, Upgrade: websocket");
	if (!version || strcmp(version, "13") != 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "Sec-WebSocket-Version must be 13");
	g_autofree guchar *nonce = key ? g_base64_decode(key, &size) : NULL;
	if (size != 16 || strlen(key) != 24)
		return vial_fail(error, VIAL_ERROR_INVALID, "Sec-WebSocket-Key must be 16 bytes in base64");
	*out_answer = vial_websocket_answer(key);
	return TRUE;
}
