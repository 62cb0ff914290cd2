/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "util/error.h"
#include "util/fault.h"
#include "util/fd.h"
#include "util/hash.h"

#define SUFFIX ".spool"
#define SEGMENT_BYTES (8 * 1024 * 1024)
#define MAGIC 0x31505356u /* "VSP1" */
#define CHECK_BYTES 8

typedef struct {
	guint32 magic;
	guint32 kind;
	guint32 size;
	guint8 check[CHECK_BYTES];
} Frame;

G_STATIC_ASSERT(sizeof(Frame) == 20);

typedef struct {
	guint number;
	int fd;
} Segment;

struct VialSpool {
	int dir_fd;
	GArray *segments; /* Segment: those to be released, the current one, and empty ones ready behind it */
	guint current;    /* its index */
	off_t offset;     /* where the next entry goes in it */
	gsize reserved;
	gboolean is_damaged;
};

static Segment *segment_at(const VialSpool *spool, guint i)
{
	return &g_array_index(spool->segments, Segment, i);
}

static char *file_name(guint number)
{
	return g_strdup_printf("%010u" SUFFIX, number);
}

gsize vial_spool_cost(gsize size)
{
	return sizeof(Frame) + size;
}

/* Of the bytes, and of what the frame says of them. */
static void make_check(guint32 kind, guint32 size, const char *bytes, guint8 out[CHECK_BYTES])
{
	guint8 digest[VIAL_SHA256_BYTES];
	guint32 words[2];

	vial_sha256(bytes, size, digest);
	memcpy(words, digest, sizeof(words));
	words[0] ^= kind;
	words[1] ^= size;
	memcpy(out, words, CHECK_BYTES);
}

/* Room */

static gboolean allocate(int fd, GError **error)
{
	int status = vial_fault("audit.allocate") ? ENOSPC : posix_fallocate(fd, 0, SEGMENT_BYTES);

	if (status == 0)
		return TRUE;
	return vial_fail(
		error, status == ENOSPC || status == EDQUOT ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL,
		"there is no room for records of what is done, so nothing more is done: %s; free some space on the disk of the data directory",
		g_strerror(status));
}

