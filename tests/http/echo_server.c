/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server with one route for each thing src/http can do, for the tests of src/http and for measuring it. Prints its
 * address, serves until SIGTERM. Options: --listen ADDRESS --cert FILE --key FILE --origin ORIGIN --header-timeout MS
 * --idle-timeout MS --body-timeout MS --max-connections N --name HOST --data DIR --log LEVEL. The key is "secret", or with
 * --data what viald's own keys say.
 */
#include <glib-unix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/keys.h"
#include "http/server.h"
#include "http/websocket.h"
#include "util/json.h"
#include "util/log.h"

/* Counted so that tests see what happened to clients that left. */
static struct {
	int waiting;
	int gone;
	int broken_uploads;
	int complete_uploads;
	int streams;
	int websockets;
} counters;

static gint64 query_int(VialRequest *request, const char *name, gint64 otherwise)
{
	const char *text = vial_request_query(request, name);

	return text ? g_ascii_strtoll(text, NULL, 10) : otherwise;
}

static void get_hello(VialRequest *request)
{
	const VialIdentity *identity = vial_request_identity(request);

	vial_request_reply_json(request, 200,
	                        json_pack("{s:s, s:s, s:s, s:i, s:i}", "id", "abcdefghijklmnopqrst", "status", "running", "project",
	                                  identity->project, "cpu", 2, "memory_mb", 2048));
}

static void get_healthz(VialRequest *request)
{
	vial_request_reply_json(request, 200, json_pack("{s:s}", "status", "ok"));
}

static void get_counters(VialRequest *request)
{
	VialServer **server = vial_request_app(request);
	VialServerStats stats;

	vial_server_stats(*server, &stats);
	vial_request_reply_json(request, 200,
	                        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "waiting", counters.waiting, "gone", counters.gone,
	                                  "broken_uploads", counters.broken_uploads, "complete_uploads", counters.complete_uploads, "streams",
	                                  counters.streams, "websockets", counters.websockets, "connections", (int)stats.connections, "requests",
	                                  (int)stats.requests, "upgraded", (int)stats.upgraded));
}

static void post_echo(VialRequest *request)
{
	vial_request_reply_json(request, 200, json_incref(vial_request_json(request)));
}

/* One field of each type, as handlers read them. */
static void post_typed(VialRequest *request)
{
	static const char *const colours[] = { "red", "green", NULL };
	json_t *body = vial_request_json(request), *env = NULL, *argv = NULL;
	const char *name = NULL;
	gint64 count = 7;
	gboolean flag = FALSE;
	int colour = 0;
	GError *error = NULL;

	if (vial_json_get_string(body, "name", VIAL_JSON_REQUIRED | VIAL_JSON_NONEMPTY, 16, &name, &error) &&
	    vial_json_get_int(body, "count", 0, 1, 100, &count, &error) && vial_json_get_bool(body, "flag", 0, &flag, &error) &&
	    vial_json_get_choice(body, "colour", 0, colours, &colour, &error) && vial_json_get_string_map(body, "env", 0, 4, 16, 16, &env, &error) &&
	    vial_json_get_string_array(body, "argv", 0, 4, 16, &argv, &error))
		vial_request_reply_json(
			request, 200,
			json_pack("{s:s, s:I, s:b, s:s}", "name", name, "count", (json_int_t)count, "flag", flag, "colour", colours[colour]));
	else
		vial_request_reply_error(request, error);
}

static void post_raw(VialRequest *request)
{
	vial_request_reply_bytes(request, 200, "application/octet-stream", g_bytes_ref(vial_request_raw_body(request)));
}

static void each_pair(const char *name, const char *value, gpointer data)
{
	json_object_set_new(data, name, json_string(value));
}

static void get_params(VialRequest *request)
{
	json_t *query = json_object();

	vial_request_each_query(request, each_pair, query);
	vial_request_reply_json(request, 200,
	                        json_pack("{s:s, s:s*, s:o}", "name", vial_request_param(request, "name"), "path",
	                                  vial_request_query(request, "path"), "query", query));
}

/* ---- answers that come later ---- */

typedef struct {
	VialRequest *request;
	guint timer;
} Wait;

