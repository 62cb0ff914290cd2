// SPDX-License-Identifier: Apache-2.0
// Takes the types off a TypeScript cell, with the esbuild of the image. Imports stay, also those that only a later cell uses.
'use strict';

const { spawnSync } = require('child_process');

const MAX_BYTES = 64 * 1024 * 1024;
const TIMEOUT_MS = 20000;
const ARGUMENTS = [
	'--loader=ts',
	'--target=node20',
	'--log-level=error',
	'--color=false',
	'--charset=utf8',
	'--tsconfig-raw={"compilerOptions":{"verbatimModuleSyntax":true,"experimentalDecorators":true}}',
];

// {code} or {error}; {} when there is no esbuild.
function strip(code) {
	const child = spawnSync('esbuild', ARGUMENTS, { input: code, encoding: 'utf8', maxBuffer: MAX_BYTES, timeout: TIMEOUT_MS });
	if (child.error) return {};
	if (child.status !== 0) return { error: child.stderr.trim() };
	return { code: child.stdout };
}

module.exports = { strip };
