/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The framed, multiplexed byte stream between the host and vial-agent. docs/wire.md is its specification.
 *
 * This codec does no I/O and allocates nothing but the reader's buffer: a reader is fed bytes and hands out frames, a
 * writer fills a header. Both sides of the wire, the shim and the fuzz targets share it. It trusts nobody: a frame that
 * breaks a limit poisons the reader for good, because after it the boundaries are unknown.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VIAL_WIRE_VERSION 1
#define VIAL_WIRE_HEADER_BYTES 12u
#define VIAL_WIRE_MAX_PAYLOAD (256u * 1024u)
/* Bytes of DATA and EVENT payload each side may send on a new stream before the other grants more. */
#define VIAL_WIRE_INITIAL_CREDIT (1024u * 1024u)
/* An EVENT may span frames (VIAL_WIRE_MORE); together they stay below this. */
#define VIAL_WIRE_MAX_EVENT (64u * 1024u * 1024u)
#define VIAL_WIRE_MAX_STREAMS 1024u

/* Stream 0 is the connection itself; HOST is a conversation with the sandbox host process (shim or vmm), never relayed. */
#define VIAL_WIRE_STREAM_CONNECTION 0u
#define VIAL_WIRE_STREAM_HOST 0xffffffffu

enum vial_wire_type {
	VIAL_WIRE_HELLO = 1,  /* stream 0, JSON, both ways: identity after start or resume, and the agent's confirmation */
	VIAL_WIRE_OPEN = 2,   /* host to agent, JSON: starts an operation on a new stream */
	VIAL_WIRE_DATA = 3,   /* raw bytes on a channel; costs credit */
	VIAL_WIRE_EVENT = 4,  /* JSON in the middle of an operation, both ways; costs credit */
	VIAL_WIRE_EOF = 5,    /* no more DATA from this side on that channel */
	VIAL_WIRE_CLOSE = 6,  /* agent to host, JSON: the operation's result; nothing follows on the stream */
	VIAL_WIRE_CANCEL = 7, /* host to agent: end it now; CLOSE still follows */
	VIAL_WIRE_CREDIT = 8, /* u32 little endian: that many more bytes may be sent on this stream */
	VIAL_WIRE_FREEZE = 9, /* stream 0, both ways: stop on a frame boundary, and the agent's "stopped" */
	VIAL_WIRE_RESET = 10, /* stream 0, host to agent: a new epoch begins, every stream of an older one is cancelled */
	VIAL_WIRE_PING = 11,  /* stream 0: answered with PONG and the same payload */
	VIAL_WIRE_PONG = 12,
	VIAL_WIRE_TYPE_MAX = VIAL_WIRE_PONG,
};

/* Channels of DATA and EOF. */
enum vial_wire_channel {
	VIAL_WIRE_MAIN = 0, /* file contents, tunnel bytes, pty bytes, stdin */
	VIAL_WIRE_STDOUT = 1,
	VIAL_WIRE_STDERR = 2,
};
/* Set in an EVENT's channel byte when the JSON goes on in the next EVENT frame of the stream. */
#define VIAL_WIRE_MORE 0x80u

struct vial_wire_frame {
	uint32_t length;
	uint32_t stream;
	uint16_t epoch;
	uint8_t type;
	uint8_t channel;
	const uint8_t *payload; /* into the reader's buffer, valid until the next call on the reader */
};

struct vial_wire_reader {
	uint8_t *buffer;
	size_t capacity;
	size_t start; /* first byte not yet handed out */
	size_t end;   /* one past the last byte received */
	bool is_broken;
};

/* 0, or -ENOMEM. */
int vial_wire_reader_init(struct vial_wire_reader *reader);
void vial_wire_reader_clear(struct vial_wire_reader *reader);

/*
 * Where to read(2) into, and how much fits there; at least one byte as long as every complete frame was taken with
 * vial_wire_reader_next() before. Follow with vial_wire_reader_filled().
 */
uint8_t *vial_wire_reader_space(struct vial_wire_reader *reader, size_t *out_size);
void vial_wire_reader_filled(struct vial_wire_reader *reader, size_t size_bytes);

/* 1: *out_frame is the next frame; 0: more bytes are needed; -EPROTO: broken, close the connection. */
int vial_wire_reader_next(struct vial_wire_reader *reader, struct vial_wire_frame *out_frame);

/* Forgets what was received and whether it was broken: for a new peer on the same reader. */
void vial_wire_reader_reset(struct vial_wire_reader *reader);

/* True when no part of a frame is waiting, so a snapshot taken now cuts nothing in two. */
bool vial_wire_reader_is_at_boundary(const struct vial_wire_reader *reader);

/* Fills 12 bytes at `out_header` from everything in `frame` but its payload pointer. */
void vial_wire_header_encode(const struct vial_wire_frame *frame, uint8_t *out_header);

/* Checks a header by itself: lengths, known type, reserved streams. 0 or -EPROTO. */
int vial_wire_header_decode(const uint8_t header[VIAL_WIRE_HEADER_BYTES], struct vial_wire_frame *out_frame);

uint32_t vial_wire_get_u32(const uint8_t *bytes);
void vial_wire_put_u32(uint8_t *bytes, uint32_t value);
