/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a proxied request:
 *
 *   begin the tunnel → send the head → (connected) → read the client's body, passing it on
 *                                                     → (response head) → begin the answer → pass its body on → end
 *                                                     → (101) → upgrade the client → tunnel
 *
 * Both bodies move at the pace of the slower side: the client's is read while the stream has room, the program's gets its
 * credit back once the client has taken it. libmicrohttpd sends nothing of an answer before the request's body has ended,
 * so an answer that is begun early is held here, up to EARLY_ANSWER_LIMIT_BYTES.
 *
 * The object goes when the answer is complete and nobody will call it about the request's body any more.
 */
#include "surfaces/shared/proxy.h"

#include <string.h>

#include "operations/tunnel.h"
#include "surfaces/shared/surface.h"
#include "surfaces/shared/proxy_tunnel.h"
#include "util/log.h"

/* From the end of the request to the head of the response. Long polls are answered sooner than this. */
#define ANSWER_TIMEOUT_MS (10 * 60 * 1000)
/* A program that echoes while it reads must not wait for us, who wait for the client, who waits for it. */
#define EARLY_ANSWER_LIMIT_BYTES (16 * 1024 * 1024)

typedef struct {
	VialRequest *request;
	VialOperation *operation; /* NULL when the answer is over */
	VialProxyTarget target;
	VialReplyReader *reader;
	VialTunnel *tunnel;
	GByteArray *outbox; /* for the program, waiting for room */
	GByteArray *early;  /* of the program, between its 101 and the tunnel */
	guint timer;
	gboolean is_body_wanted; /* body_read() was called */
	gboolean is_body_over;
	gboolean is_answer_begun;
	gboolean is_answer_over;
	gboolean is_switching;
} Proxy;

static void proxy_free(Proxy *proxy)
{
	g_clear_handle_id(&proxy->timer, g_source_remove);
	vial_tunnel_free(proxy->tunnel);
	vial_operation_cancel(proxy->operation);
	vial_reply_reader_free(proxy->reader);
	vial_proxy_target_clear(&proxy->target);
	g_byte_array_unref(proxy->outbox);
	if (proxy->early)
		g_byte_array_unref(proxy->early);
	vial_request_unref(proxy->request);
	g_free(proxy);
}

/* The streamed answer is complete or broken off. What the client still sends is swallowed. */
static void finish(Proxy *proxy)
{
	proxy->is_answer_over = TRUE;
	g_clear_handle_id(&proxy->timer, g_source_remove);
	g_clear_pointer(&proxy->operation, vial_operation_cancel);
	if (!proxy->is_body_wanted || proxy->is_body_over)
		proxy_free(proxy);
	else
		vial_request_body_resume(proxy->request);
}

static void fail(Proxy *proxy, GError *error)
{
	if (proxy->is_answer_begun) {
		vial_log_debug("proxy", "an answer broke off", "request_id", vial_request_id(proxy->request), "sandbox_id",
		               vial_surface_sandbox(proxy->request), "error", error->message);
		g_error_free(error);
		vial_request_stream_abort(proxy->request);
		finish(proxy);
		return;
	}
	/* A complete answer: no callback about the body comes after it. */
	vial_request_on_gone(proxy->request, NULL, NULL);
	if (proxy->target.refuse && proxy->target.refuse(proxy->request, proxy->target.port, error))
		g_error_free(error);
	else
		vial_request_reply_error(proxy->request, error);
	proxy_free(proxy);
}

static void fail_reader(Proxy *proxy)
{
	fail(proxy, g_error_new(VIAL_ERROR, VIAL_ERROR_GATEWAY, "the program on port %u did not answer properly: %s", proxy->target.port,
	                        vial_reply_reader_error(proxy->reader)));
}

static gboolean on_timeout(gpointer data)
{
	Proxy *proxy = data;

	proxy->timer = 0;
	fail(proxy, g_error_new(VIAL_ERROR, VIAL_ERROR_TIMEOUT, "the program on port %u took longer than %d seconds to answer", proxy->target.port,
	                        ANSWER_TIMEOUT_MS / 1000));
	return G_SOURCE_REMOVE;
}

/* The request on its way in */

static void flush(Proxy *proxy)
{
	gsize piece = MIN(proxy->outbox->len, vial_operation_room(proxy->operation));

	if (piece == 0)
		return;
	vial_operation_write(proxy->operation, proxy->outbox->data, piece);
	g_byte_array_remove_range(proxy->outbox, 0, (guint)piece);
}

static void put(Proxy *proxy, const void *bytes, gsize size)
{
	g_byte_array_append(proxy->outbox, bytes, (guint)size);
}

