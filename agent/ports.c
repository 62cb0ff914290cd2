/* SPDX-License-Identifier: Apache-2.0 */
/* ports: which TCP ports are listened on in the sandbox, from the kernel's tables. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "ops.h"
#include "procfs.h"

#define TABLE_BYTES (256 * 1024)
#define STATE_LISTEN 0x0a
#define MAX_PORTS 1024

static void add(json_t *list, int family, const void *address, unsigned port)
{
	char text[INET6_ADDRSTRLEN];

	if (json_array_size(list) < MAX_PORTS && inet_ntop(family, address, text, sizeof(text)))
		json_array_append_new(list, json_pack("{s:i,s:s}", "port", (int)port, "address", text));
}

/* One line of /proc/net/tcp or tcp6; the address is 32-bit words in the machine's byte order, in hex. */
static void parse_line(json_t *list, const char *line, bool is_ipv6)
{
	char hex[33];
	unsigned port, state;
	uint32_t words[4] = { 0 };

	if (sscanf(line, " %*d: %32[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", hex, &port, &state) != 3 || state != STATE_LISTEN)
		return;
	if (strlen(hex) != (is_ipv6 ? 32 : 8))
		return;
	for (int i = 0; i < (is_ipv6 ? 4 : 1); i++) {
		char word[9] = { 0 };

		memcpy(word, hex + 8 * i, 8);
		words[i] = (uint32_t)strtoul(word, NULL, 16);
	}
	add(list, is_ipv6 ? AF_INET6 : AF_INET, words, port);
}

static void read_table(json_t *list, const char *path, bool is_ipv6)
{
	char *text = malloc(TABLE_BYTES), *line, *rest;

	if (text && vial_file_read_at(vial_procfs_fd(), path, text, TABLE_BYTES) > 0) {
		for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
			parse_line(list, line, is_ipv6);
	}
	free(text);
}

void vial_op_ports(struct vial_stream *stream, json_t *request)
{
	json_t *list = json_array();

	read_table(list, "self/net/tcp", false);
	read_table(list, "self/net/tcp6", true);
	vial_stream_close_ok(stream, json_pack("{s:o}", "ports", list));
}
