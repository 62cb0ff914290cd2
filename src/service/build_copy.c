/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A COPY step: the archive is streamed into the sandbox of the build, where one script unpacks it and puts what is wanted of it in its place. What is
 * in it is the sandbox's affair alone: a member that goes up, a device or a bomb hurts nobody but the build that brought it. The main thread never
 * waits for the disk: a worker reads ahead by one piece.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "service/build_run_private.h"
#include "util/fault.h"
#include "util/fd.h"
#include "util/worker.h"
#include "wire/wire.h"

#define PIECE_BYTES (256 * 1024)

/*
 * Its arguments are from, to, owner and mode (may be empty). bash, for globs that match names with a dot in front and for pipefail.
 *
 * Whether it is gzip the first two bytes tell, which are put back in front. What is unpacked gets its owner and mode before it is moved, so that what
 * was there already keeps its own. A folder's contents go by way of tar, which follows a link to a folder at the destination and replaces one to a
 * file, and leaves folders that are there as they are. Folders that are made belong to the owner.
 */
static const char script[] =
	"fail() { printf 'COPY: %s\\n' \"$*\" >&2; exit 1; }\n"
	"\n"
	"make_folder() {\n"
	"	local folder=$1 missing=()\n"
	"	until [[ -d $folder/ ]]; do missing+=(\"$folder\"); folder=${folder%/*}; done\n"
	"	((${#missing[@]} == 0)) && return\n"
	"	mkdir -p -- \"$1\" && chown -h -- \"$owner\" \"${missing[@]}\" || fail \"the folder $1 cannot be made\"\n"
	"}\n"
	"\n"
	"place() {\n"
	"	local source=$1 folder name=${1##*/}\n"
	"	chown -hR -- \"$owner\" \"$source\" || fail \"it cannot belong to $owner\"\n"
	"	[[ -z $mode || -L $source ]] || chmod -R -- \"$mode\" \"$source\" || fail \"its mode cannot be $mode\"\n"
	"	if [[ -d $source && ! -L $source ]]; then\n"
	"		folder=$(realpath -m -- \"$to\")\n"
	"		make_folder \"$folder\"\n"
	"		tar -C \"$source\" --numeric-owner -cf - . | tar -C \"$folder\" --numeric-owner -xpf - --keep-directory-symlink "
	"--no-overwrite-dir ||\n"
	"			fail \"the contents of ${source#./} cannot be put into $to\"\n"
	"		return\n"
	"	fi\n"
	"	if [[ $is_folder ]]; then folder=$to; else folder=${to%/*}/ name=${to##*/}; fi\n"
	"	folder=$(realpath -m -- \"$folder\")\n"
	"	make_folder \"$folder\"\n"
	"	mv -fT -- \"$source\" \"$folder/$name\" || fail \"${source#./} cannot be put to $to\"\n"
	"}\n"
	"\n"
	"shopt -s dotglob nullglob\n"
	"umask 022\n"
	"from=$1 to=$2 owner=$3 mode=$4 is_folder= gzip= found=()\n"
	"while [[ $from == */ ]]; do from=${from%/}; done\n"
	"[[ $owner == *:* ]] || if [[ $owner == *[!0-9]* ]]; then owner=$owner:; else owner=$owner:$owner; fi\n"
	"[[ $to == /* ]] || to=${PWD%/}/$to\n"
	"[[ $to == */ || $to == */. || $to == */.. || -d $to ]] && is_folder=yes\n"
	"\n"
	"private=$(mktemp -d /tmp/copy.XXXXXXXXXX) || fail 'there is no folder to unpack the archive in'\n"
	"trap 'cd / && rm -rf -- \"$private\"' EXIT\n"
	"trap 'exit 1' HUP INT TERM\n"
	"mkdir \"$private/files\" && cd \"$private/files\" || fail 'there is no folder to unpack the archive in'\n"
	"first=$(dd bs=1 count=2 2> /dev/null | od -An -to1 | tr -d '\\n' | tr -s ' ' '\\\\')\n"
	"[[ $first ]] || fail 'the archive is empty'\n"
	"[[ $first == '\\037\\213' ]] && gzip=--gzip\n"
	"{ printf \"$first\"; exec cat; } | tar --extract $gzip --file=- --no-same-owner --preserve-permissions || fail 'the archive cannot be "
	"unpacked'\n"
	"\n"
	"if [[ -e ./$from || -L ./$from ]]; then\n"
	"	found=(\"./$from\")\n"
	"else\n"
	"	IFS=\n"
	"	for source in ./$from; do [[ ! -e $source && ! -L $source ]] || found+=(\"$source\"); done\n"
	"fi\n"
	"((${#found[@]} > 0)) || fail \"nothing in the archive is called $from\"\n"
	"((${#found[@]} == 1)) || [[ $is_folder ]] || fail \"$from are several: what they are put to must be a folder, with / at its end\"\n"
	"set -o pipefail\n"
	"for source in \"${found[@]}\"; do place \"$source\"; done\n";

