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

function send(message) {
	const body = fromString(stringify(message).toWellFormed());
	writeAll(MESSAGES_FD, Buffer.concat([fromString(`${body.length}\n`), body]));
}

// Cuts a stream of bytes into messages.
class Splitter {
	constructor() {
		this.pending = Buffer.alloc(0);
	}

	*push(bytes) {
		this.pending = this.pending.length ? Buffer.concat([this.pending, bytes]) : bytes;
		for (;;) {
			const end = this.pending.indexOf(10);
			if (end < 0) return;
			const length = Number(this.pending.toString('latin1', 0, end));
			if (this.pending.length < end + 1 + length) return;
			const body = this.pending.toString('utf8', end + 1, end + 1 + length);
			this.pending = this.pending.subarray(end + 1 + length);
			yield JSON.parse(body);
		}
	}
}

function receive(handle) {
	const splitter = new Splitter();
	const socket = new net.Socket({ fd: REQUESTS_FD, readable: true, writable: false });
	socket.on('data', (bytes) => {
		for (const request of splitter.push(bytes)) handle(request);
	});
	socket.on('end', () => process.reallyExit(0));
	socket.on('error', () => process.reallyExit(1));
}

module.exports = { CONTROL_FD, MESSAGES_FD, MODULE_FD, Splitter, mute, receive, send, writeAll };