static gboolean answer_late(gpointer data)
{
	g_autofree Wait *wait = data;

	counters.waiting--;
	vial_request_reply_json(wait->request, 200, json_pack("{s:b}", "late", 1));
	vial_request_unref(wait->request);
	return G_SOURCE_REMOVE;
}

static void forget_wait(VialRequest *request, gpointer data)
{
	g_autofree Wait *wait = data;

	counters.waiting--;
	counters.gone++;
	g_source_remove(wait->timer);
	vial_request_unref(request);
}

static void post_wait(VialRequest *request)
{
	Wait *wait = g_new0(Wait, 1);

	counters.waiting++;
	wait->request = vial_request_ref(request);
	wait->timer = g_timeout_add((guint)query_int(request, "ms", 100), answer_late, wait);
	vial_request_on_gone(request, forget_wait, wait);
}

/* ---- streamed answers ---- */

typedef struct {
	VialRequest *request;
	gint64 left;
	guint end_after_ms; /* the last bytes, then this, then the end */
	gboolean is_broken;
} Download;

static void end_download(Download *download)
{
	counters.streams--;
	if (download->is_broken)
		vial_request_stream_abort(download->request);
	else
		vial_request_stream_end(download->request);
	vial_request_unref(download->request);
	g_free(download);
}

static gboolean end_late(gpointer data)
{
	end_download(data);
	return G_SOURCE_REMOVE;
}

static void produce(VialRequest *request, gpointer data)
{
	Download *download = data;
	static GBytes *block;

	if (!block)
		block = g_bytes_new_take(g_malloc0(256 * 1024), 256 * 1024);
	while (download->left > 0) {
		gsize n = (gsize)MIN(download->left, 256 * 1024);
		download->left -= (gint64)n;
		if (vial_request_stream_write(request, g_bytes_new_from_bytes(block, 0, n)) > VIAL_BODY_HIGH_BYTES)
			return;
	}
	if (download->end_after_ms)
		g_timeout_add(download->end_after_ms, end_late, download);
	else
		end_download(download);
}

static void stop_producing(VialRequest *request, gpointer data)
{
	counters.streams--;
	counters.gone++;
	vial_request_unref(request);
	g_free(data);
}

static void get_download(VialRequest *request)
{
	Download *download = g_new0(Download, 1);
	gint64 size = query_int(request, "size", 1000);

	counters.streams++;
	download->request = vial_request_ref(request);
	download->end_after_ms = (guint)query_int(request, "end_after_ms", 0);
	download->is_broken = query_int(request, "break", 0) != 0;
	download->left = download->is_broken ? size / 2 : size;
	vial_request_on_gone(request, stop_producing, download);
	vial_request_stream_begin(request, 200, "application/octet-stream", query_int(request, "chunked", 0) ? -1 : size, produce, download);
	produce(request, download);
}

typedef struct {
	VialRequest *request;
	guint timer;
	gint64 left;
} Events;

static gboolean send_event(gpointer data)
{
	Events *events = data;

	vial_request_sse_send(events->request, "tick", json_pack("{s:I}", "left", (json_int_t)events->left));
	if (--events->left > 0)
		return G_SOURCE_CONTINUE;
	counters.streams--;
	vial_request_stream_end(events->request);
	vial_request_unref(events->request);
	g_free(events);
	return G_SOURCE_REMOVE;
}

static void forget_events(VialRequest *request, gpointer data)
{
	g_autofree Events *events = data;

	counters.streams--;
	counters.gone++;
	g_source_remove(events->timer);
	vial_request_unref(request);
}

static void post_events(VialRequest *request)
{
	Events *events = g_new0(Events, 1);

	counters.streams++;
	events->request = vial_request_ref(request);
	events->left = query_int(request, "n", 3);
	events->timer = g_timeout_add((guint)query_int(request, "ms", 20), send_event, events);
	vial_request_sse_begin(request, NULL, NULL);
	vial_request_on_gone(request, forget_events, events);
}

/* ---- streamed bodies ---- */

typedef struct {
	gint64 received;
	gint64 fail_at;
	gboolean is_slow;
	VialRequest *request;
} Upload;

static gboolean resume_upload(gpointer data)
{
	VialRequest *request = data;

	vial_request_body_resume(request);
	vial_request_unref(request);
	return G_SOURCE_REMOVE;
}

