/* SPDX-License-Identifier: Apache-2.0 */
#include "operations/tape.h"

#include <string.h>

/* A secret that begins before the cut ends within this much behind it, is seen whole, and leaves no piece of itself. */
#define MARGIN_BYTES 4096

void vial_tape_hash(VialTape *tape, gsize max_text_bytes)
{
	tape->sum = vial_sha256_new();
	tape->text = max_text_bytes > 0 ? g_string_new(NULL) : NULL;
	tape->max_bytes = max_text_bytes;
}

void vial_tape_add(VialTape *tape, const void *bytes, gsize size)
{
	tape->bytes += size;
	if (tape->sum)
		vial_sha256_add(tape->sum, bytes, size);
	if (tape->text && tape->text->len < tape->max_bytes + MARGIN_BYTES)
		g_string_append_len(tape->text, bytes, (gssize)MIN(size, tape->max_bytes + MARGIN_BYTES - tape->text->len));
}

void vial_tape_clear(VialTape *tape)
{
	g_clear_pointer(&tape->sum, vial_sha256_free);
	if (tape->text)
		g_string_free(tape->text, TRUE);
	tape->text = NULL;
}

/* A piece that ends within a character ends before it. */
static gsize whole_characters(const char *text, gsize size)
{
	const char *end = text;

	if (g_utf8_validate_len(text, size, &end) || (gsize)(end - text) + 4 > size)
		return (gsize)(end - text);
	return 0;
}

/* The beginning of what is longer, its secrets taken out before it is cut. */
static json_t *cut_text(const char *text, gsize size, gsize max_bytes, const VialAudit *audit)
{
	gsize seen = whole_characters(text, MIN(size, max_bytes + MARGIN_BYTES));
	g_autofree char *clean = vial_audit_redact(audit, text, seen);

	if (clean) {
		text = clean;
		seen = strlen(clean);
	}
	return json_stringn(text, whole_characters(text, MIN(seen, max_bytes)));
}

json_t *vial_tape_json(const VialTape *tape, const VialAudit *audit)
{
	g_autofree char *sum = NULL;
	json_t *json;
	gsize size;

	if (!tape->sum || tape->bytes == 0)
		return NULL;
	sum = vial_sha256_text(tape->sum);
	json = json_pack("{s:I, s:s}", "bytes", (json_int_t)tape->bytes, "sha256", sum);
	size = tape->text ? whole_characters(tape->text->str, tape->text->len) : 0;
	if (size == 0 || memchr(tape->text->str, '\0', size))
		return json;
	if (size > tape->max_bytes)
		json_object_set_new(json, "text", cut_text(tape->text->str, size, tape->max_bytes, audit));
	else
		json_object_set_new(json, "text", json_stringn(tape->text->str, size));
	if (size > tape->max_bytes || size < tape->bytes)
		json_object_set_new(json, "cut", json_true());
	return json;
}

void vial_tape_text(json_t *body, const char *field, const char *text, gsize size, gsize max_bytes, const VialAudit *audit)
{
	guint8 digest[VIAL_SHA256_BYTES];
	g_autofree char *hex = NULL, *bytes_name = NULL, *sum_name = NULL;

	if (size <= max_bytes) {
		json_object_set_new(body, field, json_stringn(text, size));
		return;
	}
	json_object_set_new(body, field, cut_text(text, size, max_bytes, audit));
	vial_sha256(text, size, digest);
	hex = vial_hex_encode(digest, sizeof(digest));
	bytes_name = g_strconcat(field, "_bytes", NULL);
	sum_name = g_strconcat(field, "_sha256", NULL);
	json_object_set_new(body, bytes_name, json_integer((json_int_t)size));
	json_object_set_new(body, sum_name, json_string(hex));
}
