/* SPDX-License-Identifier: Apache-2.0 */
#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

/*
 * The order matters: the first range that contains an address labels it, and sealed ranges lie inside closed ones. The
 * list follows the IANA special-purpose registries; the metadata addresses are those of the large clouds, of which some
 * look public (Azure) or private (Alibaba).
 */
static const VialScopeRange scope_ranges[] = {
	{ VIAL_SCOPE_SEALED, "0.0.0.0/8", "sealed:0.0.0.0/8 (this host)" },
	{ VIAL_SCOPE_SEALED, "127.0.0.0/8", "sealed:127.0.0.0/8 (loopback)" },
	{ VIAL_SCOPE_SEALED, "169.254.0.0/16", "sealed:169.254.0.0/16 (link-local, metadata)" },
	{ VIAL_SCOPE_SEALED, "224.0.0.0/4", "sealed:224.0.0.0/4 (multicast)" },
	{ VIAL_SCOPE_SEALED, "255.255.255.255/32", "sealed:255.255.255.255/32 (broadcast)" },
	{ VIAL_SCOPE_SEALED, "100.100.100.200/32", "sealed:100.100.100.200/32 (metadata)" },
	{ VIAL_SCOPE_SEALED, "168.63.129.16/32", "sealed:168.63.129.16/32 (metadata)" },
	{ VIAL_SCOPE_SEALED, "192.0.0.192/32", "sealed:192.0.0.192/32 (metadata)" },
	{ VIAL_SCOPE_SEALED, "192.0.0.0/29", "sealed:192.0.0.0/29 (the sandbox's own link)" },
	{ VIAL_SCOPE_SEALED, "198.19.0.0/16", "sealed:198.19.0.0/16 (other sandboxes)" },
	{ VIAL_SCOPE_SEALED, "::/128", "sealed:::/128 (unspecified)" },
	{ VIAL_SCOPE_SEALED, "::1/128", "sealed:::1/128 (loopback)" },
	{ VIAL_SCOPE_SEALED, "fe80::/10", "sealed:fe80::/10 (link-local)" },
	{ VIAL_SCOPE_SEALED, "ff00::/8", "sealed:ff00::/8 (multicast)" },
	{ VIAL_SCOPE_SEALED, "fd00:ec2::254/128", "sealed:fd00:ec2::254/128 (metadata)" },
	{ VIAL_SCOPE_SEALED, "fd20:ce::254/128", "sealed:fd20:ce::254/128 (metadata)" },
	{ VIAL_SCOPE_SEALED, "fd76:6961:6c00::/47", "sealed:fd76:6961:6c00::/47 (sandboxes)" },
	{ VIAL_SCOPE_CLOSED, "10.0.0.0/8", "closed:10.0.0.0/8 (private)" },
	{ VIAL_SCOPE_CLOSED, "172.16.0.0/12", "closed:172.16.0.0/12 (private)" },
	{ VIAL_SCOPE_CLOSED, "192.168.0.0/16", "closed:192.168.0.0/16 (private)" },
	{ VIAL_SCOPE_CLOSED, "100.64.0.0/10", "closed:100.64.0.0/10 (carrier NAT)" },
	{ VIAL_SCOPE_CLOSED, "192.0.0.0/24", "closed:192.0.0.0/24 (protocol assignments)" },
	{ VIAL_SCOPE_CLOSED, "192.0.2.0/24", "closed:192.0.2.0/24 (documentation)" },
	{ VIAL_SCOPE_CLOSED, "198.51.100.0/24", "closed:198.51.100.0/24 (documentation)" },
	{ VIAL_SCOPE_CLOSED, "203.0.113.0/24", "closed:203.0.113.0/24 (documentation)" },
	{ VIAL_SCOPE_CLOSED, "198.18.0.0/15", "closed:198.18.0.0/15 (benchmarks)" },
	{ VIAL_SCOPE_CLOSED, "192.88.99.0/24", "closed:192.88.99.0/24 (6to4 relays)" },
	{ VIAL_SCOPE_CLOSED, "240.0.0.0/4", "closed:240.0.0.0/4 (reserved)" },
	{ VIAL_SCOPE_CLOSED, "fc00::/7", "closed:fc00::/7 (unique local)" },
	{ VIAL_SCOPE_CLOSED, "fec0::/10", "closed:fec0::/10 (site-local)" },
	/* IPv6 forms that a translator or a tunnel on the way turns into any IPv4 address, private ones included. */
	{ VIAL_SCOPE_CLOSED, "::/96", "closed:::/96 (IPv4-compatible)" },
	{ VIAL_SCOPE_CLOSED, "::ffff:0:0/96", "closed:::ffff:0:0/96 (IPv4-mapped)" },
	{ VIAL_SCOPE_CLOSED, "::ffff:0:0:0/96", "closed:::ffff:0:0:0/96 (IPv4-translated)" },
	{ VIAL_SCOPE_CLOSED, "64:ff9b::/96", "closed:64:ff9b::/96 (NAT64)" },
	{ VIAL_SCOPE_CLOSED, "64:ff9b:1::/48", "closed:64:ff9b:1::/48 (local NAT64)" },
	{ VIAL_SCOPE_CLOSED, "2002::/16", "closed:2002::/16 (6to4)" },
	{ VIAL_SCOPE_CLOSED, "2001::/32", "closed:2001::/32 (Teredo)" },
	{ VIAL_SCOPE_CLOSED, "100::/64", "closed:100::/64 (discard)" },
	{ VIAL_SCOPE_CLOSED, "2001:db8::/32", "closed:2001:db8::/32 (documentation)" },
	{ VIAL_SCOPE_CLOSED, "3fff::/20", "closed:3fff::/20 (documentation)" },
	{ VIAL_SCOPE_PUBLIC, NULL, NULL },
};