static const char *text_of(const json_t *copy, const char *field)
{
	const char *text = json_string_value(json_object_get(copy, field));

	return text ? text : "";
}

json_t *vial_build_copy_argv(const json_t *copy)
{
	const char *user = text_of(copy, "user");

	return json_pack("[s, s, s, s, s, s, s, s]", "/bin/bash", "-c", script, "copy", text_of(copy, "from"), text_of(copy, "to"),
	                 *user ? user : "root", text_of(copy, "mode"));
}

/* Sending a file */

struct VialBuildFeed {
	VialStream *stream; /* NULL: nobody wants it any more; it goes when the worker comes back */
	void (*failed)(int error_number, gpointer data);
	gpointer data;
	gboolean is_working, is_over;
	gsize sent; /* of the piece */
	/* the worker's while it works */
	char *path;
	int fd;
	guint8 *piece;
	ssize_t size; /* of it; 0: that was all; -1: it failed */
	int error_number;
};

static void feed_destroy(VialBuildFeed *feed)
{
	vial_fd_clear(&feed->fd);
	g_free(feed->path);
	g_free(feed->piece);
	g_free(feed);
}

static void read_work(gpointer data)
{
	VialBuildFeed *feed = data;

	if (feed->fd < 0)
		feed->fd = open(feed->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	do
		feed->size = feed->fd < 0 || vial_fault("build.file.read") ? -1 : read(feed->fd, feed->piece, PIECE_BYTES);
	while (feed->size < 0 && errno == EINTR);
	feed->error_number = errno;
}

static void on_read(gpointer data)
{
	VialBuildFeed *feed = data;

	feed->is_working = FALSE;
	feed->sent = 0;
	if (!feed->stream)
		feed_destroy(feed);
	else if (feed->size < 0)
		feed->failed(feed->error_number, feed->data);
	else
		vial_build_feed_go_on(feed);
}

static void read_on(VialBuildFeed *feed)
{
	feed->is_working = TRUE;
	vial_worker_run(read_work, on_read, feed);
}

void vial_build_feed_go_on(VialBuildFeed *feed)
{
	gsize left, room;

	if (feed->is_working || feed->is_over)
		return;
	if (feed->size == 0) {
		feed->is_over = TRUE;
		vial_stream_send_eof(feed->stream, VIAL_WIRE_MAIN);
		return;
	}
	left = (gsize)feed->size - feed->sent;
	room = MIN(vial_stream_room(feed->stream), left);
	vial_stream_send(feed->stream, VIAL_WIRE_MAIN, feed->piece + feed->sent, room);
	feed->sent += room;
	if (room == left)
		read_on(feed);
}

VialBuildFeed *vial_build_feed_new(const char *path, VialStream *stream, void (*failed)(int error_number, gpointer data), gpointer data)
{
	VialBuildFeed *feed = g_new0(VialBuildFeed, 1);

	*feed = (VialBuildFeed){ .stream = stream, .failed = failed, .data = data, .path = g_strdup(path), .fd = -1 };
	feed->piece = g_malloc(PIECE_BYTES);
	read_on(feed);
	return feed;
}

void vial_build_feed_free(VialBuildFeed *feed)
{
	if (!feed)
		return;
	feed->stream = NULL;
	if (!feed->is_working)
		feed_destroy(feed);
}
