// SPDX-License-Identifier: Apache-2.0
// Math.random, and the caches of `crypto`, for a process that may be restored twice from one snapshot.
//
// V8 seeds Math.random once and keeps 64 numbers in advance; neither can be reached. So we bring our own generator, xorshift128+ as V8's,
// which looks at a word of shared memory at every draw: when control.js has received a new seed, the draw after it uses it, also
// in the middle of a loop that never leaves the main thread.
'use strict';

const crypto = require('crypto');
const fs = require('fs');
const { syncBuiltinESMExports } = require('module');
const { GENERATION, SEED } = require('./control.js');

function makeRandom(shared) {
	const state = crypto.getRandomValues(new Uint32Array(4));
	let generation = 0;

	function reseed() {
		generation = shared[GENERATION];
		for (let word = 0; word < 4; word++) state[word] ^= shared[SEED + word];
		if (!(state[0] | state[1] | state[2] | state[3])) state[0] = 1;
		for (let i = 0; i < 16; i++) step();
	}

	// s1 = state[0..1], s0 = state[2..3], low word first: 64-bit xorshift in 32-bit halves.
	function step() {
		let x0 = state[0];
		let x1 = state[1];
		const y0 = state[2];
		const y1 = state[3];
		state[0] = y0;
		state[1] = y1;
		// x ^= x << 23; x ^= x >>> 17; x ^= y; x ^= y >>> 26
		x1 ^= (x1 << 23) | (x0 >>> 9);
		x0 ^= x0 << 23;
		x0 ^= (x0 >>> 17) | (x1 << 15);
		x1 ^= x1 >>> 17;
		x0 ^= y0 ^ ((y0 >>> 26) | (y1 << 6));
		x1 ^= y1 ^ (y1 >>> 26);
		state[2] = x0;
		state[3] = x1;
	}

	function random() {
		if (shared[GENERATION] !== generation) reseed();
		step();
		// 53 bits.
		return ((state[1] >>> 5) * 67108864 + (state[0] >>> 6)) / 9007199254740992;
	}
	return random;
}

function install(shared) {
	// Bound functions print as native code, like the one they stand for.
	const random = makeRandom(shared).bind(undefined);
	Object.defineProperty(random, 'name', { value: 'random', configurable: true });
	Object.defineProperty(Math, 'random', { value: random, writable: true, enumerable: false, configurable: true });
	bypassCryptoCaches();
}

// OpenSSL's generator lives in the process and comes back unchanged from a snapshot. What user code draws directly is taken from
// the operating system instead, which the agent has reseeded.
function bypassCryptoCaches() {
	const urandom = fs.openSync('/dev/urandom', 'r');
	const fill = (bytes) => {
		let offset = 0;
		while (offset < bytes.length) offset += fs.readSync(urandom, bytes, offset, Math.min(bytes.length - offset, 1 << 20), null);
		return bytes;
	};
	const bytesOf = (view) =>
		ArrayBuffer.isView(view) ? Buffer.from(view.buffer, view.byteOffset, view.byteLength) : Buffer.from(view);
	const { randomBytes, randomFill, randomFillSync, randomInt } = crypto;
	const replacements = {
		randomBytes(size, callback) {
			// The original checks the arguments and raises what it would.
			if (!Number.isInteger(size) || size < 0 || size > 2 ** 31 - 1) return randomBytes(size, callback);
			const bytes = fill(Buffer.alloc(size));
			if (callback === undefined) return bytes;
			process.nextTick(callback, null, bytes);
			return undefined;
		},
		randomFillSync(buffer, offset = 0, size = undefined) {
			randomFillSync(buffer, offset, size);
			const scale = ArrayBuffer.isView(buffer) ? buffer.BYTES_PER_ELEMENT || 1 : 1;
			const all = bytesOf(buffer);
			fill(all.subarray(offset * scale, size === undefined ? all.length : (offset + size) * scale));
			return buffer;
		},
		randomFill(buffer, ...rest) {
			const callback = rest.pop();
			return randomFill(buffer, ...rest, (error, filled) => {
				if (!error) replacements.randomFillSync(buffer, ...rest);
				callback(error, filled);
			});
		},
		randomInt(min, max, callback) {
			if (typeof max === 'function' || max === undefined) [min, max, callback] = [0, min, max];
			if (!Number.isSafeInteger(min) || !Number.isSafeInteger(max) || max <= min || max - min > 2 ** 48 - 1) {
				return randomInt(min, max, callback);
			}
			const range = max - min;
			const limit = 2 ** 48 - (2 ** 48 % range);
			let value;
			do {
				value = fill(Buffer.alloc(6)).readUIntBE(0, 6);
			} while (value >= limit);
			value = (value % range) + min;
			if (callback === undefined) return value;
			process.nextTick(callback, undefined, value);
			return undefined;
		},
		randomUUID() {
			const bytes = fill(Buffer.alloc(16));
			bytes[6] = (bytes[6] & 0x0f) | 0x40;
			bytes[8] = (bytes[8] & 0x3f) | 0x80;
			return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
		},
	};
	Object.assign(crypto, replacements);
	const web = Object.getPrototypeOf(crypto.webcrypto);
	const { getRandomValues } = web;
	web.getRandomValues = {
		getRandomValues(array) {
			Reflect.apply(getRandomValues, this, [array]);
			fill(bytesOf(array));
			return array;
		},
	}.getRandomValues;
	web.randomUUID = replacements.randomUUID;
	syncBuiltinESMExports();
}

module.exports = { install };
