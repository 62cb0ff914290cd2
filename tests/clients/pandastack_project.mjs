// SPDX-License-Identifier: Apache-2.0
// What @pandastack/sdk has beside a sandbox's everyday: templates, tokens, volumes, previews, logs that are followed, strange characters, and every error. Prints
// what came of each step as pandastack.mjs does; the arguments are the same.
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { request as httpRequest } from "node:http";
import { writeFileSync } from "node:fs";

const sdk = createRequire(process.argv[2] + "/")("@pandastack/sdk");
const { Client, Sandbox } = sdk;
const folder = process.argv[3];
const client = new Client({ timeoutMs: 60000 });
const STRANGE = "Grüße \u2028 \u{1f600} \u0085 Ångström\u2029 日本";
const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));

async function step(name, work) {
  try {
    console.log(JSON.stringify({ step: name, value: await work() }));
  } catch (error) {
    console.log(JSON.stringify({ step: name, failed: `${error.constructor.name}: ${error.message}` }));
  }
}

// The class by which the package exports it, and the sentence: [null, …] for an error that is not of this package.
async function refusal(work) {
  try { await work(); } catch (error) {
    return [Object.keys(sdk).find((name) => sdk[name] === error.constructor) ?? null, error.message, error.statusCode ?? null];
  }
  return ["none", "", null];
}
const all = async (lines) => { const seen = []; for await (const line of lines) seen.push(line); return seen; };

const sandbox = await client.sandboxes.create({ template: "minimal", metadata: { a: "ä" } });

