# SPDX-License-Identifier: Apache-2.0
"""Nothing that a sandbox or a server says drives the terminal: every command on a real one, every word hostile."""

import json
import re

import pytest

from fakeviald import EVIL

# What of EVIL would reach the terminal: OSC, a device query, a reset, and the same in their 8-bit forms.
FORBIDDEN = [b"\x1b]", b"\x1b[6n", b"\x1bc", b"\xc2\x9b", b"\xc2\x9d", b"\x9b6n"]

COMMANDS = [
    "ls", "ls --json", "info {id}", "info {id} --json", "tree", "tree --json", "top --once", "logs {id}", "logs -f {id}", "logs -f {id} --json", "ports {id}",
    "ports {id} --json", "net show {id}", "net show {id} --json", "net set {id} filtered --allow example.com", "net check {id} example.com", "net events {id}",
    "ps {id}", "ps {id} --json", "ps -a {id}", "templates", "templates minimal", "templates -q", "templates --json", "snapshots", "snapshots --json",
    "snapshot {id} --name x", "fork {id}", "pause {id}", "wake {id}", "promote {id}", "rollback {id} x", "merge {id} {id}", "undo {id}", "version", "doctor", "doctor --json", "exec {id} -- echo hello",
    "exec {id} -- no-such-command", "exec --json {id} -- echo hello", "run -s {id} cell.py", "run -s {id} bad.py", "run --json -s {id} cell.py",
    "explore -s {id} true false --keep-all", "cp {id}:nothing .", "cp {id}:evil -", "cp {id}:evil out", "cp {id}:tree out", "kill {id} 999999", "attach {id} 999999",
    "info nosuch", "rm nosuch", "sh nosuch",
    "project ls", "project ls --json", "project ls -q", "project show default", "project set default --max-vcpu 1", "project create another", "project rm -f nosuch",
    "key ls", "key ls --all --json", "key ls -q", "key ls --names", "key show key-1", "key show nosuch", "key show 00000000000000000001", "key create x --role viewer",
    "key rotate 00000000000000000001", "key rotate 00000000000000000001 --json", "key rm 00000000000000000001", "quota default", "quota default --json",
    "quota set default max_vcpu=1", "usage --project default", "usage --all --by day --json", "audit", "audit --json", "audit -q", "audit show 1", "audit show 1 --json",
    "audit show 99", "audit tail", "audit tail --json", "audit verify", "audit export -", "audit export out/e", "audit verify evil --key " + "0" * 64,
]


@pytest.fixture
def evil_sandbox(fake_vial, fake_sandbox, tmp_path, monkeypatch):
    fake = fake_vial.server.fake
    (tmp_path / "cell.py").write_text(f"print({EVIL!r}); {EVIL!r}")
    (tmp_path / "bad.py").write_text(f"raise ValueError({EVIL!r})")
    (tmp_path / "evil").write_text("text " + EVIL + " more\n")
    fake_vial("cp", tmp_path / "evil", f"{fake_sandbox}:evil")
    fake_vial("cp", tmp_path / "evil", f"{fake_sandbox}:tree/{EVIL.replace(chr(0x7f), '')}")
    fake_vial("exec", "--background", fake_sandbox, "--", "sleep", "60")
    fake_vial("snapshot", fake_sandbox, "--name", "one")
    sandbox = fake.sandboxes[fake_sandbox]
    sandbox.info["metadata"] = {"job": "7"}
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    fake.is_evil = True
    yield fake_sandbox
    fake.is_evil = False


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_drives_the_terminal(fake_vial, evil_sandbox, command):
    terminal = fake_vial.terminal(*command.format(id=evil_sandbox).split(), columns=200)
    status = terminal.wait()
    assert status != 2, f"no such usage: {terminal.output!r}"
    found = [bad for bad in FORBIDDEN if bad in terminal.output]
    assert not found, terminal.output


@pytest.mark.parametrize("command", ["exec --raw {id} -- cat evil", "cp --raw {id}:evil -"])
def test_raw_passes_everything(fake_vial, evil_sandbox, command):
    terminal = fake_vial.terminal(*command.format(id=evil_sandbox).split())
    terminal.wait()
    assert b"\x1b]0;pwned\x07\x1b[6n" in terminal.output


def test_a_pipe_gets_the_exact_bytes(fake_vial, fake_sandbox, evil_sandbox, tmp_path):
    assert fake_vial("cp", f"{evil_sandbox}:evil", "-", binary=True).stdout == (tmp_path / "evil").read_bytes()


def test_json_means_the_same_without_controls(fake_vial, evil_sandbox):
    done = fake_vial("info", evil_sandbox, "--json")
    assert json.loads(done.stdout)["metadata"] == {"job" + EVIL: "7" + EVIL}
    assert not re.search("[\x80-\x9f\x00-\x09\x0b-\x1f]", done.stdout)
