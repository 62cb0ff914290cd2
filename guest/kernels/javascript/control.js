// SPDX-License-Identifier: Apache-2.0
// What must happen while a cell has the main thread: a worker hears the agent's control messages and leaves word in shared memory.
//
//   reseed     after a resume: new random state (random.js looks at the generation at every draw)
//   interrupt  SIGINT reaches the main thread when it comes back to its event loop; if it does not, the worker terminates what is
//              running there. POSTED and DONE count terminations: a run ends only when they agree (evaluate.js), so that
//              none is left over for the next one
//   sync       the agent has read everything that we wrote before (streams.js)
'use strict';

const { Worker } = require('worker_threads');
const path = require('path');

const GENERATION = 0;
const SYNCED = 1;
const RUNNING = 2;
const POSTED = 3;
const DONE = 4;
const SEED = 5; // four words
const WORDS = 9;

const shared = new Int32Array(new SharedArrayBuffer(WORDS * 4));
let resolveReady;
const ready = new Promise((resolve) => {
	resolveReady = resolve;
});

// `onTerminated(number)` is called when a run has been terminated and may still be open.
function install(fd, onTerminated) {
	const worker = new Worker(path.join(__dirname, 'control-worker.js'), {
		workerData: { shared, fd },
		stdout: true,
		stderr: true,
		// It is given descriptors, and would warn of each; what it prints keeps our event loop going for good (main.js, onEmpty).
		trackUnmanagedFds: false,
		env: { ...process.env },
		resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
	});
	worker.on('message', (message) => {
		if (message === 'ready') {
			worker.unref();
			resolveReady();
		} else onTerminated(message);
	});
}

function running(number) {
	Atomics.store(shared, RUNNING, number);
}

// Whether a termination is under way that may hit what comes next.
function idle() {
	Atomics.store(shared, RUNNING, 0);
	return Atomics.load(shared, POSTED) !== Atomics.load(shared, DONE);
}

module.exports = { DONE, GENERATION, POSTED, RUNNING, SEED, SYNCED, idle, install, ready, running, shared };
