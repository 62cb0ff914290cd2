// SPDX-License-Identifier: Apache-2.0
// Uses @e2b/code-interpreter, and what e2b below it brings, as their own documentation does, and prints what came of each step as one JSON object per line.
// The packages are found through their folder, given as the first argument; addresses and key come from the environment.
import { createRequire } from "node:module";
import { createHash, randomBytes } from "node:crypto";

const load = createRequire(process.argv[2] + "/");
const { Sandbox } = load("@e2b/code-interpreter");
const STRANGE = "Grüße \u2028 \u{1f600} \x85 Ångström\u2029 日本";
let box;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const kind = (error) => error.constructor.name;

async function step(name, work) {
  const began = Date.now();
  try {
    console.log(JSON.stringify({ step: name, value: await work(), ms: Date.now() - began }));
  } catch (error) {
    console.log(JSON.stringify({ step: name, failed: `${kind(error)}: ${error.message} ${error.stack}` }));
  }
}

async function refused(work) {
  try {
    return `answered ${JSON.stringify(await work())}`;
  } catch (error) {
    return kind(error);
  }
}

async function until(condition) {
  for (let tries = 0; tries < 600; tries++) {
    if (await condition()) return true;
    await pause(50);
  }
  throw new Error("not within half a minute");
}

await step("create", async () => {
  box = await Sandbox.create("code-interpreter-v1", { timeoutMs: 3600000, envs: { FROM_SANDBOX: "all" } });
  return box.sandboxId.length;
});
await step("isRunning and getHost", async () => [await box.isRunning(), box.getHost(3000) === `3000-${box.sandboxId}.e2b.app`]);

// Commands

await step("commands.run", async () => {
  const seen = { out: "", err: "" };
  const result = await box.commands.run(`printf '%s' '${STRANGE}'; echo $OWN $FROM_SANDBOX; pwd; echo err >&2`, {
    envs: { OWN: "ä" }, cwd: "/tmp", onStdout: (data) => { seen.out += data; }, onStderr: (data) => { seen.err += data; },
  });
  return [result.stdout === `${STRANGE}ä all\n/tmp\n` && seen.out === result.stdout, result.stderr === "err\n" && seen.err === result.stderr, result.exitCode];
});
await step("commands.run fails", async () => {
  try { await box.commands.run("echo half; exit 7"); } catch (error) { return [kind(error), error.exitCode, error.stdout, error.error]; }
});
await step("commands.run is limited", () => refused(() => box.commands.run("sleep 1000", { timeoutMs: 1000 })));
await step("commands in the background", async () => {
  const handle = await box.commands.run("cat; echo done", { background: true, stdin: true });
  const listed = (await box.commands.list()).find((one) => one.pid === handle.pid);
  await box.commands.sendStdin(handle.pid, STRANGE);
  await handle.sendStdin?.("|");
  await box.commands.closeStdin(handle.pid);
  const result = await handle.wait();
  return [listed.cmd, listed.args, result.stdout.startsWith(STRANGE) && result.stdout.endsWith("done\n"), handle.exitCode];
});
await step("commands.connect and kill", async () => {
  const handle = await box.commands.run("echo begun; until [ -e /tmp/listens ]; do sleep 0.1; done; echo later; sleep 1000", { background: true });
  await until(() => handle.stdout === "begun\n");
  await handle.disconnect();
  let heard = "";
  const again = await box.commands.connect(handle.pid, { onStdout: (data) => { heard += data; } });
  await box.commands.run("touch /tmp/listens");
  await until(() => heard === "later\n");
  const killed = [await box.commands.kill(handle.pid), await refused(() => again.wait())];
  await until(async () => !(await box.commands.kill(handle.pid)));
  return [...killed, await refused(() => box.commands.connect(4000000))];
});

// Terminals

