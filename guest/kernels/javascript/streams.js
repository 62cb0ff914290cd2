// SPDX-License-Identifier: Apache-2.0
// process.stdout and process.stderr of the kernel: the pipes 1 and 2, written synchronously, so that console, child processes and
// writeSync(1) keep their order, and so that a cell that prints faster than its client reads has to wait.
//
// - Order between the pipes: before we write to one, the agent has read what we wrote to another; asked for with a `sync` message.
// - Buffering: a write goes out at once until there are many in ten milliseconds; then in large pieces.
'use strict';

const childProcess = require('child_process');
const { Console } = require('console');
const { Readable, Writable } = require('stream');
const { syncBuiltinESMExports } = require('module');
const channel = require('./channel.js');
const control = require('./control.js');

const WINDOW_MS = 10;
const WRITES_PER_WINDOW = 64;
const MAX_BUFFER_CHARS = 128 * 1024;
// What a run may spend on order; beyond it order is lost, not time.
const MAX_SYNC_MS = 1000;

const now = performance.now.bind(performance);
let lastFd = 0;
let syncNumber = 0;
let syncLeftMs = MAX_SYNC_MS;
let outputs = [];

// Waits until the agent has everything that was written to another pipe than `fd`.
function settle(fd) {
	const previous = lastFd;
	lastFd = fd;
	if (previous === fd || previous === 0 || syncLeftMs <= 0) return;
	const start = now();
	channel.send({ type: 'sync', number: ++syncNumber });
	for (;;) {
		const seen = Atomics.load(control.shared, control.SYNCED);
		const leftMs = syncLeftMs - (now() - start);
		if (seen >= syncNumber || leftMs <= 0) break;
		Atomics.wait(control.shared, control.SYNCED, seen, leftMs);
	}
	syncLeftMs -= now() - start;
}

class Output extends Writable {
	constructor(fd) {
		super({ decodeStrings: false });
		this.fd = fd;
		this._type = 'pipe';
		this._isStdio = true;
		this.pending = '';
		this.windowEnd = 0;
		this.writes = 0;
		this.isScheduled = false;
	}

	write(chunk, encoding, callback) {
		if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding];
		if (typeof chunk === 'string' && (encoding === undefined || encoding === 'utf8' || encoding === 'utf-8')) {
			this.put(chunk);
		} else if (typeof chunk === 'string' || ArrayBuffer.isView(chunk)) {
			this.flushPending();
			settle(this.fd);
			channel.writeAll(this.fd, typeof chunk === 'string' ? Buffer.from(chunk, encoding) : asBuffer(chunk));
		} else {
			return super.write(chunk, encoding, callback);
		}
		if (callback) process.nextTick(callback);
		return true;
	}

	// For end(chunk) and for what write() refuses: Writable raises the error.
	_write(chunk, encoding, callback) {
		this.write(chunk, encoding);
		callback();
	}

	// Never ended: the next cell prints as well.
	end(chunk, encoding, callback) {
		if (typeof chunk === 'function') [chunk, callback] = [undefined, chunk];
		if (chunk !== undefined && chunk !== null) this.write(chunk, encoding);
		if (typeof callback === 'function') process.nextTick(callback);
		return this;
	}

	destroy() {
		return this;
	}

	put(text) {
		for (const other of outputs) if (other !== this && other.pending) other.flushPending();
		this.pending += text;
		const time = now();
		if (time >= this.windowEnd) {
			this.windowEnd = time + WINDOW_MS;
			this.writes = 0;
		}
		this.writes += 1;
		if (this.writes <= WRITES_PER_WINDOW || this.pending.length >= MAX_BUFFER_CHARS) {
			this.flushPending();
		} else if (!this.isScheduled) {
			this.isScheduled = true;
			setImmediate(() => {
				this.isScheduled = false;
				this.flushPending();
			});
		}
	}

	flushPending() {
		if (!this.pending) return;
		const text = this.pending;
		this.pending = '';
		settle(this.fd);
		channel.writeAll(this.fd, Buffer.from(text));
	}
}

function asBuffer(view) {
	return Buffer.from(view.buffer, view.byteOffset, view.byteLength);
}

// Empty, and for each cell again: what has ended once would never end for the next who listens.
function defineInput() {
	let input = null;
	const isUsable = () => input && !input.destroyed && !input.readableEnded;
	const make = () => Object.assign(Readable.from([]), { fd: 0 });
	Object.defineProperty(process, 'stdin', {
		get: () => (isUsable() ? input : (input = make())),
		configurable: true,
		enumerable: true,
	});
}

function install() {
	outputs = [new Output(1), new Output(2)];
	const define = (name, value) => Object.defineProperty(process, name, { value, configurable: true, enumerable: true, writable: true });
	define('stdout', outputs[0]);
	define('stderr', outputs[1]);
	defineInput();
	// Node's own console guards every write against a stream that fails; ours does not, and a print is three times as fast.
	const plain = new Console({ stdout: outputs[0], stderr: outputs[1], ignoreErrors: false });
	for (const name of Object.keys(plain)) if (typeof plain[name] === 'function') console[name] = plain[name];
	flushBeforeChildren();
}

// A child that inherits our pipes writes after what we have printed.
function flushBeforeChildren() {
	const wrap = (owner, name) => {
		const original = owner[name];
		const wrapped = {
			[name](...args) {
				flush();
				return Reflect.apply(original, this, args);
			},
		}[name];
		owner[name] = wrapped;
	};
	wrap(childProcess.ChildProcess.prototype, 'spawn');
	for (const name of ['spawnSync', 'execSync', 'execFileSync']) wrap(childProcess, name);
	syncBuiltinESMExports();
}

function flush() {
	for (const output of outputs) output.flushPending();
}

// A message in its place between the output before and after it.
function send(message, isFollowed = false) {
	flush();
	// No waiting: before the agent looks at a message it takes what is in the other two pipes.
	lastFd = channel.MESSAGES_FD;
	channel.send(message, isFollowed);
}

function startRun() {
	syncLeftMs = MAX_SYNC_MS;
	// The agent asks for a run when it has read everything of the last one.
	lastFd = 0;
}

function discard() {
	for (const output of outputs) output.pending = '';
}

module.exports = { discard, flush, install, send, startRun };
