/* SPDX-License-Identifier: Apache-2.0 */
/* See control.h: sockets, frames and phases. What the operations do is in ops.c. */
#include "control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "files.h"
#include "folder.h"

int vial_control_init(struct vial_control *control, struct vial_machine *machine, int listen_fd)
{
	*control = (struct vial_control){ .listen_fd = listen_fd, .connection_fd = -1, .machine = machine, .writer_fd = -1, .exit_fd = -1 };
	return vial_wire_reader_init(&control->from_viald);
}

/* ---- to viald ---- */

static uint8_t *reserve_out(struct vial_control *control, size_t length)
{
	if (control->out_start > 0 && control->out_end + length > control->out_capacity) {
		memmove(control->out, control->out + control->out_start, control->out_end - control->out_start);
		control->out_end -= control->out_start;
		control->out_start = 0;
	}
	if (control->out_end + length > control->out_capacity) {
		size_t capacity = control->out_end + length + 64 * 1024;
		uint8_t *out = realloc(control->out, capacity);

		if (!out)
			return NULL;
		control->out = out;
		control->out_capacity = capacity;
	}
	return control->out + control->out_end;
}

static void queue_frame(struct vial_control *control, const struct vial_wire_frame *frame)
{
	uint8_t *at;

	if (control->connection_fd < 0)
		return;
	at = reserve_out(control, VIAL_WIRE_HEADER_BYTES + frame->length);
	if (!at)
		return;
	vial_wire_header_encode(frame, at);
	if (frame->length > 0)
		memcpy(at + VIAL_WIRE_HEADER_BYTES, frame->payload, frame->length);
	control->out_end += VIAL_WIRE_HEADER_BYTES + frame->length;
}

static void queue_json(struct vial_control *control, uint8_t type, json_t *json)
{
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	struct vial_wire_frame frame = {
		.stream = VIAL_WIRE_STREAM_HOST,
		.epoch = control->relay.epoch,
		.type = type,
		.payload = (const uint8_t *)text,
	};

	if (text) {
		frame.length = (uint32_t)strlen(text);
		queue_frame(control, &frame);
	}
	free(text);
	json_decref(json);
}

void vial_control_answer(struct vial_control *control, json_int_t tag, json_t *answer)
{
	if (!answer)
		answer = json_object();
	json_object_set_new(answer, "tag", json_integer(tag));
	json_object_set_new(answer, "ok", json_true());
	queue_json(control, VIAL_WIRE_CLOSE, answer);
}

void vial_control_refuse(struct vial_control *control, json_int_t tag, const char *error, int number)
{
	char text[256];

	if (number < 0)
		snprintf(text, sizeof(text), "%s (%s)", error, strerror(-number));
	else
		snprintf(text, sizeof(text), "%s", error);
	queue_json(control, VIAL_WIRE_CLOSE, json_pack("{s:I,s:b,s:s}", "tag", tag, "ok", 0, "error", text));
}

static void send_state(struct vial_control *control)
{
	static const char *const names[] = { "new", "created", "running", "paused", "exited" };
	json_t *event = json_pack("{s:s,s:s,s:i,s:s,s:i}", "event", "state", "state", names[control->phase], "epoch", control->relay.epoch, "engine",
	                          "microvm", "pid", (int)getpid());

	if (control->end_reason)
		json_object_set_new(event, "reason", json_string(control->end_reason));
	if (control->end_detail[0])
		json_object_set_new(event, "detail", json_string(control->end_detail));
	queue_json(control, VIAL_WIRE_EVENT, event);
}

/* Once: the first reason is the true one. */
static void write_exit(struct vial_control *control)
{
	vial_folder_write_exit(control->exit_fd, control->end_reason);
	vial_file_close(&control->exit_fd);
}

void vial_control_set_phase(struct vial_control *control, enum vial_phase phase)
{
	if (control->phase == phase)
		return;
	control->phase = phase;
	/* Before anybody hears of it: who does may look there at once. */
	if (phase == VIAL_PHASE_EXITED)
		write_exit(control);
	send_state(control);
}

