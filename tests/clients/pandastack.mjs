// SPDX-License-Identifier: Apache-2.0
// Uses @pandastack/sdk as its own documentation does, and prints what came of each step as one JSON object per line.
// The package is found through its folder, given as the first argument; address and key come from the environment.
import { createRequire } from "node:module";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const { Client, Sandbox, NotFoundError, AuthError, CommandError } = createRequire(process.argv[2] + "/")("@pandastack/sdk");
const folder = process.argv[3];
const client = new Client({ timeoutMs: 60000 });
let sandbox;

async function step(name, work) {
  try {
    console.log(JSON.stringify({ step: name, value: await work() }));
  } catch (error) {
    console.log(JSON.stringify({ step: name, failed: `${error.constructor.name}: ${error.message}` }));
  }
}

await step("me", () => client.me());
await step("templates", async () => (await client.templates.list()).map((template) => template.name));
await step("create", async () => {
  sandbox = await Sandbox.create({ template: "minimal", ttlSeconds: 600, metadata: { owner: "sdk" } });
  return { id: sandbox.id, status: sandbox.status, template: sandbox.template };
});
await step("list", async () => (await Sandbox.list()).map((one) => one.id));
await step("get", async () => (await Sandbox.get(sandbox.id)).info.metadata);
await step("exec", async () => sandbox.exec("echo out; echo err >&2; exit 3"));
await step("exec check", async () => {
  try { await sandbox.exec("exit 7", { check: true }); } catch (error) { return [error instanceof CommandError, error.exitCode]; }
});
await step("commands.run", async () => (await sandbox.commands.run("echo commands")).stdout);
await step("exec timeout", async () => {
  const started = Date.now();
  try { return [(await sandbox.exec("sleep 60", { timeoutSeconds: 1 })).exitCode, Date.now() - started]; }
  catch (error) { return [error.constructor.name, Date.now() - started]; }
});
await step("stream", async () => {
  const seen = { stdout: "", stderr: "" };
  const code = await sandbox.execStream("for i in 1 2 3; do echo $i; sleep 0.1; done; echo problem >&2; exit 4", {
    onStdout: (chunk) => { seen.stdout += chunk; }, onStderr: (chunk) => { seen.stderr += chunk; },
  });
  return { ...seen, code };
});
await step("write", () => sandbox.filesystem.write("/workspace/dir/übung.txt", "grüße\n"));
await step("read", () => sandbox.filesystem.read("/workspace/dir/übung.txt"));
await step("binary", async () => {
  const bytes = new Uint8Array(300000).map((_, index) => index % 256);
  writeFileSync(`${folder}/up`, bytes);
  await sandbox.filesystem.upload(`${folder}/up`, "/workspace/blob");
  // This client reads files as text, so what comes down is looked at where it is.
  const sum = (await sandbox.exec("sha256sum < /workspace/blob")).stdout.split(" ")[0];
  await sandbox.filesystem.download("/workspace/dir/übung.txt", `${folder}/down`);
  return [sum === createHash("sha256").update(bytes).digest("hex"), readFileSync(`${folder}/down`, "utf8")];
});
await step("files", async () => ({
  list: (await sandbox.filesystem.list("/workspace/dir")).map((entry) => [entry.name, entry.is_dir, entry.size]),
  stat: (await sandbox.filesystem.stat("/workspace/dir")).is_dir,
  exists: [await sandbox.filesystem.exists("/workspace/dir"), await sandbox.filesystem.exists("/workspace/none")],
}));
await step("walk", async () => {
  const seen = [];
  for await (const { dir, files } of sandbox.filesystem.walk("/workspace")) seen.push([dir, files.length]);
  return seen;
});
await step("runCode", async () => (await sandbox.runCode("print(6 * 7)", "python")).stdout);
await step("runCode shell", async () => (await sandbox.runCode("echo $((6 * 7))", "shell")).stdout);
await step("context", async () => {
  const context = await sandbox.createCodeContext();
  const first = await context.runCode("x = 41\nprint('hello')");
  const second = await context.runCode("x + 1");
  const error = await context.runCode("1 / 0");
  const late = await context.runCode("import time; time.sleep(0.1); x", { timeoutSeconds: 30 });
  await context.close();
  return { language: context.language, stdout: first.stdout, text: second.text, results: second.results, error: error.error, code: error.exit_code, late: late.text };
});
await step("picture", async () => {
  const context = await sandbox.createCodeContext("python");
  const run = await context.runCode(
    "from IPython.display import Image\nImage(data=__import__('base64').b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='))");
  return { png: run.png?.slice(0, 8), chart: run.results.at(-1)?.chart?.slice(0, 8), error: run.error };
});
await step("rich", async () => {
  const context = await sandbox.createCodeContext("python");
  const run = await context.runCode("class T:\n  def _repr_html_(self): return '<b>x</b>'\n  def _repr_markdown_(self): return '**x**'\nT()");
  return { html: run.results.at(-1)?.html, markdown: run.results.at(-1)?.markdown };
});
await step("logs", async () => {
  let text = "";
  for await (const line of sandbox.logs()) text += line + "\n";
  return text.length > 0;
});
await step("lifecycle", async () => [await sandbox.lifecycle(), await sandbox.setTtl(1200), (await sandbox.setPersistent(true)).persistent, (await sandbox.setPersistent(false)).persistent]);
await step("pause and resume", async () => {
  await sandbox.pause();
  const paused = (await Sandbox.get(sandbox.id)).status;
  await sandbox.resume();
  return [paused, (await sandbox.exec("echo awake")).stdout];
});
await step("hibernate and wake", async () => {
  await sandbox.hibernate();
  const asleep = (await Sandbox.get(sandbox.id)).status;
  await sandbox.wake();
  return [asleep, (await Sandbox.get(sandbox.id)).status, (await sandbox.exec("cat /workspace/dir/*")).stdout];
});
await step("snapshot", async () => {
  const snapshot = await sandbox.snapshot();
  const listed = (await client.snapshots.list()).map((one) => one.id);
  const copy = await Sandbox.create({ fromSnapshot: snapshot.id });
  const text = await copy.filesystem.read("/workspace/dir/übung.txt");
  await copy.kill();
  await client.snapshots.delete(snapshot.id);
  return [listed.includes(snapshot.id), text, copy.info.from_snapshot === snapshot.id];
});
await step("fork", async () => {
  const child = await sandbox.fork({ metadata: { role: "child" } });
  await child.filesystem.write("/workspace/only-child", "x");
  const seen = [await child.filesystem.exists("/workspace/dir/übung.txt"), await sandbox.filesystem.exists("/workspace/only-child"), child.info.metadata.role];
  await child.kill();
  return seen;
});
await step("forkTree and promote", async () => {
  const children = await sandbox.forkTree({ count: 2 });
  const result = await children[0].promote({ cleanupSiblings: true });
  const left = (await Sandbox.list()).map((one) => one.id);
  const seen = [children.length, result.winner === children[0].id, result.deleted, left.includes(children[0].id), left.includes(children[1].id)];
  await children[0].kill();
  return [...seen, children[1].id];
});
await step("explore", async () => {
  const result = await sandbox.explore(["echo 1 > answer; echo low", "echo 9 > answer; echo high"], { scoreFn: (_, outcome) => (outcome.stdoutTail.includes("high") ? 1 : 0) });
  const answer = await result.winner.filesystem.read("/workspace/answer");
  await result.winner.kill();
  return [answer, result.outcomes.length, result.reaped.length, result.errors];
});
await step("ports", async () => sandbox.previewUrls());
await step("errors", async () => {
  const seen = [];
  try { await Sandbox.get("nosuchsandbox0000000"); } catch (error) { seen.push(error instanceof NotFoundError); }
  try { await new Client({ apiKey: "wrong" }).me(); } catch (error) { seen.push(error instanceof AuthError); }
  return seen;
});
await step("kill", async () => {
  await sandbox.kill();
  return (await Sandbox.list()).map((one) => one.id).includes(sandbox.id);
});
