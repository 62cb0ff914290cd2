# SPDX-License-Identifier: Apache-2.0
"""Which SDKs docs/compatibility.md speaks of: their packages, and the classes whose public methods they are (methods.json has the names; run as a program
inside an environment that has a package, `sdks.py TITLE`, this file prints them as the package itself has them)."""

import importlib
import inspect
import json
import sys

# Title: (package, {prefix in the names of methods: module:Class}).
PYTHON = {
    "PandaStack Python 0.10": ("pandastack==0.10.0", {
        "client": "pandastack.client:Client",
        "sandboxes": "pandastack.client:SandboxAPI",
        "Sandbox": "pandastack:Sandbox",
        "commands": "pandastack:SandboxCommands",
        "filesystem": "pandastack:SandboxFilesystem",
        "CodeContext": "pandastack:CodeContext",
        "templates": "pandastack.templates:TemplatesAPI",
        "tokens": "pandastack.tokens:TokensAPI",
        "volumes": "pandastack.volumes:VolumesAPI",
        "snapshots": "pandastack.snapshots:SnapshotsAPI",
    }),
    "Podflare Python 0.0.22": ("podflare==0.0.22", {
        "Client": "podflare:Client",
        "Sandbox": "podflare:Sandbox",
        "pty": "podflare:PtyNamespace",
        "PtyHandle": "podflare:PtyHandle",
    }),
    "E2B Python 2.63": ("e2b==2.63.0", {
        "Sandbox": "e2b:Sandbox",
        "commands": "e2b.sandbox_sync.commands.command:Commands",
        "CommandHandle": "e2b:CommandHandle",
        "pty": "e2b.sandbox_sync.commands.pty:Pty",
        "files": "e2b.sandbox_sync.filesystem.filesystem:Filesystem",
        "WatchHandle": "e2b:WatchHandle",
        "git": "e2b:Git",
        "Template": "e2b:Template",
        "Volume": "e2b:Volume",
        "Secret": "e2b:Secret",
    }),
    "E2B Code Interpreter Python 2.11": ("e2b-code-interpreter==2.11.5", {
        "Sandbox": "e2b_code_interpreter:Sandbox",
    }),
    "OpenAI Agents SDK Python 0.24 (Cloudflare client)": ("openai-agents[cloudflare,e2b]==0.24.0", {
        "CloudflareSandboxClient": "agents.extensions.sandbox.cloudflare:CloudflareSandboxClient",
        "session": "agents.extensions.sandbox.cloudflare:CloudflareSandboxSession",
    }),
    "OpenAI Agents SDK Python 0.24 (E2B client)": ("openai-agents[cloudflare,e2b]==0.24.0", {
        "E2BSandboxClient": "agents.extensions.sandbox.e2b:E2BSandboxClient",
        "session": "agents.extensions.sandbox.e2b:E2BSandboxSession",
    }),
}

# Title: (package, version); sdks.mjs knows their classes.
NPM = {
    "PandaStack JS 0.9": ("@pandastack/sdk", "0.9.0"),
    "E2B JS 2.51": ("e2b", "2.51.0"),
    "E2B Code Interpreter JS 2.8": ("@e2b/code-interpreter", "2.8.0"),
}


def is_own(cls, name, package):
    """A method that the package brings, not one that it has from another SDK beneath it."""
    member = getattr(cls, name, None)
    return callable(member) and not inspect.isclass(member) and getattr(member, "__module__", package).split(".")[0] == package


def public_methods(cls, package):
    return sorted(name for name in dir(cls) if not name.startswith("_") and is_own(cls, name, package))


def methods(title):
    found = []
    for prefix, place in PYTHON[title][1].items():
        module, _, name = place.partition(":")
        found += [f"{prefix}.{method}" for method in public_methods(getattr(importlib.import_module(module), name), module.split(".")[0])]
    return sorted(found)


if __name__ == "__main__":
    print(json.dumps(methods(sys.argv[1])))
