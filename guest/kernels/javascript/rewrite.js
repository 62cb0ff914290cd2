// SPDX-License-Identifier: Apache-2.0
// What a cell's source needs before V8's REPL mode takes it.
//
// REPL mode (the one of the browser consoles) gives us top-level await, completion values, and `let` and `class` that may be declared
// again. It does not allow a name to change its kind (let after const, let after var or function and the other way round), and knows
// no import. So:
//   const x            becomes let; assignments to x are found here and raise the TypeError that they deserve
//   let/const/class x  where x is a var or function of an earlier cell: becomes an assignment to that
//   var/function x     where x is a let or class of an earlier cell: becomes an assignment to that
//   import, import()   become calls of the import() of modules.js; export is dropped
// Text keeps its line wherever possible, so that stack traces fit.
'use strict';

const { IMPORT_NAME, META_NAME } = require('./modules.js');

const CONSTANT_NAME = '__vial_constant';
const lexical = new Set(); // let and class of all cells so far
const globals = new Set(); // var and function
const constants = new Set(); // those of `lexical` and `globals` that were written as const

const acorn = loadAcorn();

function loadAcorn() {
	// Debian's nodejs depends on its acorn. Without one, cells run as they are.
	for (const place of ['/usr/share/nodejs/acorn', 'acorn']) {
		try {
			return require(place);
		} catch {}
	}
	return null;
}

function parse(code) {
	return acorn.parse(code, {
		ecmaVersion: 'latest',
		sourceType: 'script',
		allowAwaitOutsideFunction: true,
		allowImportExportEverywhere: true,
		allowHashBang: true,
	});
}

// {code, commit}: commit() is called when V8 has accepted it. null when the source cannot be parsed.
function rewrite(code) {
	if (!acorn) return { code, commit() {} };
	let program;
	try {
		program = parse(code);
	} catch {
		return null;
	}
	const cell = new Cell(code);
	for (const statement of program.body) cell.topLevel(statement);
	cell.hoistedVars(program.body);
	cell.everywhere(program);
	return { code: cell.text(), commit: () => cell.commit() };
}

class Cell {
	constructor(code) {
		this.code = code;
		this.edits = [];
		this.prefix = '';
		this.newLexical = new Set();
		this.newGlobals = new Set();
		this.newConstants = new Set();
		this.redeclared = new Set();
	}

	edit(start, end, text) {
		this.edits.push({ start, end, text });
	}

	source(node) {
		return this.code.slice(node.start, node.end);
	}

	text() {
		let result = '';
		let position = 0;
		this.edits.sort((a, b) => a.start - b.start || a.end - b.end);
		for (const { start, end, text } of this.edits) {
			if (start < position) continue;
			result += this.code.slice(position, start) + text;
			position = end;
		}
		return this.prefix + result + this.code.slice(position);
	}

	commit() {
		for (const name of this.newLexical) lexical.add(name);
		for (const name of this.newGlobals) globals.add(name);
		for (const name of this.redeclared) constants.delete(name);
		for (const name of this.newConstants) constants.add(name);
	}

	isConstant(name) {
		return this.newConstants.has(name) || (constants.has(name) && !this.redeclared.has(name));
	}

	topLevel(node) {
		switch (node.type) {
			case 'VariableDeclaration':
				if (node.kind !== 'var') this.declaration(node);
				break;
			case 'ClassDeclaration':
				this.redeclared.add(node.id.name);
				if (globals.has(node.id.name)) {
					this.edit(node.start, node.start, `${node.id.name} = `);
					this.edit(node.end, node.end, ';');
				} else this.newLexical.add(node.id.name);
				break;
			case 'FunctionDeclaration':
				this.functionDeclaration(node);
				break;
			case 'ImportDeclaration':
				this.importDeclaration(node);
				break;
			case 'ExportNamedDeclaration':
				if (node.declaration) {
					this.edit(node.start, node.declaration.start, ' '.repeat(node.declaration.start - node.start));
					this.topLevel(node.declaration);
				} else this.edit(node.start, node.end, ';');
				break;
			case 'ExportDefaultDeclaration':
				this.edit(node.start, node.declaration.start, /Declaration$/.test(node.declaration.type) && node.declaration.id ? '' : 'void 0, ');
				if (node.declaration.id) this.topLevel(node.declaration);
				break;
			case 'ExportAllDeclaration':
				this.edit(node.start, node.end, ';');
				break;
		}
	}

