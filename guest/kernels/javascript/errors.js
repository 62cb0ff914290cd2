// SPDX-License-Identifier: Apache-2.0
// What went wrong in a cell, as {name, value, traceback}; stack traces end where our frames begin.
'use strict';

const { inspect, types } = require('util');

const MAX_TEXT = 256 * 1024;
// Everything below this line of a stack is the evaluation itself.
const OUR_FRAMES = /\n\s+at (?:Session\.post \(node:inspector|[^\n]*node:inspector:|[^\n]*\/kernels\/javascript\/)[^]*?(?=\n\s*(?:\{|\[|$)|$)/;
const CELL = /\bcell-(\d+):\d+:\d+/;

function isError(value) {
	return types.isNativeError(value) || value instanceof Error;
}

// Throwing can be anything, also an object whose getters throw.
function attempt(get, fallback) {
	try {
		return get();
	} catch {
		return fallback;
	}
}

function describe(error, isColored) {
	if (isError(error)) {
		trimStack(error);
		return {
			name: limit(String(attempt(() => error.name, 'Error') || 'Error')),
			value: limit(String(attempt(() => error.message, ''))),
			traceback: limit(tracebackOf(error, isColored)),
		};
	}
	const text = attempt(() => inspect(error, { colors: isColored }), 'a value that cannot be shown');
	return { name: 'Uncaught', value: limit(typeof error === 'string' ? error : text), traceback: limit(`Uncaught ${text}`) };
}

function tracebackOf(error, isColored) {
	const stack = String(attempt(() => error.stack, 'Error'));
	// inspect() puts brackets around a stack without frames: that of a syntax error, which shows the place instead.
	if (error instanceof SyntaxError && !/\n\s+at /.test(stack)) return stack;
	return attempt(() => inspect(error, { colors: isColored }), stack);
}

// Also those of its causes.
function trimStack(error, depth = 0) {
	attempt(() => {
		if (typeof error.stack === 'string' && OUR_FRAMES.test(error.stack)) error.stack = error.stack.replace(OUR_FRAMES, '');
		if (depth < 8 && isError(error.cause)) trimStack(error.cause, depth + 1);
	});
}

function limit(text) {
	const wellFormed = text.toWellFormed().replaceAll('\0', '\ufffd');
	if (wellFormed.length <= MAX_TEXT) return wellFormed;
	const half = MAX_TEXT / 2;
	const left = wellFormed.length - MAX_TEXT;
	return `${wellFormed.slice(0, half)}\n[... ${left} characters left out ...]\n${wellFormed.slice(-half)}`;
}

// The number of the cell that an error comes from, 0 when it does not tell.
function cellOf(error) {
	const found = attempt(() => CELL.exec(String(error.stack)), null);
	return found ? Number(found[1]) : 0;
}

function interrupted() {
	return { name: 'Interrupted', value: 'the run was interrupted', traceback: 'Interrupted: the run was interrupted' };
}

function exit(status) {
	return { name: 'SystemExit', value: String(status), traceback: `SystemExit: process.exit(${status})` };
}

module.exports = { cellOf, describe, exit, interrupted };
