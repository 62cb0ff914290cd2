/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server object: listening, libmicrohttpd's callbacks, and the main-loop source that runs it.
 *
 * libmicrohttpd offers one epoll descriptor for all its sockets; we poll that one, together with our own for suspended
 * connections, and call MHD_run() when either is readable or libmicrohttpd's next timeout is due.
 */
#include "http/server.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "http/internal.h"
#include "http/listen.h"
#include "util/fd.h"
#include "util/id.h"
#include "util/log.h"

#define MAX_PEM_BYTES (256 * 1024)
#define TLS_PRIORITIES "NORMAL:-VERS-SSL3.0:-VERS-TLS1.0:-VERS-TLS1.1"

typedef struct {
	GSource source;
	VialServer *server;
	gpointer mhd_tag;
	gpointer watch_tag;
} ServerSource;

/* ---- the main-loop source ---- */

static int timeout_ms(VialServer *server)
{
	MHD_UNSIGNED_LONG_LONG ms;

	/* Without threads libmicrohttpd has no event descriptor for resumed connections: nobody but us knows of them. */
	if (server->must_run)
		return 0;
	if (MHD_get_timeout(server->daemon, &ms) != MHD_YES)
		return -1;
	return (int)MIN(ms, G_MAXINT);
}

static gboolean source_prepare(GSource *source, int *timeout)
{
	*timeout = timeout_ms(((ServerSource *)source)->server);
	return *timeout == 0;
}

static gboolean source_check(GSource *source)
{
	ServerSource *self = (ServerSource *)source;

	return g_source_query_unix_fd(source, self->mhd_tag) || g_source_query_unix_fd(source, self->watch_tag) || timeout_ms(self->server) == 0;
}

static gboolean source_dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
	ServerSource *self = (ServerSource *)source;

	if (g_source_query_unix_fd(source, self->watch_tag))
		vial_connections_check_peers(self->server);
	self->server->must_run = FALSE;
	MHD_run(self->server->daemon);
	return G_SOURCE_CONTINUE;
}

static GSourceFuncs source_functions = { .prepare = source_prepare, .check = source_check, .dispatch = source_dispatch };

static void attach_source(VialServer *server)
{
	int epoll_fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	ServerSource *source = (ServerSource *)g_source_new(&source_functions, sizeof(ServerSource));

	source->server = server;
	source->mhd_tag = g_source_add_unix_fd(&source->source, epoll_fd, G_IO_IN);
	source->watch_tag = g_source_add_unix_fd(&source->source, server->watch_fd, G_IO_IN);
	g_source_set_name(&source->source, "http");
	/* Else GLib takes its descriptors out of the poll for every dispatch, and each of the two changes wakes the loop for one turn more. Nothing
	 * that we dispatch runs the loop. */
	g_source_set_can_recurse(&source->source, TRUE);
	g_source_attach(&source->source, NULL);
	server->source = &source->source;
}

/* ---- deadlines ---- */

/* Once a second while there are connections: precise enough for timeouts of many seconds, and no timer per request. */
static gboolean check_deadlines(gpointer data)
{
	VialServer *server = data;
	gint64 now = g_get_monotonic_time();

	for (GList *l = server->connections.head; l; l = l->next) {
		VialConnection *connection = l->data;
		if (connection->deadline_us && connection->deadline_us <= now) {
			connection->deadline_us = 0;
			vial_connection_break(connection);
		}
	}
	vial_shed_make_room(server);
	if (server->connections.length > 0)
		return G_SOURCE_CONTINUE;
	server->tick_id = 0;
	return G_SOURCE_REMOVE;
}

/* ---- libmicrohttpd's callbacks ---- */

static void on_connection(void *data, struct MHD_Connection *mhd, void **context, enum MHD_ConnectionNotificationCode code)
{
	VialServer *server = data;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		g_clear_pointer(context, vial_connection_free);
		server->must_run = TRUE; /* at the connection limit, only the next run listens again */
		return;
	}
	VialConnection *connection = vial_connection_new(server, mhd);
	*context = connection;
	vial_connection_set_deadline(connection, server->config.header_timeout_ms);
	vial_shed_make_room(server);
	if (!server->tick_id)
		server->tick_id = g_timeout_add_seconds(1, check_deadlines, server);
}

/*
 * We decode paths and queries ourselves. libmicrohttpd would also parse the query, into the connection's memory, and when
 * that is full it ends in a state where it neither answers nor closes. So the query is cut off once we have our copy: the
 * text is in its read buffer, which it is about to write to itself.
 */
