// SPDX-License-Identifier: Apache-2.0
// Rich results: values become MIME bundles, bundles become `result` messages. The global display() is documented in docs/kernels.md.
'use strict';

const fs = require('fs');
const { inspect } = require('util');
const { Console } = require('console');
const { Writable } = require('stream');
const streams = require('./streams.js');

const MAX_BUNDLE_BYTES = 16 * 1024 * 1024;
const MAX_TEXT_BYTES = 1024 * 1024;
const MAX_DEPTH = 24;
const MAX_ROWS = 10000;
// Node's 2 hides what a model asks for: an answer of some API is deeper.
const SHOWN_DEPTH = 4;
const DATA_MIME = 'application/vnd.vial.data+json';
// What objects of other kernels' libraries offer.
const DISPLAY_METHODS = [Symbol.for('Jupyter.display'), Symbol.for('vial.display')];
const MAGIC = [
	['image/png', [0x89, 0x50, 0x4e, 0x47]],
	['image/jpeg', [0xff, 0xd8, 0xff]],
	['image/gif', [0x47, 0x49, 0x46, 0x38]],
	['application/pdf', [0x25, 0x50, 0x44, 0x46]],
];

let runId = null;
let maxTextBytes = MAX_TEXT_BYTES;
let isColored = false;
let isTruncated = false;

function start(id, textBytes, colored) {
	runId = id;
	maxTextBytes = textBytes || MAX_TEXT_BYTES;
	isColored = colored;
	isTruncated = false;
}

// Ends the run's results; whether one of them was cut.
function stop() {
	runId = null;
	return isTruncated;
}

function show(value) {
	return inspect(value, { colors: isColored, showProxy: true });
}

function publish(bundle, isMainResult = false) {
	if (runId === null) return;
	// Nothing but `done` comes after a main result.
	streams.send({ type: 'result', id: runId, data: encode(bundle), is_main_result: isMainResult }, isMainResult);
}

function publishMain(value) {
	publish(bundleOf(value), true);
}

function bundleOf(value) {
	if (value !== null && typeof value === 'object') {
		for (const method of DISPLAY_METHODS) {
			if (typeof value[method] === 'function') {
				const bundle = value[method]();
				if (isBundle(bundle)) return { 'text/plain': show(value), ...bundle };
			}
		}
		const mime = mimeOfBytes(value);
		if (mime) return { 'text/plain': `<${mime}, ${value.byteLength} bytes>`, [mime]: value };
	}
	return { 'text/plain': show(value) };
}

function mimeOfBytes(value) {
	if (!ArrayBuffer.isView(value) || value.byteLength < 8) return null;
	const bytes = Buffer.from(value.buffer, value.byteOffset, 16 < value.byteLength ? 16 : value.byteLength);
	if (bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, 12) === 'WEBP') return 'image/webp';
	return MAGIC.find(([, magic]) => magic.every((byte, index) => bytes[index] === byte))?.[0] ?? null;
}

function isBundle(value) {
	if (value === null || typeof value !== 'object' || Array.isArray(value)) return false;
	const keys = Object.keys(value);
	return keys.length > 0 && keys.every((key) => /^[a-z]+\/[\w.+-]+(?:;.*)?$/i.test(key));
}

function encode(bundle) {
	const encoded = {};
	for (const [mime, value] of Object.entries(bundle)) encoded[mime] = encodeValue(mime, value);
	const sizes = new Map(Object.entries(encoded).map(([mime, value]) => [mime, Buffer.byteLength(typeof value === 'string' ? value : JSON.stringify(value))]));
	const leftOut = [];
	while ([...sizes.values()].reduce((sum, size) => sum + size, 0) > MAX_BUNDLE_BYTES) {
		const [mime, size] = [...sizes].reduce((largest, entry) => (entry[1] > largest[1] ? entry : largest));
		sizes.delete(mime);
		delete encoded[mime];
		leftOut.push(`${mime} (${size} bytes)`);
	}
	if (leftOut.length) {
		isTruncated = true;
		const note = `[left out, larger than ${MAX_BUNDLE_BYTES} bytes: ${leftOut.join(', ')}]`;
		encoded['text/plain'] = encoded['text/plain'] ? `${encoded['text/plain']}\n${note}` : note;
	}
	return encoded;
}

function encodeValue(mime, value) {
	if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64');
	if (value instanceof ArrayBuffer) return Buffer.from(value).toString('base64');
	if (typeof value === 'string') return mime === 'text/plain' ? cut(clean(value)) : clean(value);
	if (/json$/.test(mime)) return plain(value);
	return clean(String(value));
}

function clean(text) {
	return text.toWellFormed().replaceAll('\0', '\ufffd');
}

function cut(text) {
	if (text.length * 3 <= maxTextBytes) return text;
	const bytes = Buffer.from(text);
	if (bytes.length <= maxTextBytes) return text;
	isTruncated = true;
	let end = maxTextBytes;
	while (end > 0 && (bytes[end] & 0xc0) === 0x80) end -= 1;
	return `${bytes.toString('utf8', 0, end)}\n[cut: ${bytes.length} bytes in all]`;
}