static VialRange parsed_ranges[G_N_ELEMENTS(scope_ranges)];

/* Only for AF_INET6: the text form "::ffff:0:0/96" must not be unwrapped when it is a range of its own. */
static gboolean parse_raw(const char *text, VialAddress *out)
{
	VialAddress parsed = { 0 };

	if (strchr(text, ':'))
		parsed.family = AF_INET6;
	else
		parsed.family = AF_INET;
	if (inet_pton(parsed.family, text, parsed.bytes) != 1)
		return FALSE;
	*out = parsed;
	return TRUE;
}

static gboolean is_mapped(const VialAddress *address)
{
	static const guint8 prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	return address->family == AF_INET6 && memcmp(address->bytes, prefix, sizeof(prefix)) == 0;
}

static void unwrap(VialAddress *address)
{
	if (!is_mapped(address))
		return;
	address->family = AF_INET;
	memmove(address->bytes, address->bytes + 12, 4);
	memset(address->bytes + 4, 0, 12);
}

gboolean vial_address_parse(const char *text, VialAddress *out)
{
	VialAddress parsed;

	if (!parse_raw(text, &parsed))
		return FALSE;
	unwrap(&parsed);
	*out = parsed;
	return TRUE;
}

void vial_address_format(const VialAddress *address, char out[VIAL_ADDRESS_TEXT_SIZE])
{
	if (!address->family || !inet_ntop(address->family, address->bytes, out, VIAL_ADDRESS_TEXT_SIZE))
		g_strlcpy(out, "-", VIAL_ADDRESS_TEXT_SIZE);
}

gboolean vial_address_equal(const VialAddress *a, const VialAddress *b)
{
	return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

void vial_address_from_bytes(int family, const void *bytes, VialAddress *out)
{
	VialAddress address = { .family = (guint8)family };

	memcpy(address.bytes, bytes, family == AF_INET ? 4 : 16);
	unwrap(&address);
	*out = address;
}

void vial_address_from_sockaddr(const struct sockaddr *sockaddr, VialAddress *out, guint16 *out_port)
{
	if (sockaddr->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)sockaddr;

		vial_address_from_bytes(AF_INET, &in->sin_addr, out);
		*out_port = ntohs(in->sin_port);
	} else {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sockaddr;

		vial_address_from_bytes(AF_INET6, &in6->sin6_addr, out);
		*out_port = ntohs(in6->sin6_port);
	}
}

