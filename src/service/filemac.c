/* SPDX-License-Identifier: Apache-2.0 */
#include "service/filemac.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/error.h"
#include "util/fd.h"
#include "util/hash.h"

/* What one thread takes at a time. */
#define PIECE_BYTES (8LL * 1024 * 1024)
/* Memory and disks of microVMs are mostly holes: of a piece only the blocks that are not zero count, with their places. */
#define BLOCK_BYTES 4096
#define CHUNK_BYTES (256LL * 1024)
#define NONCE_BYTES 8
#define CODE_BYTES 16

typedef struct {
	const guint8 *key;
	int fd;
	gint64 size;
	guint8 *codes;
	gint next;       /* atomic: the piece to take */
	gint has_failed; /* atomic */
	gint count;
} Pieces;

static gboolean is_zero(const guint8 *bytes, gint64 size)
{
	/* The first bytes tell it of nearly every block. */
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, (size_t)size - 1) == 0;
}

/* Where data begins at or behind `at`; a file system that does not know has data everywhere. */
static gint64 data_begin(int fd, gint64 at, gint64 end)
{
	gint64 found = lseek(fd, at, SEEK_DATA);

	return found >= 0 ? MIN(found, end) : errno == ENXIO ? end : at;
}

static gboolean read_whole(int fd, guint8 *bytes, gint64 size, gint64 offset)
{
	while (size > 0) {
		ssize_t got = pread(fd, bytes, (size_t)size, offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return FALSE;
		bytes += got;
		size -= got;
		offset += got;
	}
	return TRUE;
}

static void feed(gnutls_hmac_hd_t mac, const guint8 *chunk, gint64 chunk_at, gint64 start, gint64 end)
{
	guint64 place[2] = { GUINT64_TO_LE((guint64)(chunk_at + start)), GUINT64_TO_LE((guint64)(end - start)) };

	if (end <= start)
		return;
	gnutls_hmac(mac, place, sizeof place);
	gnutls_hmac(mac, chunk + start, (size_t)(end - start));
}

/* Feeds the runs of blocks that are not zero, each behind its place and length: a copy that has holes filled has the same code. */
static void feed_chunk(gnutls_hmac_hd_t mac, const guint8 *chunk, gint64 chunk_at, gint64 size)
{
	gint64 run = 0, run_end = 0;

	for (gint64 at = 0; at < size; at += BLOCK_BYTES) {
		gint64 block = MIN(BLOCK_BYTES, size - at);

		if (is_zero(chunk + at, block))
			continue;
		if (at != run_end) {
			feed(mac, chunk, chunk_at, run, run_end);
			run = at;
		}
		run_end = at + block;
	}
	feed(mac, chunk, chunk_at, run, run_end);
}

/* Chunk by chunk through a buffer that stays in the processor's cache: mapping the file would cost a fault for every few pages. */
static gboolean sum_piece(const Pieces *pieces, gint index, guint8 *chunk, guint8 *out_code)
{
	gint64 start = index * PIECE_BYTES, end = MIN(start + PIECE_BYTES, pieces->size), data = start;
	guint8 nonce[NONCE_BYTES] = { 0 };
	gboolean is_read = TRUE;
	gnutls_hmac_hd_t mac;

	memcpy(nonce, &(guint32){ GUINT32_TO_LE((guint32)index) }, sizeof(guint32));
	if (gnutls_hmac_init(&mac, GNUTLS_MAC_UMAC_128, pieces->key, VIAL_FILE_MAC_KEY_BYTES) < 0)
		g_error("there is no UMAC");
	gnutls_hmac_set_nonce(mac, nonce, sizeof nonce);
	for (gint64 at = start; is_read && at < end; at += CHUNK_BYTES) {
		gint64 size = MIN(CHUNK_BYTES, end - at);

		if (data <= at)
			data = data_begin(pieces->fd, at, end);
		if (data >= at + size)
			continue;
		is_read = read_whole(pieces->fd, chunk, size, at);
		if (is_read)
			feed_chunk(mac, chunk, at, size);
	}
	gnutls_hmac_deinit(mac, out_code);
	return is_read;
}

static gpointer sum_pieces(gpointer data)
{
	Pieces *pieces = data;
	g_autofree guint8 *chunk = g_malloc(CHUNK_BYTES);
	gint index;

	while ((index = g_atomic_int_add(&pieces->next, 1)) < pieces->count)
		if (!sum_piece(pieces, index, chunk, pieces->codes + (gsize)index * CODE_BYTES))
			g_atomic_int_set(&pieces->has_failed, 1);
	return NULL;
}

char *vial_file_mac(int dir_fd, const char *name, const guint8 key[VIAL_FILE_MAC_KEY_BYTES], GError **error)
{
	vial_autofd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	guint8 sum[VIAL_SHA256_BYTES];
	g_autofree guint8 *codes = NULL;
	Pieces pieces = { .key = key, .fd = fd };
	struct stat info;
	GThread *other;

	if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot read %s of the snapshot: %s", name, g_strerror(errno));
		return NULL;
	}
	pieces.size = info.st_size;
	pieces.count = (gint)((pieces.size + PIECE_BYTES - 1) / PIECE_BYTES);
	pieces.codes = codes = g_malloc0((gsize)pieces.count * CODE_BYTES + 1);
	other = pieces.count > 1 ? g_thread_new("sum", sum_pieces, &pieces) : NULL;
	sum_pieces(&pieces);
	if (other)
		g_thread_join(other);
	if (pieces.has_failed) {
		vial_fail(error, VIAL_ERROR_INTERNAL, "cannot read %s of the snapshot to its end", name);
		return NULL;
	}
	gnutls_hash_fast(GNUTLS_DIG_SHA256, codes, (size_t)pieces.count * CODE_BYTES, sum);
	return vial_hex_encode(sum, sizeof sum);
}
