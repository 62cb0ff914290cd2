/* SPDX-License-Identifier: Apache-2.0 */
#include "net/conntrack.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "net/netns.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/watch.h"

#define BUFFER_BYTES 65536
/* Deletions sent before their answers are read. */
#define REQUEST_BYTES 512

static int open_socket(int ns_fd, guint32 groups, GError **error)
{
	vial_autofd int fd = vial_netns_socket(ns_fd, AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER, error);
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = groups };

	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot watch connections: %s", g_strerror(errno));
		return -1;
	}
	return vial_fd_steal(&fd);
}

static struct nlmsghdr *start(char *buffer, guint8 type, guint16 flags, guint8 family)
{
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct nfgenmsg *generic;

	request->nlmsg_type = (guint16)((NFNL_SUBSYS_CTNETLINK << 8) | type);
	request->nlmsg_flags = NLM_F_REQUEST | flags;
	request->nlmsg_seq = 1;
	generic = mnl_nlmsg_put_extra_header(request, sizeof(*generic));
	generic->nfgen_family = family;
	generic->version = NFNETLINK_V0;
	return request;
}

static void read_ip(const struct nlattr *nest, VialConnection *connection)
{
	struct nlattr *attribute;

	mnl_attr_for_each_nested (attribute, nest) {
		guint16 length = mnl_attr_get_payload_len(attribute);

		if (mnl_attr_get_type(attribute) == CTA_IP_V4_DST && length == 4)
			vial_address_from_bytes(AF_INET, mnl_attr_get_payload(attribute), &connection->address);
		else if (mnl_attr_get_type(attribute) == CTA_IP_V6_DST && length == 16)
			vial_address_from_bytes(AF_INET6, mnl_attr_get_payload(attribute), &connection->address);
	}
}

static void read_protocol(const struct nlattr *nest, VialConnection *connection)
{
	struct nlattr *attribute;

	mnl_attr_for_each_nested (attribute, nest) {
		switch (mnl_attr_get_type(attribute)) {
		case CTA_PROTO_NUM:
			connection->protocol = mnl_attr_get_u8(attribute);
			break;
		case CTA_PROTO_SRC_PORT:
			connection->guest_port = ntohs(mnl_attr_get_u16(attribute));
			break;
		case CTA_PROTO_DST_PORT:
			connection->port = ntohs(mnl_attr_get_u16(attribute));
			break;
		}
	}
}

static void read_tuple(const struct nlattr *nest, VialConnection *connection)
{
	struct nlattr *attribute;

	mnl_attr_for_each_nested (attribute, nest) {
		if (mnl_attr_get_type(attribute) == CTA_TUPLE_IP)
			read_ip(attribute, connection);
		else if (mnl_attr_get_type(attribute) == CTA_TUPLE_PROTO)
			read_protocol(attribute, connection);
	}
}

static guint64 read_bytes(const struct nlattr *nest)
{
	struct nlattr *attribute;

	mnl_attr_for_each_nested (attribute, nest) {
		if (mnl_attr_get_type(attribute) == CTA_COUNTERS_BYTES)
			return be64toh(mnl_attr_get_u64(attribute));
	}
	return 0;
}

/* The original tuple's attribute, for a deletion; NULL when there is none. */
static const struct nlattr *read_connection(const struct nlmsghdr *message, VialConnection *out, const struct nlattr **out_id)
{
	const struct nlattr *tuple = NULL;
	struct nlattr *attribute;

	memset(out, 0, sizeof(*out));
	*out_id = NULL;
	mnl_attr_for_each (attribute, message, sizeof(struct nfgenmsg)) {
		switch (mnl_attr_get_type(attribute)) {
		case CTA_TUPLE_ORIG:
			tuple = attribute;
			read_tuple(attribute, out);
			break;
		case CTA_MARK:
			out->mark = ntohl(mnl_attr_get_u32(attribute));
			break;
		case CTA_COUNTERS_ORIG:
			out->bytes_out = read_bytes(attribute);
			break;
		case CTA_COUNTERS_REPLY:
			out->bytes_in = read_bytes(attribute);
			break;
		case CTA_ID:
			*out_id = attribute;
			break;
		}
	}
	return out->address.family ? tuple : NULL;
}

/* ---- listing and deleting ---- */

static void tracked_free(gpointer data)
{
	VialTracked *tracked = data;

	g_free(tracked->deletion);
	g_free(tracked);
}