static gboolean add_segment(VialSpool *spool, GError **error)
{
	guint number = spool->segments->len ? segment_at(spool, spool->segments->len - 1)->number + 1 : 1;
	g_autofree char *name = file_name(number);
	int fd = openat(spool->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return vial_fail(error, errno == ENOSPC ? VIAL_ERROR_NO_SPACE : VIAL_ERROR_INTERNAL, "the records' spool cannot be extended: %s",
		                 g_strerror(errno));
	if (!allocate(fd, error)) {
		close(fd);
		unlinkat(spool->dir_fd, name, 0);
		return FALSE;
	}
	g_array_append_val(spool->segments, ((Segment){ number, fd }));
	return TRUE;
}

/* An entry is not divided: at the end of each segment as much as the largest may be lost. */
static gsize room(const VialSpool *spool)
{
	guint spare = spool->segments->len - spool->current - 1;
	gsize left = (gsize)(SEGMENT_BYTES - spool->offset);

	return (left > VIAL_SPOOL_MAX_ENTRY_BYTES ? left - VIAL_SPOOL_MAX_ENTRY_BYTES : 0) +
	       spare * (gsize)(SEGMENT_BYTES - VIAL_SPOOL_MAX_ENTRY_BYTES);
}

gboolean vial_spool_reserve(VialSpool *spool, gsize size, gboolean is_urgent, GError **error)
{
	while (room(spool) < spool->reserved + size + (is_urgent ? 0 : VIAL_SPOOL_URGENT_BYTES))
		if (!add_segment(spool, error))
			return FALSE;
	spool->reserved += size;
	return TRUE;
}

void vial_spool_unreserve(VialSpool *spool, gsize size)
{
	spool->reserved -= MIN(size, spool->reserved);
}

/* Writing */

static gboolean go_on(VialSpool *spool, GError **error)
{
	if (spool->current + 1 == spool->segments->len && !add_segment(spool, error))
		return FALSE;
	spool->current++;
	spool->offset = 0;
	return TRUE;
}

static gboolean write_entry(VialSpool *spool, const Frame *frame, const char *bytes, gsize size, GError **error)
{
	struct iovec parts[] = { { (void *)frame, sizeof(*frame) }, { (void *)bytes, size } };
	gsize whole = sizeof(*frame) + size;
	ssize_t n = -1;

	if (!vial_fault("audit.append"))
		n = TEMP_FAILURE_RETRY(pwritev(segment_at(spool, spool->current)->fd, parts, G_N_ELEMENTS(parts), spool->offset));
	if (n == (ssize_t)whole)
		return TRUE;
	/* A piece of it may be there: its check does not hold, and the next one is written over it. */
	return vial_fail(error, VIAL_ERROR_UNAVAILABLE, "what is done cannot be recorded: %s",
	                 n < 0 ? g_strerror(errno) : "the disk took a part of it");
}

gboolean vial_spool_append(VialSpool *spool, VialSpoolKind kind, const char *bytes, gsize size, guint *out_segment, GError **error)
{
	Frame frame = { .magic = MAGIC, .kind = kind, .size = (guint32)size };

	g_return_val_if_fail(vial_spool_cost(size) <= VIAL_SPOOL_MAX_ENTRY_BYTES, FALSE);
	make_check(frame.kind, frame.size, bytes, frame.check);
	if ((gsize)(SEGMENT_BYTES - spool->offset) < vial_spool_cost(size) && !go_on(spool, error))
		return FALSE;
	if (!write_entry(spool, &frame, bytes, size, error))
		return FALSE;
	spool->offset += (off_t)vial_spool_cost(size);
	if (out_segment)
		*out_segment = vial_spool_current(spool);
	return TRUE;
}

guint vial_spool_current(const VialSpool *spool)
{
	return segment_at(spool, spool->current)->number;
}

gboolean vial_spool_turn(VialSpool *spool, GError **error)
{
	return spool->offset == 0 || (add_segment(spool, error) && go_on(spool, error));
}

static void drop_segment(VialSpool *spool, guint i)
{
	g_autofree char *name = file_name(segment_at(spool, i)->number);

	unlinkat(spool->dir_fd, name, 0);
	close(segment_at(spool, i)->fd);
	g_array_remove_index(spool->segments, i);
}

void vial_spool_release(VialSpool *spool, guint before)
{
	while (spool->current > 0 && segment_at(spool, 0)->number < before) {
		drop_segment(spool, 0);
		spool->current--;
	}
}

int vial_spool_dup(VialSpool *spool)
{
	return fcntl(segment_at(spool, spool->current)->fd, F_DUPFD_CLOEXEC, 3);
}

/* Reading what the last viald left */

static int by_number(gconstpointer a, gconstpointer b)
{
	const Segment *left = a, *right = b;

	return left->number < right->number ? -1 : left->number > right->number;
}

static gboolean find_segments(VialSpool *spool, const char *path, GError **error)
{
	g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
	const char *name;

	while (dir && (name = g_dir_read_name(dir))) {
		Segment segment = { 0, -1 };
		guint64 number;
		g_autofree char *digits = g_str_has_suffix(name, SUFFIX) ? g_strndup(name, strlen(name) - strlen(SUFFIX)) : NULL;

		if (!digits || !g_ascii_string_to_unsigned(digits, 10, 1, G_MAXUINT - 1, &number, NULL))
			continue;
		segment.number = (guint)number;
		segment.fd = openat(spool->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		if (segment.fd < 0)
			return vial_fail(error, VIAL_ERROR_INTERNAL, "the records' spool %s/%s cannot be opened: %s", path, name, g_strerror(errno));
		g_array_append_val(spool->segments, segment);
	}
	g_array_sort(spool->segments, by_number);
	return TRUE;
}

/* A whole entry at the front of [at, end)? */
static gboolean read_frame(const char *at, const char *end, Frame *out)
{
	guint8 check[CHECK_BYTES];

	if ((gsize)(end - at) < sizeof(*out))
		return FALSE;
	memcpy(out, at, sizeof(*out));
	if (out->magic != MAGIC || out->size > (gsize)(end - at) - sizeof(*out))
		return FALSE;
	make_check(out->kind, out->size, at + sizeof(*out), check);
	return memcmp(check, out->check, sizeof(check)) == 0;
}

/*
 * The next whole entry, at `at` or behind a damaged place; NULL: none. What an entry holds is JSON or numbers of ours, so that nobody can have put
 * one into another.
 */
static const char *find_frame(const char *at, const char *end, Frame *out)
{
	const guint32 magic = MAGIC;

	for (; at && !read_frame(at, end, out); at = memmem(at + 1, (gsize)(end - at) - 1, &magic, sizeof(magic)))
		if (at == end)
			return NULL;
	return at;
}

/* Where the last whole entry of the segment ends. One that viald died in the midst of writing is the last; one that is not was damaged later. */
static gboolean read_segment(VialSpool *spool, const Segment *segment, VialSpoolEach each, gpointer data, off_t *out_end, GError **error)
{
	g_autofree char *bytes = g_malloc(SEGMENT_BYTES);
	gsize have = 0;
	const char *at = bytes, *found;
	Frame frame;

	while (have < SEGMENT_BYTES) {
		ssize_t n = TEMP_FAILURE_RETRY(pread(segment->fd, bytes + have, SEGMENT_BYTES - have, (off_t)have));

		if (n < 0)
			return vial_fail(error, VIAL_ERROR_INTERNAL, "the records' spool cannot be read: %s", g_strerror(errno));
		if (n == 0)
			break;
		have += (gsize)n;
	}
	while ((found = find_frame(at, bytes + have, &frame))) {
		spool->is_damaged |= found != at;
		at = found + sizeof(frame);
		each((VialSpoolKind)frame.kind, at, frame.size, data);
		at += frame.size;
	}
	*out_end = (off_t)(at - bytes);
	return TRUE;
}

/* The current one is the last with anything in it. */
static gboolean read_all(VialSpool *spool, VialSpoolEach each, gpointer data, GError **error)
{
	for (guint i = 0; i < spool->segments->len; i++) {
		off_t end = 0;

		if (!read_segment(spool, segment_at(spool, i), each, data, &end, error))
			return FALSE;
		if (end > 0 || i == 0) {
			spool->current = i;
			spool->offset = end;
		}
	}
	return TRUE;
}

/* The last viald may have died between making a segment and allocating its room, and a file may have been cut: only what is allocated is room. */
static void secure_room(VialSpool *spool)
{
	for (guint i = spool->segments->len; i > spool->current + 1; i--)
		if (!allocate(segment_at(spool, i - 1)->fd, NULL))
			drop_segment(spool, i - 1);
	if (!allocate(segment_at(spool, spool->current)->fd, NULL))
		spool->offset = SEGMENT_BYTES;
}

gboolean vial_spool_is_damaged(const VialSpool *spool)
{
	return spool->is_damaged;
}

VialSpool *vial_spool_open(const char *dir, VialSpoolEach each, gpointer data, GError **error)
{
	VialSpool *spool = g_new0(VialSpool, 1);

	spool->segments = g_array_new(FALSE, FALSE, sizeof(Segment));
	spool->dir_fd = vial_dir_open(dir, 0700, error);
	if (spool->dir_fd >= 0 && find_segments(spool, dir, error) && read_all(spool, each, data, error) &&
	    (spool->segments->len > 0 || add_segment(spool, error))) {
		secure_room(spool);
		return spool;
	}
	vial_spool_free(spool);
	return NULL;
}

void vial_spool_free(VialSpool *spool)
{
	if (!spool)
		return;
	for (guint i = 0; i < spool->segments->len; i++)
		close(segment_at(spool, i)->fd);
	g_array_unref(spool->segments);
	vial_fd_clear(&spool->dir_fd);
	g_free(spool);
}
