# SPDX-License-Identifier: Apache-2.0
"""vial agent: against a viald of the tests' own."""

import json
import os
import re
import shutil
import signal
import sys
import tempfile

import pytest
from conftest import ROOT, Server, make_vial

sys.path.insert(0, str(ROOT / "tests" / "api"))

from tools import engine_processes, wait_until  # noqa: E402
from vial import Daemon, Sandbox  # noqa: E402


@pytest.fixture(scope="module")
def daemon():
    folder = tempfile.mkdtemp(prefix="cli-")
    daemon = Daemon(folder)
    yield daemon
    daemon.stop()
    shutil.rmtree(folder)


@pytest.fixture
def vial(daemon, tmp_path):
    yield from make_vial(Server(daemon.url, daemon.key), tmp_path)


@pytest.fixture
def analyst(vial):
    vial("agent", "create", "analyst", "--template", "minimal")
    yield "analyst"
    vial("agent", "rm", "--force", "analyst")


def test_an_agent_is_made_with_its_first_version_shown_and_removed(vial):
    done = vial("agent", "create", "first", "-t", "minimal", "--memory", "512M", "--allow", "example.org", "--idle", "10m", "--lang", "bash", "--env", "A=1",
                "--description", "a test", "--metadata", "team=x", "--prompt-ref", "prompts/1")
    assert done.stdout == "first\n" and done.stderr == ""
    assert re.search(r"^description +a test$", vial("agent", "show", "first").stdout, re.M)
    version = vial.json("agent", "show", "first", "1")
    assert (version["memory_mb"], version["idle_seconds"], version["languages"], version["env"], version["metadata"], version["prompt_ref"]) == (
        512, 600, ["bash"], {"A": "1"}, {"team": "x"}, "prompts/1")
    assert version["network"]["mode"] == "filtered" and version["network"]["allow_out"] == ["example.org"]
    assert vial("agent", "ls", "--quiet").stdout == "first\n" and "a test" in vial("agent", "ls").stdout
    assert vial("agent", "rm", "first").stdout == "first\n"
    assert vial("agent", "rm", "first", check=False).returncode == 1 and vial("agent", "rm", "-f", "first").returncode == 0


def test_a_first_version_that_cannot_be_leaves_no_agent(vial):
    done = vial("agent", "create", "never", "--tier", "9x9", check=False)
    assert done.returncode == 1 and "tier" in done.stderr and vial("agent", "ls", "-q").stdout == ""


def test_code_runs_in_the_session_that_is_named_and_finds_its_variables(vial, analyst):
    assert vial("agent", "run", analyst, "--session", "s1", "x = 6 * 7").returncode == 0
    assert vial("agent", "run", analyst, "--session", "s1", "x").stdout == "42\n"
    other = vial("agent", "run", analyst, "--session", "s2", "x", check=False)
    assert other.returncode == 1 and "NameError" in other.stderr
    assert vial("agent", "run", analyst, "-s", "s1", "-", input="x + 1").stdout == "43\n"
    answer = vial.json("agent", "run", analyst, "-s", "s1", "-u", "ann", "-l", "bash", "echo hi")
    assert answer["stdout"] == "hi\n" and answer["session"]["user"] == "ann" and answer["session"]["fresh"] is True


def test_what_a_run_made_is_saved(vial, analyst, tmp_path):
    vial("agent", "run", analyst, "--out", str(tmp_path / "out"), "open('/workspace/made.txt', 'w').write('by the run')")
    assert (tmp_path / "out" / "made.txt").read_text() == "by the run"


def test_commands_end_with_their_own_status(vial, analyst):
    assert vial("agent", "exec", analyst, "echo a b | wc -w").stdout.strip() == "2"
    assert vial("agent", "exec", analyst, "--", "sh", "-c", "exit 7", check=False).returncode == 7
    assert vial("agent", "exec", analyst, "--timeout", "1", "--", "sleep", "60", check=False).returncode == 124
    assert vial("agent", "exec", analyst, "--run-as", "root", "--", "id", "-un").stdout == "root\n"
    assert vial("agent", "exec", "nobody", "--", "true", check=False).returncode == 125


def test_a_command_that_wants_more_memory_than_there_is_says_why_it_was_ended(vial):
    vial("agent", "create", "small", "-t", "minimal", "--memory", "512M")
    done = vial("agent", "exec", "small", "--", "python3", "-c", "b'x' * (1 << 30)", check=False)
    vial("agent", "rm", "--force", "small")
    assert done.returncode == 137 and "more memory than the sandbox has" in done.stderr


