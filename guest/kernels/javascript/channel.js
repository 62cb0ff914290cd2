// SPDX-License-Identifier: Apache-2.0
// The pipes between the agent and the kernel: a message is its length in decimal, a newline, and that many bytes of JSON.
'use strict';

const fs = require('fs');
const net = require('net');

const REQUESTS_FD = 3;
const MESSAGES_FD = 4;
const CONTROL_FD = 5;
const MODULE_FD = 6;

const stringify = JSON.stringify;
const fromString = Buffer.from.bind(Buffer);
const writeSync = fs.writeSync;

let isMuted = false;

// While the kernel warms up, nobody must hear it.
function mute(isOn) {
	isMuted = isOn;
}

// Writes all of it, also when the pipe is full: the agent reads when the client does.
function writeAll(fd, bytes) {
	let offset = isMuted ? bytes.length : 0;
	while (offset < bytes.length) {
		try {
			offset += writeSync(fd, bytes, offset, bytes.length - offset);
		} catch (error) {
			if (error.code !== 'EAGAIN') throw error;
			// Somebody (a child process) has made the pipe non-blocking.
			Atomics.wait(pause, 0, 0, 2);
		}
	}
}
const pause = new Int32Array(new SharedArrayBuffer(4));

// With the next one when that follows at once, so that the agent wakes once.
let held = [];

function send(message, isFollowed = false) {
	const body = fromString(stringify(message).toWellFormed());
	held.push(fromString(`${body.length}\n`), body);
	if (isFollowed) return;
	const bytes = Buffer.concat(held);
	held = [];
	writeAll(MESSAGES_FD, bytes);
}

// Cuts a stream of bytes into messages. The pieces of a large one are joined once, when it is complete.
class Splitter {
	constructor() {
		this.pieces = [];
		this.size = 0;
		this.needed = 0; // bytes without which there is nothing to do
	}

	// Its state is in order before each message is handed out: what comes of that may never come back here (an interrupted cell).
	*push(bytes) {
		this.pieces.push(bytes);
		this.size += bytes.length;
		while (this.size > 0 && this.size >= this.needed) {
			if (this.pieces.length > 1) this.pieces = [Buffer.concat(this.pieces)];
			const [pending] = this.pieces;
			const end = pending.indexOf(10);
			if (end < 0) return;
			this.needed = end + 1 + Number(pending.toString('latin1', 0, end));
			if (this.size < this.needed) return;
			const body = pending.toString('utf8', end + 1, this.needed);
			this.size -= this.needed;
			this.pieces = this.size ? [pending.subarray(this.needed)] : [];
			this.needed = 0;
			yield JSON.parse(body);
		}
	}
}

let socket = null;

function receive(handle) {
	const splitter = new Splitter();
	socket = new net.Socket({ fd: REQUESTS_FD, readable: true, writable: false });
	socket.on('data', (bytes) => {
		for (const request of splitter.push(bytes)) handle(request);
	});
	socket.on('end', () => process.reallyExit(0));
	socket.on('error', () => process.reallyExit(1));
}

// Whether we alone keep the event loop going. When not, it comes to an empty end as a script's does: process.on('beforeExit').
function keepAlive(isOn) {
	if (isOn) socket?.ref();
	else socket?.unref();
}

module.exports = { CONTROL_FD, MESSAGES_FD, MODULE_FD, Splitter, keepAlive, mute, receive, send, writeAll };
