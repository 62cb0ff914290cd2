/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/tunnel.h"

#include <string.h>

#include "operations/entry.h"
#include "operations/guest.h"
#include "operations/limits.h"
#include "operations/validate.h"
#include "util/json.h"
#include "util/time.h"

#define PURPOSE "preview"
#define MAX_TOKEN_BYTES 160
#define NOBODY "-"

typedef struct {
	const VialTunnelSink *sink;
	gpointer data;
	gboolean is_connected;
} Tunnel;

typedef struct {
	const char *event;
} Event;

VIAL_SHAPE(event_shape, { "event", VIAL_SHAPE_TOKEN, TRUE, 0, 32, NULL, G_STRUCT_OFFSET(Event, event) });

static void on_opened(VialOperation *operation)
{
	Tunnel *tunnel = vial_guest_state(operation);

	tunnel->sink->begun(operation, tunnel->data);
}

static gboolean on_event(VialOperation *operation, json_t *json)
{
	Tunnel *tunnel = vial_guest_state(operation);
	g_autoptr(GError) problem = NULL;
	Event event = { NULL };

	if (!vial_shape_read(&event_shape, json, &event, &problem))
		return vial_guest_reject(operation, problem);
	if (strcmp(event.event, "connected") != 0 || tunnel->is_connected) {
		vial_fail(&problem, VIAL_ERROR_GATEWAY, "a tunnel tells of no such event, or not twice");
		return vial_guest_reject(operation, problem);
	}
	tunnel->is_connected = TRUE;
	tunnel->sink->connected(tunnel->data);
	return FALSE;
}

static gboolean on_data(VialOperation *operation, unsigned channel, GBytes *bytes)
{
	Tunnel *tunnel = vial_guest_state(operation);

	tunnel->sink->data(bytes, tunnel->data);
	return TRUE;
}

static void on_eof(VialOperation *operation, unsigned channel)
{
	Tunnel *tunnel = vial_guest_state(operation);

	tunnel->sink->eof(tunnel->data);
}

static void on_writable(VialOperation *operation)
{
	Tunnel *tunnel = vial_guest_state(operation);

	tunnel->sink->writable(tunnel->data);
}

static void on_closed(VialOperation *operation, json_t *result, const GError *error)
{
	Tunnel *tunnel = vial_guest_state(operation);
	g_autoptr(GError) unrecorded = NULL;

	error = vial_guest_end(operation, "done", NULL, error, &unrecorded);
	tunnel->sink->end(error, tunnel->data);
}

/* A connection that stood is over when either side says so. */
static const char *on_left(VialOperation *operation)
{
	const Tunnel *tunnel = vial_guest_state(operation);

	return tunnel->is_connected ? "done" : "cancelled";
}

VialOperation *vial_op_tunnel(const VialCaller *caller, const char *sandbox_id, gint64 port, const VialTunnelSink *sink, gpointer data,
                              GError **error)
{
	static const VialGuestEvents events = {
		.opened = on_opened, .data = on_data, .event = on_event, .eof = on_eof, .writable = on_writable, .left = on_left, .closed = on_closed
	};
	VialSandbox *sandbox;
	Tunnel *tunnel;

	if (!vial_operation_admit(caller, VIAL_VERB_TUNNEL, sandbox_id, 0, &sandbox, error) ||
	    !vial_check_required_int("port", port, 1, 65535, error))
		return NULL;
	tunnel = g_new0(Tunnel, 1);
	*tunnel = (Tunnel){ .sink = sink, .data = data };
	return vial_guest_start(caller, VIAL_VERB_TUNNEL, sandbox, json_pack("{s:s, s:I}", "op", "tcp", "port", (json_int_t)port),
	                        json_pack("{s:I}", "port", (json_int_t)port), &events, tunnel, g_free, error);
}

/*
 * Tokens: "<expiry in seconds>.<key>.<signature>"; sandbox and port are signed but need not be said. The key is who made the preview: what a key
 * opened ends with the key. A person's is "-".
 */

static char *signed_text(const char *sandbox_id, unsigned port, gint64 expires_s, const char *key_id)
{
	return g_strdup_printf("%s %u %" G_GINT64_FORMAT " %s", sandbox_id, port, expires_s, key_id);
}

static char *make_token(const VialSigning *signing, const char *sandbox_id, unsigned port, gint64 expires_s, const char *key_id)
{
	g_autofree char *text = signed_text(sandbox_id, port, expires_s, key_id);
	g_autofree char *hex = NULL;
	guint8 signature[VIAL_SHA256_BYTES];

	vial_signing_sign(signing, PURPOSE, text, signature);
	hex = vial_hex_encode(signature, sizeof(signature));
	return g_strdup_printf("%" G_GINT64_FORMAT ".%s.%s", expires_s, key_id, hex);
}

char *vial_op_preview_create(const VialCaller *caller, const char *sandbox_id, gint64 port, gint64 ttl_seconds, gint64 *out_expires_at_ms,
                             GError **error)
{
	const VialIdentity *principal = caller->principal;
	VialSandbox *sandbox;
	VialEntry *entry;
	gint64 expires_s;

	if (!vial_operation_admit(caller, VIAL_VERB_PREVIEW_CREATE, sandbox_id, 0, &sandbox, error) ||
	    !vial_check_required_int("port", port, 1, 65535, error) ||
	    !vial_check_int("ttl_seconds", ttl_seconds, 1, VIAL_PREVIEW_MAX_TTL_SECONDS, error))
		return NULL;
	if (ttl_seconds == VIAL_UNSAID)
		ttl_seconds = VIAL_PREVIEW_DEFAULT_TTL_SECONDS;
	entry = vial_entry_begin(caller, VIAL_VERB_PREVIEW_CREATE, sandbox,
	                         json_pack("{s:I, s:I}", "port", (json_int_t)port, "ttl_seconds", (json_int_t)ttl_seconds), error);
	if (!entry || vial_entry_settle(entry, NULL, error))
		return NULL;
	/* Whole seconds, which is all that a token says. */
	expires_s = vial_time_now_ms() / 1000 + ttl_seconds;
	*out_expires_at_ms = expires_s * 1000;
	return make_token(vial_keys_signing(caller->app->keys), vial_sandbox_id(sandbox), (unsigned)port, expires_s,
	                  principal->kind == VIAL_PRINCIPAL_KEY ? principal->id : NOBODY);
}

gboolean vial_op_preview_check(VialApp *app, const char *token, const char *sandbox_id, unsigned port, VialPreviewGrant *out)
{
	g_auto(GStrv) parts = strlen(token) <= MAX_TOKEN_BYTES ? g_strsplit(token, ".", 4) : NULL;
	g_autofree char *text = NULL;
	const VialKey *key;
	guint64 expires_s;

	if (!parts || g_strv_length(parts) != 3 || !g_ascii_string_to_unsigned(parts[0], 10, 1, G_MAXINT64 / 1000, &expires_s, NULL))
		return FALSE;
	text = signed_text(sandbox_id, port, (gint64)expires_s, parts[1]);
	if (!vial_signing_check(vial_keys_signing(app->keys), PURPOSE, text, parts[2]) || vial_time_now_ms() >= (gint64)expires_s * 1000)
		return FALSE;
	key = vial_keys_find(app->keys, parts[1]);
	if (strcmp(parts[1], NOBODY) != 0 && (!key || vial_key_identity(key)->has_ended))
		return FALSE;
	*out = (VialPreviewGrant){ .expires_at_ms = (gint64)expires_s * 1000, .principal = key ? vial_key_identity(key) : NULL };
	return TRUE;
}
