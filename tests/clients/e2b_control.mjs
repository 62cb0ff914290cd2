// SPDX-License-Identifier: Apache-2.0
// The control plane of the npm package e2b, used as its documentation does; prints what came of each step as one JSON object per line.
// The package is found through its folder, given as the first argument; addresses and key come from the environment.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const e2b = createRequire(process.argv[2] + "/")("e2b");
const { Sandbox, Template, Volume, Secret, waitForFile, waitForPort } = e2b;
const nobody = "i" + "a".repeat(19);
let sandbox;

async function step(name, work) {
  try {
    console.log(JSON.stringify({ step: name, value: await work() }));
  } catch (error) {
    console.log(JSON.stringify({ step: name, failed: `${error.constructor.name}: ${error.message}` }));
  }
}
async function outcome(work) {
  try { return await work(); } catch (error) { return `${error.constructor.name}: ${error.message}`; }
}
async function all(paginator) {
  const items = [];
  while (paginator.hasNext) items.push(...(await paginator.nextItems()));
  return items;
}
const left = async () => Math.round(((await sandbox.getInfo()).endAt - Date.now()) / 1000);

await step("create", async () => {
  sandbox = await Sandbox.create("minimal", { timeoutMs: 600000, metadata: { owner: "sdk", "k ey": "v&1=ä" }, envs: { GREETING: "grüße" } });
  const info = await sandbox.getInfo(), full = await Sandbox.getFullInfo(sandbox.sandboxId);
  return { state: info.state, template: info.templateId, metadata: info.metadata, lifecycle: info.lifecycle, same: full.sandboxId === sandbox.sandboxId,
    running: await sandbox.isRunning(), said: (await sandbox.commands.run("echo $GREETING")).stdout };
});
await step("list", async () => [
  (await all(Sandbox.list({ query: { metadata: { "k ey": "v&1=ä" } } }))).map((one) => one.sandboxId === sandbox.sandboxId),
  (await all(Sandbox.list({ query: { metadata: { owner: "nobody" } } }))).length,
  (await all(Sandbox.list({ query: { state: ["paused"] }, limit: 1 }))).length,
]);
await step("timeout", async () => {
  await sandbox.setTimeout(1000000);
  const first = await left();
  await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 10000 });
  return [first, await left()];
});
await step("pause", async () => {
  await sandbox.files.write("/tmp/kept", "still here");
  const server = await sandbox.commands.run("sleep 1000", { background: true });
  const paused = [await sandbox.pause(), await sandbox.pause(), await sandbox.betaPause(), await sandbox.isRunning(), (await sandbox.getInfo()).state];
  const again = await Sandbox.connect(sandbox.sandboxId);
  return [...paused, await again.files.read("/tmp/kept"), (await again.commands.list()).map((one) => one.pid).includes(server.pid)];
});
await step("pause without memory", () => outcome(() => sandbox.pause({ keepMemory: false })));
await step("fork", async () => {
  const children = await sandbox.fork({ count: 2, timeoutMs: 100000 });
  const found = await Promise.all(children.map((child) => child.files.read("/tmp/kept")));
  return [found, await Promise.all(children.map((child) => child.kill()))];
});
await step("snapshots", async () => {
  const snapshot = await sandbox.createSnapshot({ name: "from-js" });
  await sandbox.files.write("/tmp/kept", "later");
  const made = await Sandbox.create(snapshot.snapshotId, { timeoutMs: 60000 });
  const kept = await made.files.read("/tmp/kept");
  await made.kill();
  const listed = (await all(Sandbox.listSnapshots({ sandboxId: sandbox.sandboxId }))).map((one) => one.snapshotId);
  return [snapshot.snapshotId, kept, listed, await Sandbox.deleteSnapshot(snapshot.snapshotId), await Sandbox.deleteSnapshot(snapshot.snapshotId)];
});
await step("network", async () => {
  await sandbox.updateNetwork({ allowOut: ["example.com"], denyOut: ["0.0.0.0/0"] });
  const filtered = (await sandbox.getInfo()).network;
  await sandbox.updateNetwork({});
  return [filtered.allowOut, filtered.denyOut, (await sandbox.getInfo()).allowInternetAccess];
});
await step("metrics", async () => {
  const [metric] = await sandbox.getMetrics();
  return metric.memUsed > 0 && metric.memUsed < metric.memTotal && metric.cpuCount >= 1;
});
await step("template", async () => {
  const logs = [];
  const template = Template().fromTemplate("minimal").setEnvs({ MODE: "fast" }).setWorkdir("/srv/app").runCmd("echo $MODE $(whoami) > built").runCmd("echo printed")
    .setUser("root").makeDir("/srv/a").makeSymlink("/srv/a", "/srv/b").rename("/srv/b", "/srv/c").remove("/srv/a", { recursive: true });
  const built = await Template.build(template, "from-js:v1", { tags: ["stable"], onBuildLogs: (entry) => logs.push(entry.message) });
  const made = await Sandbox.create("from-js", { timeoutMs: 60000 });
  const file = await made.files.read("/srv/app/built"), link = (await made.commands.run("readlink /srv/c; ls -d /srv/a || echo gone")).stdout;
  await made.kill();
  await Template.assignTags("from-js:v1", ["production"]);
  const tags = (await Template.getTags("from-js")).map((one) => [one.tag, one.buildId === built.buildId]);
  await Template.removeTags("from-js", ["production"]);
  return { file, link, tags, left: (await Template.getTags("from-js")).map((one) => one.tag), printed: logs.includes("printed"),
    exists: [await Template.exists("from-js"), await Template.aliasExists("from-js:v1"), await Template.exists("none")] };
});
await step("template copies", async () => {
  const folder = mkdtempSync(join(tmpdir(), "vial-copy-"));
  try {
    mkdirSync(join(folder, "app/data"), { recursive: true });
    for (const name of ["notes.txt", "a.md", "b.md", "app/main.js", "app/data/x.txt"])
      writeFileSync(join(folder, name), name);
    symlinkSync("main.js", join(folder, "app/link"));
    const begin = () => Template({ fileContextPath: folder }).fromTemplate("minimal"), logs = [];
    const template = begin().copy("notes.txt", "/srv/file").copy("notes.txt", "/srv/into/").copy("app", "/srv/app").copy("*.md", "/srv/docs").copy("app/**/*.txt", "/srv/tree")
      .copyItems([{ src: ["a.md", "b.md"], dest: "/srv/both/", mode: 0o640, user: "root" }, { src: "app/main.js", dest: "/srv/tool", mode: 0o755 }])
      .setWorkdir("/srv/work").copy("notes.txt", "here");
    await Template.build(template, "js-copies", { onBuildLogs: (entry) => logs.push(entry.message) });
    const made = await Sandbox.create("js-copies");
    const tree = (await made.commands.run("cd /srv && find . -type f -o -type l | LC_ALL=C sort")).stdout.trim().split("\n");
    const modes = (await made.commands.run("cd /srv && stat -c '%n %U %a' file both/a.md tool && readlink app/link && cat work/here")).stdout.trim().split("\n");
    await made.kill();
    const again = [];
    await Template.build(template, "js-copies", { onBuildLogs: (entry) => again.push(entry.message) });
    const sent = (lines) => lines.filter((line) => line.includes("Uploaded")).length;
    return { tree, modes, sent: [sent(logs), sent(again)], broken: await outcome(() => Template.build(begin().copy("notes.txt", "/etc/passwd/x"), "js-broken")) };
  } finally {
    rmSync(folder, { recursive: true });
  }
});
await step("template fails", () => outcome(() => Template.build(Template().fromTemplate("minimal").runCmd("true").runCmd("exit 7"), "js-broken")));
await step("template starts", async () => {
  const begin = () => Template().fromTemplate("minimal").setWorkdir("/srv/www").runCmd("echo page > page; echo ready > ready");
  await Template.build(begin().setStartCmd("exec python3 -m http.server 8000", waitForPort(8000)), "js-starting");
  await Template.build(begin().setReadyCmd(waitForFile("/srv/www/ready")), "js-ready");
  const [made, ready] = [await Sandbox.create("js-starting", { timeoutMs: 60000 }), await Sandbox.create("js-ready", { timeoutMs: 60000 })];
  const found = [(await made.commands.run("curl -sf localhost:8000/page")).stdout, (await made.commands.list()).filter((one) => [one.cmd, ...one.args].join(" ").includes("http.server")).length,
    (await ready.commands.run("cat /srv/www/ready")).stdout];
  await made.kill();
  await ready.kill();
  return found;
});
await step("template starts badly", () => outcome(() => Template.build(Template().fromTemplate("minimal").setStartCmd("echo no such thing >&2; exit 9", waitForPort(8000)), "js-never")));
await step("template in background", async () => {
  const info = await Template.buildInBackground(Template().skipCache().fromTemplate("minimal").runCmd("true"), "js-background");
  for (;;) {
    const status = await Template.getBuildStatus(info);
    if (status.status === "ready" || status.status === "error") return status.status;
    await new Promise((done) => setTimeout(done, 200));
  }
});
await step("template helpers", async () => {
  // Programs of those names that write down what they were called with, and by whom: there is no network.
  let template = Template().fromTemplate("minimal").runCmd("install -d -m 777 /srv/log", { user: "root" });
  for (const name of ["pip", "npm", "bun", "apt-get", "git"])
    template = template.runCmd(`printf '#!/bin/sh\\necho "$(whoami): ${name} $*" >> /srv/log/all-$(whoami)\\n' > /usr/local/bin/${name}; chmod 755 /usr/local/bin/${name}`, { user: "root" });
  template = template.pipInstall("polars").pipInstall("rich", { g: false }).npmInstall("express").bunInstall("zod").aptInstall(["vim", "curl"]).gitClone("https://git.example/x.git", "/srv/x");
  await Template.build(template, "js-helpers");
  const made = await Sandbox.create("js-helpers", { timeoutMs: 60000 });
  const found = [await made.files.read("/srv/log/all-root"), await made.files.read("/srv/log/all-user")];
  await made.kill();
  return found;
});
await step("template texts", async () => {
  const template = Template().fromBaseImage().setWorkdir("/srv").runCmd("true");
  return [JSON.parse(await Template.toJSON(template, false)), Template.toDockerfile(template), Secret.fill("name"), Secret.iamToken({ audience: "somebody", tokenType: "JWT-SVID" }).audience];
});
await step("images refused", async () => {
  const found = [];
  for (const begin of [(t) => t.fromImage("registry.example/x:1"), (t) => t.fromNodeImage(), (t) => t.fromPythonImage(), (t) => t.fromBunImage(), (t) => t.fromDebianImage(), (t) => t.fromUbuntuImage(), (t) => t.fromAlpineImage(),
    (t) => t.fromFedoraImage(), (t) => t.fromArchImage(), (t) => t.fromDockerfile("FROM python:3\nRUN true\n"),
    (t) => t.fromAWSRegistry("x", { accessKeyId: "a", secretAccessKey: "b", region: "c" }), (t) => t.fromGCPRegistry("x", { serviceAccountJSON: { a: "b" } })])
    found.push(await outcome(() => Template.build(begin(Template()).runCmd("true"), "never")));
  return found;
});
await step("templates that are not here", async () => [
  await outcome(() => Template.build(Template().fromTemplate("mcp-gateway").addMcpServer("exa"), "never")),
  await outcome(() => Template.build(Template().fromTemplate("devcontainer").betaDevContainerPrebuild("/srv"), "never")),
  await outcome(() => Template.build(Template().fromTemplate("devcontainer").betaSetDevContainerStart("/srv"), "never")),
]);
await step("content of volumes", async () => {
  const volume = new Volume("data", "data", "token"), there = { apiUrl: process.env.E2B_API_URL };
  return [await outcome(() => volume.makeDir("/x", there)), await outcome(() => volume.exists("/x", there)), await outcome(() => volume.readFile("/x", there)),
    await outcome(() => volume.writeFile("/x", "data", there)), await outcome(() => volume.remove("/x", there)), await outcome(() => volume.updateMetadata("/x", { mode: 0o600 }, there)),
    await outcome(() => volume.list("/", there))];
});
await step("volumes and secrets", async () => [
  await outcome(() => Volume.create("data")), await outcome(() => Volume.list()), await outcome(() => Volume.destroy("data")), await outcome(() => Volume.getInfo("data")),
  await outcome(() => Volume.connect("data")), await outcome(() => Secret.create("name", "value")), await outcome(() => Secret.exists("name")),
  await outcome(() => Secret.update("name", "value")), await outcome(() => Secret.getInfo("name")), await outcome(() => Secret.destroy("name")),
  await outcome(() => Secret.list().nextItems()),
]);
await step("missing", async () => [
  await outcome(() => Sandbox.getInfo(nobody)), await outcome(() => Sandbox.connect(nobody)), await outcome(() => Sandbox.setTimeout(nobody, 1000)), await outcome(() => Sandbox.pause(nobody)),
  await outcome(() => Sandbox.fork(nobody)), await outcome(() => Sandbox.createSnapshot(nobody)), await Sandbox.kill(nobody), await outcome(() => Sandbox.create("none")),
  await outcome(() => Sandbox.create("minimal", { apiKey: "e2b_" + "0".repeat(40) })),
]);
await step("pauses by itself", async () => {
  const made = await Sandbox.create("minimal", { timeoutMs: 600000, lifecycle: { onTimeout: "pause", autoResume: true } });
  await made.files.write("/tmp/kept", "still here");
  await made.setTimeout(1000);
  for (let i = 0; i < 600 && (await made.getInfo()).state !== "paused"; i++) await new Promise((done) => setTimeout(done, 100));
  const state = (await made.getInfo()).state, kept = await made.files.read("/tmp/kept");
  await made.kill();
  return [state, kept];
});
await step("mcp", async () => [sandbox.getMcpUrl().endsWith("/mcp"), await outcome(() => sandbox.getMcpToken()), await outcome(() => Sandbox.create("minimal", { mcp: { exa: {} } }))]);
await step("kill", async () => [await sandbox.kill(), await sandbox.kill(), await sandbox.isRunning()]);