	declaration(node) {
		const names = node.declarations.flatMap((one) => boundNames(one.id));
		for (const name of names) {
			this.redeclared.add(name);
			if (node.kind === 'const') this.newConstants.add(name);
		}
		if (!names.some((name) => globals.has(name))) {
			for (const name of names) this.newLexical.add(name);
			if (node.kind === 'const') this.edit(node.start, node.start + 5, 'let  ');
			return;
		}
		const fresh = names.filter((name) => !globals.has(name));
		for (const name of fresh) this.newLexical.add(name);
		if (fresh.length) this.prefix += `let ${fresh.join(', ')}; `;
		this.toAssignments(node);
	}

	// "let {a} = f(), b" becomes "({a} = f()), b = undefined": the same names, declared elsewhere.
	toAssignments(node) {
		this.edit(node.start, node.declarations[0].start, ';');
		for (const one of node.declarations) {
			this.edit(one.start, one.start, '(');
			this.edit(one.end, one.end, one.init ? ')' : ' = undefined)');
		}
	}

	functionDeclaration(node) {
		const { name } = node.id;
		this.redeclared.add(name);
		if (!lexical.has(name)) {
			this.newGlobals.add(name);
			return;
		}
		this.prefix += `${name} = ${this.source(node)}; `;
		this.edit(node.start, node.end, this.source(node).replace(/[^\n]/g, ''));
	}

	importDeclaration(node) {
		const loaded = `await ${IMPORT_NAME}(${node.source.raw})`;
		const properties = [];
		let namespace = null;
		for (const one of node.specifiers) {
			const local = one.local.name;
			this.redeclared.add(local);
			this.newConstants.add(local);
			if (!globals.has(local)) {
				this.newLexical.add(local);
				this.prefix += `let ${local}; `;
			}
			if (one.type === 'ImportNamespaceSpecifier') namespace = local;
			else if (one.type === 'ImportDefaultSpecifier') properties.push(`default: ${local}`);
			else properties.push(`${one.imported.type === 'Literal' ? one.imported.raw : one.imported.name}: ${local}`);
		}
		let text = loaded;
		if (namespace) text = `${namespace} = ${text}`;
		if (properties.length) text = `({${properties.join(', ')}} = ${text})`;
		const lines = this.source(node).replace(/[^\n]/g, '');
		this.edit(node.start, node.end, `void (${text});${lines}`);
	}

	// var declarations belong to the cell wherever they stand, but in functions.
	hoistedVars(body) {
		visitVars(body, (node, parent) => {
			const names = node.declarations.flatMap((one) => boundNames(one.id));
			for (const name of names) this.redeclared.add(name);
			const clashing = names.filter((name) => lexical.has(name) && !this.newLexical.has(name));
			const fresh = names.filter((name) => !lexical.has(name));
			for (const name of fresh) this.newGlobals.add(name);
			if (!clashing.length) return;
			if (fresh.length) this.prefix += `var ${fresh.join(', ')}; `;
			if (parent && /^For(In|Of)Statement$/.test(parent.type)) this.edit(node.start, node.declarations[0].start, '');
			else if (parent && parent.type === 'ForStatement') {
				this.edit(node.start, node.declarations[0].start, '');
				for (const one of node.declarations) if (!one.init) this.edit(one.end, one.end, ' = undefined');
			} else this.toAssignments(node);
		});
	}

	// At any depth: import() calls, and assignments to constants.
	everywhere(program) {
		try {
			this.walk(program, []);
		} catch (error) {
			// An expression nested deeper than our stack: V8 will judge it.
			if (!(error instanceof RangeError)) throw error;
		}
	}

