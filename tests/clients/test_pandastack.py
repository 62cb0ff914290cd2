# SPDX-License-Identifier: Apache-2.0
"""The npm package @pandastack/sdk 0.9.0, unmodified, against viald."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tools import slow


@pytest.fixture(scope="module")
def steps(daemon, npm_package, tmp_path_factory):
    package = npm_package("@pandastack/sdk", "0.9.0")
    done = subprocess.run(["node", Path(__file__).with_name("pandastack.mjs"), package, tmp_path_factory.mktemp("js")], capture_output=True, text=True,
                          timeout=slow(240), env={**os.environ, "PANDASTACK_API": daemon.url, "PANDASTACK_API_KEY": daemon.key})
    assert done.returncode == 0, done.stderr
    return {line["step"]: line for line in map(json.loads, done.stdout.splitlines())}


@pytest.fixture
def step(steps):
    def value(name):
        assert "failed" not in steps[name], steps[name]["failed"]
        return steps[name].get("value")
    return value


def test_it_knows_who_it_is_and_what_there_is(step):
    assert step("me")["project"] == "default"
    assert "minimal" in step("templates")


def test_it_creates_and_lists_and_gets(step):
    created = step("create")
    assert created["status"] == "running" and created["template"] == "minimal"
    assert created["id"] in step("list")
    assert step("get") == {"owner": "sdk"}


def test_it_runs_commands(step):
    result = step("exec")
    assert (result["stdout"], result["stderr"], result["exit_code"], result["exitCode"]) == ("out\n", "err\n", 3, 3)
    assert step("exec check") == [True, 7]
    assert step("commands.run") == "commands\n"
    outcome, duration_ms = step("exec timeout")
    assert (outcome != 0) and duration_ms < slow(20) * 1000


def test_it_streams(step):
    assert step("stream") == {"stdout": "1\n2\n3\n", "stderr": "problem\n", "code": 4}


def test_it_writes_and_reads_files(step):
    assert step("write") == {"path": "/workspace/dir/übung.txt", "bytes": len("grüße\n".encode())}
    assert step("read") == "grüße\n"
    assert step("binary") == [True, "grüße\n"]
    assert step("files") == {"list": [["übung.txt", False, 8]], "stat": True, "exists": [True, False]}
    assert ["/workspace/dir", 1] in step("walk")


def test_it_runs_code(step):
    assert step("runCode") == "42\n" and step("runCode shell") == "42\n"
    context = step("context")
    assert context["language"] == "python" and context["stdout"] == "hello\n" and context["text"] == "42" and context["late"] == "41"
    assert context["results"][-1]["data"]["text/plain"] == "42"
    assert "ZeroDivisionError" in context["error"] and context["code"] == 1


def test_rich_results_come_through(step):
    assert step("picture") == {"png": "iVBORw0K", "chart": "iVBORw0K"}
    assert step("rich") == {"html": "<b>x</b>", "markdown": "**x**"}


def test_logs_and_lifecycle(step):
    assert step("logs") is True
    shown, changed, *persistent = step("lifecycle")
    assert shown["ttl_seconds"] == 600 and changed["ttl_seconds"] == 1200 and persistent == [True, False]


def test_pause_hibernate_and_wake(step):
    assert step("pause and resume") == ["paused", "awake\n"]
    assert step("hibernate and wake") == ["hibernated", "running", "grüße\n"]


def test_snapshots_and_forks(step):
    assert step("snapshot") == [True, "grüße\n", True]
    assert step("fork") == [True, False, "child"]
    count, is_winner, deleted, winner_lives, sibling_lives, sibling = step("forkTree and promote")
    assert (count, is_winner, winner_lives, sibling_lives) == (2, True, True, False) and sibling in deleted


def test_explore_keeps_the_best(step):
    assert step("explore") == ["9\n", 2, 1, []]


def test_errors_are_told_apart_and_the_end_is_the_end(step):
    assert step("ports") == {}
    assert step("errors") == [True, True]
    assert step("kill") is False
