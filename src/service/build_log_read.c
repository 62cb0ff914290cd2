/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of a build's log: each has its own place in the file and is sent what there is when it takes it, a piece at a time, from the loop. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "service/build_log.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/json.h"

#define PIECE_BYTES (64 * 1024)
/* What a follower hears of a busy build comes in batches. */
#define FOLLOW_MS 20

struct VialBuildLogReader {
	int fd;
	off_t at;
	GString *partial; /* a line whose end is not read yet */
	VialBuildLog *log;
	gboolean follows;
	gboolean is_full; /* the sink has enough for now */
	gboolean is_sending;
	gboolean is_over;
	guint source;
	const VialBuildLogSink *sink;
	gpointer data;
};

static void reader_destroy(VialBuildLogReader *reader)
{
	g_clear_handle_id(&reader->source, g_source_remove);
	if (reader->log) {
		vial_build_log_unfollow(reader->log, reader);
		vial_build_log_unref(reader->log);
	}
	g_string_free(reader->partial, TRUE);
	vial_fd_clear(&reader->fd);
	g_free(reader);
}

static gboolean on_turn(gpointer data);

static void go_on_soon(VialBuildLogReader *reader, guint delay_ms)
{
	if (!reader->source)
		reader->source = g_timeout_add(delay_ms, on_turn, reader);
}

/* Whole lines, as long as the sink takes them. */
static void send_lines(VialBuildLogReader *reader)
{
	gsize sent = 0;
	char *end;

	while (!reader->is_full && !reader->is_over && (end = memchr(reader->partial->str + sent, '\n', reader->partial->len - sent))) {
		gsize size = (gsize)(end - reader->partial->str) - sent;
		char *line = reader->partial->str + sent;

		sent += size + 1;
		reader->is_full = reader->sink->line(line, size, reader->data);
	}
	g_string_erase(reader->partial, 0, (gssize)sent);
}

/* FALSE: there is no more for now. */
static gboolean read_piece(VialBuildLogReader *reader)
{
	char bytes[PIECE_BYTES];
	ssize_t got = pread(reader->fd, bytes, sizeof bytes, reader->at);

	if (got <= 0)
		return FALSE;
	reader->at += got;
	g_string_append_len(reader->partial, bytes, got);
	return TRUE;
}

static gboolean on_turn(gpointer data)
{
	VialBuildLogReader *reader = data;
	gboolean has_more;

	reader->source = 0;
	reader->is_sending = TRUE;
	has_more = memchr(reader->partial->str, '\n', reader->partial->len) || read_piece(reader);
	send_lines(reader);
	reader->is_sending = FALSE;
	if (reader->is_over) {
		reader_destroy(reader);
	} else if (!reader->is_full && has_more) {
		go_on_soon(reader, 0);
	} else if (!reader->is_full && !(reader->follows && reader->log && !vial_build_log_is_closed(reader->log))) {
		reader->sink->end(reader->data);
		reader_destroy(reader);
	}
	return G_SOURCE_REMOVE;
}

static void on_changed(gpointer data)
{
	VialBuildLogReader *reader = data;

	if (!reader->is_full && !reader->is_sending)
		go_on_soon(reader, FOLLOW_MS);
}

VialBuildLogReader *vial_build_log_read(const char *path, VialBuildLog *log, gboolean follows, const VialBuildLogSink *sink, gpointer data,
                                        GError **error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	VialBuildLogReader *reader;

	if (fd < 0) {
		vial_fail(error, VIAL_ERROR_NOT_FOUND, "the log of this build is gone: %s", g_strerror(errno));
		return NULL;
	}
	reader = g_new0(VialBuildLogReader, 1);
	*reader = (VialBuildLogReader){ .fd = fd, .partial = g_string_new(NULL), .follows = follows, .sink = sink, .data = data };
	if (log) {
		reader->log = vial_build_log_ref(log);
		vial_build_log_follow(log, on_changed, reader);
	}
	go_on_soon(reader, 0);
	return reader;
}

void vial_build_log_reader_drained(VialBuildLogReader *reader)
{
	reader->is_full = FALSE;
	if (!reader->is_sending)
		go_on_soon(reader, 0);
}

void vial_build_log_reader_free(VialBuildLogReader *reader)
{
	if (!reader)
		return;
	if (reader->is_sending)
		reader->is_over = TRUE;
	else
		reader_destroy(reader);
}

guint vial_build_log_last_step(const char *path)
{
	g_autofree char *piece = g_malloc(PIECE_BYTES);
	vial_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
	ssize_t got = size > 0 ? pread(fd, piece, PIECE_BYTES, MAX(size - PIECE_BYTES, 0)) : 0;
	const char *end = got > 0 ? memrchr(piece, '\n', (gsize)got) : NULL;
	const char *before = end ? memrchr(piece, '\n', (gsize)(end - piece)) : NULL;
	const char *line = before ? before + 1 : piece;
	g_autoptr(json_t) document = end ? json_loadb(line, (gsize)(end - line), JSON_ALLOW_NUL, NULL) : NULL;
	json_int_t step = json_integer_value(json_object_get(document, "step"));

	return step > 0 && step <= G_MAXINT ? (guint)step : 0;
}
