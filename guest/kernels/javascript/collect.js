// SPDX-License-Identifier: Apache-2.0
// Gives memory back once nobody runs anything. V8 would do so by itself (--memory-reducer), but for any heap, however small: in every sandbox a tenth of
// a second of processor time some seconds after it was made, whether it was used or not. So that is off, and this looks after runs that left much behind.
'use strict';

const v8 = require('v8');
const vm = require('vm');

const QUIET_MS = 8000;
const MUCH_BYTES = 32 * 1024 * 1024;
// Newer engines keep the pages of what they have collected, but for this; older ones take it for a small collection.
const KIND = Number.parseInt(process.versions.node, 10) >= 24 ? { type: 'major', execution: 'sync', flavor: 'last-resort' } : undefined;

const later = setTimeout;
let collect = null;
let timer = null;
let hasRun = false;
let kept = 0; // what the last collection left

function used() {
	const heap = v8.getHeapStatistics();
	return heap.used_heap_size + heap.external_memory;
}

function look() {
	timer = null;
	if (hasRun) return ended();
	if (used() > kept + MUCH_BYTES) collect(KIND);
	kept = used();
}

// A run is over.
function ended() {
	hasRun = timer !== null;
	if (!timer) timer = later(look, QUIET_MS).unref();
}

function install() {
	v8.setFlagsFromString('--expose-gc');
	collect = vm.runInNewContext('gc');
	v8.setFlagsFromString('--no-expose-gc');
}

module.exports = { ended, install };