await step("sandboxes", async () => {
  const found = await client.sandboxes.get(sandbox.id);
  const listed = (await client.sandboxes.list()).map((one) => one.id).includes(sandbox.id);
  const other = await client.sandboxes.create({ template: "minimal", persistent: true });
  await client.sandboxes.delete(other.id);
  const again = Sandbox.fromInfo({ ...sandbox.info }, client);
  return [found.info.metadata, listed, other.info.persistent, await refusal(() => client.sandboxes.get(other.id)), (await again.exec("echo again")).stdout];
});
await step("request", () => client.request("GET", `/sandboxes/${sandbox.id}/lifecycle`));
await step("strange", async () => {
  let streamed = "";
  await sandbox.execStream(`printf %s '${STRANGE}'`, { onStdout: (chunk) => { streamed += chunk; } });
  await sandbox.filesystem.write(`/tmp/${STRANGE}`, STRANGE);
  const context = await sandbox.createCodeContext();
  const run = await context.runCode(`print(${JSON.stringify(STRANGE)}, end='')`);
  const half = await context.runCode(String.raw`'\ud800'`);
  await context.close();
  const closed = await refusal(() => context.runCode("1"));
  const surrogate = await refusal(() => sandbox.exec("# \ud800"));
  let broken = "";
  await sandbox.execStream(String.raw`printf 'a\355\240\200b'`, { onStdout: (chunk) => { broken += chunk; } });
  return { exec: (await sandbox.exec(`printf %s '${STRANGE}'`)).stdout === STRANGE, streamed: streamed === STRANGE, run: run.stdout === STRANGE,
    file: (await sandbox.filesystem.read(`/tmp/${STRANGE}`)) === STRANGE, half: half.text, surrogate, broken, closed: closed[0] };
});
await step("json result", async () => {
  const context = await sandbox.createCodeContext();
  const run = await context.runCode("from IPython.display import JSON\nJSON({'a': [1, None, 'ü']})");
  return run.results.at(-1).data["application/json"];
});
await step("logs follow", async () => {
  const watched = await client.sandboxes.create({ template: "minimal" });
  await watched.exec("echo first; echo problem >&2");
  const lines = watched.logs({ stream: "stdout", follow: true });
  const seen = [(await lines.next()).value];
  await watched.exec("echo 'später \u2028 x'");
  seen.push((await lines.next()).value);
  const plain = await all(watched.logs({ stream: "stderr", follow: false }));
  await watched.kill();
  return [seen, plain, (await lines.next()).done];
});
await step("preview", async () => {
  const { host, hostname, port } = new URL(client.apiUrl);
  client.previewHost = `localhost:${port}`;
  await sandbox.exec("mkdir -p /workspace/site && echo 'hello preview' > /workspace/site/index.html && cd /workspace/site && nohup python3 -m http.server 8000 > /dev/null 2>&1 &");
  let urls = {};
  for (let i = 0; i < 400 && !urls[8000]; i++, await sleep(50)) urls = await sandbox.previewUrls();
  // Names below localhost are this machine, for browsers; resolvers do not all know it.
  const body = await new Promise((done, fail) => httpRequest({ host: hostname, port, path: "/index.html",
    headers: { host: new URL(sandbox.previewUrl(8000, "http")).host, authorization: `Bearer ${client.apiKey}` } },
  (answer) => { let text = ""; answer.on("data", (piece) => { text += piece; }); answer.on("end", () => done(text)); }).on("error", fail).end());
  return [sandbox.previewUrl(8000, "http") === `http://8000-${sandbox.id}.localhost:${port}`, urls[8000] === `https://8000-${sandbox.id}.localhost:${port}`, body];
});
await step("snapshots", async () => {
  const taken = await sandbox.snapshot();
  const shown = await client.snapshots.get(taken.id);
  const listed = (await client.snapshots.list({ sandbox_id: sandbox.id })).map((one) => one.id);
  await client.snapshots.delete(taken.id);
  return [shown.id === taken.id, shown.sandbox_id === sandbox.id, shown.size_bytes > 0, listed.includes(taken.id), (await refusal(() => client.snapshots.get(taken.id)))[0]];
});
await step("tokens", async () => {
  const token = await client.tokens.create("ci für alle");
  const other = new Client({ apiKey: token.token });
  const project = (await other.me()).project;
  const shown = (await client.tokens.list()).find((one) => one.prefix === token.prefix);
  await client.tokens.revoke(token.prefix);
  return [token.token.startsWith("pds_"), project, shown.label, shown.token ?? null, (await refusal(() => other.me()))[0]];
});
await step("volumes", () => Promise.all([() => client.volumes.create({ name: "data", size_mb: 100 }), () => client.volumes.list(), () => client.volumes.get("data"),
  () => client.volumes.delete("data"), () => client.sandboxes.create({ template: "minimal", volumes: [{ name: "data" }] })].map(refusal)));
