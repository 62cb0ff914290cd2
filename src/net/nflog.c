/* SPDX-License-Identifier: Apache-2.0 */
#include "net/nflog.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/netns.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/watch.h"

#define BUFFER_BYTES 32768
#define REQUEST_BYTES 256
#define COPY_BYTES 96
/* Packets that the kernel gathers before it wakes us, and the longest it waits for them. */
#define BATCH_PACKETS 32
#define BATCH_CENTISECONDS 3
/* IPv6 extension headers that are walked at most. */
#define MAX_EXTENSIONS 6

static void read_ports(const guint8 *at, gsize left, VialLogPacket *out)
{
	if ((out->protocol != IPPROTO_TCP && out->protocol != IPPROTO_UDP) || left < 4)
		return;
	out->guest_port = (guint16)(at[0] << 8 | at[1]);
	out->port = (guint16)(at[2] << 8 | at[3]);
}

static gboolean parse_v6(const guint8 *bytes, gsize size, VialLogPacket *out)
{
	gsize at = 40;
	guint8 next;

	if (size < at)
		return FALSE;
	next = bytes[6];
	vial_address_from_bytes(AF_INET6, bytes + 24, &out->address);
	for (int i = 0; i < MAX_EXTENSIONS && (next == IPPROTO_HOPOPTS || next == IPPROTO_DSTOPTS || next == IPPROTO_ROUTING); i++) {
		if (size < at + 2)
			break;
		next = bytes[at];
		at += ((gsize)bytes[at + 1] + 1) * 8;
	}
	out->protocol = next;
	if (at < size)
		read_ports(bytes + at, size - at, out);
	return TRUE;
}

gboolean vial_packet_parse(const guint8 *bytes, gsize size, VialLogPacket *out)
{
	gsize header;

	if (size < 1)
		return FALSE;
	if (bytes[0] >> 4 == 6)
		return parse_v6(bytes, size, out);
	header = (gsize)(bytes[0] & 15) * 4;
	if (bytes[0] >> 4 != 4 || header < 20 || size < header)
		return FALSE;
	out->protocol = bytes[9];
	vial_address_from_bytes(AF_INET, bytes + 16, &out->address);
	read_ports(bytes + header, size - header, out);
	return TRUE;
}

typedef struct {
	VialLogPacketFunc func;
	gpointer data;
	int fd;
} Watch;

static void watch_free(gpointer data)
{
	Watch *watch = data;

	close(watch->fd);
	g_free(watch);
}

static int on_packet(const struct nlmsghdr *message, void *data)
{
	Watch *watch = data;
	VialLogPacket packet = { .prefix = "" };
	gboolean is_known = FALSE;
	struct nlattr *attribute;

	if ((message->nlmsg_type & 0xff) != NFULNL_MSG_PACKET)
		return MNL_CB_OK;
	mnl_attr_for_each (attribute, message, sizeof(struct nfgenmsg)) {
		if (mnl_attr_get_type(attribute) == NFULA_PREFIX)
			packet.prefix = mnl_attr_get_str(attribute);
		else if (mnl_attr_get_type(attribute) == NFULA_PAYLOAD)
			is_known = vial_packet_parse(mnl_attr_get_payload(attribute), mnl_attr_get_payload_len(attribute), &packet);
	}
	if (is_known)
		watch->func(&packet, watch->data);
	return MNL_CB_OK;
}

static gboolean on_ready(gint fd, GIOCondition condition, gpointer data)
{
	char buffer[BUFFER_BYTES];
	ssize_t size = recv(fd, buffer, sizeof(buffer), 0);

	if (size > 0)
		mnl_cb_run(buffer, (size_t)size, 0, 0, on_packet, data);
	return G_SOURCE_CONTINUE;
}

static struct nlmsghdr *start(char *buffer, guint16 group)
{
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct nfgenmsg *generic;

	request->nlmsg_type = (NFNL_SUBSYS_ULOG << 8) | NFULNL_MSG_CONFIG;
	request->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	request->nlmsg_seq = 1;
	generic = mnl_nlmsg_put_extra_header(request, sizeof(*generic));
	generic->nfgen_family = AF_UNSPEC;
	generic->version = NFNETLINK_V0;
	generic->res_id = htons(group);
	return request;
}

static gboolean send_config(int fd, struct nlmsghdr *request, GError **error)
{
	char answer[REQUEST_BYTES];
	ssize_t size = -1;

	if (send(fd, request, request->nlmsg_len, 0) > 0)
		size = recv(fd, answer, sizeof(answer), 0);
	if (size < 0 || mnl_cb_run(answer, (size_t)size, 1, 0, NULL, NULL) < 0)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot read the packet log: %s", g_strerror(errno));
	return TRUE;
}

static gboolean subscribe(int fd, guint16 group, GError **error)
{
	struct nfulnl_msg_config_cmd bind_group = { .command = NFULNL_CFG_CMD_BIND };
	struct nfulnl_msg_config_mode mode = { .copy_range = htonl(COPY_BYTES), .copy_mode = NFULNL_COPY_PACKET };
	char buffer[REQUEST_BYTES];
	struct nlmsghdr *request = start(buffer, group);

	mnl_attr_put(request, NFULA_CFG_CMD, sizeof(bind_group), &bind_group);
	if (!send_config(fd, request, error))
		return FALSE;
	request = start(buffer, group);
	mnl_attr_put(request, NFULA_CFG_MODE, sizeof(mode), &mode);
	mnl_attr_put_u32(request, NFULA_CFG_QTHRESH, htonl(BATCH_PACKETS));
	mnl_attr_put_u32(request, NFULA_CFG_TIMEOUT, htonl(BATCH_CENTISECONDS));
	return send_config(fd, request, error);
}

guint vial_nflog_watch(int ns_fd, guint16 group, VialLogPacketFunc func, gpointer data, GError **error)
{
	vial_autofd int fd = vial_netns_socket(ns_fd, AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER, error);
	struct sockaddr_nl address = { .nl_family = AF_NETLINK };
	Watch *watch;

	if (fd < 0)
		return 0;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot open the packet log: %s", g_strerror(errno));
		return 0;
	}
	if (!subscribe(fd, group, error))
		return 0;
	watch = g_new0(Watch, 1);
	*watch = (Watch){ .func = func, .data = data, .fd = vial_fd_steal(&fd) };
	return vial_watch_add(G_PRIORITY_LOW, watch->fd, G_IO_IN, on_ready, watch, watch_free);
}
