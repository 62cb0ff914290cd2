# SPDX-License-Identifier: Apache-2.0
"""The npm packages @openai/agents 0.20.0 and @openai/agents-extensions 0.18.0, unmodified, through their clients for Cloudflare's sandboxes and for E2B's."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tools import slow

covers = pytest.mark.method
STRANGE = "Grüße \u2028 \U0001f600 \x85 日本"


def run(provider, package, daemon):
    key = daemon.client().call("POST", "/v1/keys", {"name": "agents in JavaScript", "role": "developer", "project": "default", "form": "e2b"})["key"]
    done = subprocess.run(["node", Path(__file__).with_name("openai_agents.mjs"), package, provider, daemon.url, key], capture_output=True, text=True, timeout=slow(120),
                          env={**os.environ, "E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url, "E2B_API_KEY": key})
    assert done.returncode == 0, done.stderr
    return {line["step"]: line for line in map(json.loads, done.stdout.strip().split("\n"))}


@pytest.fixture(scope="module")
def package(npm_package):
    return npm_package("@openai/agents-extensions", "0.18.0", "@openai/agents@0.20.0", "ws@8.21.0", "e2b@2.32.0")


@pytest.fixture(scope="module")
def cloudflare(package, daemon):
    return run("cloudflare", package, daemon)


@pytest.fixture(scope="module")
def e2b(package, daemon):
    return run("e2b", package, daemon)


@pytest.fixture(params=["cloudflare", "e2b"])
def either(request):
    return request.param


@pytest.fixture
def step(request, either):
    return reader(request.getfixturevalue(either))


def reader(steps):
    def value(name):
        assert "failed" not in steps[name], steps[name]["failed"]
        return steps[name]["value"]
    return value


@covers("OpenAI Agents SDK JS 0.20 (Cloudflare client)", "CloudflareSandboxClient.create", "session.running", "session.execCommand", "session.close")
@covers("OpenAI Agents SDK JS 0.20 (E2B client)", "E2BSandboxClient.create", "session.running", "session.execCommand", "session.close")
def test_it_makes_a_sandbox_runs_commands_and_ends_it_twice(step):
    assert step("create") and step("running") is True
    shown = step("exec")
    assert "exited with code 3" in shown and shown.split("Output:\n")[1].split() == "out /workspace hello 'you' err".split()
    assert step("unicode").split("Output:\n")[1] == STRANGE + "\U0001f600"
    assert "Output:\n/workspace/dir\ndeep" in step("workdir") and "Output:\nroot" in step("run as")
    assert step("long output") > 3_000_000
    running, refused = step("end")
    assert running is False and refused["text"]


@covers("OpenAI Agents SDK JS 0.20 (Cloudflare client)", "session.readFile", "session.pathExists", "session.materializeEntry", "session.applyManifest", "session.createEditor", "session.viewImage")
@covers("OpenAI Agents SDK JS 0.20 (E2B client)", "session.readFile", "session.pathExists", "session.materializeEntry", "session.applyManifest", "session.createEditor", "session.viewImage")
def test_files(step, either):
    assert step("read") == ["from the manifest", STRANGE, "from"] and step("binary") is True
    assert "NotFound" in step("missing")["type"] and step("outside")["type"] == "SandboxInvalidManifestPathError"
    assert step("exists") == [True, False, True] and step("materialize") == [0, 255, 10] and step("manifest") == "later"
    assert step("editor") == ["eins\nzwei ü", False]
    assert step("image")["image"]["mediaType"] == "image/png"
    assert step("at once") == ",".join(f"content {i}" for i in range(8))


@covers("OpenAI Agents SDK JS 0.20 (Cloudflare client)", "session.persistWorkspace", "session.hydrateWorkspace")
@covers("OpenAI Agents SDK JS 0.20 (E2B client)", "session.persistWorkspace", "session.hydrateWorkspace")
def test_the_workspace_goes_out_and_into_another_sandbox(step):
    assert step("workspace") == [STRANGE, True]


@covers("OpenAI Agents SDK JS 0.20 (Cloudflare client)", "session.writeStdin")
def test_a_terminal_ends_with_its_command(cloudflare):
    ended, asking, answered = reader(cloudflare)("terminal")
    assert "exited with code 4" in ended and "/dev/pts/" in ended
    assert asking.endswith("name? ") and "exited with code 0" in answered and answered.endswith("Ädä\r\ngot Ädä\r\n")


@covers("OpenAI Agents SDK JS 0.20 (E2B client)", "session.writeStdin")
def test_a_terminal_is_a_shell_as_at_e2b(e2b):
    ended, asking, answered = reader(e2b)("terminal")
    assert "/dev/pts/" in ended and "name? " in asking and "got Ädä" in answered


@covers("OpenAI Agents SDK JS 0.20 (agents, Cloudflare client)", "Runner.run", "exec_command", "write_stdin", "apply_patch", "view_image")
@covers("OpenAI Agents SDK JS 0.20 (agents, E2B client)", "Runner.run", "exec_command", "write_stdin", "apply_patch", "view_image")
def test_an_agent_uses_every_tool(step):
    told = step("agent")
    assert told["tools"] == ["apply_patch", "exec_command", "view_image", "write_stdin"] and told["final"] == "done"
    assert "exited with code 3" in told["cat"] and "from the manifest" in told["cat"] and "name? " in told["ask"] and "hello Ada" in told["type"]
    assert "from the pätch" in told["after"] and "data:image/png;base64,iVBORw0KGgo=" in told["look"]


@covers("OpenAI Agents SDK JS 0.20 (Cloudflare client)", "session.execCommand",
        differs="A time limit that is reached is an exit code, 124, eight seconds later: this client has no limit of its own, and the Python one takes any exit for no timeout.")
def test_a_time_limit_is_an_exit_code(cloudflare):
    shown, took_ms = reader(cloudflare)("timeout")
    assert "exited with code 124" in shown and shown.endswith("begun\ntimed out after 10 s") and took_ms > 17000


@covers("OpenAI Agents SDK JS 0.20 (Cloudflare client)", "session.mountBucket", "session.unmountBucket", differs="Buckets are not mounted: refused with a sentence.")
def test_buckets_are_refused_with_a_sentence(cloudflare):
    step = reader(cloudflare)
    for refusal in step("mount"):
        assert (refusal["type"], refusal["status"]) == ("SandboxMountError", 400) and refusal["reason"].startswith("buckets cannot be mounted")
    assert "buckets cannot be mounted" in step("mounts")["text"]


@covers("OpenAI Agents SDK JS 0.20 (Cloudflare client)", "CloudflareSandboxClient.resume", "CloudflareSandboxClient.create")
def test_the_address_the_key_and_a_second_session(cloudflare):
    step = reader(cloudflare)
    once, terminal, refused = step("template")
    assert once.endswith("Output:\nx") and terminal.endswith("y\r\n") and 'no template "nowhere"' in refused["text"]
    assert step("refused")["status"] == 401 and step("resume") == "from the manifest"


@covers("OpenAI Agents SDK JS 0.20 (Cloudflare client)", "session.resolveExposedPort", differs="This client has no ports, at Cloudflare neither: it refuses before it asks.")
def test_ports_are_not_this_clients(cloudflare):
    assert reader(cloudflare)("port")["type"] == "SandboxConfigurationError"
