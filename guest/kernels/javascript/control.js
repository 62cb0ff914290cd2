// SPDX-License-Identifier: Apache-2.0
// What must happen while a cell has the main thread: a worker hears the agent's control messages and leaves word in shared memory.
//
//   reseed     after a resume: new random state (random.js looks at the generation at every draw)
//   interrupt  SIGINT reaches the main thread when it comes back to its event loop; if it does not, the worker terminates what is
//              running there, as long as it is still the run that was meant
//   sync       the agent has read everything that we wrote before (streams.js)
'use strict';

const { Worker } = require('worker_threads');
const path = require('path');

const GENERATION = 0;
const SYNCED = 1;
const RUNNING = 2;
const SEED = 4; // four words
const WORDS = 8;

const shared = new Int32Array(new SharedArrayBuffer(WORDS * 4));
let resolveReady;
const ready = new Promise((resolve) => {
	resolveReady = resolve;
});

function install(fd) {
	const worker = new Worker(path.join(__dirname, 'control-worker.js'), {
		workerData: { shared, fd },
		stdout: true,
		stderr: true,
		env: { ...process.env },
		resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
	});
	worker.on('message', () => {
		worker.unref();
		resolveReady();
	});
}

function running(number) {
	Atomics.store(shared, RUNNING, number);
}

function idle() {
	Atomics.store(shared, RUNNING, 0);
}

module.exports = { GENERATION, RUNNING, SEED, SYNCED, idle, install, ready, running, shared };
