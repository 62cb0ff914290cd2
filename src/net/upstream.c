/* SPDX-License-Identifier: Apache-2.0 */
#include "net/upstream.h"

#include <errno.h>
#include <glib-unix.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/error.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/time.h"

#define RESOLV_CONF "/etc/resolv.conf"
#define MAX_RESOLVERS 3 /* as in glibc */
#define RELOAD_MS 2000

typedef struct {
	VialAddress address;
	guint16 port;
} Resolver;

struct VialUpstream {
	GArray *resolvers; /* Resolver */
	gboolean is_fixed;
	gint64 checked_ms;
	struct timespec changed;
	guint under_way;
};

struct VialUpstreamQuestion {
	VialUpstream *upstream;
	char *name;
	guint16 type;
	guint16 id;
	guint tries;
	gboolean is_tcp;
	int fd;
	guint fd_source;
	guint timer;
	GByteArray *buffer; /* TCP: what is to be sent, then what has come */
	gboolean is_sent;
	VialUpstreamFunc done;
	gpointer data;
};

/* ---- who to ask ---- */

static gboolean parse_resolver(const char *text, Resolver *out)
{
	g_auto(GStrv) parts = g_strsplit(text, "#", 2);
	guint64 port = 53;

	/* A zone ("fe80::1%eth0") cannot be kept in an address; such resolvers are skipped. */
	if (!parts[0] || !vial_address_parse(parts[0], &out->address))
		return FALSE;
	if (parts[1] && !g_ascii_string_to_unsigned(parts[1], 10, 1, G_MAXUINT16, &port, NULL))
		return FALSE;
	out->port = (guint16)port;
	return TRUE;
}

static void read_resolv_conf(VialUpstream *upstream)
{
	g_autofree char *text = NULL;
	g_auto(GStrv) lines = NULL;

	g_array_set_size(upstream->resolvers, 0);
	if (!g_file_get_contents(RESOLV_CONF, &text, NULL, NULL))
		return;
	lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line && upstream->resolvers->len < MAX_RESOLVERS; line++) {
		g_auto(GStrv) words = g_strsplit_set(g_strstrip(*line), " \t", 3);
		Resolver resolver;

		if (words[0] && words[1] && strcmp(words[0], "nameserver") == 0 && parse_resolver(words[1], &resolver))
			g_array_append_val(upstream->resolvers, resolver);
	}
}

static void reload(VialUpstream *upstream)
{
	gint64 now_ms = vial_time_monotonic_ms();
	struct stat status;

	if (upstream->is_fixed || now_ms - upstream->checked_ms < RELOAD_MS)
		return;
	upstream->checked_ms = now_ms;
	if (stat(RESOLV_CONF, &status) < 0 || memcmp(&status.st_mtim, &upstream->changed, sizeof(upstream->changed)) == 0)
		return;
	upstream->changed = status.st_mtim;
	read_resolv_conf(upstream);
}

VialUpstream *vial_upstream_new(const char *const *resolvers, GError **error)
{
	VialUpstream *upstream = g_new0(VialUpstream, 1);

	upstream->resolvers = g_array_new(FALSE, FALSE, sizeof(Resolver));
	upstream->checked_ms = G_MININT64 / 2;
	for (; resolvers && *resolvers; resolvers++) {
		Resolver resolver;

		upstream->is_fixed = TRUE;
		if (!parse_resolver(*resolvers, &resolver)) {
			vial_fail(error, VIAL_ERROR_INVALID, "resolver \"%s\" is not an address or address#port", *resolvers);
			vial_upstream_free(upstream);
			return NULL;
		}
		g_array_append_val(upstream->resolvers, resolver);
	}
	reload(upstream);
	return upstream;
}

void vial_upstream_free(VialUpstream *upstream)
{
	if (!upstream)
		return;
	g_array_unref(upstream->resolvers);
	g_free(upstream);
}

/* ---- one question ---- */

static void try_next(VialUpstreamQuestion *question);

