/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a request is meant for us. A page that had its own name resolve to our address (DNS rebinding) is of the same
 * origin as we are, as far as its browser can tell; only the name in Host gives it away. So Host must be a name of ours: a
 * loopback name, the address that was connected to, the host of `listen`, one of host_names, or a preview's
 * {port}-{id}.{preview domain}. Ports are not compared: tunnels and port mappings change them. No browser reaches a unix
 * socket, so there any name will do.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "http/internal.h"

/* "Example.com:7070" → "example.com", "[::1]:7070" → "::1", in the arena; "" for what is neither. */
static const char *bare_name(VialArena *arena, const char *host)
{
	gboolean is_bracketed = host[0] == '[';
	gsize length = strcspn(host + is_bracketed, is_bracketed ? "]" : ":");
	const char *port = host + is_bracketed + length;

	if (is_bracketed && *port++ != ']')
		return "";
	if (*port && (*port != ':' || strspn(port + 1, "0123456789") != strlen(port + 1)))
		return "";
	host += is_bracketed;
	char *name = vial_arena_copy(arena, host, length);
	for (char *c = name; *c; c++)
		*c = g_ascii_tolower(*c);
	if (length > 1 && name[length - 1] == '.') /* the root's dot */
		name[length - 1] = '\0';
	return name;
}

typedef struct {
	gboolean is_valid;
	struct in6_addr bytes; /* IPv4 as v4-mapped */
} Address;

static Address map_ipv4(const struct in_addr *ipv4)
{
	Address address = { .is_valid = TRUE };

	address.bytes.s6_addr[10] = address.bytes.s6_addr[11] = 0xff;
	memcpy(address.bytes.s6_addr + 12, ipv4, sizeof(*ipv4));
	return address;
}

static Address parse_address(const char *name)
{
	Address address = { 0 };
	struct in_addr ipv4;

	if (inet_pton(AF_INET, name, &ipv4) == 1)
		return map_ipv4(&ipv4);
	address.is_valid = inet_pton(AF_INET6, name, &address.bytes) == 1;
	return address;
}

static gboolean is_loopback(const Address *address)
{
	return IN6_IS_ADDR_LOOPBACK(&address->bytes) || (IN6_IS_ADDR_V4MAPPED(&address->bytes) && address->bytes.s6_addr[12] == 127);
}

static Address local_address(int fd)
{
	struct sockaddr_storage name;
	socklen_t size = sizeof(name);
	Address address = { 0 };

	if (getsockname(fd, (struct sockaddr *)&name, &size) < 0)
		return address;
	if (name.ss_family == AF_INET)
		return map_ipv4(&((struct sockaddr_in *)&name)->sin_addr);
	if (name.ss_family == AF_INET6) {
		address.is_valid = TRUE;
		address.bytes = ((struct sockaddr_in6 *)&name)->sin6_addr;
	}
	return address;
}

static gboolean is_our_address(const VialRequest *request, const Address *address)
{
	Address local = local_address(request->connection->fd);

	return is_loopback(address) || (local.is_valid && memcmp(&local.bytes, &address->bytes, sizeof(local.bytes)) == 0);
}

/* "localhost", and "anything.localhost", which browsers resolve to this machine by themselves. */
static gboolean is_localhost(const char *name)
{
	return strcmp(name, "localhost") == 0 || g_str_has_suffix(name, ".localhost");
}

/* An entry is a name, "*.domain" for all names below it, or "*". */
static gboolean matches(const char *entry, const char *name)
{
	if (strcmp(entry, "*") == 0)
		return TRUE;
	if (!g_str_has_prefix(entry, "*."))
		return g_ascii_strcasecmp(entry, name) == 0;
	gsize length = strlen(name), suffix = strlen(entry + 1);
	return length > suffix && g_ascii_strcasecmp(name + length - suffix, entry + 1) == 0;
}

static gboolean is_configured(const VialServer *server, const char *name)
{
	for (char **entry = server->host_names; *entry; entry++)
		if (matches(*entry, name))
			return TRUE;
	return FALSE;
}

gboolean vial_host_check(VialRequest *request, GError **error)
{
	if (!request->host || request->server->unix_path)
		return TRUE;
	const char *name = bare_name(&request->arena, request->host);
	Address address = parse_address(name);
	if (address.is_valid ? is_our_address(request, &address) : is_localhost(name))
		return TRUE;
	if (is_configured(request->server, name))
		return TRUE;
	return vial_fail(error, VIAL_ERROR_FORBIDDEN, "viald does not go by the name of this Host header; add it to host_names if it should");
}

/* The host part of `listen` is meant to be asked for, unless it is an address, which is_our_address() knows better. */
char **vial_host_names(const char *listen, const char *preview_domain, const char *const *configured)
{
	g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
	VialArena arena;

	vial_arena_init(&arena);
	if (!g_str_has_prefix(listen, "unix:"))
		g_strv_builder_add(builder, bare_name(&arena, listen));
	if (preview_domain && *preview_domain) {
		const char *domain = bare_name(&arena, preview_domain);
		g_autofree char *below = g_strconcat("*.", domain, NULL);
		g_strv_builder_add(builder, domain);
		g_strv_builder_add(builder, below);
	}
	if (configured)
		g_strv_builder_addv(builder, (const char **)configured);
	vial_arena_clear(&arena);
	return g_strv_builder_end(builder);
}