static gboolean take_upload(VialRequest *request, const void *bytes, gsize size, gpointer data)
{
	Upload *upload = data;

	upload->received += (gint64)size;
	if (upload->fail_at && upload->received >= upload->fail_at) {
		vial_request_reply_fail(request, VIAL_ERROR_NO_SPACE, "the disk is full");
		g_free(upload);
		return TRUE;
	}
	if (upload->is_slow) {
		g_timeout_add(1, resume_upload, vial_request_ref(request));
		return FALSE;
	}
	return TRUE;
}

static void end_upload(VialRequest *request, gboolean is_complete, gpointer data)
{
	g_autofree Upload *upload = data;

	if (!is_complete) {
		counters.broken_uploads++;
		return;
	}
	counters.complete_uploads++;
	vial_request_reply_json(request, 200, json_pack("{s:I}", "received", (json_int_t)upload->received));
}

static gboolean begin_upload(gpointer data)
{
	Upload *upload = data;
	VialRequest *request = upload->request;

	vial_request_body_read(request, take_upload, end_upload, upload);
	vial_request_unref(request);
	return G_SOURCE_REMOVE;
}

static void put_upload(VialRequest *request)
{
	Upload *upload = g_new0(Upload, 1);

	upload->fail_at = query_int(request, "fail_at", 0);
	upload->is_slow = query_int(request, "slow", 0) != 0;
	upload->request = vial_request_ref(request);
	if (query_int(request, "refuse", 0)) {
		g_free(upload);
		vial_request_reply_fail(request, VIAL_ERROR_NOT_FOUND, "no such sandbox");
		vial_request_unref(request);
	} else if (query_int(request, "later", 0)) {
		g_timeout_add((guint)query_int(request, "later", 0), begin_upload, upload);
	} else {
		begin_upload(upload);
	}
}

/* ---- proxies and upgrades ---- */

static void end_proxy_body(VialRequest *request, gboolean is_complete, gpointer data)
{
	const char *port = vial_request_param(request, "port"), *id = vial_request_param(request, "id");

	if (is_complete)
		vial_request_reply_json(request, 200,
		                        json_pack("{s:s, s:s, s:s, s:s*, s:s*, s:s*}", "method", vial_request_method(request), "path",
		                                  vial_request_path(request), "query", vial_request_query_string(request), "port", port, "id", id,
		                                  "rest", vial_request_param(request, "path")));
}

static gboolean skip_body(VialRequest *request, const void *bytes, gsize size, gpointer data)
{
	return TRUE;
}

static void any_proxy(VialRequest *request)
{
	vial_request_body_read(request, skip_body, end_proxy_body, NULL);
}

static void echo_message(VialWebSocket *socket, gboolean is_text, const void *bytes, gsize size, gpointer data)
{
	if (is_text && size == 5 && memcmp(bytes, "flood", 5) == 0) {
		static const char block[65536];
		for (int i = 0; i < 64; i++)
			vial_websocket_send(socket, FALSE, block, sizeof(block));
		return;
	}
	vial_websocket_send(socket, is_text, bytes, size);
}

static void websocket_closed(VialWebSocket *socket, unsigned code, gpointer data)
{
	counters.websockets--;
}

static void websocket_open(VialWebSocket *socket, gpointer data)
{
	counters.websockets++;
}

static void get_websocket(VialRequest *request)
{
	static const VialWebSocketHandlers handlers = {
		.opened = websocket_open,
		.message = echo_message,
		.closed = websocket_closed,
	};

	vial_websocket_accept(request, NULL, &handlers, NULL);
}

