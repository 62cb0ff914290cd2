// SPDX-License-Identifier: Apache-2.0
// Uses @openai/agents with a sandbox client of @openai/agents-extensions, and prints what came of each step as one JSON object per line.
// openai_agents.mjs FOLDER cloudflare|e2b ADDRESS KEY, where FOLDER has node_modules; the E2B client has its address and key from the environment.
import { createRequire } from "node:module";
import { createHash } from "node:crypto";

const [, , folder, provider, workerUrl, apiKey] = process.argv;
const load = createRequire(folder + "/");
const { SandboxAgent } = load("@openai/agents/sandbox");
// The extensions' newest version has a core of its own, whose manifests it takes.
const { Manifest } = createRequire(load.resolve("@openai/agents-extensions/sandbox/cloudflare"))("@openai/agents-core/sandbox");
const { Runner, setTracingDisabled } = load("@openai/agents");
const { ScriptedModel, assistantMessage, functionCall, modelResponder } = load("@openai/agents/testing");
const Client = provider === "e2b" ? load("@openai/agents-extensions/sandbox/e2b").E2BSandboxClient : load("@openai/agents-extensions/sandbox/cloudflare").CloudflareSandboxClient;
const options = provider === "e2b" ? { sandboxType: "e2b", template: "minimal" } : { workerUrl, apiKey };

setTracingDisabled(true);
const client = new Client(options);
const STRANGE = "Grüße \u2028 \u{1f600} \x85 日本";
const text = (value) => (typeof value === "string" ? value : new TextDecoder().decode(value));
const sum = (bytes) => createHash("sha256").update(bytes).digest("hex");
const told = (error) => ({ type: error.constructor.name, text: error.message, status: error.details?.status, cause: error.details?.cause, reason: error.details?.reason });
const failing = async (work) => {
  try { return { none: await work() }; } catch (error) { return told(error); }
};
let session;

async function step(name, work) {
  try {
    console.log(JSON.stringify({ step: name, value: (await work()) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ step: name, failed: `${error.constructor.name}: ${error.message} ${JSON.stringify(error.details ?? {})}` }));
  }
}

