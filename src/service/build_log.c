/* SPDX-License-Identifier: Apache-2.0 */
#include "service/build_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "service/build_secrets.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/json.h"
#include "util/log.h"
#include "util/time.h"
#include "util/utf8.h"

/* Of what a step printed last, as it came. */
#define TAIL_BYTES (16 * 1024)
/* Sentences of our own are written also when the log is full, but not without end. */
#define EVENTS_MAX_BYTES (1024 * 1024)

typedef struct {
	VialBuildLogChanged changed;
	gpointer data;
} Follower;

struct VialBuildLog {
	int refs;
	int fd;
	char *path;
	guint64 size_bytes;   /* of what was printed */
	guint64 events_bytes; /* of our own */
	gboolean is_full, is_closed, has_failed;
	guint step, total;
	VialBuildSecrets *secrets;
	GString *partial[2]; /* what has no line end yet, of stdout and stderr */
	gsize covered[2];    /* so much of its beginning is of a secret that was told as [redacted] */
	VialUtf8 utf8[2];
	GByteArray *tail;
	GPtrArray *followers; /* Follower */
};

/* Where the last line ends that a viald wrote to its end: one that was killed may have left half of one. */
static off_t end_of_lines(int fd)
{
	off_t end = lseek(fd, 0, SEEK_END);
	char bytes[4096];

	while (end > 0) {
		off_t begin = MAX(end - (off_t)sizeof bytes, 0);
		ssize_t got = pread(fd, bytes, (size_t)(end - begin), begin);
		const char *newline = got > 0 ? memrchr(bytes, '\n', (size_t)got) : NULL;

		if (got != end - begin)
			return -1;
		if (newline)
			return begin + (newline + 1 - bytes);
		end = begin;
	}
	return end;
}

VialBuildLog *vial_build_log_open(const char *path, GError **error)
{
	int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	off_t size = fd >= 0 ? end_of_lines(fd) : -1;
	VialBuildLog *log;

	if (size < 0 || ftruncate(fd, size) != 0) {
		vial_fail(error, errno == ENOSPC ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL, "the log of the build cannot be made: %s",
		          g_strerror(errno));
		vial_fd_clear(&fd);
		return NULL;
	}
	log = g_new0(VialBuildLog, 1);
	log->refs = 1;
	log->fd = fd;
	log->path = g_strdup(path);
	log->size_bytes = (guint64)size;
	log->secrets = vial_build_secrets_new();
	log->partial[0] = g_string_new(NULL);
	log->partial[1] = g_string_new(NULL);
	log->tail = g_byte_array_new();
	log->followers = g_ptr_array_new_with_free_func(g_free);
	return log;
}

VialBuildLog *vial_build_log_ref(VialBuildLog *log)
{
	log->refs++;
	return log;
}

void vial_build_log_unref(VialBuildLog *log)
{
	if (!log || --log->refs > 0)
		return;
	vial_fd_clear(&log->fd);
	vial_build_secrets_free(log->secrets);
	g_string_free(log->partial[0], TRUE);
	g_string_free(log->partial[1], TRUE);
	g_byte_array_unref(log->tail);
	g_ptr_array_unref(log->followers);
	g_free(log->path);
	g_free(log);
}

void vial_build_log_hide(VialBuildLog *log, json_t *secrets)
{
	vial_build_secrets_add(log->secrets, secrets);
}

char *vial_build_log_clean(const VialBuildLog *log, const char *text)
{
	return vial_build_secrets_clean(log->secrets, text);
}

/* Writing */

static void tell(VialBuildLog *log)
{
	vial_build_log_ref(log);
	for (guint i = log->followers->len; i > 0; i--) {
		Follower follower;

		if (i > log->followers->len)
			continue; /* some have gone meanwhile */
		follower = *(Follower *)log->followers->pdata[i - 1];
		follower.changed(follower.data);
	}
	vial_build_log_unref(log);
}

