/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dns.h"

#include <string.h>

#define HEADER_BYTES 12
#define FLAG_ANSWER 0x8000
#define FLAG_OPCODE 0x7800
#define FLAG_TRUNCATED 0x0200
#define FLAG_RECURSION 0x0100
#define FLAG_RECURSION_AVAILABLE 0x0080
#define CLASS_INTERNET 1
#define MAX_JUMPS 16

static guint16 get16(const guint8 *at)
{
	return (guint16)(at[0] << 8 | at[1]);
}

static guint32 get32(const guint8 *at)
{
	return (guint32)get16(at) << 16 | get16(at + 2);
}

static void put16(GByteArray *out, guint value)
{
	guint8 bytes[2] = { (guint8)(value >> 8), (guint8)value };

	g_byte_array_append(out, bytes, 2);
}

static void put32(GByteArray *out, guint32 value)
{
	put16(out, value >> 16);
	put16(out, value & 0xffff);
}

/*
 * Reads a name at *at, following compression pointers backwards only (so it ends). `text` gets it lower-cased with dots;
 * bytes that no host name has make it fail, so what is compared and logged is plain ASCII.
 */
static gboolean read_name(const guint8 *bytes, gsize size, gsize *at, gboolean may_jump, char text[VIAL_NAME_MAX + 1])
{
	gsize position = *at;
	gsize lowest = position;
	gsize length = 0;
	gboolean has_jumped = FALSE;

	for (guint jumps = 0; jumps <= MAX_JUMPS;) {
		if (position >= size)
			return FALSE;

		guint8 label = bytes[position];

		if (label == 0) {
			if (!has_jumped)
				*at = position + 1;
			text[length] = 0;
			return TRUE;
		}
		if ((label & 0xc0) == 0xc0) {
			gsize target;

			if (!may_jump || position + 1 >= size)
				return FALSE;
			target = (gsize)(label & 0x3f) << 8 | bytes[position + 1];
			if (target >= lowest)
				return FALSE;
			if (!has_jumped)
				*at = position + 2;
			has_jumped = TRUE;
			position = lowest = target;
			jumps++;
			continue;
		}
		if (label > VIAL_NAME_LABEL_MAX || position + 1 + label > size || length + (length > 0) + label > VIAL_NAME_MAX)
			return FALSE;
		if (length)
			text[length++] = '.';
		for (guint i = 0; i < label; i++) {
			guint8 c = bytes[position + 1 + i];

			if (!g_ascii_isalnum(c) && c != '-' && c != '_' && c != '*')
				return FALSE;
			text[length++] = g_ascii_tolower((char)c);
		}
		position += 1 + (gsize)label;
	}
	return FALSE;
}

static void put_name(GByteArray *out, const char *name)
{
	guint8 zero = 0;

	while (*name) {
		gsize length = strcspn(name, ".");
		guint8 prefix = (guint8)length;

		g_byte_array_append(out, &prefix, 1);
		g_byte_array_append(out, (const guint8 *)name, (guint)length);
		name += length + (name[length] == '.');
	}
	g_byte_array_append(out, &zero, 1);
}

/* ---- the guest's question ---- */

static void read_edns(const guint8 *bytes, gsize size, gsize at, guint additional, VialDnsQuery *query)
{
	/* Only an OPT record directly after the question, where every client puts it. */
	if (additional == 0 || at + 11 > size || bytes[at] != 0 || get16(bytes + at + 1) != VIAL_DNS_OPT)
		return;
	query->has_edns = TRUE;
	query->udp_bytes = CLAMP(get16(bytes + at + 3), VIAL_DNS_PLAIN_BYTES, VIAL_DNS_UDP_BYTES);
}

gboolean vial_dns_read_query(const guint8 *bytes, gsize size, VialDnsQuery *out, int *out_rcode)
{
	gsize at = HEADER_BYTES;

	memset(out, 0, sizeof(*out));
	if (size < HEADER_BYTES || get16(bytes + 2) & FLAG_ANSWER)
		return FALSE;
	out->id = get16(bytes);
	out->flags = get16(bytes + 2);
	out->udp_bytes = VIAL_DNS_PLAIN_BYTES;
	*out_rcode = VIAL_DNS_NOTIMP;
	if (out->flags & FLAG_OPCODE)
		return TRUE;
	*out_rcode = VIAL_DNS_FORMERR;
	if (get16(bytes + 4) != 1 || get16(bytes + 6) != 0 || get16(bytes + 8) != 0)
		return TRUE;
	if (!read_name(bytes, size, &at, FALSE, out->name) || at + 4 > size)
		return TRUE;
	out->type = get16(bytes + at);
	out->dns_class = get16(bytes + at + 2);
	at += 4;
	out->question_bytes = at - HEADER_BYTES;
	memcpy(out->question, bytes + HEADER_BYTES, out->question_bytes);
	read_edns(bytes, size, at, get16(bytes + 10), out);
	*out_rcode = out->dns_class == CLASS_INTERNET ? VIAL_DNS_NOERROR : VIAL_DNS_REFUSED;
	return TRUE;
}

