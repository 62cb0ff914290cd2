/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   HEAD ──no body──> HEAD        HEAD ──Content-Length──> LENGTH ──> HEAD
 *   HEAD ──chunked──> CHUNK_SIZE → CHUNK_DATA → CHUNK_END → CHUNK_SIZE …, CHUNK_SIZE(0) ──> TRAILER ──> HEAD
 *   HEAD ──Upgrade──> OPAQUE (a WebSocket's frames are no requests)
 */
#include "net/httpguard.h"

#include <string.h>

#define MAX_CHUNK_LINE 256

typedef enum {
	HEAD,
	LENGTH,
	CHUNK_SIZE,
	CHUNK_DATA,
	CHUNK_END,
	TRAILER,
	OPAQUE,
} State;

struct VialHttpGuard {
	State state;
	GByteArray *held; /* an unfinished head or line */
	guint64 left;     /* of a body or chunk */
	char *name;
	gsize scanned; /* of `held`, for the end of the head */
};

VialHttpGuard *
vial_http_guard_new(void)
{
	VialHttpGuard *guard = g_new0(VialHttpGuard, 1);

	guard->held = g_byte_array_new();
	return guard;
}

void
vial_http_guard_free(VialHttpGuard *guard)
{
	if (!guard)
		return;
	g_byte_array_unref(guard->held);
	g_free(guard->name);
	g_free(guard);
}

const char *
vial_http_guard_name(const VialHttpGuard *guard)
{
	return guard->name;
}

/* "example.com:80" → "example.com"; an address → ""; nonsense → NULL. */
static char *
host_name(const char *text, gsize length)
{
	g_autofree char *host = g_strndup(text, length);
	char *colon = strrchr(host, ':');

	g_strstrip(host);
	if (host[0] == '[')
		return g_strdup("");
	if (colon) {
		if (strspn(colon + 1, "0123456789") != strlen(colon + 1))
			return NULL;
		*colon = 0;
	}
	if (host[0] && strspn(host, "0123456789.") == strlen(host))
		return g_strdup("");
	return g_str_is_ascii(host) ? vial_name_normalize(host) : NULL;
}

typedef struct {
	char *host;
	guint hosts;
	gboolean is_chunked;
	gboolean has_length;
	gboolean is_upgrade;
	guint64 length;
} Head;

/* The target of the request line: an absolute one names a host too, and servers prefer it over Host. */
static gboolean
read_target(const char *line, gsize length, Head *head)
{
	const char *space = memchr(line, ' ', length);
	const char *target = space ? space + 1 : NULL;
	const char *end = target ? memchr(target, ' ', length - (gsize)(target - line)) : NULL;

	if (!end || space == line || length - (gsize)(end + 1 - line) != 8 || memcmp(end + 1, "HTTP/1.", 7) != 0)
		return FALSE;
	for (const char *at = line; at < space; at++)
		if (!g_ascii_isupper(*at) && *at != '-' && *at != '_')
			return FALSE;
	if ((gsize)(space - line) == 7 && memcmp(line, "CONNECT", 7) == 0)
		return FALSE;
	if (*target == '/' || (*target == '*' && end == target + 1))
		return TRUE;
	if ((gsize)(end - target) < 8 || g_ascii_strncasecmp(target, "http://", 7) != 0)
		return FALSE;
	target += 7;
	for (const char *at = target; at < end; at++)
		if (*at == '@') /* user:password@host: nobody needs it, parsers disagree on it */
			return FALSE;

	gsize host = strcspn(target, "/?# ");

	head->host = host_name(target, MIN(host, (gsize)(end - target)));
	return head->host != NULL;
}

static gboolean
read_length(const char *value, gsize length, Head *head)
{
	g_autofree char *text = g_strndup(value, length);
	guint64 number;

	if (!g_ascii_isdigit(text[0]) || !g_ascii_string_to_unsigned(text, 10, 0, G_MAXINT64, &number, NULL))
		return FALSE;
	if (head->has_length && head->length != number)
		return FALSE;
	head->has_length = TRUE;
	head->length = number;
	return TRUE;
}

static gboolean
is_field(const char *line, gsize name_length, const char *name)
{
	return strlen(name) == name_length && g_ascii_strncasecmp(line, name, name_length) == 0;
}

static gboolean
read_field(const char *line, gsize length, Head *head)
{
	const char *colon = memchr(line, ':', length);
	gsize name_length = colon ? (gsize)(colon - line) : 0;
	const char *value;
	gsize value_length;

	/* A folded line or a space before the colon is read differently by different servers. */
	if (!colon || name_length == 0 || line[0] == ' ' || line[0] == '\t')
		return FALSE;
	for (gsize i = 0; i < name_length; i++)
		if (!g_ascii_isgraph(line[i]))
			return FALSE;
	value = colon + 1;
	value_length = length - name_length - 1;
	while (value_length && (*value == ' ' || *value == '\t')) {
		value++;
		value_length--;
	}
	while (value_length && (value[value_length - 1] == ' ' || value[value_length - 1] == '\t'))
		value_length--;
	if (is_field(line, name_length, "host")) {
		g_autofree char *host = host_name(value, value_length);

		if (!host || head->hosts++ || (head->host && strcmp(head->host, host) != 0))
			return FALSE;
		if (!head->host)
			head->host = g_steal_pointer(&host);
	} else if (is_field(line, name_length, "content-length")) {
		return read_length(value, value_length, head);
	} else if (is_field(line, name_length, "transfer-encoding")) {
		if (head->is_chunked || !is_field(value, value_length, "chunked"))
			return FALSE;
		head->is_chunked = TRUE;
	} else if (is_field(line, name_length, "upgrade")) {
		head->is_upgrade = TRUE;
	}
	return TRUE;
}

static gboolean
read_lines(const char *text, gsize size, Head *head)
{
	gboolean is_first = TRUE;

	while (size) {
		const char *end = memchr(text, '\n', size);
		gsize length = (gsize)(end - text);

		/* CR LF only: a bare LF ends a line for some servers and not for others. */
		if (length == 0 || text[length - 1] != '\r' || memchr(text, '\r', length - 1) || memchr(text, 0, length))
			return FALSE;
		length--;
		if (length == 0)
			break;
		if (is_first ? !read_target(text, length, head) : !read_field(text, length, head))
			return FALSE;
		is_first = FALSE;
		size -= (gsize)(end + 1 - text);
		text = end + 1;
	}
	return !is_first;
}

static gboolean
take_head(VialHttpGuard *guard, gsize size)
{
	Head head = {0};
	gboolean is_good = read_lines((const char *)guard->held->data, size, &head) && head.hosts == 1 &&
	                   !(head.is_chunked && head.has_length);

	if (is_good && !guard->name)
		guard->name = g_steal_pointer(&head.host);
	else if (is_good)
		is_good = strcmp(guard->name, head.host) == 0;
	g_free(head.host);
	if (!is_good)
		return FALSE;
	guard->left = head.length;
	if (head.is_upgrade && !head.is_chunked && !head.length)
		guard->state = OPAQUE;
	else if (head.is_chunked)
		guard->state = CHUNK_SIZE;
	else if (head.length)
		guard->state = LENGTH;
	return TRUE;
}

/* Bytes up to and including the empty line; 0 when it is not there yet. */
static gsize
find_head_end(VialHttpGuard *guard)
{
	const guint8 *data = guard->held->data;

	for (gsize i = guard->scanned; i + 1 < guard->held->len; i++) {
		if (data[i] != '\n')
			continue;
		if (data[i + 1] == '\n')
			return i + 2;
		if (i + 2 < guard->held->len && data[i + 1] == '\r' && data[i + 2] == '\n')
			return i + 3;
	}
	guard->scanned = guard->held->len > 3 ? guard->held->len - 3 : 0;
	return 0;
}

static gboolean
release(VialHttpGuard *guard, gsize count, GByteArray *out)
{
	g_byte_array_append(out, guard->held->data, (guint)count);
	g_byte_array_remove_range(guard->held, 0, (guint)count);
	guard->scanned = 0;
	return TRUE;
}

/* One line of a chunked body; 0 when it is not whole yet, -1 when it is nonsense. */
static gssize
chunk_line(VialHttpGuard *guard, guint64 *out_size)
{
	const guint8 *data = guard->held->data;
	const guint8 *end = guard->held->len ? memchr(data, '\n', guard->held->len) : NULL;
	gsize digits = 0;
	guint64 size = 0;

	if (!end)
		return guard->held->len > MAX_CHUNK_LINE ? -1 : 0;
	if (end == data || end[-1] != '\r' || end - data > MAX_CHUNK_LINE)
		return -1;
	while (g_ascii_isxdigit(data[digits]) && digits < 16)
		size = size << 4 | (guint64)g_ascii_xdigit_value((char)data[digits++]);
	if (digits == 0 || digits > 15 || (data[digits] != '\r' && data[digits] != ';' && data[digits] != ' '))
		return -1;
	*out_size = size;
	return end + 1 - data;
}

/* One step on `held`; *out_more is set when another could follow. */
static gboolean
step(VialHttpGuard *guard, GByteArray *out, gboolean *out_more)
{
	gsize count;
	gssize line;

	*out_more = TRUE;
	switch (guard->state) {
	case HEAD:
		/* Empty lines before a request are allowed. */
		while (guard->held->len >= 2 && memcmp(guard->held->data, "\r\n", 2) == 0 && guard->scanned == 0)
			release(guard, 2, out);
		count = find_head_end(guard);
		*out_more = count > 0;
		if (count == 0)
			return guard->held->len <= VIAL_HTTP_MAX_HEAD;
		if (count > VIAL_HTTP_MAX_HEAD)
			return FALSE;
		return take_head(guard, count) && release(guard, count, out);
	case LENGTH:
	case CHUNK_DATA:
		count = (gsize)MIN(guard->left, guard->held->len);
		*out_more = count > 0;
		guard->left -= count;
		if (guard->left == 0)
			guard->state = guard->state == LENGTH ? HEAD : CHUNK_END;
		return release(guard, count, out);
	case CHUNK_END:
		*out_more = guard->held->len >= 2;
		if (guard->held->len < 2)
			return guard->held->data[0] == '\r';
		guard->state = CHUNK_SIZE;
		return memcmp(guard->held->data, "\r\n", 2) == 0 && release(guard, 2, out);
	case CHUNK_SIZE:
		line = chunk_line(guard, &guard->left);
		*out_more = line > 0;
		if (line <= 0)
			return line == 0;
		guard->state = guard->left ? CHUNK_DATA : TRAILER;
		return release(guard, (gsize)line, out);
	case TRAILER: {
		const guint8 *end = guard->held->len ? memchr(guard->held->data, '\n', guard->held->len) : NULL;

		*out_more = end != NULL;
		if (!end)
			return guard->held->len <= VIAL_HTTP_MAX_HEAD;
		count = (gsize)(end + 1 - guard->held->data);
		if (count > VIAL_HTTP_MAX_HEAD)
			return FALSE;
		if (count == 2 && guard->held->data[0] == '\r')
			guard->state = HEAD;
		return release(guard, count, out);
	}
	case OPAQUE:
		*out_more = FALSE;
		return release(guard, guard->held->len, out);
	}
	return FALSE;
}

gboolean
vial_http_guard_feed(VialHttpGuard *guard, const guint8 *bytes, gsize size, GByteArray *out)
{
	gboolean more = TRUE;

	g_byte_array_append(guard->held, bytes, (guint)size);
	while (more && guard->held->len)
		if (!step(guard, out, &more))
			return FALSE;
	return TRUE;
}
