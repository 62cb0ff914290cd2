/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/lines.h"

#include <jansson.h>
#include <string.h>

/* A number in a header has 18 digits at most: an export that begins beyond is none, and nothing that is added to it overflows. */
#define FIRST_MAX G_GINT64_CONSTANT(1000000000000000000)

void vial_ledger_write_title(GString *out, const VialLedgerTitle *title)
{
	char previous[VIAL_LEDGER_HASH_TEXT + 1], key[2 * VIAL_LEDGER_KEY_BYTES + 1];

	vial_ledger_hash_write(&title->previous, previous);
	vial_ledger_key_write(&title->key, key);
	g_string_append_printf(out, "{\"vial_audit\":1,\"chain\":\"%s\",\"first\":%" G_GINT64_FORMAT ",\"previous\":\"%s\",\"public_key\":\"%s\"}\n",
	                       title->chain, title->first, previous, key);
}

void vial_ledger_write_record(GString *out, const VialLedgerRecord *record)
{
	char text[VIAL_LEDGER_HASH_TEXT + 1];

	if (record->header) {
		g_string_append(out, "{\"record\":");
		g_string_append_len(out, record->header, (gssize)record->header_size);
		g_string_append(out, ",\"body\":");
		if (record->body)
			g_string_append_len(out, record->body, (gssize)record->body_size);
		else
			g_string_append(out, "null");
	} else {
		vial_ledger_hash_write(&record->header_hash, text);
		g_string_append_printf(out, "{\"seq\":%" G_GINT64_FORMAT ",\"record_sha256\":\"%s\"", record->seq, text);
	}
	vial_ledger_hash_write(&record->hash, text);
	g_string_append_printf(out, ",\"hash\":\"%s\"}\n", text);
}

void vial_ledger_write_head(GString *out, const VialLedgerHead *head)
{
	g_string_append(out, "{\"head\":");
	vial_ledger_head_write(head, out);
	g_string_append(out, "}\n");
}

/* Reading. Objects are found by their brackets, so that what is hashed is what stands there, to the byte, and a million lines take seconds. */

typedef struct {
	const char *at, *end;
} Reader;

static gboolean take(Reader *reader, const char *mark)
{
	gsize length = strlen(mark);

	if ((gsize)(reader->end - reader->at) < length || memcmp(reader->at, mark, length) != 0)
		return FALSE;
	reader->at += length;
	return TRUE;
}

/* Behind the string that begins at `at`. A quote ends it unless an odd number of backslashes stands before it. */
static const char *skip_string(const char *at, const char *end)
{
	const char *begin = ++at;

	while ((at = memchr(at, '"', (gsize)(end - at)))) {
		const char *back = at;

		while (back > begin && back[-1] == '\\')
			back--;
		at++;
		if ((at - 1 - back) % 2 == 0)
			return at;
	}
	return NULL;
}

static gboolean take_object(Reader *reader, const char **out, gsize *out_size)
{
	const char *at = reader->at;
	int depth = 0;

	if (at >= reader->end || *at != '{')
		return FALSE;
	while (at && at < reader->end) {
		if (*at == '"') {
			at = skip_string(at, reader->end);
			continue;
		}
		depth += (*at == '{') - (*at == '}');
		at++;
		if (depth == 0) {
			*out = reader->at;
			*out_size = (gsize)(at - reader->at);
			reader->at = at;
			return TRUE;
		}
	}
	return FALSE;
}

static gboolean take_hash(Reader *reader, VialLedgerHash *out)
{
	if (reader->end - reader->at < VIAL_LEDGER_HASH_TEXT || !vial_ledger_hash_read(reader->at, out))
		return FALSE;
	reader->at += VIAL_LEDGER_HASH_TEXT;
	return TRUE;
}

static gboolean take_number(Reader *reader, gint64 *out)
{
	const char *first = reader->at;

	for (*out = 0; reader->at < reader->end && g_ascii_isdigit(*reader->at) && reader->at - first < 18; reader->at++)
		*out = *out * 10 + (*reader->at - '0');
	return reader->at > first;
}

static gboolean take_end(Reader *reader, VialLedgerHash *out_hash)
{
	return take(reader, ",\"hash\":\"") && take_hash(reader, out_hash) && take(reader, "\"}") && reader->at == reader->end;
}

static gboolean read_whole(Reader reader, VialLedgerRecord *out)
{
	VialLedgerHash body;

	*out = (VialLedgerRecord){ 0 };
	if (!take_object(&reader, &out->header, &out->header_size) || !take(&reader, ",\"body\":"))
		return FALSE;
	if (!take(&reader, "null") && !take_object(&reader, &out->body, &out->body_size))
		return FALSE;
	/* Where it stands is all that an export says of its place. A header that is no header is the check's business. */
	vial_ledger_header_read(out->header, out->header_size, &out->seq, NULL, &body);
	return take_end(&reader, &out->hash);
}

static gboolean read_hashes(Reader reader, VialLedgerRecord *out)
{
	*out = (VialLedgerRecord){ 0 };
	return take_number(&reader, &out->seq) && take(&reader, ",\"record_sha256\":\"") && take_hash(&reader, &out->header_hash) &&
	       take(&reader, "\"") && take_end(&reader, &out->hash);
}

static gboolean read_head(Reader reader, VialLedgerHead *out)
{
	const char *object;
	gsize size;

	return take_object(&reader, &object, &size) && vial_ledger_head_read(object, size, out) && take(&reader, "}") && reader.at == reader.end;
}

static gboolean read_title(const char *line, gsize size, VialLedgerTitle *out)
{
	json_t *json = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
	const char *chain = NULL, *previous = NULL, *key = NULL;
	json_int_t version = 0, first = 0;
	gboolean is_read = json && json_unpack(json, "{s:I, s:s, s:I, s:s, s:s}", "vial_audit", &version, "chain", &chain, "first", &first,
	                                       "previous", &previous, "public_key", &key) == 0;

	is_read = is_read && version == 1 && first > 0 && first < FIRST_MAX && strlen(chain) <= VIAL_LEDGER_CHAIN_MAX_BYTES &&
	          strlen(previous) == VIAL_LEDGER_HASH_TEXT && vial_ledger_hash_read(previous, &out->previous) &&
	          vial_ledger_key_read(key, strlen(key), &out->key, NULL);
	if (is_read) {
		g_strlcpy(out->chain, chain, sizeof(out->chain));
		out->first = first;
	}
	json_decref(json);
	return is_read;
}

VialLedgerLineKind vial_ledger_read_line(const char *line, gsize size, VialLedgerLine *out)
{
	Reader reader = { line, line + size };

	if (take(&reader, "{\"record\":"))
		return read_whole(reader, &out->record) ? VIAL_LEDGER_LINE_RECORD : VIAL_LEDGER_LINE_NONE;
	if (take(&reader, "{\"seq\":"))
		return read_hashes(reader, &out->record) ? VIAL_LEDGER_LINE_RECORD : VIAL_LEDGER_LINE_NONE;
	if (take(&reader, "{\"head\":"))
		return read_head(reader, &out->head) ? VIAL_LEDGER_LINE_HEAD : VIAL_LEDGER_LINE_NONE;
	return read_title(line, size, &out->title) ? VIAL_LEDGER_LINE_TITLE : VIAL_LEDGER_LINE_NONE;
}
