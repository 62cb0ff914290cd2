/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   HEAD ──1xx──> HEAD             HEAD ──no body──> HEAD      HEAD ──Content-Length──> LENGTH ──> HEAD
 *   HEAD ──chunked──> CHUNK_SIZE → CHUNK_DATA → CHUNK_END → CHUNK_SIZE …, CHUNK_SIZE(0) ──> TRAILER ──> HEAD
 *   HEAD ──neither──> UNTIL_END    HEAD ──101 to an upgrade──> SWITCHED      anywhere ──in doubt──> LOST
 *
 * The bodies are followed because an answer before the upgrade's may hold the text of a 101: whoever has a page on an
 * allowed host, or one that echoes, would otherwise open the connection with it.
 */
#include "net/httpanswers.h"

#include <string.h>

#include "net/httpfield.h"

typedef enum {
	HEAD,
	LENGTH,
	CHUNK_SIZE,
	CHUNK_DATA,
	CHUNK_END,
	TRAILER,
	UNTIL_END,
	SWITCHED,
	LOST,
} State;

struct VialHttpAnswers {
	State state;
	GByteArray *held; /* an unfinished head or line, a copy */
	gsize scanned;    /* of `held`, for the end of the head */
	guint64 left;     /* of a body or chunk */
	guint8 asked[VIAL_HTTP_MAX_PIPELINED];
	guint first, count; /* of `asked`, a ring */
};

VialHttpAnswers *vial_http_answers_new(void)
{
	VialHttpAnswers *answers = g_new0(VialHttpAnswers, 1);

	answers->held = g_byte_array_new();
	return answers;
}

void vial_http_answers_free(VialHttpAnswers *answers)
{
	if (!answers)
		return;
	g_byte_array_unref(answers->held);
	g_free(answers);
}

void vial_http_answers_expect(VialHttpAnswers *answers, VialHttpAsked asked)
{
	if (answers->count == VIAL_HTTP_MAX_PIPELINED) {
		if (answers->state != SWITCHED)
			answers->state = LOST;
		return;
	}
	answers->asked[(answers->first + answers->count++) % VIAL_HTTP_MAX_PIPELINED] = (guint8)asked;
}

/* ---- a head ---- */

typedef struct {
	guint status;
	gboolean is_http_1_0;
	VialHttpFraming framing;
} Head;