static gboolean on_body_data(VialRequest *request, const void *bytes, gsize size, gpointer data)
{
	Proxy *proxy = data;

	if (!proxy->operation)
		return TRUE;
	if (vial_request_body_size(request) < 0) {
		char line[24];

		put(proxy, line, (gsize)g_snprintf(line, sizeof(line), "%" G_GSIZE_MODIFIER "x\r\n", size));
		put(proxy, bytes, size);
		put(proxy, "\r\n", 2);
	} else {
		put(proxy, bytes, size);
	}
	flush(proxy);
	return proxy->outbox->len == 0;
}

static void on_body_end(VialRequest *request, gboolean is_complete, gpointer data)
{
	Proxy *proxy = data;

	proxy->is_body_over = TRUE;
	if (proxy->is_answer_over)
		return proxy_free(proxy);
	if (!is_complete) /* gone() follows */
		return;
	if (vial_request_body_size(request) < 0)
		put(proxy, "0\r\n\r\n", 5);
	flush(proxy);
	if (!proxy->is_answer_begun && !proxy->timer)
		proxy->timer = g_timeout_add(ANSWER_TIMEOUT_MS, on_timeout, proxy);
}

static void on_writable(gpointer data)
{
	Proxy *proxy = data;

	if (proxy->tunnel)
		return vial_tunnel_guest_writable(proxy->tunnel);
	flush(proxy);
	if (proxy->outbox->len == 0)
		vial_request_body_resume(proxy->request);
}

/* The first sign of life; only now is the client asked for its body, so one that waits for "100 Continue" is refused without it. */
static void on_connected(gpointer data)
{
	Proxy *proxy = data;

	proxy->is_body_wanted = TRUE;
	vial_request_body_read(proxy->request, on_body_data, on_body_end, proxy);
}

/* The answer on its way out */

static void on_tunnel_ended(gpointer data)
{
	proxy_free(data);
}

static void on_upgraded(VialUpgraded *upgraded, int fd, GBytes *extra, gpointer data)
{
	Proxy *proxy = data;
	g_autoptr(GBytes) owned = extra;
	gsize size;
	const void *bytes = g_bytes_get_data(extra, &size);

	proxy->tunnel = vial_tunnel_new(upgraded, fd, proxy->operation, on_tunnel_ended, proxy);
	if (size > 0)
		vial_tunnel_client_data(proxy->tunnel, bytes, size);
	if (proxy->early->len > 0)
		vial_tunnel_guest_data(proxy->tunnel, proxy->early->data, proxy->early->len);
	if (proxy->is_answer_over) /* the program has closed again already */
		vial_tunnel_guest_eof(proxy->tunnel);
	g_clear_pointer(&proxy->early, g_byte_array_unref);
}

static void begin_switch(Proxy *proxy)
{
	static const char *const headers[] = { "Upgrade", "websocket", NULL };

	proxy->is_switching = TRUE;
	proxy->early = g_byte_array_new();
	vial_request_upgrade(proxy->request, headers, on_upgraded, proxy);
}

static void on_drained(VialRequest *request, gpointer data)
{
	Proxy *proxy = data;

	if (proxy->operation)
		vial_operation_drained(proxy->operation);
}

/* TRUE while there is something to go on with. */
static gboolean begin_answer(Proxy *proxy)
{
	unsigned status = vial_reply_reader_status(proxy->reader);
	gint64 size = vial_reply_reader_size(proxy->reader);

	g_clear_handle_id(&proxy->timer, g_source_remove);
	vial_proxy_copy_headers(proxy->request, &proxy->target, proxy->reader);
	if (status == 101) {
		begin_switch(proxy);
		return TRUE;
	}
	if (status == 204 || status == 304) {
		vial_request_on_gone(proxy->request, NULL, NULL);
		vial_request_reply_empty(proxy->request, status);
		proxy_free(proxy);
		return FALSE;
	}
	proxy->is_answer_begun = TRUE;
	vial_request_stream_begin(proxy->request, status, NULL, size, on_drained, proxy);
	return TRUE;
}

/* Passes a piece on; TRUE unless the proxy is gone. */
static gboolean pass_on(Proxy *proxy, GBytes *bytes, const guint8 *piece, gsize size)
{
	gsize offset = (gsize)(piece - (const guint8 *)g_bytes_get_data(bytes, NULL));
	gsize queued = vial_request_stream_write(proxy->request, g_bytes_new_from_bytes(bytes, offset, size));

	if (proxy->is_body_over || queued < EARLY_ANSWER_LIMIT_BYTES)
		return TRUE;
	fail(proxy, g_error_new_literal(VIAL_ERROR, VIAL_ERROR_GATEWAY, "the answer outgrew its buffer while the request was still being sent"));
	return FALSE;
}

