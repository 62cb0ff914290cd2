/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has to go when there are too many connections. Anybody can open one; so those that have not shown a key yet (or a
 * preview's token) may hold ANONYMOUS_SHARE of the places, and the rest is kept for clients we know. By rank:
 *
 *   SILENT ──complete request──> STRANGER       refused, or answered without a key
 *      └────────────┴──key──> BUSY <──> IDLE    known: in a request, or between two
 *
 * The silent go first, after they had GRACE_MS to speak (and as much again while we find out about the key they showed), then
 * strangers, and only when every place is taken known clients that are idle, who will come again. Of each rank goes the
 * oldest of the address that holds the most places: a crowd from one address does not cost its neighbours theirs. Addresses
 * are counted in a table of fixed size, so two of them may be taken for one; which ones is different for each start.
 */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "http/internal.h"

#define BUCKETS 256
#define ANONYMOUS_SHARE(places) (((places)*3 + 3) / 4)
#define GRACE_MS 1000

struct VialShed {
	GQueue queues[VIAL_RANK_BUSY][BUCKETS]; /* VialConnection by rank_link, the longest there first */
	guint counts[VIAL_RANK_BUSY];
	guint leaving; /* told to go, still open */
	guint32 seed;
};

VialShed *vial_shed_new(void)
{
	VialShed *shed = g_new0(VialShed, 1);

	shed->seed = g_random_int();
	return shed;
}

void vial_shed_free(VialShed *shed)
{
	g_free(shed);
}

/* A customer's IPv6 network is 64 bits wide: its addresses are one peer. Whoever comes through a unix socket is one too. */
static guint bucket_of(const VialShed *shed, const struct sockaddr *address)
{
	const guint8 *bytes = NULL;
	gsize size = 0;
	guint32 hash = shed->seed;

	if (address && address->sa_family == AF_INET) {
		bytes = (const guint8 *)&((const struct sockaddr_in *)address)->sin_addr;
		size = 4;
	} else if (address && address->sa_family == AF_INET6) {
		const struct in6_addr *wide = &((const struct sockaddr_in6 *)address)->sin6_addr;
		gboolean is_mapped = IN6_IS_ADDR_V4MAPPED(wide);
		bytes = wide->s6_addr + (is_mapped ? 12 : 0);
		size = is_mapped ? 4 : 8;
	}
	for (gsize i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return (hash >> 8) % BUCKETS;
}

static void leave_queue(VialConnection *connection)
{
	VialShed *shed = connection->server->shed;

	if (connection->rank == VIAL_RANK_BUSY)
		return;
	g_queue_unlink(&shed->queues[connection->rank][connection->bucket], &connection->rank_link);
	shed->counts[connection->rank]--;
	connection->rank = VIAL_RANK_BUSY;
}

static void enter_queue(VialConnection *connection, VialRank rank)
{
	VialShed *shed = connection->server->shed;

	leave_queue(connection);
	if (rank == VIAL_RANK_BUSY || connection->is_leaving)
		return;
	connection->rank = rank;
	connection->ranked_us = g_get_monotonic_time();
	g_queue_push_tail_link(&shed->queues[rank][connection->bucket], &connection->rank_link);
	shed->counts[rank]++;
}

void vial_shed_add(VialConnection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

	connection->bucket = bucket_of(connection->server->shed, info ? info->client_addr : NULL);
	connection->rank_link.data = connection;
	connection->rank = VIAL_RANK_BUSY;
	enter_queue(connection, VIAL_RANK_SILENT);
}

void vial_shed_remove(VialConnection *connection)
{
	leave_queue(connection);
	if (connection->is_leaving)
		connection->server->shed->leaving--;
}

void vial_shed_note_request(VialConnection *connection, gboolean is_known)
{
	connection->is_known |= is_known;
	enter_queue(connection, connection->is_known ? VIAL_RANK_BUSY : VIAL_RANK_STRANGER);
}

void vial_shed_note_question(VialConnection *connection)
{
	enter_queue(connection, connection->is_known ? VIAL_RANK_BUSY : VIAL_RANK_SILENT);
}

void vial_shed_note_end(VialConnection *connection)
{
	if (!connection->upgraded)
		enter_queue(connection, connection->is_known ? VIAL_RANK_IDLE : VIAL_RANK_STRANGER);
}

static guint anonymous_in(const VialShed *shed, guint bucket)
{
	return shed->queues[VIAL_RANK_SILENT][bucket].length + shed->queues[VIAL_RANK_STRANGER][bucket].length;
}

static VialConnection *oldest(VialShed *shed, VialRank rank, guint bucket)
{
	return g_queue_peek_head(&shed->queues[rank][bucket]);
}

/* `must` also takes a silent one that is within its grace. */
static VialConnection *oldest_anonymous(VialShed *shed, guint bucket, gboolean must)
{
	VialConnection *silent = oldest(shed, VIAL_RANK_SILENT, bucket);
	VialConnection *stranger = oldest(shed, VIAL_RANK_STRANGER, bucket);

	if (silent && silent->ranked_us + GRACE_MS * 1000 <= g_get_monotonic_time())
		return silent;
	return stranger ? stranger : must ? silent : NULL;
}

static VialConnection *choose_anonymous(VialShed *shed, gboolean must)
{
	VialConnection *chosen = NULL;
	guint most = 0;

	for (guint i = 0; i < BUCKETS; i++) {
		guint count = anonymous_in(shed, i);
		VialConnection *candidate = count && count >= most ? oldest_anonymous(shed, i, must) : NULL;
		/* Between addresses with as many the older goes, so that it is never the one that has just come. */
		if (candidate && (count > most || candidate->ranked_us < chosen->ranked_us)) {
			chosen = candidate;
			most = count;
		}
	}
	return chosen;
}

static VialConnection *choose_idle(VialShed *shed)
{
	VialConnection *chosen = NULL;
	guint most = 0;

	for (guint i = 0; i < BUCKETS; i++) {
		guint count = shed->queues[VIAL_RANK_IDLE][i].length;
		if (count > most) {
			chosen = oldest(shed, VIAL_RANK_IDLE, i);
			most = count;
		}
	}
	return chosen;
}

void vial_shed_make_room(VialServer *server)
{
	VialShed *shed = server->shed;
	guint places = server->config.max_connections;
	guint anonymous = shed->counts[VIAL_RANK_SILENT] + shed->counts[VIAL_RANK_STRANGER];
	VialConnection *chosen = NULL;

	if (anonymous > ANONYMOUS_SHARE(places)) {
		chosen = choose_anonymous(shed, TRUE);
	} else if (server->connections.length - shed->leaving >= places) {
		chosen = choose_anonymous(shed, FALSE);
		if (!chosen)
			chosen = choose_idle(shed);
	}
	if (!chosen)
		return;
	leave_queue(chosen);
	chosen->is_leaving = TRUE;
	shed->leaving++;
	server->stats.shed_total++;
	vial_connection_break(chosen);
}
