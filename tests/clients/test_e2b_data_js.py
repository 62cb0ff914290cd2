# SPDX-License-Identifier: Apache-2.0
"""The npm packages @e2b/code-interpreter 2.8.0 and, below it, e2b 2.51.0, unmodified, against viald's data plane."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from vial import images_dir, slow

covers = pytest.mark.method
pytestmark = pytest.mark.skipif(not (images_dir() / "code-interpreter.json").exists(), reason="the image `code-interpreter` is not built")


@pytest.fixture(scope="module")
def steps(daemon, npm_package):
    package = npm_package("@e2b/code-interpreter", "2.8.0")
    found = json.loads((package / "node_modules/e2b/package.json").read_text())["version"]
    assert found == "2.51.0", "the methods of which version this shows"
    done = subprocess.run(["node", Path(__file__).with_name("e2b_data.mjs"), package], capture_output=True, text=True, timeout=slow(240),
                          env={**os.environ, "E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url, "E2B_API_KEY": daemon.key})
    assert done.returncode == 0, done.stderr
    return {line["step"]: line for line in map(json.loads, done.stdout.splitlines())}


@pytest.fixture
def step(steps):
    def value(name):
        assert "failed" not in steps[name], steps[name]["failed"]
        return steps[name].get("value")
    return value


@covers("E2B JS 2.51", "Sandbox.isRunning", "Sandbox.getHost")
def test_it_is_there(step):
    assert step("create") == 20 and step("isRunning and getHost") == [True, True]


@covers("E2B JS 2.51", "commands.run", "commands.sendStdin", "commands.closeStdin", "commands.connect", "commands.kill")
@covers("E2B JS 2.51", "commands.list", differs="What a command was given as its environment is not told: it may have secrets in it.")
def test_commands(step):
    assert step("commands.run") == [True, True, 0]
    assert step("commands.run fails") == ["CommandExitError", 7, "half\n", "exit status 7"] and step("commands.run is limited") == "TimeoutError"
    assert step("commands in the background") == ["/bin/bash", ["-l", "-c", "cat; echo done"], True, 0]
    assert step("commands.connect and kill") == [True, "CommandExitError", "NotFoundError"]


@covers("E2B JS 2.51", "pty.create", "pty.sendInput", "pty.resize", "pty.connect", "pty.kill")
def test_terminals(step):
    assert step("pty") == [True, True, True, True, "CommandExitError"]


@covers("E2B JS 2.51", "files.write", "files.writeFiles", "files.read")
def test_files_are_written_and_read(step):
    assert step("files.write and read") == ["/home/user/dir/übung.txt", True, [True, True, True], True, 300000, ["/home/user/many/a", "/tmp/many/b"], ["c", "d"], "C"]


@covers("E2B JS 2.51", "files.makeDir", "files.list", "files.getInfo", "files.rename", "files.exists", "files.remove", "files.watchDir")
def test_folders_and_what_happens_in_them(step):
    assert step("files, folders") == [[True, False], [["a.txt", "file", 5], ["sub", "dir", step("files, folders")[1][1][2]]],
                                      ["a.txt", 5, 0o644, "user", "-rw-r--r--", {"note": "kept"}], "/home/user/tree/b.txt", [False, True], False]
    quiet, path = step("files.watchDir")
    assert quiet and path in (None, "/home/user/watched/ü.txt"), "by the time it is looked at, it may be gone"


def test_refusals_have_their_classes(step):
    assert step("errors") == {"missing": "FileNotFoundError", "folder": "InvalidArgumentError", "list": "FileNotFoundError", "watch": "FileNotFoundError",
                              "user": "AuthenticationError", "cwd": "InvalidArgumentError"}


@covers("E2B JS 2.51", "Sandbox.downloadUrl", "Sandbox.uploadUrl")
def test_signed_addresses(step):
    assert step("addresses") == [200, "for you", 200, "sent", 401]


@covers("E2B JS 2.51", "git.init", "git.configureUser", "git.setConfig", "git.getConfig", "git.add", "git.commit", "git.status", "git.branches", "git.createBranch",
        "git.checkoutBranch", "git.deleteBranch", "git.reset", "git.restore", "git.remoteAdd", "git.remoteGet", "git.push", "git.pull", "git.clone",
        "git.dangerouslyAuthenticate")
def test_git(step):
    assert step("git") == [False, "Ada Ü", True, ["feature", "main"], "one\n", "b\n", False]


@covers("E2B Code Interpreter JS 2.8", "Sandbox.runCode", differs="As with Python's package.")
@covers("E2B Code Interpreter JS 2.8", "Sandbox.createCodeContext", differs="As with Python's package.")
@covers("E2B Code Interpreter JS 2.8", "Sandbox.listCodeContexts", "Sandbox.restartCodeContext", "Sandbox.removeCodeContext")
def test_code_and_contexts(step):
    assert step("runCode") == [True, "42", ["42"], None, ["ZeroDivisionError", "division by zero"], "42"]
    assert step("runCode, rich") == ["iVBOR", "line", {"a": [1]}, True]
    assert step("contexts") == ["5 /tmp", True, "NameError", False, "NotFoundError"]
    assert step("runCode is limited") == ["TimeoutError", "6"]


def test_a_sandbox_that_was_ended_looks_so(step):
    # The second is one that was asked for after the end: what this SDK calls a command that did not begin.
    assert step("kill") == ["TimeoutError", False, "SandboxNotFoundError", "TimeoutError"]