static void *on_request_line(void *data, const char *target, struct MHD_Connection *mhd)
{
	VialServer *server = data;
	VialRequest *request = vial_request_new(vial_connection_of(mhd), target ? target : "");
	char *query = target ? strchr(target, '?') : NULL;

	server->latest = request->connection;
	request->raw_target_end = target ? target + strlen(target) : NULL;
	if (query)
		query[1] = '\0';
	return request;
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *mhd, const char *url, const char *method, const char *version,
                                  const char *upload, size_t *upload_size, void **context)
{
	VialRequest *request = *context;

	if (!request || request->is_gone || request->stream.is_broken)
		return MHD_NO;
	if (request->stage == STAGE_LINE)
		return vial_dispatch_headers(request, method, version);
	if (request->stage == STAGE_AUTHENTICATING)
		return vial_dispatch_authenticated(request);
	if (*upload_size > 0)
		return vial_body_receive(request, upload, upload_size);
	if (request->stage == STAGE_HELD)
		return vial_dispatch_held(request);
	return vial_dispatch_complete(request);
}

static void on_completed(void *data, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code)
{
	VialRequest *request = *context;
	VialServer *server = data;

	if (!request)
		return;
	*context = NULL;
	/* Idle, then the headers of the next request: both end by then, however slowly they drip. */
	vial_connection_set_deadline(request->connection, server->config.idle_timeout_ms + server->config.header_timeout_ms);
	vial_shed_note_end(request->connection);
	vial_request_complete(request, code == MHD_REQUEST_TERMINATED_COMPLETED_OK && request->stage == STAGE_ANSWERING);
}

static size_t leave_escaped(void *data, struct MHD_Connection *mhd, char *text)
{
	return strlen(text);
}

/* What libmicrohttpd has to say concerns single clients' bad requests. */
static void log_message(void *data, const char *format, va_list args)
{
	vial_refuse_in_place(data);
	if (vial_log_level < VIAL_LOG_DEBUG)
		return;
	g_autofree char *text = g_strdup_vprintf(format, args);
	vial_log_debug("http", "libmicrohttpd", "text", g_strchomp(text));
}

/* ---- start and stop ---- */

static gboolean load_tls(VialServer *server, GError **error)
{
	const VialServerConfig *config = &server->config;

	if (!config->tls_cert_file && !config->tls_key_file)
		return TRUE;
	if (!config->tls_cert_file || !config->tls_key_file)
		return vial_fail(error, VIAL_ERROR_INVALID, "TLS needs both a certificate and a key");
	server->tls_cert = vial_file_read_at(AT_FDCWD, config->tls_cert_file, MAX_PEM_BYTES, NULL, error);
	server->tls_key = server->tls_cert ? vial_file_read_at(AT_FDCWD, config->tls_key_file, MAX_PEM_BYTES, NULL, error) : NULL;
	if (!server->tls_key)
		g_prefix_error(error, "TLS: ");
	return server->tls_key != NULL;
}

static gboolean start_daemon(VialServer *server, GError **error)
{
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE | MHD_USE_ERROR_LOG;
	struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, server->tls_cert },
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, server->tls_key },
		{ MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES },
		{ MHD_OPTION_END, 0, NULL },
	};

	if (server->tls_cert)
		flags |= MHD_USE_TLS;
	else
		tls[0].option = MHD_OPTION_END;
	/* The logger comes first: options before it would still print to standard error. */
	server->daemon =
		MHD_start_daemon(flags, 0, NULL, NULL, on_request, server, MHD_OPTION_EXTERNAL_LOGGER, log_message, server, MHD_OPTION_LISTEN_SOCKET,
	                         server->listen_fd, MHD_OPTION_CONNECTION_LIMIT, server->config.max_connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
	                         (size_t)VIAL_HTTP_CONNECTION_MEMORY_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
	                         (server->config.idle_timeout_ms + 999) / 1000, MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_URI_LOG_CALLBACK,
	                         on_request_line, server, MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_NOTIFY_COMPLETED,
	                         on_completed, server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
	if (!server->daemon)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "the HTTP server did not start%s",
		                 server->tls_cert ? "; are the TLS certificate and key valid and do they belong together?" : "");
	return TRUE;
}

static void set_defaults(VialServerConfig *config)
{
	if (!config->max_connections)
		config->max_connections = VIAL_HTTP_MAX_CONNECTIONS;
	if (!config->header_timeout_ms)
		config->header_timeout_ms = VIAL_HTTP_HEADER_TIMEOUT_MS;
	if (!config->idle_timeout_ms)
		config->idle_timeout_ms = VIAL_HTTP_IDLE_TIMEOUT_MS;
	if (!config->body_timeout_ms)
		config->body_timeout_ms = VIAL_HTTP_BODY_TIMEOUT_MS;
	if (!config->heartbeat_ms)
		config->heartbeat_ms = VIAL_HTTP_HEARTBEAT_MS;
	if (config->tls_cert_file && !config->tls_cert_file[0])
		config->tls_cert_file = NULL;
	if (config->tls_key_file && !config->tls_key_file[0])
		config->tls_key_file = NULL;
}