static const VialRoute routes[] = {
	{ "GET", "/healthz", get_healthz, VIAL_ROUTE_PUBLIC, 0 },
	{ "GET", "/counters", get_counters, VIAL_ROUTE_PUBLIC, 0 },
	{ "GET", "/v1/hello", get_hello, 0, 0 },
	{ "POST", "/v1/echo", post_echo, 0, 0 },
	{ "POST", "/v1/typed", post_typed, 0, 0 },
	{ "POST", "/v1/raw", post_raw, VIAL_ROUTE_RAW_BODY, 100000 },
	{ "GET", "/v1/items/{name}", get_params, 0, 0 },
	{ "DELETE", "/v1/items/{name}", get_params, 0, 0 },
	{ "GET", "/v1/items/special/fixed", get_hello, 0, 0 },
	{ "POST", "/v1/wait", post_wait, 0, 0 },
	{ "GET", "/v1/download", get_download, 0, 0 },
	{ "POST", "/v1/events", post_events, 0, 0 },
	{ "PUT", "/v1/upload", put_upload, VIAL_ROUTE_STREAM_BODY, 0 },
	{ "ANY", "/v1/ports/{port}/{path...}", any_proxy, VIAL_ROUTE_STREAM_BODY | VIAL_ROUTE_ANY_METHOD, 0 },
	{ "GET", "/v1/websocket", get_websocket, VIAL_ROUTE_UPGRADE, 0 },
};

static const VialRoute host_route = { "ANY", "/", any_proxy, VIAL_ROUTE_STREAM_BODY | VIAL_ROUTE_ANY_METHOD, 0 };

static VialIdentity *authenticate(const char *key, gpointer data)
{
	return strcmp(key, "secret") == 0 ? vial_identity_ref(data) : NULL;
}

static VialIdentity *authenticate_by_keys(const char *key, gpointer keys)
{
	return vial_keys_lookup(keys, key);
}

static gboolean stop(gpointer loop)
{
	g_main_loop_quit(loop);
	return G_SOURCE_REMOVE;
}

int main(int argc, char **argv)
{
	g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, FALSE);
	g_autoptr(VialIdentity) identity = vial_identity_new("key", "default", VIAL_ROLE_ADMIN, "test");
	g_autoptr(GError) error = NULL;
	const char *origins[] = { NULL, NULL }, *names[] = { NULL, NULL }, *data_dir = NULL;
	VialServerConfig config = {
		.listen = "127.0.0.1:0", .host_route = &host_route, .preview_domain = "preview.example", .authenticate = authenticate
	};
	VialServer *server;
	VialStore *store = NULL;
	VialKeys *keys = NULL;

	config.auth_data = identity;
	for (int i = 1; i + 1 < argc; i += 2) {
		const char *name = argv[i], *value = argv[i + 1];
		if (strcmp(name, "--listen") == 0)
			config.listen = value;
		else if (strcmp(name, "--cert") == 0)
			config.tls_cert_file = value;
		else if (strcmp(name, "--key") == 0)
			config.tls_key_file = value;
		else if (strcmp(name, "--origin") == 0)
			origins[0] = value;
		else if (strcmp(name, "--name") == 0)
			names[0] = value;
		else if (strcmp(name, "--header-timeout") == 0)
			config.header_timeout_ms = (unsigned)atoi(value);
		else if (strcmp(name, "--idle-timeout") == 0)
			config.idle_timeout_ms = (unsigned)atoi(value);
		else if (strcmp(name, "--body-timeout") == 0)
			config.body_timeout_ms = (unsigned)atoi(value);
		else if (strcmp(name, "--max-connections") == 0)
			config.max_connections = (unsigned)atoi(value);
		else if (strcmp(name, "--data") == 0)
			data_dir = value;
		else if (strcmp(name, "--log") == 0)
			vial_log_level_parse(value, &vial_log_level);
	}
	if (names[0])
		config.host_names = names;
	if (origins[0])
		config.allowed_origins = origins;
	if (data_dir) {
		g_autofree char *path = g_build_filename(data_dir, "db.sqlite", NULL);
		if (!(store = vial_store_open(path, &error)) || !(keys = vial_keys_open(store, data_dir, &error))) {
			fprintf(stderr, "%s\n", error->message);
			return 1;
		}
		config.authenticate = authenticate_by_keys;
		config.auth_data = keys;
	}
	server = vial_server_new(&config, routes, G_N_ELEMENTS(routes), &server, &error);
	if (!server) {
		fprintf(stderr, "%s\n", error->message);
		return 1;
	}
	g_unix_signal_add(SIGTERM, stop, loop);
	printf("%s\n", vial_server_url(server));
	fflush(stdout);
	g_main_loop_run(loop);
	vial_server_free(server);
	vial_keys_free(keys);
	vial_store_close(store);
	while (g_main_context_iteration(NULL, FALSE))
		; /* the store's completions */
	return 0;
}