// JSON that every parser takes: bounded depth, no cycles beyond it, no NaN, no bigints.
function plain(value, depth = 0) {
	if (value === null || value === undefined) return null;
	if (typeof value === 'string') return clean(value);
	if (typeof value === 'number') return Number.isFinite(value) ? value : null;
	if (typeof value === 'boolean') return value;
	if (typeof value === 'bigint') return value.toString();
	if (typeof value.toJSON === 'function') return plain(value.toJSON(), depth + 1);
	if (typeof value !== 'object' || depth >= MAX_DEPTH) return clean(String(value));
	if (value instanceof Map) return plain(Object.fromEntries(value), depth + 1);
	if (value instanceof Set) return plain([...value], depth + 1);
	if (Array.isArray(value) || ArrayBuffer.isView(value)) return Array.from(value, (item) => plain(item, depth + 1));
	return Object.fromEntries(Object.entries(value).map(([key, item]) => [clean(key), plain(item, depth + 1)]));
}

// display(value), display(value, "text/html"), display({"text/html": ...})
function display(value, mime) {
	const type = typeof mime === 'string' ? mime : mime?.mime;
	if (type) publish({ [type]: value });
	else if (isBundle(value)) publish(value);
	else if (typeof value === 'string') publish({ 'text/plain': value });
	else publish(bundleOf(value));
}

function image(source, mime) {
	if (typeof source === 'string') {
		const url = /^data:([\w.+-]+\/[\w.+-]+)(;base64)?,(.*)$/s.exec(source);
		if (url) {
			source = url[2] ? Buffer.from(url[3], 'base64') : Buffer.from(decodeURIComponent(url[3]));
			mime ??= url[1];
		} else if (/^\s*(?:<\?xml[^>]*>\s*)?<svg[\s>]/.test(source)) return publish({ 'image/svg+xml': source });
		else source = fs.readFileSync(source);
	}
	if (source instanceof ArrayBuffer) source = new Uint8Array(source);
	mime ??= mimeOfBytes(source) ?? 'image/png';
	if (mime === 'image/svg+xml') return publish({ [mime]: Buffer.from(source).toString('utf8') });
	return publish({ [mime]: source, 'text/plain': `<${mime}, ${source.byteLength} bytes>` });
}

function escapeHtml(value) {
	return String(value).replace(/[&<>"]/g, (character) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[character]);
}

function tableText(rows) {
	let text = '';
	const sink = new Writable({
		decodeStrings: false,
		write(chunk, encoding, callback) {
			text += chunk;
			callback();
		},
	});
	new Console(sink).table(rows);
	return text.trimEnd();
}

// An array of objects, an array of arrays, or an object of columns.
function table(rows) {
	const isColumns = rows !== null && typeof rows === 'object' && !Array.isArray(rows) && Object.values(rows).every(Array.isArray);
	const list = isColumns
		? Array.from({ length: Math.max(0, ...Object.values(rows).map((column) => column.length)) }, (_, index) =>
				Object.fromEntries(Object.entries(rows).map(([name, column]) => [name, column[index]])),
			)
		: Array.from(rows);
	const names = [...new Set(list.slice(0, MAX_ROWS).flatMap((row) => (row !== null && typeof row === 'object' ? Object.keys(row) : ['value'])))];
	const cell = (row, name) => (row !== null && typeof row === 'object' ? row[name] : row);
	const kept = list.slice(0, MAX_ROWS);
	const data = Object.fromEntries(names.map((name) => [name, kept.map((row) => cell(row, name) ?? null)]));
	if (kept.length < list.length) data.__truncated__ = { rows: list.length, columns: names.length };
	const head = names.map((name) => `<th>${escapeHtml(name)}</th>`).join('');
	const body = kept.map((row) => `<tr>${names.map((name) => `<td>${escapeHtml(cell(row, name) ?? '')}</td>`).join('')}</tr>`).join('\n');
	publish({ 'text/plain': tableText(kept.slice(0, 100)), 'text/html': `<table>\n<thead><tr>${head}</tr></thead>\n<tbody>\n${body}\n</tbody>\n</table>`, [DATA_MIME]: data });
}

function install() {
	inspect.defaultOptions.depth = SHOWN_DEPTH;
	const helpers = {
		html: (text) => publish({ 'text/html': String(text), 'text/plain': String(text) }),
		markdown: (text) => publish({ 'text/markdown': String(text), 'text/plain': String(text) }),
		latex: (text) => publish({ 'text/latex': String(text), 'text/plain': String(text) }),
		json: (value) => publish({ 'application/json': value, 'text/plain': show(value) }),
		svg: (text) => publish({ 'image/svg+xml': String(text) }),
		image,
		table,
	};
	Object.assign(display, helpers);
	Object.defineProperty(globalThis, 'display', { value: display, writable: true, configurable: true, enumerable: false });
}

function warm() {
	encode(bundleOf([1, 'a', { b: null }]));
	tableText([{ a: 1 }]);
}

module.exports = { install, publishMain, start, stop, warm };
