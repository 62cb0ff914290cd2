/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one HTTP/1.x response from a program in a sandbox. Sans-I/O: it is shown bytes and takes them apart; the caller
 * moves them. The program is hostile: every length has a limit, and whatever two parsers could read differently is broken.
 *
 * Call next() until it says VIAL_REPLY_MORE (all bytes used) or something final. The first thing is VIAL_REPLY_HEAD, then
 * any number of VIAL_REPLY_DATA, then VIAL_REPLY_END; bytes left over after END (or after the head of a 101) belong to no
 * response. Interim responses (1xx) are skipped.
 */
#pragma once

#include <glib.h>

#define VIAL_REPLY_MAX_HEAD_BYTES (64 * 1024)
#define VIAL_REPLY_MAX_HEADERS 256
#define VIAL_REPLY_MAX_INTERIM 32
/* A chunk's size line with its extensions, and one line of a trailer. */
#define VIAL_REPLY_MAX_LINE_BYTES 8192
#define VIAL_REPLY_MAX_TRAILER_BYTES (64 * 1024)

typedef enum {
	VIAL_REPLY_MORE,
	VIAL_REPLY_HEAD,
	VIAL_REPLY_DATA,
	VIAL_REPLY_END,
	VIAL_REPLY_BROKEN, /* for good; vial_reply_reader_error() says why */
} VialReplyEvent;

typedef struct {
	char *name;
	char *value; /* without line ends; a tab is a space */
} VialReplyHeader;

typedef struct VialReplyReader VialReplyReader;

/* `has_no_body`: the answer to HEAD. `may_switch`: the request asked for an upgrade, so 101 is an answer. */
VialReplyReader *vial_reply_reader_new(gboolean has_no_body, gboolean may_switch);
void vial_reply_reader_free(VialReplyReader *reader); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VialReplyReader, vial_reply_reader_free)

/* Takes bytes from the front of *bytes. With DATA, *out_data and *out_size are a piece of them. */
VialReplyEvent vial_reply_reader_next(VialReplyReader *reader, const guint8 **bytes, gsize *size, const guint8 **out_data, gsize *out_size);
/* The connection has ended: END if the response is complete by that, else BROKEN. */
VialReplyEvent vial_reply_reader_finish(VialReplyReader *reader);
const char *vial_reply_reader_error(const VialReplyReader *reader);

/* From HEAD on. */
unsigned vial_reply_reader_status(const VialReplyReader *reader);
const VialReplyHeader *vial_reply_reader_headers(const VialReplyReader *reader, gsize *out_count);
const char *vial_reply_reader_header(const VialReplyReader *reader, const char *name); /* the first, or NULL */
/* The length the response announces (also for HEAD), or -1. */
gint64 vial_reply_reader_size(const VialReplyReader *reader);
gboolean vial_reply_reader_has_body(const VialReplyReader *reader);