static gboolean should_hold_credit(const Proxy *proxy, gsize queued)
{
	return queued > VIAL_BODY_HIGH_BYTES && proxy->is_body_over;
}

/* Takes apart what arrived; TRUE unless the proxy is gone. */
static gboolean read_answer(Proxy *proxy, GBytes *bytes)
{
	gsize left, size;
	const guint8 *next = g_bytes_get_data(bytes, &left), *piece;

	while (!proxy->is_switching) {
		switch (vial_reply_reader_next(proxy->reader, &next, &left, &piece, &size)) {
		case VIAL_REPLY_MORE:
			return TRUE;
		case VIAL_REPLY_HEAD:
			if (!begin_answer(proxy))
				return FALSE;
			break;
		case VIAL_REPLY_DATA:
			if (!pass_on(proxy, bytes, piece, size))
				return FALSE;
			break;
		case VIAL_REPLY_END:
			vial_request_stream_end(proxy->request);
			finish(proxy);
			return FALSE;
		case VIAL_REPLY_BROKEN:
			fail_reader(proxy);
			return FALSE;
		}
	}
	g_byte_array_append(proxy->early, next, (guint)left);
	return TRUE;
}

static void on_data(GBytes *bytes, gpointer data)
{
	Proxy *proxy = data;
	gsize size = g_bytes_get_size(bytes), queued;

	if (proxy->tunnel)
		return vial_tunnel_guest_data(proxy->tunnel, g_bytes_get_data(bytes, NULL), size);
	if (proxy->is_switching) {
		g_byte_array_append(proxy->early, g_bytes_get_data(bytes, NULL), (guint)size);
		return;
	}
	if (!read_answer(proxy, bytes) || proxy->is_switching)
		return;
	queued = proxy->is_answer_begun ? vial_request_stream_write(proxy->request, g_bytes_new_static("", 0)) : 0;
	if (!should_hold_credit(proxy, queued))
		on_drained(proxy->request, proxy);
}

/* The program has closed its side, or the tunnel has ended: either way no more comes from it. */
static void on_guest_end(Proxy *proxy)
{
	if (proxy->tunnel)
		return vial_tunnel_guest_eof(proxy->tunnel);
	if (proxy->is_switching) {
		proxy->is_answer_over = TRUE;
		return;
	}
	if (vial_reply_reader_finish(proxy->reader) == VIAL_REPLY_BROKEN)
		return fail_reader(proxy);
	vial_request_stream_end(proxy->request);
	finish(proxy);
}

static void on_eof(gpointer data)
{
	on_guest_end(data);
}

static void on_end(const GError *error, gpointer data)
{
	Proxy *proxy = data;

	proxy->operation = NULL;
	if (error && !proxy->is_switching && proxy->is_body_wanted && g_error_matches(error, VIAL_ERROR, VIAL_ERROR_INTERNAL))
		return fail(proxy, g_error_new(VIAL_ERROR, VIAL_ERROR_GATEWAY, "the program did not answer: %s", error->message));
	if (error && !proxy->is_switching)
		return fail(proxy, g_error_copy(error));
	if (proxy->tunnel)
		return vial_tunnel_guest_gone(proxy->tunnel);
	on_guest_end(proxy);
}

/* Beginning */

static void on_gone(VialRequest *request, gpointer data)
{
	proxy_free(data);
}

static void on_begun(VialOperation *operation, gpointer data)
{
	Proxy *proxy = data;

	proxy->operation = operation;
	flush(proxy);
}

void vial_proxy_start(VialRequest *request, const VialCaller *caller, VialProxyTarget *target)
{
	static const VialTunnelSink sink = {
		.begun = on_begun, .connected = on_connected, .data = on_data, .eof = on_eof, .writable = on_writable, .end = on_end
	};
	g_autoptr(GString) head = vial_proxy_request_head(request, target);
	Proxy *proxy = g_new0(Proxy, 1);
	GError *error = NULL;

	proxy->request = vial_request_ref(request);
	proxy->target = *target;
	proxy->reader = vial_reply_reader_new(strcmp(vial_request_method(request), "HEAD") == 0, target->is_upgrade);
	proxy->outbox = g_byte_array_new();
	put(proxy, head->str, head->len);
	proxy->operation = vial_op_tunnel(caller, vial_surface_sandbox(request), target->port, &sink, proxy, &error);
	if (!proxy->operation)
		return fail(proxy, error);
	vial_request_on_gone(request, on_gone, proxy);
}
