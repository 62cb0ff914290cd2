/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operation `layer`: {"op": "layer", "max_bytes"?} ends everything that runs here, and sends what was changed on the disk as an EROFS image
 * (layertree.h, erofs.h), in DATA frames and as fast as the host takes it. Then {"ok": true, "bytes", "entries", "left_out"}.
 *
 * It is the last thing this guest does: nothing can be started after it. Until all processes are gone nothing is read, so what is packed does not
 * change under our hands. Walking is done in slices, a few directories in a turn of the loop.
 */
#include <errno.h>
#include <stdlib.h>

#include "erofs.h"
#include "layertree.h"
#include "loop.h"
#include "ops.h"
#include "procfs.h"
#include "rootfs.h"
#include "wire/wire.h"
#include "zone.h"

#define LOOK_MS 10
#define END_TIMEOUT_MS 10000
#define SLICE_MS 50
#define BUFFER_BYTES (64 * 1024)

struct packing {
	struct vial_stream *stream;
	struct vial_timer timer;
	int64_t began_ms;
	json_int_t max_bytes;
	json_int_t sent_bytes;
	struct vial_layer_tree tree;
	struct vial_erofs erofs;
	bool has_tree;
	size_t ready, taken; /* bytes of the buffer */
	uint8_t buffer[BUFFER_BYTES];
};

static bool is_busy; /* one at a time */

static void packing_free(struct packing *packing)
{
	vial_timer_clear(&packing->timer);
	if (packing->has_tree)
		vial_erofs_clear(&packing->erofs);
	vial_layer_tree_clear(&packing->tree);
	free(packing);
	is_busy = false;
}

static void fail(struct packing *packing, int error)
{
	struct vial_stream *stream = packing->stream;

	packing_free(packing);
	if (error == EOVERFLOW)
		vial_stream_close_error(stream, VIAL_LIMIT, "a layer can have at most %u files", VIAL_LAYER_MAX_ENTRIES);
	else if (error == ELOOP)
		vial_stream_close_error(stream, VIAL_LIMIT, "a layer can have directories at most %u deep", VIAL_LAYER_MAX_DEPTH);
	else if (error == EFBIG)
		vial_stream_close_error(stream, VIAL_LIMIT, "this is larger than a layer may be");
	else
		vial_stream_close_errno(stream, error, "cannot pack the layer");
}

/* --- sending --- */

static void finish(struct packing *packing)
{
	struct vial_stream *stream = packing->stream;
	json_t *result = json_pack("{s:I, s:I, s:I}", "bytes", packing->sent_bytes, "entries", (json_int_t)packing->tree.count, "left_out",
	                           (json_int_t)packing->tree.skipped);

	packing_free(packing);
	vial_stream_close_ok(stream, result);
}

static void send_some(struct vial_stream *stream)
{
	struct packing *packing = vial_stream_data(stream);
	size_t room = vial_stream_room(stream), size;

	if (!packing->has_tree)
		return;
	if (room > 0 && packing->taken == packing->ready) {
		ssize_t got = vial_erofs_read(&packing->erofs, packing->buffer, BUFFER_BYTES);

		if (got < 0)
			return fail(packing, (int)-got);
		if (got == 0)
			return finish(packing);
		packing->taken = 0;
		packing->ready = (size_t)got;
	}
	size = packing->ready - packing->taken;
	if (size > room)
		size = room;
	if (size > 0) {
		vial_stream_send_data(stream, VIAL_WIRE_MAIN, packing->buffer + packing->taken, size);
		packing->taken += size;
		packing->sent_bytes += (json_int_t)size;
	}
	vial_stream_wait_writable(stream);
}

/* --- walking --- */

static void on_walk(struct vial_timer *timer, void *data)
{
	struct packing *packing = data;
	int64_t began_ms = vial_loop_clock_ms();
	int result;

	do
		result = vial_layer_tree_walk(&packing->tree);
	while (result > 0 && vial_loop_clock_ms() - began_ms < SLICE_MS);
	if (result > 0) {
		vial_timer_set(&packing->timer, 0, on_walk, packing);
		return;
	}
	if (result == 0)
		result = vial_erofs_init(&packing->erofs, &packing->tree);
	if (result < 0)
		return fail(packing, -result);
	packing->has_tree = true;
	if (packing->max_bytes > 0 && packing->erofs.size_bytes > (uint64_t)packing->max_bytes)
		return fail(packing, EFBIG);
	vial_stream_wait_writable(packing->stream);
}

/* --- ending what runs --- */

/* Linux shows its own threads among the processes, as children of one that has no parent; gVisor has none. */
#define KERNEL_THREADS_PARENT 2

struct others {
	bool has_kernel_threads, is_there;
};

static bool note_other(const struct vial_process *process, void *data)
{
	struct others *others = data;
	bool is_kernels = others->has_kernel_threads && (process->pid == KERNEL_THREADS_PARENT || process->parent == KERNEL_THREADS_PARENT);

	others->is_there = process->pid != 1 && process->state != 'Z' && process->state != 'X' && !is_kernels;
	return !others->is_there;
}

static bool is_alone(void)
{
	struct others others = { 0 };
	struct vial_process second;

	if (!vial_zone_has_ended())
		return false;
	others.has_kernel_threads = vial_procfs_read(KERNEL_THREADS_PARENT, &second) == 0 && second.parent == 0;
	vial_procfs_for_each(note_other, &others);
	return !others.is_there;
}

static void on_look(struct vial_timer *timer, void *data)
{
	struct packing *packing = data;
	const struct vial_rootfs_layers *layers = vial_rootfs_layers();
	int result;

	if (!is_alone() && vial_loop_clock_ms() - packing->began_ms < END_TIMEOUT_MS) {
		vial_timer_set(&packing->timer, LOOK_MS, on_look, packing);
		return;
	}
	if (!is_alone())
		return fail(packing, EBUSY);
	result = vial_layer_tree_init(&packing->tree, layers->upper_fd, layers->lower_fds, layers->lower_count);
	if (result < 0)
		return fail(packing, -result);
	vial_timer_set(&packing->timer, 0, on_walk, packing);
}

static void on_cancel(struct vial_stream *stream)
{
	packing_free(vial_stream_data(stream));
	vial_stream_close_error(stream, VIAL_UNAVAILABLE, "cancelled");
}

static void on_drop(struct vial_stream *stream)
{
	packing_free(vial_stream_data(stream));
}

void vial_op_layer(struct vial_stream *stream, json_t *request)
{
	static const struct vial_stream_handlers handlers = { .on_writable = send_some, .on_cancel = on_cancel, .on_drop = on_drop };
	struct packing *packing;
	json_int_t max_bytes;

	if (!vial_request_integer(stream, request, "max_bytes", 1, INT64_MAX, 0, &max_bytes))
		return;
	if (!vial_rootfs_layers()) {
		vial_stream_close_error(stream, VIAL_CONFLICT, "this sandbox was not booted so that a layer can be made of it");
		return;
	}
	packing = is_busy ? NULL : calloc(1, sizeof(*packing));
	if (!packing) {
		vial_stream_close_error(stream, VIAL_CONFLICT, "a layer is being packed already");
		return;
	}
	is_busy = true;
	packing->stream = stream;
	packing->max_bytes = max_bytes;
	packing->began_ms = vial_loop_clock_ms();
	vial_stream_set_handlers(stream, &handlers, packing);
	vial_zone_end();
	vial_timer_set(&packing->timer, 0, on_look, packing);
}