static void flush_out(struct vial_control *control)
{
	while (control->connection_fd >= 0 && control->out_start < control->out_end) {
		ssize_t sent = send(control->connection_fd, control->out + control->out_start, control->out_end - control->out_start,
		                    MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0)
			return; /* full; a dead peer shows when reading */
		control->out_start += (size_t)sent;
	}
	if (control->out_start == control->out_end)
		control->out_start = control->out_end = 0;
}

/* ---- attaching ---- */

void vial_control_drop_fds(struct vial_control *control)
{
	for (unsigned i = 0; i < control->fd_count; i++)
		close(control->fds[i]);
	control->fd_count = 0;
}

int vial_control_take_fd(struct vial_control *control)
{
	int fd;

	if (control->fd_count == 0)
		return -1;
	fd = control->fds[0];
	memmove(control->fds, control->fds + 1, --control->fd_count * sizeof(control->fds[0]));
	return fd;
}

static void detach(struct vial_control *control)
{
	vial_file_close(&control->connection_fd);
	control->has_held_frame = false;
	control->out_start = control->out_end = 0;
	vial_wire_reader_reset(&control->from_viald);
	vial_control_drop_fds(control);
}

static void attach(struct vial_control *control)
{
	int fd = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	detach(control);
	control->connection_fd = fd;
	if (control->has_relay)
		vial_relay_attach(&control->relay);
	else
		control->relay.epoch++;
	send_state(control);
}

void vial_control_become_child(struct vial_control *control, int listen_fd, int exit_fd)
{
	detach(control);
	close(control->listen_fd);
	control->listen_fd = listen_fd;
	vial_file_close(&control->writer_fd);
	control->writer_pid = 0;
	vial_file_close(&control->exit_fd);
	control->exit_fd = exit_fd;
}

/* ---- from viald ---- */

static void keep_fds(struct vial_control *control, struct msghdr *message)
{
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		const uint8_t *data = CMSG_DATA(part);

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, data + i * sizeof(fd), sizeof(fd));
			if (control->fd_count < VIAL_CONTROL_MAX_FDS)
				control->fds[control->fd_count++] = fd;
			else
				close(fd);
		}
	}
}

