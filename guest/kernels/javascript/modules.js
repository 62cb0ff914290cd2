// SPDX-License-Identifier: Apache-2.0
// require() and import() as if each cell were a file in the current directory; packages installed globally are found as well.
'use strict';

const Module = require('module');
const path = require('path');
const vm = require('vm');

const GLOBAL_ROOTS = ['/usr/local/lib', '/usr/lib', '/usr/share'];
const GLOBAL_PATHS = ['/usr/local/lib/node_modules', '/usr/lib/node_modules', '/usr/share/nodejs', '/usr/lib/nodejs'];
const IMPORT_NAME = '__vial_import';
const META_NAME = '__vial_meta';
const NOT_FOUND = new Set(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND', 'ERR_UNSUPPORTED_DIR_IMPORT']);

const requires = new Map();
const importers = new Map();

function memoize(cache, key, make) {
	let value = cache.get(key);
	if (value === undefined) {
		if (cache.size > 64) cache.clear();
		value = make(key);
		cache.set(key, value);
	}
	return value;
}

// The name of the program that runs, if one does. Its file is the client's; here it would be in the current directory.
let program = null;

function setProgram(name) {
	program = name;
}

function fileName() {
	return path.join(process.cwd(), program === null ? 'cell.js' : path.basename(program));
}

// import.meta, which V8 knows in modules only.
const meta = {
	get dirname() {
		return process.cwd();
	},
	get filename() {
		return fileName();
	},
	get url() {
		return require('url').pathToFileURL(fileName()).href;
	},
	main: true,
	resolve: (name) => {
		const found = requireHere().resolve(name);
		return path.isAbsolute(found) ? require('url').pathToFileURL(found).href : `node:${found.replace(/^node:/, '')}`;
	},
};

function requireHere() {
	return memoize(requires, process.cwd(), (directory) => Module.createRequire(path.join(directory, 'cell.js')));
}

// An import() that resolves from a directory.
function importerFor(directory) {
	return memoize(importers, directory, (key) =>
		vm.runInThisContext('(specifier, options) => import(specifier, options)', {
			filename: path.join(key, 'cell.js'),
			importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
		}),
	);
}

async function importAnywhere(specifier, options) {
	const name = String(specifier);
	try {
		return await importerFor(process.cwd())(name, options);
	} catch (error) {
		const isBare = !/^(?:\.{0,2}\/|[a-z][a-z0-9+.-]*:)/i.test(name);
		if (!isBare || !NOT_FOUND.has(error?.code) || !String(error.message).includes(name.split('/')[0])) throw error;
		for (const root of GLOBAL_ROOTS) {
			try {
				return await importerFor(root)(name, options);
			} catch (other) {
				if (!NOT_FOUND.has(other?.code)) throw other;
			}
		}
		// Debian's packages live outside of any node_modules, where only require() looks.
		try {
			return await importerFor(process.cwd())(require('url').pathToFileURL(requireHere().resolve(name)).href, options);
		} catch {
			throw error;
		}
	}
}

function install() {
	for (const directory of GLOBAL_PATHS) if (!Module.globalPaths.includes(directory)) Module.globalPaths.push(directory);
	const define = (name, value) =>
		Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
	const dynamic = function require(id) {
		return requireHere()(id);
	};
	for (const name of ['cache', 'extensions', 'resolve']) {
		Object.defineProperty(dynamic, name, { get: () => requireHere()[name], enumerable: true, configurable: true });
	}
	// `if (require.main === module) main()`: nothing but the cell itself was asked to run.
	Object.defineProperty(dynamic, 'main', { get: () => globalThis.module, enumerable: true, configurable: true });
	define('require', dynamic);
	define('module', { exports: {}, id: 'cell', filename: null, loaded: false, children: [], paths: [] });
	define('exports', globalThis.module.exports);
	for (const [name, value] of [['__dirname', () => process.cwd()], ['__filename', fileName]]) {
		Object.defineProperty(globalThis, name, { get: value, set: (other) => define(name, other), configurable: true });
	}
	define(IMPORT_NAME, importAnywhere);
	define(META_NAME, meta);
	// As in Node's REPL, the built-in modules are there by name, loaded on first use.
	for (const name of Module.builtinModules) {
		if (name.startsWith('_') || name.includes('/') || name in globalThis || name === 'sys' || name === 'punycode') continue;
		Object.defineProperty(globalThis, name, {
			get() {
				const value = require(name);
				define(name, value);
				return value;
			},
			set: (value) => define(name, value),
			configurable: true,
			enumerable: false,
		});
	}
}

module.exports = { IMPORT_NAME, META_NAME, install, requireHere, setProgram };
