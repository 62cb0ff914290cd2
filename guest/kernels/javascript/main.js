// SPDX-License-Identifier: Apache-2.0
// The JavaScript kernel: one request, one run, its results, `done`. Started by the agent with its pipes on descriptors 3, 4 and 5
// (docs/kernels.md) and with --no-force-async-hooks-checks, because interrupting a callback leaves Node's bookkeeping unbalanced.
'use strict';

const channel = require('./channel.js');
const collect = require('./collect.js');
const complete = require('./complete.js');
const control = require('./control.js');
const display = require('./display.js');
const evaluate = require('./evaluate.js');
const errors = require('./errors.js');
const modules = require('./modules.js');
const random = require('./random.js');
const streams = require('./streams.js');

const WARM_CELLS = ['1+1', '{ const a = [1, { b: 2 }]; a }', '[1, 2]', 'await null', 'throw new Error("warm")', 'console.log("")', '1+1', '1+1'];

const TOUCH_CELLS = WARM_CELLS.slice(0, 1);

// Interrupting a cell throws away every microtask that waits with it, so nothing of ours may hang on a promise: requests wait in a
// list, and each step is started by the event loop.
const requests = [];
let run = null; // the open run: {id, number, count, isColored, isScript, restore, isEvaluated?, hasEnded?, value?}
let count = 0;

function onRequest(request) {
	if (request.type === 'touch') touch();
	if (request.type !== 'run') return;
	requests.push(request);
	if (!run && requests.length === 1) start();
}

function start() {
	const request = requests.shift();
	if (!request) return;
	count += 1;
	changeEnvironment(request.environment);
	if (request.cwd) enter(request.cwd);
	const mine = { id: request.id, number: request.number, count, restore: prepare(request), isColored: Boolean(request.raw_ansi), isScript: Boolean(request.argv) };
	run = mine;
	display.start(mine.id, request.max_text_bytes, mine.isColored);
	streams.startRun();
	control.running(request.number || 0);
	channel.keepAlive(false);
	evaluate.run(
		request.code,
		mine.count,
		request.language === 'typescript',
		{
			onEvaluated: () => {
				mine.isEvaluated = true;
			},
			onValue: (value) => {
				mine.value = value;
			},
		},
		(outcome) => settle(mine, outcome),
	);
}

// The cell has come to its end. Rejections that it left behind are noticed once the microtasks are done: give them that turn.
function settle(mine, outcome) {
	if (run !== mine) return;
	setImmediate(() => {
		if (run !== mine) return;
		if (outcome.isInterrupted) finish(errors.interrupted());
		else if ('error' in outcome) finish(errors.describe(outcome.error, mine.isColored));
		else if (mine.isScript) mine.hasEnded = true;
		else finish(null, outcome);
	});
}

// Nothing is left to happen. A script is over, and shows no value, as with `node`; a cell that still waits does so for ever. A promise that is only
// its value is shown as it is.
function onEmpty() {
	if (!run) return;
	if (run.hasEnded || (run.isScript && run.value)) endProgram();
	else if (run.value) finish(null, { value: run.value });
	else finish(errors.unsettled());
}

// As `node` does: what it has set as its status is its status.
function endProgram() {
	const status = Number(process.exitCode ?? 0) & 0xff;
	process.exitCode = undefined;
	if (status) finish(errors.exitCode(status), undefined, { exit_code: status });
	else finish(null);
}

function finish(error, outcome, extra = {}) {
	const mine = run;
	run = null;
	channel.keepAlive(true);
	if (!mine.isEvaluated) evaluate.abandon();
	if (control.idle()) evaluate.absorbTermination();
	if (!error && outcome && outcome.value !== undefined) {
		try {
			display.publishMain(outcome.value);
		} catch (failure) {
			error = errors.describe(failure, mine.isColored);
		}
	}
	report(mine, error, extra);
	if (requests.length) setImmediate(start);
	else if (mine.number) collect.ended();
}

function report(mine, error, extra) {
	streams.flush();
	mine.restore();
	if (error) streams.send({ type: 'error', id: mine.id, ...error });
	const status = error ? 'error' : 'ok';
	const done = { type: 'done', id: mine.id, status, execution_count: mine.count, ...extra };
	if (display.stop()) done.is_truncated = true;
	streams.send(done);
}

// An exception or rejection that nobody caught. It ends the cell it came from; if that one is over, it is late output.
function onUncaught(error, origin) {
	const cells = errors.cellsOf(error);
	if (run && (cells.length === 0 || cells.includes(run.count))) {
		finish(errors.describe(error, run.isColored));
		return;
	}
	const where = origin === 'unhandledRejection' ? ' (in promise)' : '';
	process.stderr.write(`Uncaught${where} ${errors.describe(error, false).traceback}\n`);
	streams.flush();
}

// For good: the sandbox's own variables, which are not known yet when a template's kernel is started.
function changeEnvironment(changes) {
	for (const [name, value] of Object.entries(changes || {})) {
		if (value === null || value === undefined) delete process.env[name];
		else process.env[name] = value;
	}
}

// For a kernel that was started before anybody could say where. It stays where it is if it cannot be there.
function enter(directory) {
	try {
		process.chdir(directory);
	} catch {
		// What the code does next says so better.
	}
}

// For one run: returns how to undo it.
function prepare({ env, argv }) {
	const saved = Object.fromEntries(Object.keys(env || {}).map((name) => [name, process.env[name]]));
	changeEnvironment(env);
	if (argv) {
		process.exitCode = undefined;
		process.argv.splice(1, Infinity, ...argv);
		modules.setProgram(argv[0]);
	}
	return () => {
		changeEnvironment(saved);
		if (!argv) return;
		process.argv.splice(1);
		modules.setProgram(null);
	};
}

function onExit(status) {
	const mine = run;
	run = null;
	if (mine) report(mine, errors.exit(status), { exit_status: status });
	else streams.flush();
}

// Pays for lazy compilation and first calls now, along the whole way of a run but the pipe.
async function warm() {
	await runUnseen(WARM_CELLS);
}

// Nobody's code has run yet, so nothing can be seen of it afterwards.
async function touch() {
	await runUnseen(TOUCH_CELLS);
	channel.send({ type: 'touched' });
}

async function runUnseen(cells) {
	channel.mute(true);
	for (const code of cells) {
		onRequest({ type: 'run', id: 'warm', code, number: 0 });
		while (run || requests.length) await new Promise((resolve) => setTimeout(resolve, 1));
	}
	display.warm();
	streams.discard();
	channel.mute(false);
	count = 0;
}

async function main() {
	streams.install();
	errors.install();
	control.install(channel.CONTROL_FD, (number) => {
		if (run && run.number === number) finish(errors.interrupted());
	});
	random.install(control.shared);
	modules.install();
	display.install();
	collect.install();
	complete.install();
	process.on('SIGINT', () => {
		if (run) finish(errors.interrupted());
	});
	process.on('uncaughtException', onUncaught);
	process.on('unhandledRejection', (reason) => onUncaught(reason, 'unhandledRejection'));
	process.on('beforeExit', onEmpty);
	process.on('exit', onExit);
	if (process.argv.includes('--warm')) await warm();
	await control.ready;
	channel.send({ type: 'ready', pid: process.pid });
	// User code asks process.argv for its own arguments: there are none.
	process.argv.splice(1);
	channel.receive(onRequest);
}

main();