await step("build", async () => {
  const made = await client.templates.buildFromDockerfile({ name: "js-made", sizeMb: 512, context: { "sub/name": "x", other: new Uint8Array(70000) },
    dockerfile: `FROM minimal\nRUN echo 'made ü' > /opt/file; echo '${STRANGE.replaceAll(/[\u2028\u2029\u0085]/g, "")}'; echo end; echo last\n` });
  const followed = await all(client.templates.buildLogs(made.id));
  const done = await client.templates.waitForBuild(made.id, { intervalMs: 100 });
  const status = await client.templates.buildStatus(made.id);
  const listed = (await client.templates.builds()).map((one) => one.id).includes(made.id);
  const template = await client.templates.get("js-made");
  const child = await client.sandboxes.create({ template: "js-made" });
  const file = await child.filesystem.read("/opt/file");
  await child.kill();
  await client.templates.delete("js-made");
  return { name: made.name, status: done.status, size_mb: status.size_mb, listed, lines: followed.slice(-12), before: (await all(client.templates.buildLogs(made.id, { follow: false }))).length === followed.length,
    base: template.base, file, gone: (await refusal(() => client.templates.get("js-made")))[0] };
});
await step("build with context", async () => {
  const context = { "src/deep/main.py": "print('main')\n", "run.sh": "#!/bin/sh\necho ran\n", empty: "", blob: new Uint8Array(300001).map((_, i) => i % 251), "Grüße/日本 \u{1f600}.txt": "ü" };
  const dockerfile = "FROM minimal\nWORKDIR /srv\nCOPY . /app\nCOPY src/deep run.sh here/\nCOPY --chmod=600 blob /srv/blob\nRUN /app/run.sh > ran\n";
  const make = async (name, files) => client.templates.waitForBuild((await client.templates.buildFromDockerfile({ name, dockerfile, context: files })).id, { intervalMs: 100 });
  await make("js-context", context);
  const child = await client.sandboxes.create({ template: "js-context" });
  const listed = await child.exec("cd /app && find . -type f | LC_ALL=C sort && stat -c %a run.sh blob && cd /srv && find . -type f | LC_ALL=C sort && cat ran && stat -c '%a %s' blob");
  const sum = (await child.exec("sha256sum < /app/blob")).stdout.split(" ")[0];
  const text = await child.filesystem.read("/app/Grüße/日本 \u{1f600}.txt");
  await child.kill();
  const again = await make("js-context-again", Object.fromEntries(Object.entries(context).reverse()));
  const other = await make("js-context-other", { ...context, empty: "not any more" });
  const cached = await Promise.all([again, other].map(async (build) => (await all(client.templates.buildLogs(build.id, { follow: false }))).some((line) => line.includes("(cached)"))));
  return { listed: listed.stdout, same: sum === createHash("sha256").update(context.blob).digest("hex"), text, cached,
    missing: await refusal(() => make("js-broken", { a: "a" })), outside: await refusal(() => make("js-broken", { "../a": "a" })),
    none: await refusal(() => client.templates.buildFromDockerfile({ name: "js-broken", dockerfile })),
    from: await refusal(() => client.templates.buildFromDockerfile({ name: "js-broken", dockerfile: "FROM minimal\nCOPY --from=x a /b\n", context })) };
});
await step("register", async () => {
  const build = await client.templates.register({ name: "js-renamed", imageRef: "minimal", sizeMb: 512 });
  const done = await client.templates.waitForBuild(build.id, { intervalMs: 100 });
  return [done.status, await refusal(() => client.templates.register({ name: "x", imageRef: "python:3.12" }))];
});
await step("rootfs", async () => {
  writeFileSync(`${folder}/rootfs.tar`, new Uint8Array(300000));
  return refusal(() => client.templates.build({ name: "x", rootfs: `${folder}/rootfs.tar` }));
});
await step("every error", async () => ({
  AuthError: await refusal(() => new Client({ apiKey: "pds_wrong" }).me()),
  NotFoundError: await refusal(() => sandbox.filesystem.read("/none")),
  BadRequestError: await refusal(() => client.sandboxes.create({ template: "nowhere" })),
  NetworkError: await refusal(() => new Client({ apiUrl: "http://127.0.0.1:1" }).me()),
  CommandError: await refusal(() => sandbox.exec("exit 7", { check: true })),
  SandboxTimeout: await refusal(() => sandbox.exec("sleep 100", { timeoutSeconds: 1 })),
  "SandboxTimeout of a stream": await refusal(() => sandbox.execStream("sleep 100", { timeoutSeconds: 1 })),
  "SandboxTimeout of a cell": await refusal(async () => (await sandbox.createCodeContext()).runCode("import time; time.sleep(100)", { timeoutSeconds: 1 })),
  ExploreError: await refusal(() => sandbox.explore(["exit 1"])),
  TemplateBuildError: await refusal(async () => client.templates.waitForBuild((await client.templates.buildFromDockerfile({ name: "js-broken", dockerfile: "FROM minimal\nRUN false\n" })).id, { intervalMs: 100 })),
  // The sandbox ends in the middle of a stream.
  ServerError: await refusal(() => sandbox.execStream("echo begun; sleep 100", { onStdout: () => { sandbox.kill(); } })),
}));