	walk(node, scopes) {
		const scope = scopeOf(node);
		if (scope) scopes = [...scopes, scope];
		if (node.type === 'ImportExpression') this.edit(node.start, node.start + 6, IMPORT_NAME);
		else if (node.type === 'MetaProperty' && node.meta.name === 'import') this.edit(node.start, node.end, META_NAME);
		else if (node.type === 'AssignmentExpression' && node.left.type === 'Identifier') {
			if (this.isOurs(node.left.name, scopes)) {
				this.edit(node.left.start, node.right.start, `${CONSTANT_NAME}(`);
				this.edit(node.right.end, node.right.end, ')');
			}
		} else if (node.type === 'UpdateExpression' && node.argument.type === 'Identifier') {
			if (this.isOurs(node.argument.name, scopes)) this.edit(node.start, node.end, `${CONSTANT_NAME}()`);
		}
		for (const child of children(node)) this.walk(child, scopes);
	}

	isOurs(name, scopes) {
		return this.isConstant(name) && !scopes.some((scope) => scope.has(name));
	}
}

function* children(node) {
	for (const key in node) {
		const value = node[key];
		if (Array.isArray(value)) {
			for (const item of value) if (item && typeof item.type === 'string') yield item;
		} else if (value && typeof value.type === 'string') yield value;
	}
}

function boundNames(pattern) {
	switch (pattern?.type) {
		case 'Identifier':
			return [pattern.name];
		case 'ObjectPattern':
			return pattern.properties.flatMap((one) => boundNames(one.type === 'RestElement' ? one.argument : one.value));
		case 'ArrayPattern':
			return pattern.elements.flatMap(boundNames);
		case 'AssignmentPattern':
			return boundNames(pattern.left);
		case 'RestElement':
			return boundNames(pattern.argument);
		default:
			return [];
	}
}

function isFunction(node) {
	return /Function/.test(node.type);
}

// Every `var` declaration of a list of statements that is not inside a function.
function visitVars(nodes, visit, parent = null) {
	for (const node of nodes) {
		if (isFunction(node) || /^Class/.test(node.type)) continue;
		if (node.type === 'VariableDeclaration' && node.kind === 'var') visit(node, parent);
		visitVars([...children(node)], visit, node);
	}
}

// The names that a node declares for what is inside it; null when it opens no scope.
function scopeOf(node) {
	if (isFunction(node)) {
		const names = new Set(['arguments', ...node.params.flatMap(boundNames)]);
		if (node.type === 'FunctionExpression' && node.id) names.add(node.id.name);
		if (node.body.type === 'BlockStatement') {
			visitVars(node.body.body, (one) => one.declarations.flatMap((each) => boundNames(each.id)).forEach((name) => names.add(name)));
		}
		return names;
	}
	switch (node.type) {
		case 'BlockStatement':
		case 'StaticBlock':
			return lexicalNames(node.body);
		case 'SwitchStatement':
			return lexicalNames(node.cases.flatMap((one) => one.consequent));
		case 'ForStatement':
			return node.init ? lexicalNames([node.init]) : null;
		case 'ForInStatement':
		case 'ForOfStatement':
			return lexicalNames([node.left]);
		case 'CatchClause':
			return new Set(boundNames(node.param));
		case 'ClassExpression':
			return node.id ? new Set([node.id.name]) : null;
		default:
			return null;
	}
}

function lexicalNames(statements) {
	const names = new Set();
	for (const node of statements) {
		if (node.type === 'VariableDeclaration' && node.kind !== 'var') {
			for (const one of node.declarations) for (const name of boundNames(one.id)) names.add(name);
		} else if ((node.type === 'ClassDeclaration' || node.type === 'FunctionDeclaration') && node.id) names.add(node.id.name);
	}
	return names;
}

Object.defineProperty(globalThis, CONSTANT_NAME, {
	value: function refuse() {
		const error = new TypeError('Assignment to constant variable.');
		Error.captureStackTrace(error, refuse);
		throw error;
	},
	configurable: true,
	writable: true,
	enumerable: false,
});

// Of all cells so far.
function names() {
	return [...lexical, ...globals];
}

module.exports = { names, rewrite };