await step("create", async () => {
  session = await client.create({ manifest: new Manifest({
    entries: { "notes.txt": { type: "file", content: "from the manifest" }, dir: { type: "dir", children: { deep: { type: "file", content: STRANGE } } } },
    environment: { GREETING: "hello  'you'" } }) });
  return session.state.sandboxId;
});
await step("running", () => session.running());
await step("exec", () => session.execCommand({ cmd: "echo out; echo err >&2; pwd; printenv GREETING; exit 3" }));
await step("unicode", () => session.execCommand({ cmd: `printf %s '${STRANGE}'; printf '\\360\\237'; sleep 0.3; printf '\\230\\200'` }));
await step("workdir", () => session.execCommand({ cmd: "pwd; ls", workdir: "dir" }));
await step("run as", () => session.execCommand({ cmd: "id -un", runAs: "root" }));
await step("long output", async () => (await session.execCommand({ cmd: "yes | head -c 3000000" })).length);
await step("read", async () => [text(await session.readFile({ path: "notes.txt" })), text(await session.readFile({ path: "dir/deep" })), text(await session.readFile({ path: "notes.txt", maxBytes: 4 }))]);
await step("binary", async () => {
  await session.execCommand({ cmd: "head -c 300000 /dev/urandom > blob" });
  const shown = await session.execCommand({ cmd: "sha256sum < blob" });
  return shown.includes(sum(await session.readFile({ path: "blob" })));
});
await step("missing", () => failing(() => session.readFile({ path: "missing" })));
await step("outside", () => failing(() => session.readFile({ path: "../etc/passwd" })));
await step("exists", async () => [await session.pathExists("notes.txt"), await session.pathExists("none"), await session.pathExists("dir")]);
await step("materialize", async () => {
  await session.materializeEntry({ path: "more/ü.txt", entry: { type: "file", content: new Uint8Array([0, 255, 10]) } });
  return [...(await session.readFile({ path: "more/ü.txt" }))];
});
await step("manifest", async () => {
  await session.applyManifest(new Manifest({ entries: { later: { type: "file", content: "later" } } }));
  return text(await session.readFile({ path: "later" }));
});
await step("editor", async () => {
  const editor = session.createEditor();
  await editor.createFile({ type: "create_file", path: "patched.txt", diff: "+one\n+zwei ü\n" });
  await editor.updateFile({ type: "update_file", path: "patched.txt", diff: "@@\n-one\n+eins\n zwei ü\n" });
  const shown = text(await session.readFile({ path: "patched.txt" }));
  await editor.deleteFile({ type: "delete_file", path: "patched.txt" });
  return [shown, await session.pathExists("patched.txt")];
});
await step("image", async () => {
  await session.execCommand({ cmd: "printf '\\211PNG\\r\\n\\032\\n' > picture.png" });
  return session.viewImage({ path: "picture.png" });
});
await step("at once", async () => (await Promise.all([...Array(8).keys()].map(async (i) => {
  await session.materializeEntry({ path: `many/${i}`, entry: { type: "file", content: `content ${i}` } });
  return text(await session.readFile({ path: `many/${i}` }));
}))).join());
await step("terminal", async () => {
  const ended = await session.execCommand({ cmd: "tty; exit 4", tty: true, yieldTimeMs: provider === "e2b" ? 3000 : 20000 });
  const asking = await session.execCommand({ cmd: "printf 'name? '; read name; echo got $name", tty: true, yieldTimeMs: 2000 });
  const sessionId = Number(/session ID (\d+)/.exec(asking)?.[1]);
  let answered = "";
  for (let i = 0, chars = "Ädä\n"; i < 40 && !answered.includes("got"); i++, chars = "") answered += await session.writeStdin({ sessionId, chars, yieldTimeMs: 500 });
  return [ended, asking, answered];
});
await step("workspace", async () => {
  const archive = await session.persistWorkspace();
  const other = await client.create({});
  await other.hydrateWorkspace(archive);
  const seen = [text(await other.readFile({ path: "dir/deep" })), sum(await other.readFile({ path: "blob" })) === sum(await session.readFile({ path: "blob" }))];
  await other.close();
  return seen;
});
await step("port", () => failing(() => session.resolveExposedPort(8000)));
if (provider === "cloudflare") {
  await step("mount", async () => [await failing(() => session.mountBucket({ bucket: "b", mountPath: "m", options: {} })), await failing(() => session.unmountBucket("m"))]);
  await step("mounts", () => failing(() => client.create({ options: { mounts: [{ bucket: "b", mountPath: "/workspace/m" }] } })));
  await step("timeout", async () => {
    const impatient = await client.create({ options: { timeoutMs: 10000 } });
    const begun = Date.now();
    const shown = await impatient.execCommand({ cmd: "echo begun; sleep 100" });
    await impatient.close();
    return [shown, Date.now() - begun];
  });
  await step("template", async () => {
    const made = await client.create({ options: { workerUrl: `${workerUrl}/t/minimal/` } });
    const shown = [await made.execCommand({ cmd: "echo x" }), await made.execCommand({ cmd: "echo y", tty: true, yieldTimeMs: 20000 })];
    await made.close();
    return [...shown, await failing(() => client.create({ options: { workerUrl: `${workerUrl}/t/nowhere` } }))];
  });
  await step("refused", () => failing(() => client.create({ options: { apiKey: "vial_wrong" } })));
  await step("resume", async () => text(await (await client.resume(session.state)).readFile({ path: "notes.txt" })));
}
await step("agent", async () => {
  const output = (call, id) => {
    const item = call.request.input.find((one) => one.callId === id && one.type.endsWith("_result") && one.output !== undefined);
    return item && (typeof item.output === "string" ? item.output : item.output.text ?? JSON.stringify(item.output));
  };
  const patch = { type: "apply_patch_call", callId: "patch", status: "completed", operation: { type: "update_file", path: "notes.txt", diff: "@@\n-from the manifest\n+from the pätch\n" } };
  const model = new ScriptedModel([
    [functionCall("exec_command", { cmd: "printf '\\211PNG\\r\\n\\032\\n' > picture.png; cat notes.txt; exit 3" }, { callId: "cat" })],
    [functionCall("exec_command", { cmd: "printf 'name? '; read name; echo hello $name", tty: true, yield_time_ms: 1500 }, { callId: "ask" })],
    modelResponder((call) => [functionCall("write_stdin", { session_id: Number(/session ID (\d+)/.exec(output(call, "ask"))[1]), chars: "Ada\n", yield_time_ms: 5000 }, { callId: "type" })]),
    [patch],
    [functionCall("exec_command", { cmd: "cat notes.txt" }, { callId: "after" })],
    [functionCall("view_image", { path: "picture.png" }, { callId: "look" })],
    [assistantMessage("done")],
  ]);
  const agent = new SandboxAgent({ name: "helper", instructions: "Help.", model, defaultManifest: { entries: { "notes.txt": { type: "file", content: "from the manifest\n" } } } });
  const result = await new Runner().run(agent, "go", { sandbox: { client, options } });
  model.assertComplete();
  const last = model.lastCall;
  return { final: result.finalOutput, tools: last.request.tools.map((tool) => tool.name).sort(), ...Object.fromEntries(["cat", "ask", "type", "patch", "after", "look"].map((id) => [id, output(last, id)])) };
});
await step("end", async () => {
  await session.close();
  await session.close();
  return [await session.running?.(), await failing(() => session.execCommand({ cmd: "true" }))];
});
process.exit(0);
