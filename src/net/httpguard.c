/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   HEAD ──no body──> HEAD        HEAD ──Content-Length──> LENGTH ──> HEAD
 *   HEAD ──chunked──> CHUNK_SIZE → CHUNK_DATA → CHUNK_END → CHUNK_SIZE …, CHUNK_SIZE(0) ──> TRAILER ──> HEAD
 *   HEAD ──the server's 101──> OPAQUE (a WebSocket's frames are no requests)
 */
#include "net/httpguard.h"

#include <string.h>

#include "net/httpanswers.h"
#include "net/httpfield.h"

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
	VialHttpAnswers *answers;
};

VialHttpGuard *vial_http_guard_new(void)
{
	VialHttpGuard *guard = g_new0(VialHttpGuard, 1);

	guard->held = g_byte_array_new();
	guard->answers = vial_http_answers_new();
	return guard;
}

void vial_http_guard_free(VialHttpGuard *guard)
{
	if (!guard)
		return;
	g_byte_array_unref(guard->held);
	vial_http_answers_free(guard->answers);
	g_free(guard->name);
	g_free(guard);
}

const char *vial_http_guard_name(const VialHttpGuard *guard)
{
	return guard->name;
}

/* "example.com:80" → "example.com"; an address → ""; nonsense → NULL. */
static char *host_name(const char *text, gsize length)
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
	gboolean is_head, is_get;
	guint upgrades;
	gboolean is_websocket;
	VialHttpFraming framing;
} Head;

static gboolean is_method(const char *line, const char *space, const char *method)
{
	return strlen(method) == (gsize)(space - line) && memcmp(line, method, strlen(method)) == 0;
}