/* ---- our question ---- */

void vial_dns_write_query(GByteArray *out, guint16 id, const char *name, guint16 type)
{
	static const guint8 opt[] = { 0, 0, VIAL_DNS_OPT, VIAL_DNS_UDP_BYTES >> 8, VIAL_DNS_UDP_BYTES & 255, 0, 0, 0, 0, 0, 0 };

	put16(out, id);
	put16(out, FLAG_RECURSION);
	put16(out, 1);
	put16(out, 0);
	put16(out, 0);
	put16(out, 1);
	put_name(out, name);
	put16(out, type);
	put16(out, CLASS_INTERNET);
	g_byte_array_append(out, opt, sizeof(opt));
}

/* ---- the network's answer ---- */

static void record_free(gpointer data)
{
	VialDnsRecord *record = data;

	g_bytes_unref(record->data);
	g_free(record);
}

void vial_dns_answer_free(VialDnsAnswer *answer)
{
	if (!answer)
		return;
	g_ptr_array_unref(answer->chain);
	g_ptr_array_unref(answer->records);
	g_free(answer);
}

typedef struct {
	char name[VIAL_NAME_MAX + 1];
	guint16 type;
	guint32 ttl;
	gsize data_at;
	guint16 data_bytes;
} RawRecord;

static gboolean read_record(const guint8 *bytes, gsize size, gsize *at, RawRecord *out)
{
	if (!read_name(bytes, size, at, TRUE, out->name) || *at + 10 > size)
		return FALSE;
	out->type = get16(bytes + *at);
	if (get16(bytes + *at + 2) != CLASS_INTERNET)
		out->type = 0;
	out->ttl = get32(bytes + *at + 4);
	out->data_bytes = get16(bytes + *at + 8);
	out->data_at = *at + 10;
	*at = out->data_at + out->data_bytes;
	return *at <= size;
}

/* A domain name inside the data, written out in full after `lead` bytes that are copied. */
static GBytes *expand(const guint8 *bytes, gsize size, const RawRecord *record, gsize lead, guint names, gsize tail)
{
	g_autoptr(GByteArray) out = g_byte_array_new();
	gsize at = record->data_at + lead;
	gsize end = record->data_at + record->data_bytes;

	if (record->data_bytes < lead)
		return NULL;
	g_byte_array_append(out, bytes + record->data_at, (guint)lead);
	for (guint i = 0; i < names; i++) {
		char text[VIAL_NAME_MAX + 1];

		if (!read_name(bytes, size, &at, TRUE, text))
			return NULL;
		put_name(out, text);
	}
	if (at + tail != end)
		return NULL;
	g_byte_array_append(out, bytes + at, (guint)tail);
	return g_byte_array_free_to_bytes(g_steal_pointer(&out));
}

static GBytes *read_data(const guint8 *bytes, gsize size, const RawRecord *record)
{
	switch (record->type) {
	case VIAL_DNS_A:
		return record->data_bytes == 4 ? g_bytes_new(bytes + record->data_at, 4) : NULL;
	case VIAL_DNS_AAAA:
		return record->data_bytes == 16 ? g_bytes_new(bytes + record->data_at, 16) : NULL;
	case VIAL_DNS_CNAME:
	case VIAL_DNS_NS:
	case VIAL_DNS_PTR:
		return expand(bytes, size, record, 0, 1, 0);
	case VIAL_DNS_MX:
		return expand(bytes, size, record, 2, 1, 0);
	case VIAL_DNS_SRV:
		return expand(bytes, size, record, 6, 1, 0);
	case VIAL_DNS_SOA:
		return expand(bytes, size, record, 0, 2, 20);
	case VIAL_DNS_TXT:
	case VIAL_DNS_CAA:
		return g_bytes_new(bytes + record->data_at, record->data_bytes);
	default:
		return NULL;
	}
}

static void collect(const guint8 *bytes, gsize size, const RawRecord *raw, guint count, const char *name, guint16 type, VialDnsAnswer *answer)
{
	for (guint i = 0; i < count; i++) {
		VialDnsRecord *record;
		GBytes *data;

		if (raw[i].type != type || strcmp(raw[i].name, name) != 0)
			continue;
		data = read_data(bytes, size, &raw[i]);
		if (!data)
			continue;
		record = g_new0(VialDnsRecord, 1);
		*record = (VialDnsRecord){ .type = type, .ttl = raw[i].ttl, .data = data };
		g_ptr_array_add(answer->records, record);
	}
}

static const RawRecord *find_cname(const RawRecord *raw, guint count, const char *name)
{
	for (guint i = 0; i < count; i++)
		if (raw[i].type == VIAL_DNS_CNAME && strcmp(raw[i].name, name) == 0)
			return &raw[i];
	return NULL;
}

