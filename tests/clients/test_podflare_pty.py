# SPDX-License-Identifier: Apache-2.0
"""Terminals of the PyPI package podflare 0.0.22, unmodified: they outlive whoever looks at them."""

import base64
import importlib
import re
import sys
import threading
import time

import pytest

from tools import records, wait_until
from vial import slow

covers = pytest.mark.method


@pytest.fixture(scope="module")
def podflare(python_packages):
    sys.path.insert(0, str(python_packages("podflare==0.0.22")))
    module = importlib.import_module("podflare")
    yield module
    sys.path.pop(0)


@pytest.fixture(scope="module")
def transport(podflare, daemon):
    client = podflare.Client(host=daemon.url + "/podflare", api_key=daemon.key, timeout=slow(30))
    yield client
    client.close()


@pytest.fixture(scope="module")
def box(podflare, transport):
    with podflare.Sandbox(client=transport) as sandbox:
        yield sandbox


class Screen:
    """What a terminal showed, from the thread that the package reads it in."""

    def __init__(self):
        self.shown, self.changed, self.exits = b"", threading.Condition(), []

    def take(self, data):
        with self.changed:
            self.shown += data
            self.changed.notify_all()

    def expect(self, pattern):
        """Waits until it shows that, and forgets it up to there."""
        deadline = time.monotonic() + slow(30)
        with self.changed:
            while not (found := re.search(pattern.encode(), self.shown)):
                left = deadline - time.monotonic()
                assert left > 0 and self.changed.wait(left), f"{pattern} is not in {self.shown!r}"
            self.shown = self.shown[found.end():]
            return found


def open_terminal(box, cmd="bash --norc", **fields):
    screen = Screen()
    return box.pty.create(cmd=cmd, on_data=screen.take, on_exit=screen.exits.append, **fields), screen


@covers("Podflare Python 0.0.22", "pty.create", "PtyHandle.send_input", "PtyHandle.wait", "Client.pty_create_stream", "Client.pty_input")
def test_what_is_typed_is_run_at_a_terminal(box):
    pty, screen = open_terminal(box, cols=91, rows=17, env={"COLOUR": "blau \U0001f600"}, cwd="/tmp")
    pty.send_input("test -t 0 && echo termi''nal; stty size; echo $COLOUR; pwd; id -un; printf '\\033[1m\\xff\\n'\n")
    for seen in ("terminal", "17 91", "blau \U0001f600", "/tmp", "root", r"\x1b\[1m"):
        screen.expect(seen)
    screen.expect("")
    pty.send_input(b"sleep 100\n")
    time.sleep(0.5)
    pty.send_input(b"\x03")
    pty.send_input("exit 5\n")
    assert pty.wait(slow(20)) == 5 and screen.exits == [5]


@covers("Podflare Python 0.0.22", "pty.create")
def test_a_list_is_a_program_and_its_words(box):
    pty, screen = open_terminal(box, ["printf", "%s|", "a b", "$HOME"])
    screen.expect(r"a b\|\$HOME\|")
    assert pty.wait(slow(20)) == 0
    with pytest.raises(RuntimeError, match="no-such-program"):
        box.pty.create(cmd=["/no-such-program"])
    with pytest.raises(RuntimeError, match="no-such-folder"):
        box.pty.create(cmd="true", cwd="/no-such-folder")
    with pytest.raises(ValueError):
        box.pty.create(cmd=[])


@covers("Podflare Python 0.0.22", "PtyHandle.resize", "Client.pty_resize")
def test_a_window_that_changes_is_told_to_the_program(podflare, transport, box):
    pty, screen = open_terminal(box, "trap 'stty size; exit 0' WINCH; echo re''ady; while :; do sleep 0.1; done")
    screen.expect("ready")
    pty.resize(cols=123, rows=45)
    screen.expect("45 123")
    assert pty.wait(slow(20)) == 0
    httpx = sys.modules["httpx"]
    pty, screen = open_terminal(box)
    for rows, cols in ((0, 10), (10, 5000)):
        with pytest.raises(httpx.HTTPStatusError) as refused:
            transport.pty_resize(box.id, pty.id, cols, rows)
        assert refused.value.response.status_code == 400
    pty.kill()


@covers("Podflare Python 0.0.22", "PtyHandle.kill", "Client.pty_kill")
def test_killing_takes_everything_on_it_along(box):
    pty, screen = open_terminal(box)
    pty.send_input("set -m; sleep 4711 & sleep 4712\n")
    wait_until(lambda: len(box.run_code("pgrep -f 'sleep 471[12]'", language="bash").stdout.split()) == 2)
    pty.kill()
    assert pty.wait(slow(20)) == 137
    wait_until(lambda: box.run_code("pgrep -f 'sleep 471[12]'", language="bash").exit_code == 1)


@covers("Podflare Python 0.0.22", "pty.attach", "pty.list", "PtyHandle.close", "Client.pty_attach_stream", "Client.pty_list")
def test_it_goes_on_without_a_client_and_takes_him_back(podflare, daemon, transport, box):
    """The first client's connection ends as when its process does; the second is another process to the server."""
    first = podflare.Client(host=daemon.url + "/podflare", api_key=daemon.key, timeout=slow(30))
    events = first.pty_create_stream(box.id, {"shellCmd": "echo early; read line; echo got $line; sleep 0.5; echo late; read end; exit 9", "cols": 80, "rows": 24})
    ready = next(events)
    assert ready["type"] == "pty_ready"
    while b"early" not in base64.b64decode(next(events).get("data_b64", "")):
        pass
    events.close()
    first.close()
    before = [one for one in box.pty.list() if one.pty_id == ready["session_id"]]
    assert before[0].cmd_label.startswith("echo early") and before[0].exit_code is None and abs(before[0].created_at_ms / 1000 - time.time()) < slow(60)
    screens = [Screen(), Screen()]
    one, two = [box.pty.attach(ready["session_id"], on_data=screen.take, on_exit=screen.exits.append) for screen in screens]
    for screen in screens:
        screen.expect("early")
    one.send_input("hello\n")
    for screen in screens:
        screen.expect("got hello")
        screen.expect("late")
    one.close()
    two.send_input("\n")
    assert one.wait(slow(20)) == two.wait(slow(20)) == 9
    assert screens[0].exits == [] and screens[1].exits == [9], "who closed hears no more"
    assert ready["session_id"] not in [one.pty_id for one in box.pty.list()]
    # What has ended can be read for a while.
    again = list(transport.pty_attach_stream(box.id, ready["session_id"]))
    assert again[-1] == {"type": "pty_exit", "data": 9} and b"late" in b"".join(base64.b64decode(event.get("data_b64", "")) for event in again)


