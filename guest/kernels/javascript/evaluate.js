// SPDX-License-Identifier: Apache-2.0
// Runs one cell in V8's REPL mode, through an inspector session that this thread has with itself, and hands back the value that
// it ended with: the object itself, not a description of it.
'use strict';

const inspector = require('inspector');
const { types } = require('util');
const { promiseHooks } = require('v8');
const vm = require('vm');
const control = require('./control.js');
const { rewrite } = require('./rewrite.js');
const typescript = require('./typescript.js');

const GROUP = 'vial';
const TAKE = Symbol.for('vial.take');

let session = connect();

function connect() {
	const made = new inspector.Session();
	made.connect();
	return made;
}

// The inspector holds the promise of an evaluation weakly. When a cell waits for what nobody will settle, that promise is garbage, and the inspector
// answers from within the collector, which is the end of the process. So we hold it: it is the first one that an evaluation makes.
let held = null;

function postHeld(parameters, callback) {
	const stop = promiseHooks.onInit((promise) => {
		held = promise;
		stop();
	});
	session.post('Runtime.evaluate', parameters, callback);
	stop();
}

// For a run that ends while its evaluation goes on, perhaps for ever: a session that is gone is not answered.
function abandon() {
	session.disconnect();
	session = connect();
	held = null;
}

Object.defineProperty(globalThis, Symbol.for('vial.control'), { value: control, enumerable: false });

let taken;
Object.defineProperty(globalThis, TAKE, {
	value: (value) => {
		taken = value;
	},
	enumerable: false,
});

// Calls back with {value}, {error} or {isInterrupted}; or never, when the cell is interrupted while it waits, or waits for what never comes. `onEvaluated`
// tells that the inspector has answered, `onValue` that the cell's value is a promise, which is awaited.
function run(code, count, isTypescript, { onEvaluated, onValue }, callback) {
	let prepared;
	try {
		prepared = prepare(code, isTypescript);
	} catch (error) {
		onEvaluated();
		callback({ error });
		return;
	}
	const parameters = {
		expression: `${prepared.code}\n//# sourceURL=cell-${count}`,
		replMode: true,
		awaitPromise: true,
		objectGroup: GROUP,
		disableBreaks: true,
		allowUnsafeEvalBlockedByCSP: true,
	};
	postHeld(parameters, (failure, answer) => {
		held = null;
		onEvaluated();
		if (failure) callback({ isInterrupted: true });
		else if (answer.exceptionDetails) callback({ error: errorOf(answer.exceptionDetails, prepared, count) });
		else {
			prepared.commit();
			settled(realValue(answer.result), onValue, callback);
		}
	});
}

// `main()`: what it prints belongs to its cell, and so does its failure.
function settled(value, onValue, callback) {
	if (!types.isPromise(value)) {
		callback({ value });
		return;
	}
	onValue(value);
	Reflect.apply(then, value, [(result) => callback({ value: result }), (error) => callback({ error })]);
}
const { then } = Promise.prototype;

function errorOf(details, prepared, count) {
	const error = details.exception ? realValue(details.exception) : new Error(details.text);
	// A syntax error of the cell itself, not one that its code raised: then nothing has run and nothing was declared.
	if (error instanceof SyntaxError && !/\bcell-\d+:\d/.test(error.stack)) point(error, prepared.code, count, details);
	else prepared.commit();
	return error;
}

// Gives a termination that is under way something to hit. It ends when the count says so, or by being hit.
function absorbTermination() {
	const expression = `{
		const { shared, POSTED, DONE } = globalThis[Symbol.for('vial.control')];
		const end = Date.now() + 1000;
		while (Atomics.load(shared, POSTED) !== Atomics.load(shared, DONE) && Date.now() < end);
	}`;
	session.post('Runtime.evaluate', { expression, silent: true });
}

// The source as V8 shall see it.
function prepare(code, isTypescript) {
	if (isTypescript) {
		const stripped = typescript.strip(code);
		if (stripped.error) throw new SyntaxError(stripped.error);
		if (stripped.code !== undefined) code = stripped.code;
	}
	const literal = /^\s*\{/.test(code) && !/;\s*$/.test(code) && rewrite(`(${code}\n)`);
	const rewritten = literal || rewrite(code);
	if (rewritten) return rewritten;
	const unchanged = { code, commit() {} };
	if (isTypescript || compiles(code)) return unchanged;
	// Not JavaScript. If it is TypeScript it runs; otherwise V8 says best what is wrong with it.
	const stripped = typescript.strip(code);
	return (stripped.code !== undefined && rewrite(stripped.code)) || unchanged;
}

// Newer syntax than our parser knows is left to V8.
function compiles(code) {
	try {
		new vm.Script(`(async () => {${code}\n})`);
		return true;
	} catch {
		return false;
	}
}

function realValue(remote) {
	if (remote.objectId !== undefined) {
		taken = undefined;
		session.post('Runtime.callFunctionOn', {
			objectId: remote.objectId,
			functionDeclaration: 'function (value) { globalThis[Symbol.for("vial.take")](value); }',
			arguments: [{ objectId: remote.objectId }],
			silent: true,
		});
		session.post('Runtime.releaseObjectGroup', { objectGroup: GROUP });
		const value = taken;
		taken = undefined;
		return value;
	}
	if (remote.unserializableValue !== undefined) {
		const text = remote.unserializableValue;
		return text.endsWith('n') ? BigInt(text.slice(0, -1)) : Number(text);
	}
	return remote.value;
}

// A syntax error carries no place in its stack; show it as Node does.
function point(error, code, count, { lineNumber, columnNumber }) {
	const line = code.split('\n')[lineNumber] ?? '';
	const caret = ' '.repeat(Math.max(0, Math.min(columnNumber, line.length)));
	error.stack = `cell-${count}:${lineNumber + 1}\n${line.slice(0, 500)}\n${caret}^\n\nSyntaxError: ${error.message}`;
}

module.exports = { abandon, absorbTermination, run };
