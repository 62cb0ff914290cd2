/* SPDX-License-Identifier: Apache-2.0 */
#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "http/server.h"
#include "util/error.h"
#include "util/fd.h"

/* "host:port" or "[v6]:port". */
static gboolean resolve(const char *address, struct addrinfo **out, GError **error)
{
	struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
	const char *colon = strrchr(address, ':');
	guint64 port;

	if (!colon || !g_ascii_string_to_unsigned(colon + 1, 10, 0, 65535, &port, NULL) || (strchr(address, ':') != colon && address[0] != '['))
		return vial_fail(error, VIAL_ERROR_INVALID, "the listen address \"%s\" is not of the form host:port, [ipv6]:port or unix:/path",
		                 address);
	g_autofree char *host = g_strndup(address, (gsize)(colon - address));
	gsize length = strlen(host);
	if (host[0] == '[' && host[length - 1] == ']') {
		host[length - 1] = '\0';
		memmove(host, host + 1, length - 1);
	}
	int status = getaddrinfo(host[0] ? host : NULL, colon + 1, &hints, out);
	if (status != 0)
		return vial_fail(error, VIAL_ERROR_INVALID, "the listen address \"%s\" cannot be resolved: %s", address, gai_strerror(status));
	return TRUE;
}

static gboolean listen_unix(const char *path, int *out_fd, char **out_url, char **out_path, GError **error)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	vial_autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat status;

	if (strlen(path) >= sizeof(name.sun_path))
		return vial_fail(error, VIAL_ERROR_INVALID, "the socket path %s is too long", path);
	strcpy(name.sun_path, path);
	/* Left by a daemon that was killed; the data directory's lock makes sure that it is not of a living one. */
	if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode))
		unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof(name)) < 0 || listen(fd, VIAL_HTTP_BACKLOG) < 0)
		return vial_fail(error, VIAL_ERROR_UNAVAILABLE, "cannot listen on %s: %s", path, g_strerror(errno));
	*out_fd = vial_fd_steal(&fd);
	*out_path = g_strdup(path);
	*out_url = g_strdup_printf("unix:%s", path);
	return TRUE;
}

static char *describe(int fd, gboolean is_tls)
{
	struct sockaddr_storage name;
	socklen_t size = sizeof(name);
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getsockname(fd, (struct sockaddr *)&name, &size) < 0 ||
	    getnameinfo((struct sockaddr *)&name, size, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return g_strdup("");
	return g_strdup_printf(name.ss_family == AF_INET6 ? "%s://[%s]:%s" : "%s://%s:%s", is_tls ? "https" : "http", host, port);
}

static gboolean is_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
	if (address->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
	return FALSE;
}

/* Every address the name stands for must be fit: which of them we get is the resolver's choice. */
static gboolean check_public(const char *address, const struct addrinfo *list, gboolean is_tls, GError **error)
{
	for (const struct addrinfo *entry = list; entry; entry = entry->ai_next)
		if (!is_loopback(entry->ai_addr))
			return vial_fail(error, VIAL_ERROR_INVALID, "%s can be reached from other machines: if that is meant, set allow_public%s",
			                 address, is_tls ? "" : ", and better tls_cert and tls_key too, for keys travel with every request");
	return TRUE;
}

gboolean vial_listen(const char *address, gboolean is_public_allowed, gboolean is_tls, int *out_fd, char **out_url, char **out_unix_path,
                     GError **error)
{
	struct addrinfo *list = NULL;
	int saved = EADDRNOTAVAIL;

	if (g_str_has_prefix(address, "unix:"))
		return listen_unix(address + strlen("unix:"), out_fd, out_url, out_unix_path, error);
	if (!resolve(address, &list, error))
		return FALSE;
	if (!is_public_allowed && !check_public(address, list, is_tls, error)) {
		freeaddrinfo(list);
		return FALSE;
	}
	for (struct addrinfo *entry = list; entry; entry = entry->ai_next) {
		vial_autofd int fd = socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
		if (bind(fd, entry->ai_addr, entry->ai_addrlen) == 0 && listen(fd, VIAL_HTTP_BACKLOG) == 0) {
			*out_url = describe(fd, is_tls);
			*out_fd = vial_fd_steal(&fd);
			*out_unix_path = NULL;
			freeaddrinfo(list);
			return TRUE;
		}
		saved = errno;
	}
	freeaddrinfo(list);
	if (saved == EADDRINUSE)
		return vial_fail(error, VIAL_ERROR_UNAVAILABLE,
		                 "%s is in use by another program: stop that one, or choose another address with --listen", address);
	return vial_fail(error, VIAL_ERROR_UNAVAILABLE, "cannot listen on %s: %s", address, g_strerror(saved));
}