def test_versions_are_made_activated_and_retired(vial, analyst, tmp_path):
    (tmp_path / "notes").write_bytes(b"\x00\xff")
    assert vial("agent", "version", analyst, "-t", "minimal", "--file", f"{tmp_path}/notes:/workspace/notes", "--never-expire").stdout == "2\n"
    vial("agent", "exec", analyst, "-s", "old", "--", "true")
    vial("agent", "activate", analyst, "2")
    assert vial("agent", "exec", analyst, "od -An -tx1 /workspace/notes").stdout.split() == ["00", "ff"]
    assert "drains" in vial("agent", "retire", analyst, "1").stderr
    assert [line.split()[:2] for line in vial("agent", "versions", analyst).stdout.splitlines()[1:]] == [["2", "active"], ["1", "draining"]]
    assert "retired" in vial("agent", "exec", analyst, "-s", "new", "--version", "1", "--", "true", check=False).stderr
    assert vial("agent", "exec", analyst, "-s", "old", "--version", "1", "--", "true").returncode == 0


def test_sessions_are_listed_ended_and_forgotten(vial, analyst):
    for name, user in (("a", "ann"), ("b", "ann"), ("c", "bob")):
        vial("agent", "exec", analyst, "-s", name, "-u", user, "--", "true")
    assert vial("agent", "sessions", analyst, "-q").stdout.split() == ["c", "b", "a"]
    assert [one["user"] for one in json.loads(vial("--json", "agent", "sessions", analyst, "--user", "ann").stdout)] == ["ann", "ann"]
    assert "running" in vial("agent", "sessions", analyst).stdout
    assert vial("agent", "end", analyst, "a", "--user", "ann").stdout == "a\n"
    assert vial("agent", "end", analyst, "a", "--user", "ann", check=False).returncode == 1
    box = vial.json("agent", "sessions", analyst, "--user", "ann")[0]["sandbox_id"]
    vial("snapshot", box)
    vial("fork", box)
    assert "1 sessions were ended, and 1 other sandboxes and 1 snapshots" in vial("agent", "forget", "ann").stderr
    assert "1 sessions" in vial("agent", "forget", "bob", "--agent", analyst).stderr
    assert vial("agent", "sessions", analyst, "-q").stdout == ""


def test_sessions_of_one_name_that_several_users_and_versions_have_are_all_listed(vial, analyst):
    vial("agent", "version", analyst, "-t", "minimal")
    calls = [("1", "ann"), ("1", "bob"), ("2", "ann")]
    for version, user in calls:
        vial("agent", "exec", analyst, "-s", "same", "-u", user, "--version", version, "--", "true")
    assert [(str(one["version"]), one["user"]) for one in vial.json("agent", "sessions", analyst)] == calls[::-1]
    assert vial("agent", "sessions", analyst).stdout.count("same") == 3
    assert vial("agent", "sessions", analyst, "-q").stdout == "same\n"


def test_a_session_that_lost_its_sandbox_says_so(vial, analyst, daemon):
    vial("agent", "exec", analyst, "-s", "s", "--", "true")
    box = vial.json("agent", "sessions", analyst)[0]["sandbox_id"]
    for process in engine_processes(daemon, Sandbox(daemon.client(), {"id": box})):
        os.kill(process, signal.SIGKILL)
    wait_until(lambda: vial.json("agent", "sessions", analyst)[0]["state"] == "failed")
    assert "lost" in vial("agent", "exec", analyst, "-s", "s", "--", "true").stderr


@pytest.mark.parametrize("option, field", [("--cpu", "cpu"), ("--memory", "memory_mb"), ("--idle", "idle_seconds")])
def test_a_version_with_nothing_of_something_is_refused_and_not_made_with_the_usual(vial, analyst, option, field):
    done = vial("agent", "version", analyst, "-t", "minimal", option, "0", check=False)
    assert done.returncode == 1 and field in done.stderr and len(vial.json("agent", "versions", analyst)) == 1


@pytest.mark.parametrize("option, field", [("--cpu", "cpu"), ("--memory", "memory_mb")])
def test_so_is_a_sandbox(vial, option, field):
    done = vial("create", "-t", "minimal", option, "0", check=False)
    assert done.returncode == 1 and field in done.stderr and done.stdout == ""


@pytest.mark.parametrize("arguments", [("create",), ("run", "x"), ("activate", "x"), ("version", "x", "--file", "nothing"), ("version", "x", "--env", "A")])
def test_wrong_usage_ends_with_2_and_one_sentence(vial, arguments):
    done = vial("agent", *arguments, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
