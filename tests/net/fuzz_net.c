/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: what src/net/ reads from strangers. The first byte chooses the parser: DNS questions (guest), DNS answers
 * (network), TLS hellos and HTTP requests (guest), logged packets (guest), policies (API clients), HTTP answers (network).
 * Beyond "does not crash":
 *
 * - a hello or a request is judged the same however it is cut into pieces;
 * - what the HTTP guard lets through is a prefix of what came in;
 * - answers are followed the same however they are cut, and whether what need not be seen is seen or not;
 * - what we answer to a DNS question is a message that we could read, within the size asked for;
 * - a policy that is taken prints as JSON that is taken again and prints the same.
 */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "net/dns.h"
#include "net/httpanswers.h"
#include "net/httpguard.h"
#include "net/nflog.h"
#include "net/policy.h"
#include "net/tls.h"
#include "util/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void try_query(const uint8_t *bytes, size_t size)
{
	g_autoptr(GByteArray) out = g_byte_array_new();
	VialDnsQuery query;
	int rcode;

	if (!vial_dns_read_query(bytes, size, &query, &rcode))
		return;
	assert(strlen(query.name) <= VIAL_NAME_MAX && g_str_is_ascii(query.name));
	assert(query.udp_bytes >= VIAL_DNS_PLAIN_BYTES && query.udp_bytes <= VIAL_DNS_UDP_BYTES);
	vial_dns_write_answer(out, &query, rcode, NULL, 5, 600, query.udp_bytes, 17);
	assert(out->len >= 12 && out->len <= query.udp_bytes);
}

static void try_answer(const uint8_t *bytes, size_t size)
{
	static const guint16 types[] = { VIAL_DNS_A, VIAL_DNS_AAAA, VIAL_DNS_TXT, VIAL_DNS_MX, VIAL_DNS_SOA, VIAL_DNS_SRV, VIAL_DNS_CNAME };
	guint16 id = size >= 2 ? (guint16)(bytes[0] << 8 | bytes[1]) : 0;

	for (guint i = 0; i < G_N_ELEMENTS(types); i++) {
		g_autoptr(VialDnsAnswer) answer = vial_dns_read_answer(bytes, size, id, "example.com", types[i]);
		VialDnsQuery query = { .id = 1, .has_edns = TRUE };
		g_autoptr(GByteArray) out = NULL;

		if (!answer)
			continue;
		assert(answer->records->len <= VIAL_DNS_MAX_RECORDS && answer->chain->len <= VIAL_DNS_MAX_CHAIN);
		out = g_byte_array_new();
		vial_dns_write_answer(out, &query, answer->rcode, answer->records, 5, 600, VIAL_DNS_MAX_MESSAGE, -1);
		assert(out->len <= VIAL_DNS_MAX_MESSAGE);
	}
}

static void try_tls(const uint8_t *bytes, size_t size)
{
	char whole_name[VIAL_NAME_MAX + 1] = "";
	VialSniff whole = vial_tls_sniff(bytes, size, whole_name);
	size_t step = size / 7 + 1;

	assert(whole != VIAL_SNIFF_NAME || (*whole_name && g_str_is_ascii(whole_name)));
	/* The first pieces that suffice must say what the whole says. */
	for (size_t part = step; part < size; part += step) {
		char name[VIAL_NAME_MAX + 1] = "";
		VialSniff result = vial_tls_sniff(bytes, part, name);

		if (result == VIAL_SNIFF_MORE)
			continue;
		assert(result == whole && strcmp(name, whole_name) == 0);
		break;
	}
}

static gboolean guard_run(const uint8_t *bytes, size_t size, size_t step, GByteArray *out, char **out_name)
{
	VialHttpGuard *guard = vial_http_guard_new();
	gboolean is_good = TRUE;

	for (size_t at = 0; is_good && at < size; at += step)
		is_good = vial_http_guard_feed(guard, bytes + at, MIN(step, size - at), out);
	*out_name = g_strdup(vial_http_guard_name(guard));
	vial_http_guard_free(guard);
	return is_good;
}

