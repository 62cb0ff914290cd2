/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server with one route for each thing src/http can do, for the tests of src/http and for measuring it. Prints its
 * address, serves until SIGTERM. Options: --listen ADDRESS --cert FILE --key FILE --origin ORIGIN --header-timeout MS
 * --idle-timeout MS --body-timeout MS --max-connections N --name HOST --data DIR --log LEVEL --auth-delay MS
 * --commit MS. The keys are "secret" and "other", or with --data what viald's own keys say.
 *
 * With --commit nothing leaves before it is committed, every MS, or for 0 when POST /commit says so. That and the counters are
 * then served by a second server, which waits for nothing and whose address is printed after the first.
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
	int authenticating;
	int auth_gone;
	int waiting;
	int gone;
	int broken_uploads;
	int complete_uploads;
	int streams;
	int websockets;
} counters;

static struct {
	const char *key;
	VialIdentity *identity;
} people[] = { { "secret", NULL }, { "other", NULL }, { "stubborn", NULL } };

static VialIdentity *find_person(const char *key)
{
	for (gsize i = 0; key && i < G_N_ELEMENTS(people); i++)
		if (strcmp(key, people[i].key) == 0 && !people[i].identity->has_ended)
			return people[i].identity;
	return NULL;
}

/* What was recorded and what of it is on the disk: numbers are all there is. */
static struct {
	guint64 recorded;
	guint64 committed;
} journal;

static guint64 uncommitted(gpointer data)
{
	return journal.recorded > journal.committed ? journal.recorded : 0;
}

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
	                        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "authenticating", counters.authenticating,
	                                  "auth_gone", counters.auth_gone, "waiting", counters.waiting, "gone", counters.gone, "broken_uploads",
	                                  counters.broken_uploads, "complete_uploads", counters.complete_uploads, "streams", counters.streams,
	                                  "websockets", counters.websockets, "connections", (int)stats.connections, "requests", (int)stats.requests,
	                                  "upgraded", (int)stats.upgraded));
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

/* Fails as asked: `status`, and a detail if `retry_after` is given, which "soon" makes no number. */
static void get_fail(VialRequest *request)
{
	gint64 status = query_int(request, "status", 500);
	const char *retry_after = vial_request_query(request, "retry_after");
	json_t *detail = NULL;
	GError *error = NULL;

	for (int code = VIAL_ERROR_INTERNAL; code <= VIAL_ERROR_GATEWAY; code++) {
		g_autoptr(GError) probe = g_error_new_literal(VIAL_ERROR, code, "");
		if (vial_error_http_status(probe) != status)
			continue;
		if (retry_after && strcmp(retry_after, "soon") == 0)
			detail = json_pack("{s:s, s:s}", "limit", "sandboxes", "retry_after", retry_after);
		else if (retry_after)
			detail = json_pack("{s:s, s:I}", "limit", "sandboxes", "retry_after", (json_int_t)query_int(request, "retry_after", 0));
		vial_fail_with(&error, (VialErrorCode)code, detail, "this failed with %d", (int)status);
		vial_request_reply_error(request, error);
		return;
	}
	vial_request_reply_fail(request, VIAL_ERROR_INVALID, "no error has this status");
}

