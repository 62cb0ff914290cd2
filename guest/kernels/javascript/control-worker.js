// SPDX-License-Identifier: Apache-2.0
// The worker of control.js.
'use strict';

const { closeSync } = require('fs');
const inspector = require('inspector');
const net = require('net');
const { parentPort, workerData } = require('worker_threads');
const { DONE, GENERATION, POSTED, RUNNING, SEED, SYNCED } = require('./control.js');
const { MODULE_FD, Splitter, send } = require('./channel.js');

const PATIENCE_MS = 40;
const AGAIN_MS = 200;

// Nobody reads it; and what is there to be read keeps the event loop of the main thread going.
process.stdout.write = process.stderr.write = () => true;

const { shared, fd } = workerData;
const stir = loadModule();

// OpenSSL's generator, which lives in the process and comes back unchanged from a snapshot: stirred by a module that the agent lends us.
function loadModule() {
	const module = { exports: {} };
	try {
		process.dlopen(module, `/proc/self/fd/${MODULE_FD}`);
		closeSync(MODULE_FD);
	} catch {
		return () => false;
	}
	return module.exports.reseed;
}

function reseed(message) {
	const seed = Buffer.from(message.seed, 'hex');
	const isStirred = stir(seed);
	for (let word = 0; word < 4; word++) Atomics.store(shared, SEED + word, seed.readInt32LE(word * 4));
	Atomics.add(shared, GENERATION, 1);
	// Without it the agent starts a new kernel instead.
	send({ type: 'reseeded', number: message.number, ...(isStirred ? {} : { is_incomplete: true }) });
}

function sync(message) {
	Atomics.store(shared, SYNCED, message.number);
	Atomics.notify(shared, SYNCED);
}

// The main thread does not need our help when it gets back to its event loop by itself.
function interrupt(message, delayMs = PATIENCE_MS) {
	setTimeout(() => {
		// Counted before looking: either we see that the run is over, or its end sees the count and waits for us.
		Atomics.add(shared, POSTED, 1);
		if (Atomics.load(shared, RUNNING) !== message.number) {
			Atomics.add(shared, DONE, 1);
			return;
		}
		terminate(() => parentPort.postMessage(message.number));
		interrupt(message, AGAIN_MS);
	}, delayMs);
}

// Answered when what was running has been unwound. The session must not stay: a process with a debugger attached waits for it
// when it exits.
function terminate(callback) {
	const session = new inspector.Session();
	session.connectToMainThread();
	session.post('Runtime.terminateExecution', () => {
		Atomics.add(shared, DONE, 1);
		session.disconnect();
		callback();
	});
}

const handlers = { interrupt, reseed, sync };
const splitter = new Splitter();
const socket = new net.Socket({ fd, readable: true, writable: false });
socket.on('data', (bytes) => {
	for (const message of splitter.push(bytes)) handlers[message.type]?.(message);
});
socket.on('error', () => {});
parentPort.postMessage('ready');
