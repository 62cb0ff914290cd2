/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets are watched edge-triggered: an event only says "try again", and a relay that used up its turn's budget waits in
 * the `busy` queue, so that relays share the thread fairly. A relay is owned by the thread from start to `done`; the main
 * thread only sets `is_cut` and reads the counters.
 */
#include "net/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/fd.h"
#include "util/worker.h"

#define PIPE_BYTES (256 * 1024)
#define TURN_BYTES (1024 * 1024)
#define GUARD_BYTES 16384
#define IDLE_PIPES 32
#define EVENTS 64

typedef struct {
	int from, to;
	int pipe[2]; /* -1 while nothing is in it */
	gsize in_pipe;
	GByteArray *held;       /* bytes to send before the pipe's: the first ones, or what the guard let through */
	VialHttpGuard *guard;   /* of the requests, owned */
	VialHttpGuard *answers; /* the same one, on the way back */
	GByteArray *freed;      /* there: where bytes of the client go that an answer sets free */
	gboolean has_ended;     /* nothing more will be read */
	gboolean is_shut;       /* and the other side was told */
	atomic_ullong bytes;
} Direction;

struct VialRelay {
	Direction out, in; /* as the guest sees it */
	atomic_bool is_cut;
	gboolean is_busy;
	gboolean is_broken;
	VialRelayFunc done;
	gpointer data;
	guint64 final_in, final_out;
};

static struct {
	int epoll_fd;
	int wake_fd;
	GAsyncQueue *orders; /* VialRelay: new, or cut */
	GQueue busy;
	int pipes[IDLE_PIPES][2];
	guint idle_pipes;
} thread;

/* ---- pipes ---- */

static gboolean pipe_take(Direction *direction)
{
	if (direction->pipe[0] >= 0)
		return TRUE;
	if (thread.idle_pipes) {
		thread.idle_pipes--;
		direction->pipe[0] = thread.pipes[thread.idle_pipes][0];
		direction->pipe[1] = thread.pipes[thread.idle_pipes][1];
		return TRUE;
	}
	if (pipe2(direction->pipe, O_NONBLOCK | O_CLOEXEC) < 0) {
		direction->pipe[0] = direction->pipe[1] = -1;
		return FALSE;
	}
	fcntl(direction->pipe[1], F_SETPIPE_SZ, PIPE_BYTES);
	return TRUE;
}

static void pipe_give_back(Direction *direction)
{
	if (direction->pipe[0] < 0)
		return;
	if (direction->in_pipe == 0 && thread.idle_pipes < IDLE_PIPES) {
		thread.pipes[thread.idle_pipes][0] = direction->pipe[0];
		thread.pipes[thread.idle_pipes][1] = direction->pipe[1];
		thread.idle_pipes++;
	} else {
		close(direction->pipe[0]);
		close(direction->pipe[1]);
	}
	direction->pipe[0] = direction->pipe[1] = -1;
}

/* ---- moving ---- */

/* All return: 1 progress, 0 would block or nothing to do, -1 broken. */