socklen_t vial_address_to_sockaddr(const VialAddress *address, guint16 port, struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	if (address->family == AF_INET) {
		struct sockaddr_in *in = (struct sockaddr_in *)out;

		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, address->bytes, 4);
		return sizeof(*in);
	}

	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;

	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	memcpy(&in6->sin6_addr, address->bytes, 16);
	return sizeof(*in6);
}

static gboolean bits_equal(const guint8 *a, const guint8 *b, guint bits)
{
	guint whole = bits / 8;
	guint rest = bits % 8;

	if (memcmp(a, b, whole) != 0)
		return FALSE;
	return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

static gboolean host_bits_are_zero(const VialRange *range)
{
	guint bits = range->address.family == AF_INET ? 32 : 128;

	for (guint i = range->prefix; i < bits; i++)
		if (range->address.bytes[i / 8] & (0x80 >> (i % 8)))
			return FALSE;
	return TRUE;
}

static gboolean range_parse_raw(const char *text, VialRange *out, const char **out_problem)
{
	const char *slash = strchr(text, '/');
	g_autofree char *address = slash ? g_strndup(text, (gsize)(slash - text)) : g_strdup(text);
	VialRange range;
	guint64 prefix;

	*out_problem = "is not an IP address";
	if (!parse_raw(address, &range.address))
		return FALSE;

	guint bits = range.address.family == AF_INET ? 32 : 128;

	prefix = bits;
	if (slash) {
		*out_problem = "has a bad prefix length";
		if (!g_ascii_isdigit(slash[1]) || (slash[1] == '0' && slash[2]) || !g_ascii_string_to_unsigned(slash + 1, 10, 0, bits, &prefix, NULL))
			return FALSE;
	}
	range.prefix = (guint8)prefix;
	*out_problem = "has bits set to the right of its prefix";
	if (!host_bits_are_zero(&range))
		return FALSE;
	*out = range;
	return TRUE;
}

gboolean vial_range_parse(const char *text, VialRange *out, const char **out_problem)
{
	VialRange range;

	if (!range_parse_raw(text, &range, out_problem))
		return FALSE;
	if (is_mapped(&range.address) && range.prefix >= 96) {
		unwrap(&range.address);
		range.prefix = (guint8)(range.prefix - 96);
	}
	*out = range;
	return TRUE;
}

gboolean vial_range_contains(const VialRange *range, const VialAddress *address)
{
	return range->address.family == address->family && bits_equal(range->address.bytes, address->bytes, range->prefix);
}

gboolean vial_range_within(const VialRange *inner, const VialRange *outer)
{
	return inner->prefix >= outer->prefix && vial_range_contains(outer, &inner->address);
}

const VialScopeRange *vial_scope_ranges(void)
{
	return scope_ranges;
}

static void parse_scope_ranges(void)
{
	static gsize done = 0;

	if (!g_once_init_enter(&done))
		return;
	for (gsize i = 0; scope_ranges[i].text; i++) {
		const char *problem;
		gboolean is_range = range_parse_raw(scope_ranges[i].text, &parsed_ranges[i], &problem);

		g_assert(is_range);
	}
	g_once_init_leave(&done, 1);
}

VialScope vial_range_scope(const VialRange *range, const char **out_label)
{
	parse_scope_ranges();
	for (gsize i = 0; scope_ranges[i].text; i++) {
		if (!vial_range_within(range, &parsed_ranges[i]))
			continue;
		if (out_label)
			*out_label = scope_ranges[i].label;
		return scope_ranges[i].scope;
	}
	if (out_label)
		*out_label = NULL;
	return VIAL_SCOPE_PUBLIC;
}

VialScope vial_address_scope(const VialAddress *address, const char **out_label)
{
	VialRange range = { .address = *address, .prefix = address->family == AF_INET ? 32 : 128 };

	return vial_range_scope(&range, out_label);
}