static void get_trace(VialRequest *request)
{
	vial_request_reply_json(
		request, 200,
		json_pack("{s:s?, s:s?}", "trace_id", vial_request_trace_id(request), "parent_span", vial_request_parent_span(request)));
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
	journal.recorded++;
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

/* ---- the journal, for --commit ---- */

static void commit(VialServer *server, guint64 ticket)
{
	journal.committed = MAX(journal.committed, ticket);
	vial_server_committed(server, ticket);
}

static gboolean commit_all(gpointer data)
{
	VialServer **server = data;

	commit(*server, journal.recorded);
	return G_SOURCE_CONTINUE;
}

static void reply_journal(VialRequest *request)
{
	vial_request_reply_json(request, 200,
	                        json_pack("{s:I, s:I}", "recorded", (json_int_t)journal.recorded, "committed", (json_int_t)journal.committed));
}

/* Up to `ticket`, or everything. */
static void post_commit(VialRequest *request)
{
	VialServer **server = vial_request_app(request);

	commit(*server, (guint64)query_int(request, "ticket", (gint64)journal.recorded));
	reply_journal(request);
}

/* What is recorded stays uncommitted. */
static void post_fail_commit(VialRequest *request)
{
	VialServer **server = vial_request_app(request);

	vial_server_commit_failed(*server);
	reply_journal(request);
}

/* ---- identities ---- */

/* A public route that finds out by itself who it is. */
static void post_open_wait(VialRequest *request)
{
	vial_request_set_identity(request, find_person(vial_request_key(request)));
	post_wait(request);
}

/* Revokes the key `who`. */
static void post_end(VialRequest *request)
{
	VialServer **server = vial_request_app(request);
	VialIdentity *person = find_person(vial_request_query(request, "who"));

	if (person)
		person->has_ended = TRUE;
	vial_server_cut_ended(*server);
	vial_request_reply_json(request, 200, json_pack("{s:b}", "ended", person != NULL));
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
		journal.recorded++;
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
	gboolean is_lines;
} Events;

static gboolean send_event(gpointer data)
{
	Events *events = data;
	json_t *tick =
		json_pack("{s:I, s:O*}", "left", (json_int_t)events->left, "text", json_object_get(vial_request_json(events->request), "text"));

	journal.recorded++;
	if (events->is_lines)
		vial_request_ndjson_send(events->request, tick);
	else
		vial_request_sse_send(events->request, "tick", tick);
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
	events->is_lines = query_int(request, "lines", 0) != 0;
	if (events->is_lines)
		vial_request_ndjson_begin(request, vial_request_query(request, "idle"), NULL, NULL);
	else
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

static void get_websocket(VialRequest *request)
{
	static const VialWebSocketHandlers handlers = {
		.message = echo_message,
		.closed = websocket_closed,
	};

	if (vial_websocket_accept(request, NULL, &handlers, NULL))
		counters.websockets++; /* closed() comes for every one, also if its 101 never left */
}

static const VialRoute routes[] = {
	{ "GET", "/healthz", get_healthz, VIAL_ROUTE_PUBLIC, 0, 0 },
	{ "GET", "/counters", get_counters, VIAL_ROUTE_PUBLIC, 0, 0 },
	{ "POST", "/end", post_end, VIAL_ROUTE_PUBLIC, 0, 0 },
	{ "POST", "/v1/end", post_end, 0, 0, 0 },
	{ "POST", "/open/wait", post_open_wait, VIAL_ROUTE_PUBLIC, 0, 0 },
	{ "GET", "/v1/hello", get_hello, 0, 0, 0 },
	{ "POST", "/v1/echo", post_echo, 0, 0, 0 },
	{ "POST", "/v1/typed", post_typed, 0, 0, 0 },
	{ "POST", "/v1/raw", post_raw, VIAL_ROUTE_RAW_BODY, 100000, 0 },
	{ "GET", "/v1/items/{name}", get_params, 0, 0, 0 },
	{ "DELETE", "/v1/items/{name}", get_params, 0, 0, 0 },
	{ "GET", "/v1/items/special/fixed", get_hello, 0, 0, 0 },
	{ "GET", "/v1/fail", get_fail, 0, 0, 0 },
	{ "GET", "/v1/trace", get_trace, 0, 0, 0 },
	{ "POST", "/v1/wait", post_wait, 0, 0, 0 },
	{ "GET", "/v1/download", get_download, 0, 0, 0 },
	{ "POST", "/v1/events", post_events, 0, 0, 0 },
	{ "PUT", "/v1/upload", put_upload, VIAL_ROUTE_STREAM_BODY, 0, 0 },
	{ "ANY", "/v1/ports/{port}/{path...}", any_proxy, VIAL_ROUTE_STREAM_BODY | VIAL_ROUTE_ANY_METHOD, 0, 0 },
	{ "GET", "/v1/websocket", get_websocket, VIAL_ROUTE_UPGRADE, 0, 0 },
};

static const VialRoute control_routes[] = {
	{ "GET", "/counters", get_counters, VIAL_ROUTE_PUBLIC, 0 }, { "GET", "/journal", reply_journal, VIAL_ROUTE_PUBLIC, 0 },
	{ "POST", "/commit", post_commit, VIAL_ROUTE_PUBLIC, 0 },   { "POST", "/fail-commit", post_fail_commit, VIAL_ROUTE_PUBLIC, 0 },
	{ "POST", "/end", post_end, VIAL_ROUTE_PUBLIC, 0, 0 },
};

static const VialRoute host_route = { "ANY", "/", any_proxy, VIAL_ROUTE_STREAM_BODY | VIAL_ROUTE_ANY_METHOD, 0 };

/* ---- authentication: at once, or --auth-delay later ---- */

static const struct {
	const char *key;
	VialErrorCode code;
} refusals[] = { { "forbidden", VIAL_ERROR_FORBIDDEN }, { "unavailable", VIAL_ERROR_UNAVAILABLE } };

static gint64 auth_delay_ms = -1;

static void answer_authentication(VialRequest *request, const char *key)
{
	VialIdentity *person = find_person(key);

	for (gsize i = 0; i < G_N_ELEMENTS(refusals); i++)
		if (strcmp(key, refusals[i].key) == 0)
			return vial_request_authenticated(request, NULL,
			                                  g_error_new(VIAL_ERROR, (int)refusals[i].code, "this key is %s", refusals[i].key));
	vial_request_authenticated(request, person ? vial_identity_ref(person) : NULL, NULL);
}

static gboolean authenticate_late(gpointer data)
{
	g_autofree Wait *wait = data;

	counters.authenticating--;
	answer_authentication(wait->request, vial_request_key(wait->request));
	vial_request_unref(wait->request);
	return G_SOURCE_REMOVE;
}

static void forget_authentication(VialRequest *request, gpointer data)
{
	g_autofree Wait *wait = data;

	counters.authenticating--;
	counters.auth_gone++;
	g_source_remove(wait->timer);
	vial_request_unref(request);
}

/* "stubborn" does not care whether the client has left: it is answered anyway. */
static void authenticate(VialRequest *request, const char *key, gpointer data)
{
	journal.recorded++;
	if (auth_delay_ms < 0)
		return answer_authentication(request, key);
	Wait *wait = g_new0(Wait, 1);
	counters.authenticating++;
	wait->request = vial_request_ref(request);
	wait->timer = g_timeout_add((guint)auth_delay_ms, authenticate_late, wait);
	if (strcmp(key, "stubborn") != 0)
		vial_request_on_gone(request, forget_authentication, wait);
}

static void authenticate_by_keys(VialRequest *request, const char *key, gpointer keys)
{
	vial_request_authenticated(request, vial_keys_lookup(keys, key), NULL);
}

static gboolean stop(gpointer loop)
{
	g_main_loop_quit(loop);
	return G_SOURCE_REMOVE;
}

static VialServer *start_control(VialServer **server)
{
	static const VialServerConfig config = { .listen = "127.0.0.1:0" };
	g_autoptr(GError) error = NULL;
	static const VialRouteTable table = { .name = "control", .routes = control_routes, .n_routes = G_N_ELEMENTS(control_routes) };
	static const VialRouteTable *const tables[] = { &table, NULL };
	VialServer *control = vial_server_new(&config, tables, server, &error);

	if (control)
		printf("%s\n", vial_server_url(control));
	else
		fprintf(stderr, "%s\n", error->message);
	return control;
}

int main(int argc, char **argv)
{
	static const VialRouteTable table = { .name = "echo", .routes = routes, .n_routes = G_N_ELEMENTS(routes) };
	static const VialRouteTable *const tables[] = { &table, NULL };
	g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, FALSE);
	g_autoptr(GError) error = NULL;
	const char *origins[] = { NULL, NULL }, *names[] = { NULL, NULL }, *data_dir = NULL;
	VialServerConfig config = {
		.listen = "127.0.0.1:0", .host_route = &host_route, .preview_domain = "preview.example", .authenticate = authenticate
	};
	VialServer *server, *control = NULL;
	int commit_ms = -1;
	guint commit_timer = 0;
	VialStore *store = NULL;
	VialKeys *keys = NULL;

	for (gsize i = 0; i < G_N_ELEMENTS(people); i++)
		people[i].identity = vial_identity_new(VIAL_PRINCIPAL_KEY, people[i].key, "default", VIAL_ROLE_ADMIN, "test");
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
		else if (strcmp(name, "--heartbeat") == 0)
			config.heartbeat_ms = (unsigned)atoi(value);
		else if (strcmp(name, "--max-connections") == 0)
			config.max_connections = (unsigned)atoi(value);
		else if (strcmp(name, "--auth-delay") == 0)
			auth_delay_ms = atoi(value);
		else if (strcmp(name, "--commit") == 0)
			commit_ms = atoi(value);
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
	if (commit_ms >= 0)
		config.uncommitted = uncommitted;
	server = vial_server_new(&config, tables, &server, &error);
	if (!server) {
		fprintf(stderr, "%s\n", error->message);
		return 1;
	}
	g_unix_signal_add(SIGTERM, stop, loop);
	printf("%s\n", vial_server_url(server));
	if (commit_ms >= 0 && !(control = start_control(&server)))
		return 1;
	if (commit_ms > 0)
		commit_timer = g_timeout_add((guint)commit_ms, commit_all, &server);
	fflush(stdout);
	g_main_loop_run(loop);
	g_clear_handle_id(&commit_timer, g_source_remove);
	vial_server_free(control);
	vial_server_free(server);
	for (gsize i = 0; i < G_N_ELEMENTS(people); i++)
		vial_identity_unref(people[i].identity);
	vial_keys_free(keys);
	vial_store_close(store);
	while (g_main_context_iteration(NULL, FALSE))
		; /* the store's completions */
	return 0;
}