@covers("Podflare Python 0.0.22", "pty.create")
def test_one_in_no_sandbox_is_refused(podflare, transport, monkeypatch):
    """The status is what the package's thread ends with; its caller only hears that nothing came."""
    ends = []
    monkeypatch.setattr(threading, "excepthook", lambda how: ends.append(how.exc_value))
    with pytest.raises(RuntimeError, match="pty_ready"):
        podflare.PtyNamespace(podflare.Sandbox._from_id("a" * 20, transport)).create(cmd="true")
    for thread in threading.enumerate():
        if thread.name == "podflare-pty-consumer":
            thread.join(slow(5))
    assert [end.response.status_code for end in ends] == [404]


def test_input_that_is_no_base64_is_refused_and_not_typed(daemon, box):
    pty, screen = open_terminal(box, cmd="cat")
    path = f"/podflare/v1/sandboxes/{box.id}/pty/{pty.id}/input"
    for text in ("not base64!", "YQ", "Y==="):
        answer = daemon.client().ask("POST", path, {"data_b64": text})
        assert answer.status == 400 and "Base64" in answer.json()["error"], answer.body
    pty.send_input("typed\n")
    assert screen.expect("typed").start() == 0
    pty.kill()


@covers("Podflare Python 0.0.22", "Client.pty_read", differs="`seq` is the number of the next byte, to be given as `since_seq`; the original's form is not known.")
def test_it_can_be_read_piece_by_piece(transport, box):
    pty, screen = open_terminal(box, "stty -echo; echo ready; while read n; do seq -s, $n; done; exit 3")
    screen.expect("ready")
    first = transport.pty_read(box.id, pty.id, 0)
    assert base64.b64decode(first["data_b64"]) == b"ready\r\n" and first["seq"] == 7 and first["exit_code"] is None
    started = time.monotonic()
    silent = transport.pty_read(box.id, pty.id, first["seq"], timeout_ms=700)
    assert (silent["data_b64"], silent["seq"]) == ("", 7) and time.monotonic() - started >= 0.6
    threading.Timer(0.5, lambda: pty.send_input("5\n")).start()
    waited = transport.pty_read(box.id, pty.id, 7, timeout_ms=20_000)
    assert base64.b64decode(waited["data_b64"]) == b"1,2,3,4,5\r\n" and waited["seq"] == 7 + 11
    parts = [transport.pty_read(box.id, pty.id, since, max_bytes=4) for since in (7, 11, 15)]
    assert b"".join(base64.b64decode(part["data_b64"]) for part in parts) == b"1,2,3,4,5\r\n"
    # Beyond the MiB that is kept, what is left comes, and the number says so.
    pty.send_input("400000\n")
    screen.expect(r",400000\r\n")
    late = transport.pty_read(box.id, pty.id, 0, max_bytes=1024 * 1024)
    kept = base64.b64decode(late["data_b64"])
    assert 900_000 < len(kept) <= 1024 * 1024 and kept.endswith(b",400000\r\n") and late["seq"] > len(kept)
    pty.send_input(b"\x04")
    assert pty.wait(slow(20)) == 3
    assert transport.pty_read(box.id, pty.id, late["seq"], timeout_ms=20_000)["exit_code"] == 3


def test_a_terminal_sleeps_and_forks_with_its_sandbox(podflare, transport, client):
    with podflare.Sandbox(client=transport) as sandbox:
        events = transport.pty_create_stream(sandbox.id, {"argv": ["bash", "--norc"], "cols": 80, "rows": 24})
        name = next(events)["session_id"]
        transport.pty_input(sandbox.id, name, b"secret=xy''z\n")
        while b"secret" not in base64.b64decode(next(events).get("data_b64", "")):
            pass
        events.close()
        client.call("POST", f"/v1/sandboxes/{sandbox.id}/hibernate")
        child, = sandbox.fork(1)
        for where in (sandbox, child):
            screen = Screen()
            pty = where.pty.attach(name, on_data=screen.take)
            pty.send_input("echo it is $secret\n")
            screen.expect("it is xyz")
            pty.kill()
        child.close()


def test_what_was_typed_is_on_record(podflare, transport, client):
    with podflare.Sandbox(client=transport) as sandbox:
        pty, screen = open_terminal(sandbox, "read line; echo got $line")
        pty.send_input("quelque ch\u00f6se\n")
        screen.expect("got")
        pty.wait(slow(20))
        kinds = [(record["action"], record["surface"]) for record in records(client, sandbox=sandbox.id) if record["action"] != "sandbox.create"]
        assert ("process.input", "podflare") in kinds and ("pty", "podflare") in kinds
        typed, = [record for record in records(client, sandbox=sandbox.id) if record["action"] == "process.input"]
        assert typed["body"]["input"]["text"] == "quelque ch\u00f6se\n"