static int list_one(const struct nlmsghdr *message, void *data)
{
	const struct nfgenmsg *generic = mnl_nlmsg_get_payload(message);
	VialConnection connection;
	const struct nlattr *id;
	const struct nlattr *tuple = read_connection(message, &connection, &id);
	struct nlmsghdr *deletion;
	VialTracked *tracked;

	if (!tuple)
		return MNL_CB_OK;
	deletion = start(g_malloc0(REQUEST_BYTES), IPCTNL_MSG_CT_DELETE, NLM_F_ACK, generic->nfgen_family);
	/* The id makes sure that a connection that took the tuple over in between is left alone. */
	mnl_attr_put(deletion, CTA_TUPLE_ORIG | NLA_F_NESTED, mnl_attr_get_payload_len(tuple), mnl_attr_get_payload(tuple));
	if (id)
		mnl_attr_put(deletion, CTA_ID, mnl_attr_get_payload_len(id), mnl_attr_get_payload(id));
	tracked = g_new0(VialTracked, 1);
	*tracked = (VialTracked){ connection, deletion };
	g_ptr_array_add(data, tracked);
	return MNL_CB_OK;
}

/* Netlink answers from the kernel are there when send(2) returns, so a non-blocking read never misses them. */
static int run(int fd, struct nlmsghdr *request, mnl_cb_t each, void *data)
{
	g_autofree char *buffer = g_malloc(BUFFER_BYTES);
	int rc = MNL_CB_OK;

	if (send(fd, request, request->nlmsg_len, 0) < 0)
		return errno;
	while (rc > MNL_CB_STOP) {
		ssize_t size = recv(fd, buffer, BUFFER_BYTES, 0);

		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0)
			return errno;
		rc = mnl_cb_run(buffer, (size_t)size, 1, 0, each, data);
	}
	return rc < 0 ? errno : 0;
}

GPtrArray *vial_conntrack_list(int ns_fd, GError **error)
{
	g_autoptr(GPtrArray) tracked = g_ptr_array_new_with_free_func(tracked_free);
	vial_autofd int fd = open_socket(ns_fd, 0, error);
	char buffer[REQUEST_BYTES];
	int problem;

	if (fd < 0)
		return NULL;
	problem = run(fd, start(buffer, IPCTNL_MSG_CT_GET, NLM_F_DUMP, AF_UNSPEC), list_one, tracked);
	if (problem) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot list the sandbox's connections: %s", g_strerror(problem));
		return NULL;
	}
	return g_steal_pointer(&tracked);
}

gboolean vial_conntrack_delete(int ns_fd, const GPtrArray *tracked, GError **error)
{
	vial_autofd int fd = open_socket(ns_fd, 0, error);

	if (fd < 0)
		return FALSE;
	for (guint i = 0; i < tracked->len; i++) {
		int problem = run(fd, ((VialTracked *)tracked->pdata[i])->deletion, NULL, NULL);

		if (problem && problem != ENOENT)
			return vial_fail(error, VIAL_ERROR_INTERNAL, "cannot cut a connection: %s", g_strerror(problem));
	}
	return TRUE;
}

/* ---- watching ---- */

typedef struct {
	VialConnectionFunc ended;
	gpointer data;
	int fd;
} Watch;

static void watch_free(gpointer data)
{
	Watch *watch = data;

	close(watch->fd);
	g_free(watch);
}

static int report_one(const struct nlmsghdr *message, void *data)
{
	Watch *watch = data;
	VialConnection connection;
	const struct nlattr *id;

	if ((message->nlmsg_type & 0xff) == IPCTNL_MSG_CT_DELETE && read_connection(message, &connection, &id))
		watch->ended(&connection, watch->data);
	return MNL_CB_OK;
}

static gboolean on_report(gint fd, GIOCondition condition, gpointer data)
{
	char buffer[BUFFER_BYTES / 4];
	ssize_t size;

	/* One read per turn: a flood of short connections shares the loop with everyone else. Overruns (ENOBUFS) only lose
	 * byte counts of the event list. */
	size = recv(fd, buffer, sizeof(buffer), 0);
	if (size > 0)
		mnl_cb_run(buffer, (size_t)size, 0, 0, report_one, data);
	return G_SOURCE_CONTINUE;
}

guint vial_conntrack_watch(int ns_fd, VialConnectionFunc ended, gpointer data, GError **error)
{
	int fd = open_socket(ns_fd, NF_NETLINK_CONNTRACK_DESTROY, error);
	Watch *watch;

	if (fd < 0)
		return 0;
	watch = g_new0(Watch, 1);
	*watch = (Watch){ .ended = ended, .data = data, .fd = fd };
	return vial_watch_add(G_PRIORITY_LOW, fd, G_IO_IN, on_report, watch, watch_free);
}
