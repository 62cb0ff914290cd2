/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS messages, read and written without I/O. Both sides are strangers: the guest asks, the network answers. Any thread.
 */
#pragma once

#include <glib.h>

#include "net/address.h"
#include "net/name.h"

#define VIAL_DNS_MAX_MESSAGE 65535
#define VIAL_DNS_UDP_BYTES 1232 /* what we take over UDP; below every common MTU */
#define VIAL_DNS_PLAIN_BYTES 512
/* Records of one answer that are looked at, and steps of a CNAME chain. */
#define VIAL_DNS_MAX_RECORDS 128
#define VIAL_DNS_MAX_CHAIN 12

enum {
	VIAL_DNS_A = 1,
	VIAL_DNS_NS = 2,
	VIAL_DNS_CNAME = 5,
	VIAL_DNS_SOA = 6,
	VIAL_DNS_PTR = 12,
	VIAL_DNS_MX = 15,
	VIAL_DNS_TXT = 16,
	VIAL_DNS_AAAA = 28,
	VIAL_DNS_SRV = 33,
	VIAL_DNS_OPT = 41,
	VIAL_DNS_SVCB = 64,
	VIAL_DNS_HTTPS = 65,
	VIAL_DNS_CAA = 257,
};

enum {
	VIAL_DNS_NOERROR = 0,
	VIAL_DNS_FORMERR = 1,
	VIAL_DNS_SERVFAIL = 2,
	VIAL_DNS_NXDOMAIN = 3,
	VIAL_DNS_NOTIMP = 4,
	VIAL_DNS_REFUSED = 5,
};

typedef struct {
	guint16 id;
	guint16 flags;
	guint8 question[VIAL_NAME_MAX + 8]; /* as it came, case and all: it is sent back */
	gsize question_bytes;
	char name[VIAL_NAME_MAX + 1]; /* lower case, no trailing dot; "" for the root */
	guint16 type;
	guint16 dns_class;
	guint udp_bytes; /* the largest answer over UDP that the asker takes */
	gboolean has_edns;
} VialDnsQuery;

/* FALSE: not worth an answer. TRUE with *out_rcode FORMERR or NOTIMP: answer with that. */
gboolean vial_dns_read_query(const guint8 *bytes, gsize size, VialDnsQuery *out, int *out_rcode);
/* Our own question to a resolver, with EDNS. */
void vial_dns_write_query(GByteArray *out, guint16 id, const char *name, guint16 type);

typedef struct {
	guint16 type;
	guint32 ttl;
	GBytes *data; /* names in it written out in full */
} VialDnsRecord;

typedef struct {
	int rcode;
	gboolean is_truncated;
	GPtrArray *chain;   /* char *: the CNAMEs passed on the way, normalised */
	GPtrArray *records; /* VialDnsRecord of the type asked for, at the chain's end */
} VialDnsAnswer;

/* NULL unless it answers exactly this question. Freed with vial_dns_answer_free(). */
VialDnsAnswer *vial_dns_read_answer(const guint8 *bytes, gsize size, guint16 id, const char *name, guint16 type);
void vial_dns_answer_free(VialDnsAnswer *answer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialDnsAnswer, vial_dns_answer_free)

/*
 * The answer to the guest: its question, then `records` under the name it asked for (chains are flattened), with TTLs
 * within the given bounds. Cut to a truncated one when it exceeds max_bytes. `records` may be NULL. `extended_error` is an
 * RFC 8914 code, -1 for none.
 */
void vial_dns_write_answer(GByteArray *out, const VialDnsQuery *query, int rcode, const GPtrArray *records, guint32 ttl_min, guint32 ttl_max,
                           gsize max_bytes, int extended_error);