static void try_http(const uint8_t *bytes, size_t size)
{
	g_autoptr(GByteArray) whole = g_byte_array_new();
	g_autoptr(GByteArray) pieces = g_byte_array_new();
	g_autofree char *whole_name = NULL;
	g_autofree char *pieces_name = NULL;
	gboolean whole_good = guard_run(bytes, size, size + 1, whole, &whole_name);
	gboolean pieces_good = guard_run(bytes, size, size / 9 + 1, pieces, &pieces_name);

	assert(whole->len <= size && memcmp(whole->data ? whole->data : bytes, bytes, whole->len) == 0);
	assert(pieces->len <= size && (!pieces->len || memcmp(pieces->data, bytes, pieces->len) == 0));
	/* A whole that is good is good in pieces too; one that is refused may be refused earlier or later, never let more through. */
	assert(!whole_good || (pieces_good && whole->len == pieces->len && g_strcmp0(whole_name, pieces_name) == 0));
	assert(whole_good || !pieces_good);
}

/* The last request of five asks for an upgrade; is it granted? */
static gboolean answers_run(const uint8_t *bytes, size_t size, size_t step, gboolean skips)
{
	VialHttpAnswers *answers = vial_http_answers_new();
	gboolean has_switched = FALSE;

	for (guint i = 0; i < 4; i++)
		vial_http_answers_expect(answers, i == 2 ? VIAL_HTTP_ASKED_HEAD : VIAL_HTTP_ASKED_ANY);
	vial_http_answers_expect(answers, VIAL_HTTP_ASKED_UPGRADE);
	for (size_t at = 0, count; at < size; at += count) {
		guint64 blind = vial_http_answers_blind_bytes(answers);

		count = MIN(step, size - at);
		if (skips && blind && !has_switched)
			vial_http_answers_skip(answers, count = (size_t)MIN(blind, count));
		else
			has_switched = vial_http_answers_feed(answers, bytes + at, count);
	}
	vial_http_answers_free(answers);
	return has_switched;
}

static void try_answers(const uint8_t *bytes, size_t size)
{
	gboolean whole = answers_run(bytes, size, size + 1, FALSE);

	assert(answers_run(bytes, size, size / 9 + 1, FALSE) == whole);
	assert(answers_run(bytes, size, size / 9 + 1, TRUE) == whole);
	assert(answers_run(bytes, size, 1, TRUE) == whole);
}

static void try_policy(const uint8_t *bytes, size_t size)
{
	g_autoptr(json_t) json = vial_json_parse((const char *)bytes, size, NULL);
	g_autoptr(VialNetPolicy) policy = json ? vial_net_policy_parse(json, NULL) : NULL;
	g_autoptr(VialNetPolicy) again = NULL;
	g_autoptr(json_t) first = NULL;
	g_autoptr(json_t) second = NULL;
	VialAddress address;

	if (!policy)
		return;
	first = vial_net_policy_to_json(policy);
	again = vial_net_policy_parse(first, NULL);
	assert(again);
	second = vial_net_policy_to_json(again);
	assert(json_equal(first, second));
	/* Whatever a policy says, this stays shut. */
	for (guint i = 0; i < 4; i++) {
		static const char *const never[] = { "127.0.0.1", "169.254.169.254", "fe80::1", "198.19.1.2" };

		vial_address_parse(never[i], &address);
		assert(!vial_net_policy_check_connection(policy, "example.com", NULL, &address, 80).allowed);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	VialLogPacket packet = { 0 };

	if (size < 1)
		return 0;
	switch (bytes[0] % 7) {
	case 0:
		try_query(bytes + 1, size - 1);
		break;
	case 1:
		try_answer(bytes + 1, size - 1);
		break;
	case 2:
		try_tls(bytes + 1, size - 1);
		break;
	case 3:
		try_http(bytes + 1, size - 1);
		break;
	case 4:
		vial_packet_parse(bytes + 1, size - 1, &packet);
		break;
	case 5:
		try_policy(bytes + 1, size - 1);
		break;
	case 6:
		try_answers(bytes + 1, size - 1);
		break;
	}
	return 0;
}