await step("pty", async () => {
  let shown = "";
  const onData = (bytes) => { shown += new TextDecoder().decode(bytes); };
  const type = async (text, wanted) => { shown = ""; await box.pty.sendInput(terminal.pid, new TextEncoder().encode(text)); await until(() => shown.includes(wanted)); return shown; };
  const terminal = await box.pty.create({ cols: 100, rows: 30, onData, timeoutMs: 0 });
  const first = await type("stty size; echo fin''ished\n", "finished");
  await box.pty.resize(terminal.pid, { cols: 132, rows: 50 });
  const second = await type("stty size; echo re''sized\n", "resized");
  await terminal.disconnect();
  const again = await box.pty.connect(terminal.pid, { onData });
  const third = await type("echo ag''ain\n", "again");
  const killed = await box.pty.kill(terminal.pid);
  return [first.includes("30 100"), second.includes("50 132"), third.includes("again"), killed, await refused(() => again.wait())];
});

// Files

await step("files.write and read", async () => {
  const bytes = randomBytes(300000);
  const info = await box.files.write("dir/übung.txt", STRANGE);
  await box.files.write("/tmp/blob", bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  await box.files.write("/tmp/blob2", new Blob([bytes]), { useOctetStream: true });
  await box.files.write("/tmp/blob3", new Blob([bytes]), { gzip: true });
  const many = await box.files.writeFiles([{ path: "many/a", data: "A" }, { path: "/tmp/many/b", data: "B" }]);
  const older = await box.files.write([{ path: "many/c", data: "C" }, { path: "many/d", data: "D" }]);
  const same = [];
  for (const path of ["/tmp/blob", "/tmp/blob2", "/tmp/blob3"]) same.push(Buffer.from(await box.files.read(path, { format: "bytes" })).equals(bytes));
  const stream = await box.files.read("/tmp/blob", { format: "stream" });
  const hash = createHash("sha256");
  for await (const piece of stream) hash.update(piece);
  const blob = await box.files.read("/tmp/blob", { format: "blob" });
  return [info.path, await box.files.read("dir/übung.txt") === STRANGE, same, hash.digest("hex") === createHash("sha256").update(bytes).digest("hex"), blob.size,
    many.map((one) => one.path), older.map((one) => one.name), await box.files.read("many/c")];
});
await step("files, folders", async () => {
  const made = [await box.files.makeDir("tree/sub"), await box.files.makeDir("tree/sub")];
  await box.files.write("tree/a.txt", "12345", { metadata: { note: "kept" } });
  const listed = (await box.files.list("tree", { depth: 2 })).map((one) => [one.name, one.type, one.size]);
  const info = await box.files.getInfo("tree/a.txt");
  const moved = await box.files.rename("tree/a.txt", "tree/b.txt");
  const there = [await box.files.exists("tree/a.txt"), await box.files.exists("tree/b.txt")];
  await box.files.remove("tree");
  return [made, listed, [info.name, info.size, info.mode, info.owner, info.permissions, info.metadata], moved.path, there, await box.files.exists("tree")];
});
await step("files.watchDir", async () => {
  await box.files.makeDir("watched");
  const seen = [];
  const handle = await box.files.watchDir("watched", (event) => { seen.push(event); }, { recursive: true, includeEntry: true });
  await box.files.write("watched/ü.txt", "x");
  await box.commands.run("cd watched && mv ü.txt b && rm b");
  const has = (name, type) => seen.some((event) => event.name === name && event.type === type);
  await until(() => has("ü.txt", "write") && has("ü.txt", "rename") && has("b", "create") && has("b", "remove"));
  await handle.stop();
  const count = seen.length;
  await box.files.write("watched/after", "x");
  await pause(300);
  return [seen.length === count, seen.find((event) => event.type === "write").entry?.path ?? null];
});
await step("errors", async () => ({
  missing: await refused(() => box.files.read("/tmp/none")), folder: await refused(() => box.files.read("/tmp")), list: await refused(() => box.files.list("/none")),
  watch: await refused(() => box.files.watchDir("/none", () => {})), user: await refused(() => box.commands.run("id", { user: "nobody-there" })),
  cwd: await refused(() => box.commands.run("id", { cwd: "/none" })),
}));
await step("addresses", async () => {
  await box.files.write("shared.txt", "for you");
  const down = await fetch(await box.downloadUrl("shared.txt", { useSignatureExpiration: 60 }));
  const form = new FormData();
  form.append("file", new Blob(["sent"]), "sent.txt");
  const up = await fetch(await box.uploadUrl(), { method: "POST", body: form });
  const wrong = await fetch((await box.downloadUrl("shared.txt")).replace("shared.txt", "other.txt"));
  return [down.status, await down.text(), up.status, await box.files.read("sent.txt"), wrong.status];
});

// git

await step("git", async () => {
  const { git } = box, home = "/home/user/repositories";
  await git.init(`${home}/origin`, { bare: true, initialBranch: "main" });
  await git.init(`${home}/work`, { initialBranch: "main" });
  await git.configureUser("Ada Ü", "ada@example.com");
  await git.setConfig("core.editor", "true", { scope: "local", path: `${home}/work` });
  await box.files.write(`${home}/work/a.txt`, "one\n");
  const dirty = await git.status(`${home}/work`);
  await git.add(`${home}/work`);
  await git.commit(`${home}/work`, "first");
  await git.remoteAdd(`${home}/work`, "origin", `${home}/origin`);
  await git.push(`${home}/work`, { remote: "origin", branch: "main" });
  await git.clone(`${home}/origin`, { path: `${home}/copy` });
  await git.createBranch(`${home}/work`, "feature");
  const branches = (await git.branches(`${home}/work`)).branches.sort();
  await box.files.write(`${home}/work/a.txt`, "two\n");
  await git.restore(`${home}/work`, { paths: ["a.txt"] });
  await git.checkoutBranch(`${home}/work`, "main");
  await git.deleteBranch(`${home}/work`, "feature", { force: true });
  await box.files.write(`${home}/work/b.txt`, "b\n");
  await git.add(`${home}/work`);
  await git.commit(`${home}/work`, "second");
  await git.push(`${home}/work`);
  await git.pull(`${home}/copy`);
  await git.reset(`${home}/work`, { mode: "hard", target: "HEAD~1" });
  await git.dangerouslyAuthenticate({ username: "ada", password: "secret", host: "git.example.com" });
  return [dirty.isClean, await git.getConfig("user.name"), await git.remoteGet(`${home}/work`, "origin") === `${home}/origin`, branches,
    await box.files.read(`${home}/work/a.txt`), await box.files.read(`${home}/copy/b.txt`), await box.files.exists(`${home}/work/b.txt`)];
});

// Code

await step("runCode", async () => {
  let out = "";
  const results = [];
  const run = await box.runCode(`print(${JSON.stringify(STRANGE).replace(/[\u0080-\uffff]/g, (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"))}.encode('utf-16', 'surrogatepass').decode('utf-16'))\nx = 6\nx * 7`,
    { onStdout: (message) => { out += message.line; }, onResult: (result) => { results.push(result.text); } });
  const failed = await box.runCode("1 / 0");
  return [out === STRANGE + "\n", run.text, results, run.error ?? null, [failed.error.name, failed.error.value], (await box.runCode("40 + 2", { language: "js" })).text];
});
await step("runCode, rich", async () => {
  const run = await box.runCode("import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4], label='l')\nplt.show()");
  const table = await box.runCode("import pandas\npandas.DataFrame({'a': [1]})");
  return [run.results[0].png.slice(0, 5), run.results[0].chart.type, table.results[0].data, table.results[0].html.includes("<table")];
});
await step("contexts", async () => {
  const context = await box.createCodeContext({ cwd: "/tmp", language: "python" });
  await box.runCode("y = 5", { context });
  const kept = (await box.runCode("import os; f'{y} {os.getcwd()}'", { context })).text;
  const listed = (await box.listCodeContexts()).some((one) => one.id === context.id);
  await box.restartCodeContext(context);
  const lost = (await box.runCode("y", { context })).error.name;
  await box.removeCodeContext(context);
  return [kept, listed, lost, (await box.listCodeContexts()).some((one) => one.id === context.id), await refused(() => box.runCode("1", { context }))];
});
await step("runCode is limited", async () => [await refused(() => box.runCode("while True: pass", { timeoutMs: 1500 })), (await box.runCode("x")).text]);
await step("kill", async () => {
  const sleeping = box.commands.run("sleep 1000", { timeoutMs: 0 }).then(() => "ended", kind);
  await pause(500);
  await box.kill();
  return [await sleeping, await box.isRunning(), await refused(() => box.commands.run("id")), await refused(() => box.files.read("/etc/passwd"))];
});
// Its connections would be kept for a minute.
process.exit(0);