static void follow(const guint8 *bytes, gsize size, const RawRecord *raw, guint count, const char *name, guint16 type, VialDnsAnswer *answer)
{
	char current[VIAL_NAME_MAX + 1];
	const RawRecord *alias;

	g_strlcpy(current, name, sizeof(current));
	for (guint i = 0; i < VIAL_DNS_MAX_CHAIN && type != VIAL_DNS_CNAME && (alias = find_cname(raw, count, current)); i++) {
		gsize at = alias->data_at;

		if (!read_name(bytes, size, &at, TRUE, current))
			return;
		g_ptr_array_add(answer->chain, g_strdup(current));
	}
	collect(bytes, size, raw, count, current, type, answer);
}

VialDnsAnswer *vial_dns_read_answer(const guint8 *bytes, gsize size, guint16 id, const char *name, guint16 type)
{
	g_autofree RawRecord *raw = NULL;
	g_autoptr(VialDnsAnswer) answer = NULL;
	char question[VIAL_NAME_MAX + 1];
	gsize at = HEADER_BYTES;
	guint count = 0;

	if (size < HEADER_BYTES || get16(bytes) != id || !(get16(bytes + 2) & FLAG_ANSWER) || get16(bytes + 4) != 1 ||
	    !read_name(bytes, size, &at, FALSE, question) || at + 4 > size || strcmp(question, name) != 0 || get16(bytes + at) != type)
		return NULL;
	at += 4;
	answer = g_new0(VialDnsAnswer, 1);
	answer->chain = g_ptr_array_new_with_free_func(g_free);
	answer->records = g_ptr_array_new_with_free_func(record_free);
	answer->rcode = get16(bytes + 2) & 15;
	answer->is_truncated = (get16(bytes + 2) & FLAG_TRUNCATED) != 0;
	raw = g_new(RawRecord, VIAL_DNS_MAX_RECORDS);
	/* A record with a name that is no host name ends the reading; what came before it stands. */
	for (guint left = get16(bytes + 6); left && count < VIAL_DNS_MAX_RECORDS; left--, count++)
		if (!read_record(bytes, size, &at, &raw[count]))
			break;
	follow(bytes, size, raw, count, name, type, answer);
	return g_steal_pointer(&answer);
}

/* ---- our answer ---- */

static void put_records(GByteArray *out, const GPtrArray *records, guint32 ttl_min, guint32 ttl_max)
{
	for (guint i = 0; records && i < records->len; i++) {
		const VialDnsRecord *record = g_ptr_array_index(records, i);
		gsize size;
		const guint8 *data = g_bytes_get_data(record->data, &size);

		put16(out, 0xc000 | HEADER_BYTES); /* the name of the question */
		put16(out, record->type);
		put16(out, CLASS_INTERNET);
		put32(out, CLAMP(record->ttl, ttl_min, ttl_max));
		put16(out, (guint)size);
		g_byte_array_append(out, data, (guint)size);
	}
}

static void put_opt(GByteArray *out, int extended_error)
{
	guint8 zero = 0;

	g_byte_array_append(out, &zero, 1);
	put16(out, VIAL_DNS_OPT);
	put16(out, VIAL_DNS_UDP_BYTES);
	put32(out, 0);
	put16(out, extended_error < 0 ? 0 : 6);
	if (extended_error < 0)
		return;
	put16(out, 15); /* RFC 8914 */
	put16(out, 2);
	put16(out, (guint)extended_error);
}

static void put_message(GByteArray *out, const VialDnsQuery *query, int rcode, const GPtrArray *records, guint32 ttl_min, guint32 ttl_max,
                        gboolean is_truncated, int extended_error)
{
	guint flags = FLAG_ANSWER | (query->flags & (FLAG_OPCODE | FLAG_RECURSION)) | FLAG_RECURSION_AVAILABLE | (guint)rcode;

	g_byte_array_set_size(out, 0);
	put16(out, query->id);
	put16(out, flags | (is_truncated ? FLAG_TRUNCATED : 0));
	put16(out, query->question_bytes ? 1 : 0);
	put16(out, records ? records->len : 0);
	put16(out, 0);
	put16(out, query->has_edns ? 1 : 0);
	g_byte_array_append(out, query->question, (guint)query->question_bytes);
	put_records(out, records, ttl_min, ttl_max);
	if (query->has_edns)
		put_opt(out, extended_error);
}

void vial_dns_write_answer(GByteArray *out, const VialDnsQuery *query, int rcode, const GPtrArray *records, guint32 ttl_min, guint32 ttl_max,
                           gsize max_bytes, int extended_error)
{
	put_message(out, query, rcode, records, ttl_min, ttl_max, FALSE, extended_error);
	if (out->len > max_bytes)
		put_message(out, query, rcode, NULL, 0, 0, TRUE, extended_error);
}