/* The first line that cannot be written is the last: half a line must not be followed by another. */
static void write_line(VialBuildLog *log, const char *stream, const char *text, gsize size)
{
	char time[VIAL_TIME_TEXT_SIZE];
	g_autoptr(json_t) json = NULL;
	g_autofree char *line = NULL;
	gsize length;

	vial_time_fill(time, vial_time_now_ms());
	json = json_pack("{s:s, s:i, s:i, s:s, s:o}", "time", time, "step", (int)log->step, "total", (int)log->total, "stream", stream, "text",
	                 json_stringn(text, size));
	line = json ? json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	if (!line || log->has_failed)
		return;
	length = strlen(line);
	line[length] = '\n'; /* in place of the NUL */
	if (write(log->fd, line, length + 1) != (ssize_t)length + 1) {
		log->has_failed = TRUE;
		vial_log_warning("build", "a log could not be written", "path", log->path, "error", g_strerror(errno));
		return;
	}
	if (strcmp(stream, "event") == 0)
		log->events_bytes += length + 1;
	else
		log->size_bytes += length + 1;
	tell(log);
}

void vial_build_log_event(VialBuildLog *log, const char *format, ...)
{
	g_autofree char *text = NULL, *cleaned = NULL;
	va_list args;

	va_start(args, format);
	text = g_strdup_vprintf(format, args);
	va_end(args);
	cleaned = vial_build_log_clean(log, text);
	if (log->events_bytes < EVENTS_MAX_BYTES)
		write_line(log, "event", cleaned, strlen(cleaned));
}

static void write_printed(VialBuildLog *log, int which, const char *text, gsize size)
{
	if (log->is_full)
		return;
	if (log->size_bytes >= VIAL_BUILD_LOG_MAX_BYTES) {
		log->is_full = TRUE;
		vial_build_log_event(log, "the log is full (%d MiB): what is printed from here on is left out", VIAL_BUILD_LOG_MAX_BYTES >> 20);
		return;
	}
	write_line(log, which ? "stderr" : "stdout", text, size);
}

/* A place not far below `at` where no character is cut. */
static gsize boundary(const char *text, gsize at)
{
	while (at > 0 && ((guchar)text[at] & 0xc0) == 0x80)
		at--;
	return at;
}

/* A line, or a piece of one that is too long, in lines that are not. */
static void write_cleaned(VialBuildLog *log, int which, const char *text, gsize size, const guint8 *marks, gboolean goes_on)
{
	g_autoptr(GString) line = vial_build_secrets_hide(text, size, marks, goes_on);

	for (gsize at = 0; at == 0 || at < line->len;) {
		gsize next = line->len - at > VIAL_BUILD_LOG_LINE_BYTES ? boundary(line->str, at + VIAL_BUILD_LOG_LINE_BYTES) : line->len;

		write_printed(log, which, line->str + at, next - at);
		at = MAX(next, at + 1);
	}
}

/*
 * Whole lines. Of what has no end yet only so much that every secret which begins in it is there whole, and what of one reaches beyond the cut is
 * remembered as covered.
 */
static void write_whole(VialBuildLog *log, int which)
{
	GString *partial = log->partial[which];
	gsize longest = vial_build_secrets_longest(log->secrets), at = 0;
	g_autofree guint8 *marks = vial_build_secrets_mark(log->secrets, partial->str, partial->len, log->covered[which]);
	const char *end;

	while ((end = memchr(partial->str + at, '\n', partial->len - at))) {
		gsize size = (gsize)(end - partial->str) - at, shown = size > 0 && end[-1] == '\r' ? size - 1 : size;

		write_cleaned(log, which, partial->str + at, shown, marks ? marks + at : NULL, log->covered[which] > 0);
		log->covered[which] = 0;
		at += size + 1;
	}
	while (partial->len - at > VIAL_BUILD_LOG_LINE_BYTES + longest) {
		gsize size = boundary(partial->str + at, VIAL_BUILD_LOG_LINE_BYTES);

		write_cleaned(log, which, partial->str + at, size, marks ? marks + at : NULL, log->covered[which] > 0);
		at += size;
		log->covered[which] = 0;
		while (marks && at + log->covered[which] < partial->len && marks[at - 1] && marks[at + log->covered[which]])
			log->covered[which]++;
	}
	g_string_erase(partial, 0, (gssize)at);
}

