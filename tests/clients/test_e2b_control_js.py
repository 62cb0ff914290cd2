# SPDX-License-Identifier: Apache-2.0
"""The control plane with the npm package e2b 2.51.0, unmodified, and with the old version of the Python package that other SDKs pin."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import add_key
from vial import slow


@pytest.fixture(scope="module")
def environment(daemon):
    """As users point it at viald; none of E2B's other variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("E2B_")}
    return {**kept, "E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url, "E2B_API_KEY": add_key(daemon, "e2bjs", form="e2b")}


@pytest.fixture(scope="module")
def steps(environment, npm_package):
    done = subprocess.run(["node", Path(__file__).with_name("e2b_control.mjs"), npm_package("e2b", "2.51.0")], capture_output=True, text=True, timeout=slow(120),
                          env=environment)
    assert done.returncode == 0, done.stderr
    return {line["step"]: line for line in map(json.loads, done.stdout.splitlines())}


@pytest.fixture
def step(steps):
    def value(name):
        assert "failed" not in steps[name], steps[name]["failed"]
        return steps[name].get("value")
    return value


@pytest.mark.method("E2B JS 2.51", "Sandbox.create", "Sandbox.getInfo", "Sandbox.getFullInfo", "Sandbox.isRunning", "Sandbox.list", "Sandbox.setTimeout", "Sandbox.kill")
def test_sandboxes_are_made_listed_and_ended(step):
    made = step("create")
    assert (made["state"], made["template"], made["metadata"]) == ("running", "minimal", {"owner": "sdk", "k ey": "v&1=ä"})
    assert made["same"] and made["running"] and made["said"] == "grüße\n" and made["lifecycle"] == {"autoResume": False, "onTimeout": "kill"}
    assert step("list") == [[True], 0, 0]
    first, after = step("timeout")
    assert 800 < first <= 1000 and 700 < after <= first, "connecting made its life shorter"
    assert step("kill") == [True, False, False]


@pytest.mark.method("E2B JS 2.51", "Sandbox.pause", "Sandbox.betaPause", "Sandbox.connect", "Sandbox.create")
def test_they_sleep_and_go_on(step):
    assert step("pause") == [True, False, False, False, "paused", "still here", True]
    assert step("pauses by itself") == ["paused", "still here"]


@pytest.mark.method("E2B JS 2.51", "Sandbox.pause", differs="Only with memory: keepMemory: false is refused with a sentence.")
def test_files_without_memory_are_refused(step):
    assert step("pause without memory").startswith("SandboxError: ") and "memory" in step("pause without memory")


@pytest.mark.method("E2B JS 2.51", "Sandbox.fork", "Sandbox.createSnapshot", "Sandbox.listSnapshots", "Sandbox.deleteSnapshot")
def test_forks_and_snapshots(step):
    assert step("fork") == [["still here", "still here"], [True, True]]
    assert step("snapshots") == ["e2bjs/from-js:default", "still here", ["e2bjs/from-js:default"], True, False]


@pytest.mark.method("E2B JS 2.51", "Sandbox.updateNetwork", differs="A sandbox's network is closed unless the setting e2b_network, or the sandbox, opens it.")
@pytest.mark.method("E2B JS 2.51", "Sandbox.getMetrics", differs="What it uses now, as one entry: nothing is kept of before. While it is paused there is none.")
def test_network_and_metrics(step):
    assert step("network") == [["example.com"], ["0.0.0.0/0"], False] and step("metrics") is True


@pytest.mark.method("E2B JS 2.51", "Template.fromTemplate", "Template.setEnvs", "Template.setWorkdir", "Template.runCmd", "Template.setUser", "Template.makeDir", "Template.makeSymlink",
                    "Template.rename", "Template.remove", "Template.assignTags", "Template.getTags", "Template.removeTags", "Template.exists", "Template.aliasExists",
                    "Template.buildInBackground", "Template.getBuildStatus", "Template.skipCache")
@pytest.mark.method("E2B JS 2.51", "Template.build", differs="No images of registries: refused with a sentence.")
def test_templates_are_built(step):
    made = step("template")
    assert (made["file"], made["link"], made["printed"]) == ("fast user\n", "/srv/a\ngone\n", True)
    assert sorted(made["tags"]) == [["default", True], ["production", True], ["stable", True], ["v1", True]] and sorted(made["left"]) == ["default", "stable", "v1"]
    assert made["exists"] == [True, True, False] and step("template in background") == "ready"
    assert step("template fails") == "BuildError: step 2 of 2 failed: it exited with 7"


@pytest.mark.method("E2B JS 2.51", "Template.copy", "Template.copyItems")
def test_templates_take_files_along(step):
    made = step("template copies")
    assert made["tree"] == ["./app/data/x.txt", "./app/link", "./app/main.js", "./both/a.md", "./both/b.md", "./docs/a.md", "./docs/b.md", "./file", "./into/notes.txt", "./tool",
                            "./tree/data/x.txt", "./work/here"]
    assert made["modes"] == ["file user 644", "both/a.md root 640", "tool user 755", "main.js", "notes.txt"]
    assert made["sent"] == [9, 0] and made["broken"].startswith("BuildError: step 1 of 1 failed: ") and "cannot be made" in made["broken"]
@pytest.mark.method("E2B JS 2.51", "Template.setStartCmd", "Template.setReadyCmd")
def test_what_a_template_starts_runs_in_every_sandbox(step):
    assert step("template starts") == ["page\n", 1, "ready\n"]
    failed = step("template starts badly")
    assert failed.startswith("BuildError: the start command failed before it was ready: it exited with 9") and "no such thing" in failed


@pytest.mark.method("E2B JS 2.51", "Template.pipInstall", "Template.npmInstall", "Template.bunInstall", "Template.aptInstall", "Template.gitClone",
                    differs="They are commands in a build, whose network is closed unless the setting e2b_network opens it.")
def test_what_templates_install_is_commands(step):
    as_root, as_user = step("template helpers")
    assert as_root == "root: pip install polars\nroot: apt-get update\nroot: apt-get install -y vim curl\n"
    assert as_user == "user: pip install --user rich\nuser: npm install express\nuser: bun install zod\nuser: git clone https://git.example/x.git /srv/x\n"


@pytest.mark.method("E2B JS 2.51", "Template.fromBaseImage", "Template.toJSON", "Template.toDockerfile", "Secret.fill", "Secret.iamToken")
def test_what_is_only_written_down(step):
    template, dockerfile, secret, audience = step("template texts")
    assert template["fromImage"] == "e2bdev/base" and [one["type"] for one in template["steps"]] == ["WORKDIR", "RUN"]
    assert "WORKDIR /srv" in dockerfile and (secret, audience) == ("${e2b.secrets.name}", "somebody")


@pytest.mark.method("E2B JS 2.51", "Template.fromImage", "Template.fromPythonImage", "Template.fromNodeImage", "Template.fromBunImage", "Template.fromDebianImage", "Template.fromUbuntuImage",
                    "Template.fromAlpineImage", "Template.fromFedoraImage", "Template.fromArchImage", "Template.fromDockerfile", "Template.fromAWSRegistry",
                    "Template.fromGCPRegistry", differs="Images of registries are not fetched: a template begins with another one.")
def test_images_of_registries_are_refused(step):
    refused = step("images refused")
    assert len(refused) == 12 and all(text.startswith("BuildError: ") and "images of registries are not fetched here" in text for text in refused), refused


@pytest.mark.method("E2B JS 2.51", "Template.addMcpServer", "Template.betaDevContainerPrebuild",
                    "Template.betaSetDevContainerStart", "Volume.create", "Volume.list", "Volume.destroy", "Volume.getInfo", "Volume.connect", "Volume.exists", "Volume.makeDir",
                    "Volume.readFile", "Volume.writeFile", "Volume.remove", "Volume.updateMetadata", "Secret.create", "Secret.exists", "Secret.update", "Secret.getInfo", "Secret.destroy",
                    "Secret.list", "Sandbox.getMcpUrl", "Sandbox.getMcpToken", differs="There is nothing like it here: refused with a sentence.")
def test_what_there_is_not_is_refused(step):
    gateway, *containers = step("templates that are not here")
    assert "mcp-gateway" in gateway and all("devcontainer" in text for text in containers)
    refused = step("volumes and secrets")
    assert all("VolumeError: " in text and "no volumes here yet" in text for text in [*refused[:5], *step("content of volumes")]), refused
    assert all("SecretError: " in text and "no secrets are kept here yet" in text for text in refused[5:]), refused
    is_url, token, gateway = step("mcp")
    assert is_url and token.startswith("FileNotFoundError: ") and "MCP gateway" in gateway


def test_errors_have_their_classes(step):
    *gone, killed, unknown, stranger = step("missing")
    assert all(text.startswith("SandboxNotFoundError: ") for text in gone), gone
    assert killed is False and "no template" in unknown and stranger.startswith("AuthenticationError: ")


OLD = """
import time
from e2b import Sandbox, NotFoundException
box = Sandbox.create("minimal", timeout=600, metadata={"a": "b"})
assert box.commands.run("echo hi").stdout == "hi\\n" and box.is_running()
box.files.write("/tmp/kept", "still here")
box.beta_pause() if hasattr(box, "beta_pause") else box.pause()
assert box.get_info().state.value == "paused" and not box.is_running()
again = Sandbox.connect(box.sandbox_id, timeout=100)
assert again.files.read("/tmp/kept") == "still here" and again.get_info().metadata == {"a": "b"}
assert box.sandbox_id in [one.sandbox_id for one in Sandbox.list().next_items()]
again.set_timeout(50)
snapshot = again.create_snapshot()
with Sandbox.create(snapshot.snapshot_id, timeout=60) as made:
    assert made.files.read("/tmp/kept") == "still here"
assert Sandbox.delete_snapshot(snapshot.snapshot_id) and again.kill() and not again.kill()
try:
    again.get_info()
except NotFoundException:
    print("all of it")
"""


def test_the_version_that_other_sdks_pin(python_packages, environment):
    done = subprocess.run([sys.executable, "-c", OLD], capture_output=True, text=True, timeout=slow(60), env={**environment, "PYTHONPATH": str(python_packages("e2b==2.31.0"))})
    assert (done.returncode, done.stdout) == (0, "all of it\n"), done.stderr
