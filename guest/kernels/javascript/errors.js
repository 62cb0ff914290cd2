// SPDX-License-Identifier: Apache-2.0
// What went wrong in a cell, as {name, value, traceback}. Stack traces show nothing of ours, also those that a cell prints itself.
'use strict';

const { inspect, types } = require('util');

const MAX_TEXT = 256 * 1024;
// Where a cell is evaluated; everything below that is ours.
const EVALUATION = /^node:inspector\b/;
const OUR_FILES = /\/kernels\/javascript\//;
const CELL = /\bcell-(\d+):\d+:\d+/g;

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

// V8 asks it for the text of a stack when somebody looks at one. Programs that put their own in its place get all frames, as everywhere.
function prepareStackTrace(error, frames) {
	const title = attempt(() => titleOf(error), 'Error');
	const end = frames.findIndex((frame) => EVALUATION.test(frame.getFileName() ?? ''));
	const theirs = (end < 0 ? frames : frames.slice(0, end)).filter((frame) => !OUR_FILES.test(frame.getFileName() ?? ''));
	return theirs.length ? `${title}\n    at ${theirs.join('\n    at ')}` : title;
}

// As Node has it: the code of its own errors stands beside their name.
function titleOf(error) {
	if (/^ERR_/.test(error.code) && !error.name.includes('[')) return `${error.name} [${error.code}]: ${error.message}`;
	return Error.prototype.toString.call(error);
}

function install() {
	Object.defineProperty(Error, 'prepareStackTrace', { value: prepareStackTrace, writable: true, configurable: true, enumerable: false });
}

function limit(text) {
	const wellFormed = text.toWellFormed().replaceAll('\0', '\ufffd');
	if (wellFormed.length <= MAX_TEXT) return wellFormed;
	const half = MAX_TEXT / 2;
	const left = wellFormed.length - MAX_TEXT;
	return `${wellFormed.slice(0, half)}\n[... ${left} characters left out ...]\n${wellFormed.slice(-half)}`;
}

// The numbers of the cells that an error comes through: a function of an earlier one, called by a later one, is in both. Empty when it does not tell.
function cellsOf(error) {
	return attempt(() => Array.from(String(error.stack).matchAll(CELL), (found) => Number(found[1])), []);
}

function interrupted() {
	return { name: 'Interrupted', value: 'the run was interrupted', traceback: 'Interrupted: the run was interrupted' };
}

function unsettled() {
	const text = 'the cell waits for a promise that nothing is left to settle: no timer, no request, no program, and stdin is empty';
	return { name: 'UnsettledAwait', value: text, traceback: `UnsettledAwait: ${text}` };
}

function exit(status) {
	return { name: 'SystemExit', value: String(status), traceback: `SystemExit: process.exit(${status})` };
}

function exitCode(status) {
	return { name: 'SystemExit', value: String(status), traceback: `SystemExit: process.exitCode is ${status}` };
}

module.exports = { cellsOf, describe, exit, exitCode, install, interrupted, unsettled };