static void hang_up(VialUpstreamQuestion *question)
{
	g_clear_handle_id(&question->fd_source, g_source_remove);
	g_clear_handle_id(&question->timer, g_source_remove);
	vial_fd_clear(&question->fd);
}

static void question_free(VialUpstreamQuestion *question)
{
	hang_up(question);
	question->upstream->under_way--;
	g_byte_array_unref(question->buffer);
	g_free(question->name);
	g_free(question);
}

static void finish(VialUpstreamQuestion *question, const VialDnsAnswer *answer)
{
	VialUpstreamFunc done = question->done;
	gpointer data = question->data;

	question_free(question);
	done(answer, data);
}

static gboolean on_timeout(gpointer data)
{
	VialUpstreamQuestion *question = data;

	question->timer = 0;
	question->is_tcp = FALSE;
	try_next(question);
	return G_SOURCE_REMOVE;
}

static void take_answer(VialUpstreamQuestion *question, VialDnsAnswer *answer)
{
	if (answer->is_truncated && !question->is_tcp) {
		question->is_tcp = TRUE;
		question->tries--; /* the same resolver again */
		try_next(question);
	} else if (answer->rcode == VIAL_DNS_SERVFAIL || answer->rcode == VIAL_DNS_REFUSED) {
		/* Another resolver may know better; the last one's word stands. */
		if (question->tries < question->upstream->resolvers->len)
			try_next(question);
		else
			finish(question, answer);
	} else {
		finish(question, answer);
	}
}

static gboolean on_udp(gint fd, GIOCondition condition, gpointer data)
{
	VialUpstreamQuestion *question = data;
	guint8 bytes[4096];
	ssize_t size = recv(fd, bytes, sizeof(bytes), 0);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return G_SOURCE_CONTINUE;
	if (size < 0) { /* ECONNREFUSED: nobody listens there */
		question->fd_source = 0;
		try_next(question);
		return G_SOURCE_REMOVE;
	}

	g_autoptr(VialDnsAnswer) answer = vial_dns_read_answer(bytes, (gsize)size, question->id, question->name, question->type);

	if (!answer) /* a forged or late one: wait on for the right one */
		return G_SOURCE_CONTINUE;
	question->fd_source = 0;
	take_answer(question, answer);
	return G_SOURCE_REMOVE;
}

/* Writes the length-prefixed question, then reads until the length-prefixed answer is whole. TRUE: more to do. */
static gboolean tcp_step(VialUpstreamQuestion *question, int fd, gboolean *out_is_broken)
{
	GByteArray *buffer = question->buffer;
	guint8 bytes[4096];
	ssize_t size;

	*out_is_broken = FALSE;
	if (!question->is_sent) {
		size = send(fd, buffer->data, buffer->len, MSG_NOSIGNAL);
		if (size < 0) {
			*out_is_broken = errno != EAGAIN && errno != EINTR && errno != ENOTCONN;
			return !*out_is_broken;
		}
		g_byte_array_remove_range(buffer, 0, (guint)size);
		question->is_sent = buffer->len == 0;
		return TRUE;
	}
	size = recv(fd, bytes, sizeof(bytes), 0);
	if (size <= 0) {
		*out_is_broken = size == 0 || (errno != EAGAIN && errno != EINTR);
		return !*out_is_broken;
	}
	g_byte_array_append(buffer, bytes, (guint)size);
	if (buffer->len > VIAL_DNS_MAX_MESSAGE + 2) {
		*out_is_broken = TRUE;
		return FALSE;
	}
	return buffer->len < 2 || buffer->len < 2u + (guint)(buffer->data[0] << 8 | buffer->data[1]);
}

static gboolean on_tcp(gint fd, GIOCondition condition, gpointer data);