/* The target of the request line: an absolute one names a host too, and servers prefer it over Host. */
static gboolean read_target(const char *line, gsize length, Head *head)
{
	const char *space = memchr(line, ' ', length);
	const char *target = space ? space + 1 : NULL;
	const char *end = target ? memchr(target, ' ', length - (gsize)(target - line)) : NULL;

	if (!end || space == line || length - (gsize)(end + 1 - line) != 8 || memcmp(end + 1, "HTTP/1.", 7) != 0)
		return FALSE;
	for (const char *at = line; at < space; at++)
		if (!g_ascii_isupper(*at) && *at != '-' && *at != '_')
			return FALSE;
	if (is_method(line, space, "CONNECT"))
		return FALSE;
	head->is_head = is_method(line, space, "HEAD");
	head->is_get = is_method(line, space, "GET");
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

static gboolean read_host(const VialHttpField *field, Head *head)
{
	g_autofree char *host = host_name(field->value, field->value_length);

	if (!host || head->hosts++ || (head->host && strcmp(head->host, host) != 0))
		return FALSE;
	if (!head->host)
		head->host = g_steal_pointer(&host);
	return TRUE;
}

static gboolean read_field(const char *line, gsize length, Head *head)
{
	VialHttpField field;

	if (!vial_http_field_split(line, length, &field))
		return FALSE;
	if (vial_http_field_is(&field, "host"))
		return read_host(&field, head);
	if (vial_http_field_is(&field, "upgrade")) {
		head->upgrades++;
		head->is_websocket = vial_http_field_has_value(&field, "websocket");
	}
	return vial_http_framing_take(&head->framing, &field);
}

static gboolean read_lines(const char *text, gsize size, Head *head)
{
	const char *end = text + size;
	gboolean is_first = TRUE;

	while (text < end) {
		const char *next;
		gssize length = vial_http_line(text, (gsize)(end - text), &next);

		if (length < 0)
			return FALSE;
		if (length == 0)
			break;
		if (is_first ? !read_target(text, (gsize)length, head) : !read_field(text, (gsize)length, head))
			return FALSE;
		is_first = FALSE;
		text = next;
	}
	return !is_first;
}

static VialHttpAsked what_was_asked(const Head *head)
{
	if (head->is_head)
		return VIAL_HTTP_ASKED_HEAD;
	/* One protocol, named once, without a body of which nobody could say when the switch happens. */
	if (head->is_get && head->upgrades == 1 && head->is_websocket && !head->framing.is_chunked && !head->framing.length)
		return VIAL_HTTP_ASKED_UPGRADE;
	return VIAL_HTTP_ASKED_ANY;
}

static gboolean take_head(VialHttpGuard *guard, gsize size)
{
	Head head = { 0 };
	gboolean is_good =
		read_lines((const char *)guard->held->data, size, &head) && head.hosts == 1 && !(head.framing.is_chunked && head.framing.has_length);

	if (is_good && !guard->name)
		guard->name = g_steal_pointer(&head.host);
	else if (is_good)
		is_good = strcmp(guard->name, head.host) == 0;
	g_free(head.host);
	if (!is_good)
		return FALSE;
	vial_http_answers_expect(guard->answers, what_was_asked(&head));
	guard->left = head.framing.length;
	if (head.framing.is_chunked)
		guard->state = CHUNK_SIZE;
	else if (head.framing.length)
		guard->state = LENGTH;
	return TRUE;
}

static gboolean release(VialHttpGuard *guard, gsize count, GByteArray *out)
{
	g_byte_array_append(out, guard->held->data, (guint)count);
	g_byte_array_remove_range(guard->held, 0, (guint)count);
	guard->scanned = 0;
	return TRUE;
}

/* What cannot become a request is refused at once, not when 32 KiB of it have come: frames of a switch we did not follow. */
static gboolean may_be_request(const GByteArray *held)
{
	char first = held->len ? (char)held->data[0] : 'A';

	if (first == '\r')
		return held->len == 1 || held->data[1] == '\n';
	return g_ascii_isupper(first) || first == '-' || first == '_';
}

static gboolean step_head(VialHttpGuard *guard, GByteArray *out, gboolean *out_more)
{
	gsize count;

	/* Empty lines before a request are allowed. */
	while (guard->held->len >= 2 && memcmp(guard->held->data, "\r\n", 2) == 0 && guard->scanned == 0)
		release(guard, 2, out);
	count = vial_http_head_end(guard->held->data, guard->held->len, &guard->scanned);
	*out_more = count > 0;
	if ((count ? count : guard->held->len) > VIAL_HTTP_MAX_HEAD || !may_be_request(guard->held))
		return FALSE;
	return count == 0 || (take_head(guard, count) && release(guard, count, out));
}

static gboolean step_trailer(VialHttpGuard *guard, GByteArray *out, gboolean *out_more)
{
	const guint8 *end = guard->held->len ? memchr(guard->held->data, '\n', guard->held->len) : NULL;
	gsize count = end ? (gsize)(end + 1 - guard->held->data) : 0;

	*out_more = end != NULL;
	if ((count ? count : guard->held->len) > VIAL_HTTP_MAX_HEAD)
		return FALSE;
	if (count == 2 && guard->held->data[0] == '\r')
		guard->state = HEAD;
	return count == 0 || release(guard, count, out);
}

/* One step on `held`; *out_more is set when another could follow. */
static gboolean step(VialHttpGuard *guard, GByteArray *out, gboolean *out_more)
{
	gsize count;
	gssize line;

	*out_more = TRUE;
	switch (guard->state) {
	case HEAD:
		return step_head(guard, out, out_more);
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
		line = vial_http_chunk_line(guard->held->data, guard->held->len, &guard->left);
		*out_more = line > 0;
		if (line <= 0)
			return line == 0;
		guard->state = guard->left ? CHUNK_DATA : TRAILER;
		return release(guard, (gsize)line, out);
	case TRAILER:
		return step_trailer(guard, out, out_more);
	case OPAQUE:
		*out_more = FALSE;
		return release(guard, guard->held->len, out);
	}
	return FALSE;
}

gboolean vial_http_guard_feed(VialHttpGuard *guard, const guint8 *bytes, gsize size, GByteArray *out)
{
	gboolean more = TRUE;

	if (size)
		g_byte_array_append(guard->held, bytes, (guint)size);
	while (more && guard->held->len)
		if (!step(guard, out, &more))
			return FALSE;
	return TRUE;
}

void vial_http_guard_answer(VialHttpGuard *guard, const guint8 *bytes, gsize size, GByteArray *out)
{
	if (guard->state == OPAQUE || !vial_http_answers_feed(guard->answers, bytes, size))
		return;
	guard->state = OPAQUE;
	vial_http_guard_feed(guard, NULL, 0, out);
}

guint64 vial_http_guard_blind_bytes(const VialHttpGuard *guard)
{
	return vial_http_answers_blind_bytes(guard->answers);
}

void vial_http_guard_skip(VialHttpGuard *guard, gsize size)
{
	vial_http_answers_skip(guard->answers, size);
}
