// SPDX-License-Identifier: Apache-2.0
// What sdks.py is for Python: the public methods of an npm SDK as the package itself has them. sdks.mjs FOLDER TITLE, where FOLDER has node_modules.
// A class is followed up to the last one that the package brings (in JavaScript nobody can see which methods TypeScript calls private: those are listed here).
import { createRequire } from "node:module";

const [, , folder, title] = process.argv;
const load = createRequire(folder + "/");

const PLAIN = [Object.prototype, Function.prototype, Error.prototype, null];
const methodsOf = (start) => {
  const names = new Set();
  for (let here = start; !PLAIN.includes(here); here = Object.getPrototypeOf(here)) {
    for (const name of Object.getOwnPropertyNames(here)) {
      const member = Object.getOwnPropertyDescriptor(here, name).value;
      if (typeof member === "function" && name !== "constructor" && !name.startsWith("_") && !/^[A-Z]/.test(name)) names.add(name);
    }
  }
  return [...names];
};
const bothOf = (type) => [...methodsOf(type), ...methodsOf(type.prototype)];

// What the declarations mark private or protected, or name internal.
const INTERNAL = {
  "E2B JS 2.51": ["Sandbox.resolveApiOpts", "Sandbox.fileUrl", "Sandbox.createSandbox", "Sandbox.forkSandbox", "Sandbox.connectSandbox", "Sandbox.resolveOpts",
    "Sandbox.mergeOpts", "Template.resolveOpts", "Volume.resolveOpts", "Secret.resolveOpts", "commands.start", "git.runGit", "git.runShell", "git.getRemoteUrl", "git.resolveRemoteName", "git.withRemoteCredentials", "git.hasUpstream",
    "Template.collectStackTrace", "Template.instructionsWithHashes", "Template.serialize"],
  "E2B Code Interpreter JS 2.8": ["Sandbox.getJupyterRequestUrl", "Sandbox.includeDiagnostics", "Sandbox.handleRequestError"],
};

const CLASSES = {
  "PandaStack JS 0.9": () => {
    const { Client, Sandbox, CodeContext } = load("@pandastack/sdk");
    const client = new Client({ apiKey: "none", apiUrl: "http://127.0.0.1:1" });
    const sandbox = Sandbox.fromInfo({ id: "none" }, client);
    const members = { client, Sandbox: null, CodeContext: CodeContext.prototype };
    for (const name of ["sandboxes", "templates", "tokens", "volumes", "snapshots"]) members[name] = Object.getPrototypeOf(client[name]);
    for (const name of ["filesystem", "commands"]) members[name] = Object.getPrototypeOf(sandbox[name]);
    members.client = Client.prototype;
    return Object.entries(members).map(([prefix, type]) => [prefix, prefix === "Sandbox" ? bothOf(Sandbox) : methodsOf(type)]);
  },
  "E2B JS 2.51": () => {
    const { Sandbox, Template, Volume, Secret } = load("e2b");
    const sandbox = new Sandbox({ sandboxId: "none", apiKey: "e2b_00", envdVersion: "0.5.0" });
    const parts = ["files", "commands", "pty", "git"].map((name) => [name, methodsOf(Object.getPrototypeOf(sandbox[name]))]);
    return [["Sandbox", bothOf(Sandbox)], ["Template", bothOf(Template)], ["Volume", bothOf(Volume)], ["Secret", bothOf(Secret)], ...parts];
  },
  "E2B Code Interpreter JS 2.8": () => {
    const { Sandbox } = load("@e2b/code-interpreter");
    return [["Sandbox", Object.getOwnPropertyNames(Sandbox.prototype).filter((name) => methodsOf(Sandbox.prototype).includes(name))]];
  },
};

const internal = INTERNAL[title] ?? [];
const names = CLASSES[title]().flatMap(([prefix, methods]) => methods.map((method) => `${prefix}.${method}`));
console.log(JSON.stringify([...new Set(names)].filter((name) => !internal.includes(name)).sort()));
