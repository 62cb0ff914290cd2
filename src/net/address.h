/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IP addresses and ranges of both families, and the ranges that are shut by nature. IPv4 addresses wrapped in IPv6
 * (::ffff:a.b.c.d) are unwrapped on the way in, so that one cannot be had by naming the other. Any thread.
 */
#pragma once

#include <glib.h>
#include <sys/socket.h>

#define VIAL_ADDRESS_TEXT_SIZE 46

typedef struct {
	guint8 family;    /* AF_INET or AF_INET6; 0: none */
	guint8 bytes[16]; /* network order; the first 4 for AF_INET */
} VialAddress;

typedef struct {
	VialAddress address; /* host bits cleared */
	guint8 prefix;
} VialRange;

/* Strict: four decimal numbers without leading zeros, or RFC 4291 text without a zone. */
gboolean vial_address_parse(const char *text, VialAddress *out);
void vial_address_format(const VialAddress *address, char out[VIAL_ADDRESS_TEXT_SIZE]);
gboolean vial_address_equal(const VialAddress *a, const VialAddress *b);
void vial_address_from_sockaddr(const struct sockaddr *sockaddr, VialAddress *out, guint16 *out_port);
socklen_t vial_address_to_sockaddr(const VialAddress *address, guint16 port, struct sockaddr_storage *out);
void vial_address_from_bytes(int family, const void *bytes, VialAddress *out);

/* "10.0.0.0/8", "2001:db8::/32", or a lone address. Host bits must be zero: "10.0.0.1/8" is a mistake worth naming. */
gboolean vial_range_parse(const char *text, VialRange *out, const char **out_problem);
gboolean vial_range_contains(const VialRange *range, const VialAddress *address);
/* Is `inner` wholly in `outer`? */
gboolean vial_range_within(const VialRange *inner, const VialRange *outer);

typedef enum {
	VIAL_SCOPE_PUBLIC,
	VIAL_SCOPE_CLOSED, /* private, CGNAT, ULA, documentation, reserved: open only to a rule that names the range */
	VIAL_SCOPE_SEALED, /* loopback, link-local, metadata, multicast, other sandboxes: never */
} VialScope;

typedef struct {
	VialScope scope;
	const char *text;  /* "10.0.0.0/8" */
	const char *label; /* "closed:10.0.0.0/8 (private)" */
} VialScopeRange;

/* All of them, ended by a NULL text: what rules.c prints. */
const VialScopeRange *vial_scope_ranges(void);
/* *out_label, when not NULL, is static and NULL for public. */
VialScope vial_address_scope(const VialAddress *address, const char **out_label);
/* The scope a whole range lies in; public when it is wider than every special one. */
VialScope vial_range_scope(const VialRange *range, const char **out_label);