static void free_router(gpointer router)
{
	vial_router_free(router);
}

static void add_tables(VialServer *server, const VialRouteTable *const *tables)
{
	server->tables = tables;
	server->router = vial_router_new();
	server->claimed = g_ptr_array_new_with_free_func(free_router);
	for (; *tables; tables++) {
		VialRouter *router = (*tables)->claims ? vial_router_new() : server->router;

		vial_router_add(router, *tables);
		if ((*tables)->claims)
			g_ptr_array_add(server->claimed, router);
	}
}

VialServer *vial_server_new(const VialServerConfig *config, const VialRouteTable *const *tables, gpointer app, GError **error)
{
	VialServer *server = g_new0(VialServer, 1);
	char id[VIAL_ID_LENGTH + 1];

	server->config = *config;
	set_defaults(&server->config);
	if (config->host_route) {
		server->host_route = *config->host_route;
		server->config.host_route = &server->host_route;
	}
	server->allowed_origins = g_strdupv((char **)config->allowed_origins);
	server->host_names = vial_host_names(config->listen, config->preview_domain, config->host_names);
	server->shed = vial_shed_new();
	server->app = app;
	add_tables(server, tables);
	vial_id_fill(id);
	memcpy(server->request_id_prefix, id, sizeof(server->request_id_prefix) - 1);
	server->listen_fd = -1;
	server->watch_fd = epoll_create1(EPOLL_CLOEXEC);
	if (server->watch_fd < 0) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "epoll_create1: %s", g_strerror(errno));
	} else if (load_tls(server, error) &&
	           vial_listen(config->listen, config->allow_public, server->tls_cert != NULL, &server->listen_fd, &server->url, &server->unix_path,
	                       error) &&
	           start_daemon(server, error)) {
		/* What `config` pointed to may go away now. */
		server->config.listen = server->config.tls_cert_file = server->config.tls_key_file = NULL;
		server->config.allowed_origins = server->config.host_names = NULL;
		server->config.preview_domain = NULL;
		attach_source(server);
		return server;
	}
	vial_server_free(server);
	return NULL;
}

static void close_listener(VialServer *server)
{
	if (server->listen_fd >= 0 && server->unix_path)
		unlink(server->unix_path);
	vial_fd_clear(&server->listen_fd);
}

void vial_server_quiesce(VialServer *server)
{
	if (server->listen_fd < 0)
		return;
	MHD_quiesce_daemon(server->daemon);
	/* libmicrohttpd forgets the socket, but must take it out of its epoll set before we close it. */
	MHD_run(server->daemon);
	close_listener(server);
}

void vial_server_cut_ended(VialServer *server)
{
	vial_upgraded_cut_ended(server);
	for (GList *l = server->connections.head; l; l = l->next) {
		VialConnection *connection = l->data;
		const VialIdentity *identity = connection->request ? connection->request->identity : NULL;
		if (identity && identity->has_ended && !connection->upgraded)
			vial_connection_drop(connection);
	}
}

/* libmicrohttpd insists that nothing is suspended or upgraded when it stops. */
static void stop_daemon(VialServer *server)
{
	vial_server_quiesce(server);
	vial_upgraded_close_all(server);
	for (GList *l = server->connections.head; l; l = l->next)
		vial_connection_drop(l->data);
	/* Owners of upgraded sockets see the end and close in the main loop; a handful of turns is plenty. */
	for (int turn = 0; turn < 100 && server->connections.length > 0; turn++)
		g_main_context_iteration(NULL, FALSE);
	if (server->upgraded.length > 0) {
		vial_log_error("http", "an upgraded connection was not closed by its owner");
		return; /* stopping now would abort inside libmicrohttpd; the process is about to end anyway */
	}
	MHD_stop_daemon(server->daemon);
}

void vial_server_free(VialServer *server)
{
	if (!server)
		return;
	if (server->daemon)
		stop_daemon(server);
	if (server->source) {
		g_source_destroy(server->source);
		g_source_unref(server->source);
	}
	if (server->tick_id)
		g_source_remove(server->tick_id);
	close_listener(server);
	vial_fd_clear(&server->watch_fd);
	vial_router_free(server->router);
	g_clear_pointer(&server->claimed, g_ptr_array_unref);
	g_strfreev(server->allowed_origins);
	g_strfreev(server->host_names);
	vial_shed_free(server->shed);
	g_free(server->url);
	g_free(server->unix_path);
	g_free(server->tls_cert);
	if (server->tls_key)
		explicit_bzero(server->tls_key, strlen(server->tls_key));
	g_free(server->tls_key);
	g_free(server);
}

const char *vial_server_url(const VialServer *server)
{
	return server->url;
}

void vial_server_stats(const VialServer *server, VialServerStats *out)
{
	*out = server->stats;
}
