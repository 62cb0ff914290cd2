/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes by, for a record: how many bytes, their hash, and the text itself as far as it is short and text. What somebody types into a terminal or
 * pipes into a shell is code as much as a cell is.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "audit/audit.h"
#include "util/hash.h"

typedef struct {
	guint64 bytes;
	VialSha256 *sum; /* NULL: only counted */
	GString *text;   /* NULL: not kept */
	gsize max_bytes; /* of it that is shown; a little more is kept, see MARGIN_BYTES */
} VialTape;

/* Counts only, until told to hash, or to hash and keep so much of the text. */
void vial_tape_hash(VialTape *tape, gsize max_text_bytes);
void vial_tape_add(VialTape *tape, const void *bytes, gsize size);
/* {bytes, sha256, text?, cut?}; NULL when nothing went by or it was only counted. */
json_t *vial_tape_json(const VialTape *tape, const VialAudit *audit);
void vial_tape_clear(VialTape *tape);

/* A text as a record has it: `field` of `body`, and when it is longer than `max_bytes`, FIELD_bytes and FIELD_sha256 of the whole. */
void vial_tape_text(json_t *body, const char *field, const char *text, gsize size, gsize max_bytes, const VialAudit *audit);