static void keep_tail(VialBuildLog *log, const guint8 *bytes, gsize size)
{
	if (size > TAIL_BYTES) {
		bytes += size - TAIL_BYTES;
		size = TAIL_BYTES;
	}
	if (log->tail->len + size > TAIL_BYTES)
		g_byte_array_remove_range(log->tail, 0, (guint)(log->tail->len + size - TAIL_BYTES));
	g_byte_array_append(log->tail, bytes, (guint)size);
}

void vial_build_log_output(VialBuildLog *log, gboolean is_stderr, const void *bytes, gsize size)
{
	int which = is_stderr ? 1 : 0;

	keep_tail(log, bytes, size);
	if (log->is_full || log->is_closed)
		return;
	vial_utf8_feed(&log->utf8[which], bytes, size, log->partial[which]);
	write_whole(log, which);
}

static void flush(VialBuildLog *log)
{
	for (int which = 0; which < 2; which++) {
		vial_utf8_finish(&log->utf8[which], log->partial[which]);
		if (log->partial[which]->len > 0)
			g_string_append_c(log->partial[which], '\n');
		write_whole(log, which);
	}
}

void vial_build_log_step(VialBuildLog *log, guint step, guint total)
{
	flush(log);
	log->step = step;
	log->total = total;
	g_byte_array_set_size(log->tail, 0);
}

gboolean vial_build_log_is_full(const VialBuildLog *log)
{
	return log->is_full;
}

json_t *vial_build_log_last(VialBuildLog *log)
{
	g_autofree char *valid = g_utf8_make_valid((const char *)log->tail->data, (gssize)log->tail->len);
	g_autoptr(GString) text = g_string_new(log->tail->len > 0 ? valid : "");
	g_autofree char *cleaned = NULL;
	g_auto(GStrv) lines = NULL;
	json_t *list = json_array();
	guint count, first;

	/* What was cut in front may have been half a secret. */
	if (log->tail->len == TAIL_BYTES) {
		const char *newline = strchr(text->str, '\n');
		gsize skipped = newline ? (gsize)(newline + 1 - text->str) : MIN(vial_build_secrets_longest(log->secrets), text->len);

		while (skipped < text->len && ((guchar)text->str[skipped] & 0xc0) == 0x80)
			skipped++;
		g_string_erase(text, 0, (gssize)skipped);
	}
	cleaned = vial_build_log_clean(log, text->str);
	lines = g_strsplit(g_strchomp(cleaned), "\n", -1);
	count = g_strv_length(lines);
	first = count > VIAL_BUILD_LAST_LINES ? count - VIAL_BUILD_LAST_LINES : 0;
	for (guint i = first; i < count; i++) {
		g_strchomp(lines[i]);
		json_array_append_new(list, json_stringn(lines[i], boundary(lines[i], MIN(strlen(lines[i]), 1000))));
	}
	return list;
}

void vial_build_log_close(VialBuildLog *log)
{
	flush(log);
	log->is_closed = TRUE;
	vial_build_secrets_forget(log->secrets);
	g_byte_array_set_size(log->tail, 0);
	tell(log);
}

gboolean vial_build_log_is_closed(const VialBuildLog *log)
{
	return log->is_closed;
}

void vial_build_log_follow(VialBuildLog *log, VialBuildLogChanged changed, gpointer data)
{
	Follower *follower = g_new(Follower, 1);

	*follower = (Follower){ changed, data };
	g_ptr_array_add(log->followers, follower);
}

void vial_build_log_unfollow(VialBuildLog *log, gpointer data)
{
	for (guint i = log->followers->len; i > 0; i--)
		if (((Follower *)log->followers->pdata[i - 1])->data == data)
			g_ptr_array_remove_index(log->followers, i - 1);
}