/* False when viald has gone. */
static bool receive(struct vial_control *control)
{
	union {
		char bytes[CMSG_SPACE(VIAL_CONTROL_MAX_FDS * sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	struct iovec piece;
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = ancillary.bytes,
		.msg_controllen = sizeof(ancillary.bytes),
	};
	ssize_t got;

	piece.iov_base = vial_wire_reader_space(&control->from_viald, &piece.iov_len);
	got = recvmsg(control->connection_fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	keep_fds(control, &message);
	vial_wire_reader_filled(&control->from_viald, (size_t)got);
	return got > 0;
}

/* Hands on every frame that is there. Stops at one that does not fit into the guest's pipe, which is then held. */
static void take_frames(struct vial_control *control)
{
	int result = 1;

	if (control->has_held_frame && !vial_relay_send(&control->relay, &control->held_frame))
		return;
	control->has_held_frame = false;
	while (control->connection_fd >= 0 && !control->is_stopping && result > 0) {
		struct vial_wire_frame frame;

		result = vial_wire_reader_next(&control->from_viald, &frame);
		if (result < 0) {
			detach(control);
		} else if (result > 0 && frame.stream == VIAL_WIRE_STREAM_HOST) {
			if (frame.type == VIAL_WIRE_OPEN)
				vial_control_dispatch(control, frame.payload, frame.length);
		} else if (result > 0 && control->has_relay && !vial_relay_send(&control->relay, &frame)) {
			control->held_frame = frame; /* its payload stays valid: the reader is not touched until it is gone */
			control->has_held_frame = true;
			return;
		}
	}
}

/* ---- from the guest ---- */

static void take_guest_frames(struct vial_control *control)
{
	struct vial_wire_frame frame;
	int result = 0;

	while (control->has_relay && control->out_end - control->out_start < VIAL_CONTROL_OUT_HIGH &&
	       (result = vial_relay_receive(&control->relay, &frame)) > 0)
		queue_frame(control, &frame); /* without a viald it is dropped: the next one is a new epoch anyway */
	if (result < 0 && !control->end_reason) {
		control->end_reason = "guest_protocol";
		snprintf(control->end_detail, sizeof(control->end_detail), "the agent sent something that is not a frame");
		vial_machine_pause(control->machine);
		vial_control_set_phase(control, VIAL_PHASE_EXITED);
	}
}

static void on_machine_end(struct vial_control *control)
{
	const struct vial_vcpu *vcpu;
	const char *reason = vial_machine_end(control->machine, &vcpu);

	vial_pipe_clear_events(control->machine->end_fd);
	if (!reason || control->end_reason)
		return;
	control->end_reason = reason;
	if (strcmp(reason, "kvm_error") == 0)
		snprintf(control->end_detail, sizeof(control->end_detail), "vCPU %u: KVM exit %u, detail %u", vcpu->index, vcpu->exit_reason,
		         vcpu->exit_detail);
	vial_machine_pause(control->machine);
	vial_control_set_phase(control, VIAL_PHASE_EXITED);
}

/* ---- the loop ---- */

enum { POLL_LISTEN, POLL_CONNECTION, POLL_WRITER, POLL_END, POLL_GUEST_DATA, POLL_GUEST_ROOM, POLL_COUNT };

static void prepare(struct vial_control *control, struct pollfd *fds)
{
	struct vial_machine *machine = control->machine;
	bool is_congested = control->out_end - control->out_start >= VIAL_CONTROL_OUT_HIGH;

	for (unsigned i = 0; i < POLL_COUNT; i++)
		fds[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	fds[POLL_LISTEN].fd = control->listen_fd;
	fds[POLL_CONNECTION].fd = control->connection_fd;
	/* While a frame is held nothing more is read: viald's writes then block, as they should. */
	fds[POLL_CONNECTION].events = (short)((control->has_held_frame ? 0 : POLLIN) | (control->out_start < control->out_end ? POLLOUT : 0));
	fds[POLL_WRITER].fd = control->writer_fd;
	if (!control->has_relay)
		return;
	fds[POLL_END].fd = machine->end_fd;
	fds[POLL_GUEST_DATA].fd = is_congested ? -1 : machine->console.from_guest.data_fd;
	fds[POLL_GUEST_ROOM].fd = machine->console.to_guest.room_fd;
}

static void serve(struct vial_control *control, const struct pollfd *fds)
{
	struct vial_machine *machine = control->machine;
	bool has_peer = true;

	if (fds[POLL_END].revents)
		on_machine_end(control);
	if (fds[POLL_GUEST_DATA].revents)
		vial_pipe_clear_events(machine->console.from_guest.data_fd);
	if (fds[POLL_GUEST_ROOM].revents)
		vial_pipe_clear_events(machine->console.to_guest.room_fd);
	if (fds[POLL_WRITER].revents)
		vial_control_writer_done(control);
	if (fds[POLL_CONNECTION].revents & (POLLIN | POLLHUP | POLLERR) && !control->has_held_frame)
		has_peer = receive(control);
	else if (fds[POLL_CONNECTION].revents & (POLLHUP | POLLERR))
		has_peer = false;
	take_frames(control);
	if (!has_peer)
		detach(control);
	take_guest_frames(control);
	flush_out(control);
	/* Room was made: the guest may have more than its event told. */
	take_guest_frames(control);
	flush_out(control);
	if (fds[POLL_LISTEN].revents)
		attach(control);
}

int vial_control_run(struct vial_control *control)
{
	struct pollfd fds[POLL_COUNT];

	while (!control->is_stopping || (control->connection_fd >= 0 && control->out_start < control->out_end)) {
		prepare(control, fds);
		/* A viald that does not take our last words is not waited for. */
		if (poll(fds, POLL_COUNT, control->is_stopping ? 2000 : -1) == 0)
			break;
		serve(control, fds);
	}
	write_exit(control);
	return 0;
}
