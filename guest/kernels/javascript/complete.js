// SPDX-License-Identifier: Apache-2.0
// What the word before the cursor may become. `vial repl` asks for it in a cell of its own. Nothing of the user's runs meanwhile: no getter, no proxy.
'use strict';

const { types } = require('util');
const { names } = require('./rewrite.js');

const MAX_MATCHES = 200;
const PATH = /(?:^|[^\w$.])((?:[A-Za-z_$][\w$]*\.)*)([A-Za-z_$][\w$]*)?$/;
const evaluate = eval; // of a name, in the scope of the cells

// The object that a path such as "a.b." leads to.
function follow(path) {
	const [first, ...rest] = path.split('.').slice(0, -1);
	let value = evaluate(first);
	for (const name of rest) value = descriptorOf(value, name)?.value;
	return value;
}

function chain(value) {
	const objects = [];
	for (let object = Object(value); object && !types.isProxy(object) && objects.length < 32; object = Object.getPrototypeOf(object)) objects.push(object);
	return objects;
}

function descriptorOf(value, name) {
	for (const object of chain(value)) {
		const descriptor = Object.getOwnPropertyDescriptor(object, name);
		if (descriptor) return descriptor;
	}
	return undefined;
}

function propertiesOf(value) {
	return value === null || value === undefined ? [] : chain(value).flatMap((object) => Object.getOwnPropertyNames(object));
}

function candidates(path) {
	try {
		return path ? propertiesOf(follow(path)) : [...names(), ...propertiesOf(globalThis)];
	} catch {
		return []; // no such name, or not yet
	}
}

// Prints the word and what it may become, each on a line.
function show(text) {
	const [, path, word = ''] = PATH.exec(text) ?? [null, '', ''];
	const matches = candidates(path).filter((name) => name.startsWith(word) && /^[A-Za-z_$][\w$]*$/.test(name) && (word.startsWith('__') || !name.startsWith('__')));
	process.stdout.write([path + word, ...[...new Set(matches)].sort().slice(0, MAX_MATCHES).map((name) => path + name), ''].join('\n'));
}

function install() {
	Object.defineProperty(globalThis, Symbol.for('vial.complete'), { value: show, enumerable: false });
}

module.exports = { install };
