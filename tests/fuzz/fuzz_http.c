/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the bytes of a connection to the HTTP server, through libmicrohttpd and all of src/http, by way of a real
 * socket. Whatever comes, the connection ends, nothing is left over, and what handlers see is sound.
 */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "http/server.h"
#include "http/websocket.h"
#include "util/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define SOCKET "/tmp/vial-fuzz-http.%d"

static VialServer *server;
static char path[64];

static void check_pair(const char *name, const char *value, gpointer data)
{
	assert(g_utf8_validate(name, -1, NULL) && g_utf8_validate(value, -1, NULL));
}

static void on_json(VialRequest *request)
{
	assert(json_is_object(vial_request_json(request)));
	vial_request_each_query(request, check_pair, NULL);
	vial_request_reply_json(request, 200, json_incref(vial_request_json(request)));
}

static void on_item(VialRequest *request)
{
	const char *id = vial_request_param(request, "id");

	assert(*id && g_utf8_validate(id, -1, NULL));
	vial_request_reply_empty(request, 204);
}

static void on_raw(VialRequest *request)
{
	assert(g_bytes_get_size(vial_request_raw_body(request)) <= 1000);
	vial_request_reply_bytes(request, 200, "text/plain", g_bytes_ref(vial_request_raw_body(request)));
}

static gboolean on_data(VialRequest *request, const void *bytes, gsize size, gpointer data)
{
	return TRUE;
}

static void on_end(VialRequest *request, gboolean is_complete, gpointer data)
{
	if (is_complete)
		vial_request_reply_empty(request, 204);
}

static void on_stream(VialRequest *request)
{
	vial_request_body_read(request, on_data, on_end, NULL);
}

static void on_message(VialWebSocket *socket, gboolean is_text, const void *bytes, gsize size, gpointer data)
{
	for (const char *at = bytes, *end = at + size; is_text && at < end; at += strnlen(at, (gsize)(end - at)) + 1)
		assert(g_utf8_validate(at, (gssize)strnlen(at, (gsize)(end - at)), NULL)); /* NUL is allowed in between */
	vial_websocket_send(socket, is_text, bytes, size);
}

static void on_websocket(VialRequest *request)
{
	static const VialWebSocketHandlers handlers = { .message = on_message };

	vial_websocket_accept(request, NULL, &handlers, NULL);
}

static const VialRoute routes[] = {
	{ "POST", "/j", on_json, VIAL_ROUTE_PUBLIC, 1000, 0 },
	{ "GET", "/i/{id}", on_item, 0, 0, 0 },
	{ "POST", "/r", on_raw, VIAL_ROUTE_PUBLIC | VIAL_ROUTE_RAW_BODY, 1000, 0 },
	{ "PUT", "/s", on_stream, VIAL_ROUTE_PUBLIC | VIAL_ROUTE_STREAM_BODY, 0, 0 },
	{ "ANY", "/p/{port}/{path...}", on_stream, VIAL_ROUTE_PUBLIC | VIAL_ROUTE_STREAM_BODY | VIAL_ROUTE_ANY_METHOD, 0, 0 },
	{ "GET", "/w", on_websocket, VIAL_ROUTE_PUBLIC | VIAL_ROUTE_UPGRADE, 0, 0 },
};

static gboolean accept_late(gpointer data)
{
	g_autoptr(VialRequest) request = data;

	vial_request_authenticated(request, vial_identity_new(VIAL_PRINCIPAL_KEY, "l", "p", VIAL_ROLE_RUNNER, ""), NULL);
	return G_SOURCE_REMOVE;
}

/* "k" is known at once, "l" a turn of the loop later. */
static void authenticate(VialRequest *request, const char *key, gpointer data)
{
	if (strcmp(key, "l") == 0)
		g_idle_add(accept_late, vial_request_ref(request));
	else
		vial_request_authenticated(
			request, strcmp(key, "k") == 0 ? vial_identity_new(VIAL_PRINCIPAL_KEY, "k", "p", VIAL_ROLE_RUNNER, "") : NULL, NULL);
}

static void stop(void)
{
	vial_server_free(server);
}

static void start(void)
{
	static const VialRoute host_route = { "ANY", "/", on_stream, VIAL_ROUTE_STREAM_BODY | VIAL_ROUTE_ANY_METHOD, 0 };
	static const VialRouteTable table = { .name = "fuzz", .routes = routes, .n_routes = G_N_ELEMENTS(routes) };
	static const VialRouteTable *const tables[] = { &table, NULL };
	g_autofree char *address = NULL;
	VialServerConfig config = { .authenticate = authenticate, .host_route = &host_route };

	vial_log_setup(VIAL_LOG_ERROR, VIAL_LOG_TEXT);
	g_snprintf(path, sizeof(path), SOCKET, (int)getpid());
	config.listen = address = g_strdup_printf("unix:%s", path);
	server = vial_server_new(&config, tables, NULL, NULL);
	assert(server);
	atexit(stop);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	VialServerStats stats;
	char answer[65536];

	if (!server)
		start();
	strcpy(name.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert(fd >= 0 && connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0);
	send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	shutdown(fd, SHUT_WR);
	for (int turn = 0; turn < 1000; turn++) {
		while (g_main_context_iteration(NULL, FALSE))
			;
		while (recv(fd, answer, sizeof(answer), MSG_DONTWAIT) > 0)
			;
		vial_server_stats(server, &stats);
		if (turn > 0 && stats.connections == 0)
			break;
	}
	close(fd);
	vial_server_stats(server, &stats);
	assert(stats.connections == 0 && stats.requests == 0 && stats.upgraded == 0);
	return 0;
}
