# SPDX-License-Identifier: Apache-2.0
"""The npm package @pandastack/sdk 0.9.0, unmodified, against viald: each of its methods. It does not say who it is, so it is known by its key: a token of the form pds_."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tools import records, slow

covers = pytest.mark.method


def run_script(name, daemon, key, package, folder):
    done = subprocess.run(["node", Path(__file__).with_name(name), package, folder], capture_output=True, text=True,
                          timeout=slow(240), env={**os.environ, "PANDASTACK_API": daemon.url, "PANDASTACK_API_KEY": key})
    assert done.returncode == 0, done.stderr
    return {line["step"]: line for line in map(json.loads, done.stdout.rstrip("\n").split("\n"))}


@pytest.fixture(scope="module")
def steps(daemon, npm_package, tmp_path_factory):
    package = npm_package("@pandastack/sdk", "0.9.0")
    key = daemon.client().call("POST", "/v1/me/tokens", {"label": "sdk"})["token"]
    return {name: value for script in ("pandastack.mjs", "pandastack_project.mjs")
            for name, value in run_script(script, daemon, key, package, tmp_path_factory.mktemp("js")).items()}


@pytest.fixture
def step(steps):
    def value(name):
        assert "failed" not in steps[name], steps[name]["failed"]
        return steps[name].get("value")
    return value


@covers("PandaStack JS 0.9", "client.me", "templates.list")
def test_it_knows_who_it_is_and_what_there_is(step):
    assert step("me")["project"] == "default"
    assert "minimal" in step("templates")


@covers("PandaStack JS 0.9", "Sandbox.create", "Sandbox.list", "Sandbox.get")
def test_it_creates_and_lists_and_gets(step):
    created = step("create")
    assert created["status"] == "running" and created["template"] == "minimal"
    assert created["id"] in step("list")
    assert step("get") == {"owner": "sdk"}


@covers("PandaStack JS 0.9", "Sandbox.exec", "commands.run")
def test_it_runs_commands(step):
    result = step("exec")
    assert (result["stdout"], result["stderr"], result["exit_code"], result["exitCode"]) == ("out\n", "err\n", 3, 3)
    assert step("exec check") == [True, 7]
    assert step("commands.run") == "commands\n"
    outcome, duration_ms = step("exec timeout")
    assert outcome == "SandboxTimeout" and duration_ms < slow(20) * 1000


@covers("PandaStack JS 0.9", "Sandbox.execStream")
def test_it_streams(step):
    assert step("stream") == {"stdout": "1\n2\n3\n", "stderr": "problem\n", "code": 4}


@covers("PandaStack JS 0.9", "filesystem.write", "filesystem.read", "filesystem.upload", "filesystem.download", "filesystem.list", "filesystem.stat",
        "filesystem.exists", "filesystem.walk")
def test_it_writes_and_reads_files(step):
    assert step("write") == {"path": "/workspace/dir/übung.txt", "bytes": len("grüße\n".encode())}
    assert step("read") == "grüße\n"
    assert step("binary") == [True, "grüße\n"]
    assert step("files") == {"list": [["übung.txt", False, 8]], "stat": True, "exists": [True, False]}
    assert ["/workspace/dir", 1] in step("walk")


@covers("PandaStack JS 0.9", "Sandbox.runCode", "Sandbox.createCodeContext", "CodeContext.runCode", "CodeContext.close")
def test_it_runs_code(step):
    assert step("runCode") == "42\n" and step("runCode shell") == "42\n"
    context = step("context")
    assert context["language"] == "python" and context["stdout"] == "hello\n" and context["text"] == "42" and context["late"] == "41"
    assert context["results"][-1]["data"]["text/plain"] == "42"
    assert "ZeroDivisionError" in context["error"] and context["code"] == 1


@covers("PandaStack JS 0.9", "CodeContext.runCode")
def test_rich_results_come_through(step):
    assert step("picture") == {"png": "iVBORw0K", "chart": "iVBORw0K"}
    assert step("rich") == {"html": "<b>x</b>", "markdown": "**x**"}


@covers("PandaStack JS 0.9", "Sandbox.logs", "Sandbox.lifecycle", "Sandbox.setTtl", "Sandbox.setPersistent")
def test_logs_and_lifecycle(step):
    assert step("logs") is True
    shown, changed, *persistent = step("lifecycle")
    assert shown["ttl_seconds"] == 600 and changed["ttl_seconds"] == 1200 and persistent == [True, False]


@covers("PandaStack JS 0.9", "Sandbox.pause", "Sandbox.resume", "Sandbox.hibernate", "Sandbox.wake")
def test_pause_hibernate_and_wake(step):
    assert step("pause and resume") == ["paused", "awake\n"]
    assert step("hibernate and wake") == ["hibernated", "running", "grüße\n"]


@covers("PandaStack JS 0.9", "Sandbox.snapshot", "Sandbox.fork", "Sandbox.forkTree", "Sandbox.promote", "snapshots.list", "snapshots.delete")
def test_snapshots_and_forks(step):
    assert step("snapshot") == [True, "grüße\n", True]
    assert step("fork") == [True, False, "child"]
    count, is_winner, deleted, winner_lives, sibling_lives, sibling = step("forkTree and promote")
    assert (count, is_winner, winner_lives, sibling_lives) == (2, True, True, False) and sibling in deleted


@covers("PandaStack JS 0.9", "Sandbox.explore")
def test_explore_keeps_the_best(step):
    assert step("explore") == ["9\n", 2, 1, []]


@covers("PandaStack JS 0.9", "Sandbox.kill", "Sandbox.previewUrls")
def test_errors_are_told_apart_and_the_end_is_the_end(step):
    assert step("ports") == {}
    assert step("errors") == [True, True]
    assert step("kill") is False


@covers("PandaStack JS 0.9", "sandboxes.create", "sandboxes.get", "sandboxes.list", "sandboxes.delete", "Sandbox.fromInfo", "client.request")
def test_the_same_through_the_client(step):
    metadata, is_listed, is_persistent, gone, again = step("sandboxes")
    assert (metadata, is_listed, is_persistent, gone[0], again) == ({"a": "ä"}, True, True, "NotFoundError", "again\n")
    assert step("request")["ttl_seconds"] > 0


@covers("PandaStack JS 0.9", "Sandbox.exec", "Sandbox.execStream", "CodeContext.runCode", "CodeContext.close", "filesystem.write", "filesystem.read")
def test_no_character_is_lost_and_what_is_none_breaks_nothing(step):
    seen = step("strange")
    assert all(seen[way] for way in ("exec", "streamed", "run", "file")), seen
    assert seen["half"] == r"'\ud800'" and seen["closed"] == "NotFoundError"
    assert seen["broken"][0] + seen["broken"][-1] == "ab" and set(seen["broken"][1:-1]) == {"\ufffd"}
    assert seen["surrogate"][0] == "BadRequestError"
    assert json.loads(step("json result")) == {"a": [1, None, "ü"]}


@covers("PandaStack JS 0.9", "Sandbox.logs")
def test_logs_can_be_followed(step):
    assert step("logs follow") == [["first", "später \u2028 x"], ["problem"], True]


@covers("PandaStack JS 0.9", "Sandbox.previewUrl", "Sandbox.previewUrls",
        differs="A preview needs the key (or an address with a token): the hosted one is open to whoever knows it. With plain HTTP, set "
                "`client.previewHost = \"localhost:7070\"` and give `\"http\"`.")
def test_the_address_of_a_preview_leads_to_the_program(step):
    assert step("preview") == [True, True, "hello preview\n"]


@covers("PandaStack JS 0.9", "snapshots.get", "snapshots.list", "snapshots.delete")
def test_snapshots_through_the_client(step):
    assert step("snapshots") == [True, True, True, True, "NotFoundError"]


@covers("PandaStack JS 0.9", "tokens.create", "tokens.list", "tokens.revoke")
def test_tokens_are_keys(step):
    assert step("tokens") == [True, "default", "ci für alle", None, "AuthError"]


@covers("PandaStack JS 0.9", "volumes.create", "volumes.list", "volumes.get", "volumes.delete", differs="Volumes are not offered yet: refused with a sentence.")
@covers("PandaStack JS 0.9", "Sandbox.create", "sandboxes.create", differs="Volumes are not offered yet: a create that names one is refused with a sentence.")
def test_volumes_are_refused_with_a_sentence(step):
    assert [(error, "no volumes here yet" in sentence) for error, sentence, _ in step("volumes")] == [("BadRequestError", True)] * 5


@covers("PandaStack JS 0.9", "templates.buildFromDockerfile",
        differs="FROM names a template that is here (`GET /v1/templates`): nothing is fetched from registries. Of a Dockerfile there are FROM (once, first), RUN, COPY of the "
                "context's files, ENV, ARG and WORKDIR; anything else is refused by its line.")
@covers("PandaStack JS 0.9", "templates.register", differs="imageRef names a template that is here (`GET /v1/templates`): nothing is fetched from registries.")
@covers("PandaStack JS 0.9", "templates.waitForBuild", "templates.buildStatus", "templates.builds", "templates.buildLogs", "templates.get", "templates.delete")
def test_templates_are_built(step):
    build = step("build")
    lines = build.pop("lines")
    assert build == {"name": "js-made", "status": "done", "size_mb": 512, "listed": True, "before": True, "base": "minimal", "file": "made ü\n", "gone": "NotFoundError"}
    at = lines.index("Grüße  \U0001f600  Ångström 日本")
    assert [line.strip("\u200b") for line in lines[at + 1:at + 3]] == ["end", "last"]
    status, refusal = step("register")
    assert status == "done" and refusal[0] == "BadRequestError" and "images are not fetched" in refusal[1]


@covers("PandaStack JS 0.9", "templates.buildFromDockerfile")
def test_templates_are_built_of_the_files_of_a_context(step):
    made = step("build with context")
    assert made.pop("listed").splitlines() == [
        "./Grüße/日本 \U0001f600.txt", "./blob", "./empty", "./run.sh", "./src/deep/main.py", "755", "644", "./blob", "./here/main.py", "./here/run.sh", "./ran", "ran", "600 300001"]
    refusals = {name: made.pop(name) for name in ("missing", "outside", "none", "from")}
    assert made == {"same": True, "text": "ü", "cached": [True, False]}
    assert {name: (error, status) for name, (error, _, status) in refusals.items()} == {
        "missing": ("TemplateBuildError", None), "outside": ("BadRequestError", 400), "none": ("BadRequestError", 400), "from": ("BadRequestError", 400)}
    sentences = {"missing": "nothing in the archive is called src/deep", "outside": "called by its path in there", "none": "line 3: COPY is not supported",
                 "from": "line 2: COPY --from is not supported"}
    assert all(sentence in refusals[name][1] for name, sentence in sentences.items()), refusals


@covers("PandaStack JS 0.9", "templates.build", differs="Refused with a sentence: a root file system cannot be brought along; a Dockerfile can (`buildFromDockerfile`).")
def test_a_root_file_system_is_refused_with_a_sentence(step):
    error, sentence, status = step("rootfs")
    assert (error, status) == ("BadRequestError", 400) and "cannot be brought along" in sentence


@covers("PandaStack JS 0.9", "Sandbox.execStream", "Sandbox.exec", "CodeContext.runCode", "Sandbox.explore", "templates.waitForBuild")
def test_every_exception_has_its_cause(step):
    for wanted, (error, sentence, _) in step("every error").items():
        assert error == wanted.split()[0] and sentence, (wanted, error, sentence)


def test_the_record_says_pandastack(steps, daemon):
    """By its key: it sends no name of its own."""
    assert {one["surface"] for one in records(daemon.client(), action="exec")} == {"pandastack"}