static gboolean read_status(const char *line, gsize length, Head *head)
{
	if (length < 12 || memcmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') || line[8] != ' ')
		return FALSE;
	for (int i = 9; i < 12; i++) {
		if (!g_ascii_isdigit(line[i]))
			return FALSE;
		head->status = head->status * 10 + (guint)g_ascii_digit_value(line[i]);
	}
	head->is_http_1_0 = line[7] == '0';
	return head->status >= 100 && (length == 12 || line[12] == ' ');
}

static gboolean read_head(const char *text, gsize size, Head *head)
{
	const char *end = text + size;
	gboolean is_first = TRUE;

	while (text < end) {
		const char *next;
		gssize length = vial_http_line(text, (gsize)(end - text), &next);
		VialHttpField field;

		if (length < 0)
			return FALSE;
		if (length == 0)
			break;
		if (is_first ? !read_status(text, (gsize)length, head)
		             : !vial_http_field_split(text, (gsize)length, &field) || !vial_http_framing_take(&head->framing, &field))
			return FALSE;
		is_first = FALSE;
		text = next;
	}
	return !is_first && !(head->framing.is_chunked && (head->framing.has_length || head->is_http_1_0));
}

static State state_after(VialHttpAnswers *answers, const Head *head, VialHttpAsked asked)
{
	if (asked == VIAL_HTTP_ASKED_HEAD || head->status == 204 || head->status == 304)
		return HEAD;
	if (head->framing.is_chunked)
		return CHUNK_SIZE;
	if (!head->framing.has_length)
		return UNTIL_END;
	answers->left = head->framing.length;
	return answers->left ? LENGTH : HEAD;
}

static State take_head(VialHttpAnswers *answers, gsize size)
{
	Head head = { 0 };
	VialHttpAsked asked = answers->asked[answers->first];

	/* An answer that nobody asked for belongs to none of the next requests either. */
	if (answers->count == 0 || !read_head((const char *)answers->held->data, size, &head))
		return LOST;
	if (head.status == 101)
		return asked == VIAL_HTTP_ASKED_UPGRADE ? SWITCHED : LOST;
	if (head.status < 200)
		return HEAD;
	answers->first = (answers->first + 1) % VIAL_HTTP_MAX_PIPELINED;
	answers->count--;
	return state_after(answers, &head, asked);
}

/* ---- the stream ---- */

static void release(VialHttpAnswers *answers, gsize count)
{
	g_byte_array_remove_range(answers->held, 0, (guint)count);
	answers->scanned = 0;
}

static gsize step_head(VialHttpAnswers *answers)
{
	gsize count = vial_http_head_end(answers->held->data, answers->held->len, &answers->scanned);

	if ((count ? count : answers->held->len) > VIAL_HTTP_MAX_HEAD)
		answers->state = LOST;
	else if (count)
		answers->state = take_head(answers, count);
	return count;
}

static gsize step_trailer(VialHttpAnswers *answers)
{
	const guint8 *end = memchr(answers->held->data, '\n', answers->held->len);
	gsize count = end ? (gsize)(end + 1 - answers->held->data) : 0;

	if ((count ? count : answers->held->len) > VIAL_HTTP_MAX_HEAD || count == 1)
		answers->state = LOST;
	else if (count == 2 && answers->held->data[0] == '\r')
		answers->state = HEAD;
	return count;
}

/* One step on `held`: how many bytes of it are done with, 0 when more are needed. */
static gsize step(VialHttpAnswers *answers)
{
	gssize line;
	gsize count;

	switch (answers->state) {
	case HEAD:
		return step_head(answers);
	case LENGTH:
	case CHUNK_DATA:
		count = (gsize)MIN(answers->left, answers->held->len);
		vial_http_answers_skip(answers, count);
		return count;
	case CHUNK_SIZE:
		line = vial_http_chunk_line(answers->held->data, answers->held->len, &answers->left);
		if (line)
			answers->state = line < 0 ? LOST : answers->left ? CHUNK_DATA : TRAILER;
		return (gsize)MAX(line, 0);
	case CHUNK_END:
		if (answers->held->len < 2)
			return 0;
		answers->state = memcmp(answers->held->data, "\r\n", 2) == 0 ? CHUNK_SIZE : LOST;
		return 2;
	case TRAILER:
		return step_trailer(answers);
	case UNTIL_END:
	case SWITCHED:
	case LOST:
		break;
	}
	return answers->held->len;
}

gboolean vial_http_answers_feed(VialHttpAnswers *answers, const guint8 *bytes, gsize size)
{
	gsize blind = (gsize)MIN(vial_http_answers_blind_bytes(answers), size);
	gsize count;

	vial_http_answers_skip(answers, blind);
	if (blind < size)
		g_byte_array_append(answers->held, bytes + blind, (guint)(size - blind));
	while (answers->held->len && (count = step(answers)))
		release(answers, count);
	if (answers->state == LOST)
		g_byte_array_set_size(answers->held, 0);
	return answers->state == SWITCHED;
}

guint64 vial_http_answers_blind_bytes(const VialHttpAnswers *answers)
{
	switch (answers->state) {
	case LENGTH:
	case CHUNK_DATA:
		return answers->left;
	case UNTIL_END:
	case SWITCHED:
	case LOST:
		return G_MAXUINT64;
	default:
		return 0;
	}
}

void vial_http_answers_skip(VialHttpAnswers *answers, gsize size)
{
	if (answers->state != LENGTH && answers->state != CHUNK_DATA)
		return;
	answers->left -= size;
	if (answers->left == 0)
		answers->state = answers->state == LENGTH ? HEAD : CHUNK_END;
}