static int result_of(ssize_t size)
{
	if (size > 0)
		return 1;
	return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static int send_held(Direction *direction)
{
	ssize_t size = send(direction->to, direction->held->data, direction->held->len, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (size > 0) {
		g_byte_array_remove_range(direction->held, 0, (guint)size);
		atomic_fetch_add(&direction->bytes, (unsigned long long)size);
	}
	return result_of(size);
}

static int send_pipe(Direction *direction)
{
	ssize_t size = splice(direction->pipe[0], NULL, direction->to, NULL, direction->in_pipe, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (size > 0) {
		direction->in_pipe -= (gsize)size;
		atomic_fetch_add(&direction->bytes, (unsigned long long)size);
		if (direction->in_pipe == 0)
			pipe_give_back(direction);
	}
	return result_of(size);
}

static int read_guarded(Direction *direction)
{
	guint8 bytes[GUARD_BYTES];
	ssize_t size = recv(direction->from, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (size == 0)
		direction->has_ended = TRUE;
	if (size > 0 && !vial_http_guard_feed(direction->guard, bytes, (gsize)size, direction->held))
		return -1;
	return size == 0 ? 1 : result_of(size);
}

static int read_answers(Direction *direction)
{
	guint8 bytes[GUARD_BYTES];
	ssize_t size = recv(direction->from, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (size == 0)
		direction->has_ended = TRUE;
	if (size > 0) {
		vial_http_guard_answer(direction->answers, bytes, (gsize)size, direction->freed);
		g_byte_array_append(direction->held, bytes, (guint)size);
	}
	return size == 0 ? 1 : result_of(size);
}

static int read_pipe(Direction *direction)
{
	gsize room = PIPE_BYTES;
	ssize_t size;

	if (!pipe_take(direction))
		return -1;
	if (direction->answers)
		room = (gsize)MIN(room, vial_http_guard_blind_bytes(direction->answers));
	size = splice(direction->from, NULL, direction->pipe[1], NULL, room, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (size > 0)
		direction->in_pipe += (gsize)size;
	else
		pipe_give_back(direction);
	if (size > 0 && direction->answers)
		vial_http_guard_skip(direction->answers, (gsize)size);
	if (size == 0)
		direction->has_ended = TRUE;
	return size == 0 ? 1 : result_of(size);
}

static int step(Direction *direction)
{
	if (direction->held->len)
		return send_held(direction);
	if (direction->in_pipe)
		return send_pipe(direction);
	if (!direction->has_ended && direction->guard)
		return read_guarded(direction);
	if (!direction->has_ended)
		return direction->answers && vial_http_guard_blind_bytes(direction->answers) == 0 ? read_answers(direction) : read_pipe(direction);
	if (!direction->is_shut) {
		direction->is_shut = TRUE;
		shutdown(direction->to, SHUT_WR);
	}
	return 0;
}

/* TRUE when the budget ended it, not the sockets. */
static gboolean move(VialRelay *relay, Direction *direction)
{
	unsigned long long goal = atomic_load(&direction->bytes) + TURN_BYTES;

	while (atomic_load(&direction->bytes) < goal) {
		int result = step(direction);

		if (result == 0)
			return FALSE;
		if (result < 0) {
			relay->is_broken = TRUE;
			return FALSE;
		}
	}
	return TRUE;
}

/* ---- a relay's life ---- */

static void direction_init(Direction *direction, int from, int to)
{
	direction->from = from;
	direction->to = to;
	direction->pipe[0] = direction->pipe[1] = -1;
	direction->held = g_byte_array_new();
}

static void direction_clear(Direction *direction)
{
	pipe_give_back(direction);
	g_byte_array_unref(direction->held);
	vial_http_guard_free(direction->guard);
}

static void on_done(gpointer data)
{
	VialRelay *relay = data;

	relay->done(relay->final_in, relay->final_out, relay->data);
	g_free(relay);
}

static void finish(VialRelay *relay)
{
	struct linger reset = { .l_onoff = 1, .l_linger = 0 };

	if (relay->is_broken) {
		setsockopt(relay->out.from, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		setsockopt(relay->out.to, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	}
	if (relay->is_busy)
		g_queue_remove(&thread.busy, relay);
	relay->final_in = atomic_load(&relay->in.bytes);
	relay->final_out = atomic_load(&relay->out.bytes);
	close(relay->out.from);
	close(relay->out.to);
	direction_clear(&relay->out);
	direction_clear(&relay->in);
	vial_main_loop_call(on_done, relay);
}

/* FALSE: it is finished and gone. */
static gboolean turn(VialRelay *relay)
{
	gboolean has_more;
	guint waiting;

	if (relay->is_busy)
		g_queue_remove(&thread.busy, relay);
	relay->is_busy = FALSE;
	if (atomic_load(&relay->is_cut))
		relay->is_broken = TRUE;
	has_more = !relay->is_broken && move(relay, &relay->out);
	waiting = relay->out.held->len;
	has_more |= !relay->is_broken && move(relay, &relay->in);
	has_more |= relay->out.held->len > waiting; /* set free by an answer: no event of the client's socket tells of it */
	if (relay->is_broken || (relay->out.is_shut && relay->in.is_shut)) {
		finish(relay);
		return FALSE;
	}
	if (has_more) {
		relay->is_busy = TRUE;
		g_queue_push_tail(&thread.busy, relay);
	}
	return TRUE;
}

static gboolean watch(VialRelay *relay, int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = relay };

	return epoll_ctl(thread.epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* ---- the thread ---- */

typedef struct {
	VialRelay *relay;
	gboolean is_new;
} Order;

/* Relays that ended in this round: events for them may still be in the array. */
static gboolean is_gone(const GPtrArray *gone, gconstpointer relay)
{
	for (guint i = 0; i < gone->len; i++)
		if (g_ptr_array_index(gone, i) == relay)
			return TRUE;
	return FALSE;
}

static void run_turn(VialRelay *relay, GPtrArray *gone)
{
	if (!is_gone(gone, relay) && !turn(relay))
		g_ptr_array_add(gone, relay);
}

/*
 * A cut order names a relay that the main thread still holds, that is, whose `done` has not run; but it may have finished
 * here already. Live ones are therefore kept in a table.
 */
static void take_orders(GHashTable *live)
{
	Order *order;

	while ((order = g_async_queue_try_pop(thread.orders))) {
		VialRelay *relay = order->relay;
		gboolean is_new = order->is_new;

		g_free(order);
		if (is_new) {
			g_hash_table_add(live, relay);
			if (!watch(relay, relay->out.from) || !watch(relay, relay->out.to))
				relay->is_broken = TRUE;
		} else if (!g_hash_table_contains(live, relay)) {
			continue;
		}
		if (!turn(relay))
			g_hash_table_remove(live, relay);
	}
}

static gpointer main_of_thread(gpointer data)
{
	g_autoptr(GHashTable) live = g_hash_table_new(NULL, NULL);
	g_autoptr(GPtrArray) gone = g_ptr_array_new();

	for (;;) {
		struct epoll_event events[EVENTS];
		int count = epoll_wait(thread.epoll_fd, events, EVENTS, thread.busy.length ? 0 : -1);
		guint busy = thread.busy.length;

		for (int i = 0; i < count; i++) {
			if (events[i].data.ptr)
				run_turn(events[i].data.ptr, gone);
		}
		for (; busy && thread.busy.length; busy--)
			run_turn(g_queue_peek_head(&thread.busy), gone);
		for (guint i = 0; i < gone->len; i++)
			g_hash_table_remove(live, g_ptr_array_index(gone, i));
		g_ptr_array_set_size(gone, 0);
		for (int i = 0; i < count; i++) {
			guint64 drained;

			if (!events[i].data.ptr && read(thread.wake_fd, &drained, sizeof(drained)) > 0)
				take_orders(live);
		}
	}
	return NULL;
}

static void start_thread(void)
{
	static gsize started = 0;
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };

	if (!g_once_init_enter(&started))
		return;
	thread.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	thread.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	thread.orders = g_async_queue_new();
	g_queue_init(&thread.busy);
	if (thread.epoll_fd < 0 || thread.wake_fd < 0 || epoll_ctl(thread.epoll_fd, EPOLL_CTL_ADD, thread.wake_fd, &event) < 0)
		g_error("cannot start the relay thread: %s", g_strerror(errno));
	g_thread_unref(g_thread_new("net-relay", main_of_thread, NULL));
	g_once_init_leave(&started, 1);
}

static void order(VialRelay *relay, gboolean is_new)
{
	Order *one = g_new(Order, 1);
	guint64 wake = 1;

	*one = (Order){ .relay = relay, .is_new = is_new };
	g_async_queue_push(thread.orders, one);
	(void)!write(thread.wake_fd, &wake, sizeof(wake));
}

VialRelay *vial_relay_start(int client_fd, int server_fd, VialHttpGuard *guard, GByteArray *first, VialRelayFunc done, gpointer data)
{
	VialRelay *relay = g_new0(VialRelay, 1);

	start_thread();
	direction_init(&relay->out, client_fd, server_fd);
	direction_init(&relay->in, server_fd, client_fd);
	g_byte_array_append(relay->out.held, first->data, first->len);
	relay->out.guard = relay->in.answers = guard;
	relay->in.freed = relay->out.held;
	relay->done = done;
	relay->data = data;
	order(relay, TRUE);
	return relay;
}

void vial_relay_cut(VialRelay *relay)
{
	atomic_store(&relay->is_cut, TRUE);
	order(relay, FALSE);
}

void vial_relay_progress(const VialRelay *relay, guint64 *out_bytes_in, guint64 *out_bytes_out)
{
	*out_bytes_in = atomic_load(&((VialRelay *)relay)->in.bytes);
	*out_bytes_out = atomic_load(&((VialRelay *)relay)->out.bytes);
}
