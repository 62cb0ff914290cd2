/* SPDX-License-Identifier: Apache-2.0 */
#include "inherited.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "files.h"
#include "procfs.h"

#define TABLE_BYTES (256 * 1024)
#define HEX_WORD 8
/* In a mapped address. */
#define IPV4_OFFSET 12
#define IPV4_BYTES 4

struct end {
	struct in6_addr address; /* an IPv4 one is mapped */
	uint16_t port;           /* in the network's order */
};

static bool is_ipv4(const struct end *end)
{
	return IN6_IS_ADDR_V4MAPPED(&end->address);
}

static bool is_loopback(const struct end *end)
{
	return end->address.s6_addr[IPV4_OFFSET] == 127;
}

/* "020000C0", or four such words: each in the order of the machine. */
static bool parse_end(const char *hex, unsigned port, struct end *out)
{
	size_t words = strlen(hex) / HEX_WORD;

	if (strlen(hex) % HEX_WORD != 0 || (words != 1 && words != 4))
		return false;
	out->address = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
	for (size_t i = 0; i < words; i++) {
		uint32_t word;

		if (sscanf(hex + i * HEX_WORD, "%8x", &word) != 1)
			return false;
		memcpy(out->address.s6_addr + (words == 1 ? IPV4_OFFSET : 4 * i), &word, sizeof(word));
	}
	out->port = htons((uint16_t)port);
	return true;
}

static uint32_t add_up(uint32_t sum, const void *data, size_t size)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i + 1 < size; i += 2)
		sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	return sum;
}

static uint16_t checksum(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* Of a number that no peer would send just now: out of 4 billion, few are in the window. */
static struct tcphdr make_segment(const struct end *local, const struct end *peer)
{
	struct tcphdr segment = { .source = peer->port, .dest = local->port, .doff = sizeof(segment) / 4, .ack = 1, .window = htons(1024) };
	uint32_t sum = IPPROTO_TCP + sizeof(segment);

	sum = add_up(sum, peer->address.s6_addr + IPV4_OFFSET, IPV4_BYTES);
	sum = add_up(sum, local->address.s6_addr + IPV4_OFFSET, IPV4_BYTES);
	segment.check = checksum(add_up(sum, &segment, sizeof(segment)));
	return segment;
}

static void poke(int fd, const struct end *local, const struct end *peer)
{
	struct {
		struct iphdr ip;
		struct tcphdr tcp;
	} packet = { .ip = { .version = 4, .ihl = 5, .tot_len = htons(sizeof(packet)), .ttl = 64, .protocol = IPPROTO_TCP } };
	struct sockaddr_in to = { .sin_family = AF_INET };

	memcpy(&packet.ip.saddr, peer->address.s6_addr + IPV4_OFFSET, IPV4_BYTES);
	memcpy(&packet.ip.daddr, local->address.s6_addr + IPV4_OFFSET, IPV4_BYTES);
	packet.ip.check = checksum(add_up(0, &packet.ip, sizeof(packet.ip)));
	packet.tcp = make_segment(local, peer);
	to.sin_addr.s_addr = packet.ip.daddr;
	(void)!sendto(fd, &packet, sizeof(packet), MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to));
}

/* Those that wait for their peer; one that is still being made tries again by itself. */
static bool is_open(unsigned state)
{
	return state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK;
}

static void end_one(const char *line, int fd)
{
	char local_hex[33], peer_hex[33];
	unsigned local_port, peer_port, state;
	struct end local, peer;

	if (sscanf(line, " %*d: %32[0-9A-Fa-f]:%4x %32[0-9A-Fa-f]:%4x %2x", local_hex, &local_port, peer_hex, &peer_port, &state) != 5 ||
	    !is_open(state) || !parse_end(local_hex, local_port, &local) || !parse_end(peer_hex, peer_port, &peer) || !is_ipv4(&local) ||
	    is_loopback(&local))
		return;
	poke(fd, &local, &peer);
}

static void end_listed(const char *path, int fd)
{
	char *text = malloc(TABLE_BYTES), *line, *rest;

	if (text && vial_file_read_at(vial_procfs_fd(), path, text, TABLE_BYTES) > 0)
		for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
			end_one(line, fd);
	free(text);
}

void vial_inherited_end(void)
{
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);

	if (fd < 0)
		return;
	end_listed("self/net/tcp", fd);
	end_listed("self/net/tcp6", fd); /* sockets of both kinds are in there, with mapped addresses */
	close(fd);
}