static gboolean on_tcp(gint fd, GIOCondition condition, gpointer data)
{
	VialUpstreamQuestion *question = data;
	gboolean was_sent = question->is_sent;
	gboolean is_broken;
	g_autoptr(VialDnsAnswer) answer = NULL;

	if (tcp_step(question, fd, &is_broken)) {
		if (was_sent == question->is_sent)
			return G_SOURCE_CONTINUE;
		question->fd_source = g_unix_fd_add(fd, G_IO_IN, on_tcp, question);
		return G_SOURCE_REMOVE;
	}
	if (!is_broken)
		answer = vial_dns_read_answer(question->buffer->data + 2, (gsize)(question->buffer->data[0] << 8 | question->buffer->data[1]),
		                              question->id, question->name, question->type);
	question->fd_source = 0;
	if (answer) {
		take_answer(question, answer);
	} else {
		question->is_tcp = FALSE;
		try_next(question);
	}
	return G_SOURCE_REMOVE;
}

static gboolean send_question(VialUpstreamQuestion *question, const Resolver *resolver)
{
	struct sockaddr_storage address;
	socklen_t length = vial_address_to_sockaddr(&resolver->address, resolver->port, &address);
	int type = question->is_tcp ? SOCK_STREAM : SOCK_DGRAM;

	question->fd = socket(resolver->address.family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (question->fd < 0)
		return FALSE;
	if (connect(question->fd, (struct sockaddr *)&address, length) < 0 && errno != EINPROGRESS)
		return FALSE;
	g_byte_array_set_size(question->buffer, 0);
	if (question->is_tcp) {
		g_autoptr(GByteArray) message = g_byte_array_new();
		guint8 prefix[2];

		vial_dns_write_query(message, question->id, question->name, question->type);
		prefix[0] = (guint8)(message->len >> 8);
		prefix[1] = (guint8)message->len;
		g_byte_array_append(question->buffer, prefix, 2);
		g_byte_array_append(question->buffer, message->data, message->len);
		question->is_sent = FALSE;
		question->fd_source = g_unix_fd_add(question->fd, G_IO_OUT, on_tcp, question);
		return TRUE;
	}
	vial_dns_write_query(question->buffer, question->id, question->name, question->type);
	if (send(question->fd, question->buffer->data, question->buffer->len, MSG_NOSIGNAL) < 0)
		return FALSE;
	question->fd_source = g_unix_fd_add(question->fd, G_IO_IN, on_udp, question);
	return TRUE;
}

static void try_next(VialUpstreamQuestion *question)
{
	GArray *resolvers = question->upstream->resolvers;

	for (;;) {
		hang_up(question);
		if (question->tries >= VIAL_UPSTREAM_TRIES || !resolvers->len) {
			finish(question, NULL);
			return;
		}
		if (getrandom(&question->id, sizeof(question->id), 0) != sizeof(question->id))
			question->id = (guint16)g_random_int();
		if (send_question(question, &g_array_index(resolvers, Resolver, question->tries++ % resolvers->len)))
			break;
	}
	question->timer = g_timeout_add(VIAL_UPSTREAM_TRY_MS, on_timeout, question);
}

/* The first try happens on the loop, so that `done` is never called from within ask(). */
static gboolean on_start(gpointer data)
{
	VialUpstreamQuestion *question = data;

	question->timer = 0;
	try_next(question);
	return G_SOURCE_REMOVE;
}

VialUpstreamQuestion *vial_upstream_ask(VialUpstream *upstream, const char *name, guint16 type, VialUpstreamFunc done, gpointer data)
{
	VialUpstreamQuestion *question;

	if (upstream->under_way >= VIAL_UPSTREAM_MAX)
		return NULL;
	reload(upstream);
	upstream->under_way++;
	question = g_new0(VialUpstreamQuestion, 1);
	question->upstream = upstream;
	question->name = g_strdup(name);
	question->type = type;
	question->fd = -1;
	question->buffer = g_byte_array_new();
	question->done = done;
	question->data = data;
	question->timer = g_idle_add_full(G_PRIORITY_DEFAULT, on_start, question, NULL);
	return question;
}

void vial_upstream_cancel(VialUpstreamQuestion *question)
{
	if (question)
		question_free(question);
}
