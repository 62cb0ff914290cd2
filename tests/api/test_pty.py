# SPDX-License-Identifier: Apache-2.0
"""Terminals over WebSockets: GET …/pty. docs/cli.md has the messages."""

import hashlib
import json
import re
import socket
import time

import pytest

from vial import WebSocketRefused, slow


class Terminal:
    def __init__(self, sandbox, **query):
        self.socket = sandbox.websocket("/pty", **query)
        self.output = b""
        self.last = None
        self.deadline = time.monotonic() + slow(60)

    def type(self, text):
        self.socket.send(text.encode() if isinstance(text, str) else text)

    def control(self, **message):
        self.socket.send(json.dumps(message))

    def take(self):
        """One message; False once the server has closed."""
        assert time.monotonic() < self.deadline, f"it takes too long: {self.output[-1000:]!r}"
        message = self.socket.receive()
        if isinstance(message, bytes):
            self.output += message
        elif message is not None:
            self.last = json.loads(message)
        return message is not None

    def expect(self, pattern):
        """Reads until the output matches, and drops it up to there."""
        while not (match := re.search(pattern.encode(), self.output)):
            assert self.take(), f"closed with {self.last}: {self.output!r}"
        self.output = self.output[match.end():]
        return match

    def end(self):
        while self.take():
            pass
        self.socket.vanish()
        return self.last, self.socket.close_code


def until(condition, seconds=20):
    deadline = time.monotonic() + slow(seconds)
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_without_a_command_a_login_shell_starts(sandbox):
    terminal = Terminal(sandbox)
    terminal.type("shopt -q login_shell && echo login-$((40 + 2)); test -t 0 -a -t 1 && echo termi''nal; whoami; pwd\n")
    terminal.expect("login-42")
    terminal.expect("terminal")
    terminal.expect("user")
    terminal.expect("/workspace")
    terminal.type("exit 7\n")
    assert terminal.end() == ({"type": "exit", "exit_code": 7}, 1000)


def test_a_command_runs_where_and_as_whom_it_is_asked(sandbox):
    terminal = Terminal(sandbox, cmd="whoami; pwd; exit 3", user="root", cwd="/tmp")
    terminal.expect("root\r\n/tmp\r\n")
    assert terminal.end() == ({"type": "exit", "exit_code": 3}, 1000)


@pytest.mark.parametrize("user", ["user", "root"])
def test_the_terminal_has_a_name_and_programs_may_make_their_own(sandbox, user):
    terminal = Terminal(sandbox, cmd="tty; python3 -c 'import os; print(os.ttyname(0))'; python3 -c 'import pty; pty.spawn([\"tty\"])'; : < $(tty)", user=user)
    first = terminal.expect(r"(/dev/pts/\d+)\r\n(/dev/pts/\d+)\r\n(/dev/pts/\d+)\r\n")
    assert first[1] == first[2] != first[3]
    assert terminal.end() == ({"type": "exit", "exit_code": 0}, 1000)


def test_a_terminal_belongs_to_its_user(sandbox):
    terminal = Terminal(sandbox, cmd="tty; read line", user="root")
    name = terminal.expect(r"(/dev/pts/\d+)\r\n")[1].decode()
    assert sandbox.exec(f"cat {name}", timeout_seconds=slow(10))["exit_code"] == 1 and sandbox.exec(f"echo x > {name}")["exit_code"] == 1
    terminal.type("\n")
    terminal.end()


def test_a_signal_shows_in_the_exit_code(sandbox):
    terminal = Terminal(sandbox, cmd="kill -9 $$")
    assert terminal.end() == ({"type": "exit", "exit_code": 137}, 1000)


def test_the_size_is_as_asked_and_follows_the_window(sandbox):
    terminal = Terminal(sandbox, rows=30, cols=100)
    terminal.type("stty size\n")
    terminal.expect("30 100")
    terminal.type("trap 'stty size' WINCH; echo re''ady\n")
    terminal.expect("ready")
    terminal.expect(r"\$ ")  # a shell between a command and its prompt keeps the signal for after the next line
    terminal.control(type="resize", rows=50, cols=132)
    terminal.expect("50 132")
    terminal.socket.close()


def test_sizes_default_to_24_and_80(sandbox):
    terminal = Terminal(sandbox, cmd="stty size")
    terminal.expect("24 80")
    terminal.end()


def test_interrupts_reach_the_foreground_process(sandbox):
    terminal = Terminal(sandbox)
    terminal.type("sh -c 'echo re\"\"ady; exec sleep 1000'; echo ended-$?\n")
    terminal.expect("ready")  # said by whom the interrupt shall reach: the shell has put it into the foreground
    terminal.type(b"\x03")
    terminal.type("echo after-$((1 + 1))\n")
    terminal.expect("after-2")
    terminal.socket.close()


def test_signals_can_be_sent_by_message(sandbox):
    terminal = Terminal(sandbox, cmd="trap 'echo got-int; exit 5' INT; echo ready; while :; do sleep 0.05; done")
    terminal.expect("ready")
    terminal.control(type="signal", signal="INT")
    terminal.expect("got-int")
    assert terminal.end() == ({"type": "exit", "exit_code": 5}, 1000)


def test_unknown_and_senseless_controls_are_ignored(sandbox):
    terminal = Terminal(sandbox, cmd="echo ready; read line; echo got-$line")
    terminal.expect("ready")
    for message in [{"type": "dance"}, {"type": "resize"}, {"type": "resize", "rows": 0, "cols": 0}, {"type": "resize", "rows": "a", "cols": 10**30 // 10**12},
                    {"type": "signal"}, {"type": "signal", "signal": "NOSUCH"}, {"type": "signal", "signal": "x" * 1000}]:
        terminal.socket.send(json.dumps(message))
    terminal.type("line\n")
    terminal.expect("got-line")
    assert terminal.end() == ({"type": "exit", "exit_code": 0}, 1000)


@pytest.mark.parametrize("message", ["nonsense", "[]", "{}", '{"type": 1}', '{"type": "resize", "type": "x"}'])
def test_a_control_that_is_none_closes_the_terminal(sandbox, message):
    terminal = Terminal(sandbox)
    terminal.socket.send(message)
    assert terminal.end()[1] == 1008


def test_bytes_pass_unchanged(sandbox):
    # gVisor of 2024 makes signals of ^C, ^Z and ^\\ even when stty says they are bytes like others.
    every = bytes(byte for byte in range(256) if byte not in (0x03, 0x1A, 0x1C)) * 2
    terminal = Terminal(sandbox, cmd=f"stty raw -echo; echo ready; head -c {len(every)} | od -An -v -tx1")
    terminal.expect("ready")
    terminal.type(every)
    terminal.end()
    assert bytes.fromhex(re.sub(r"\s", "", terminal.output.decode())) == every
    terminal = Terminal(sandbox, cmd="stty raw; head -c 300000 /dev/zero")
    terminal.end()
    assert terminal.output == bytes(300000)


def test_a_long_paste_arrives_whole(sandbox):
    terminal = Terminal(sandbox, cmd="stty raw -echo; echo ready; head -c 3000000 | sha256sum")
    terminal.expect("ready")
    for _ in range(30):
        terminal.type(b"x" * 100000)
    terminal.expect(hashlib.sha256(b"x" * 3000000).hexdigest())
    terminal.end()


def test_a_client_that_does_not_read_stops_the_process_and_loses_nothing(sandbox, daemon):
    before = daemon.rss_kb()
    terminal = Terminal(sandbox, cmd="stty raw; head -c 6000000 /dev/zero; echo end")
    time.sleep(2)
    assert daemon.rss_kb() - before < 16 * 1024
    assert terminal.end() == ({"type": "exit", "exit_code": 0}, 1000)
    assert len(terminal.output) == 6000000 + len("end\n")


def processes(sandbox, name):
    return int(sandbox.exec(f"pgrep -fc '[s]leep {name}'")["stdout"])


@pytest.mark.parametrize("leave", ["close", "vanish"])
def test_a_client_that_leaves_hangs_up(sandbox, daemon, leave):
    before = daemon.open_files()
    terminal = Terminal(sandbox)
    terminal.type("trap 'echo hup > /workspace/hup; exit' HUP; echo re''ady; sleep 4321\n")
    terminal.expect("ready")
    assert until(lambda: processes(sandbox, 4321) >= 1)
    getattr(terminal.socket, leave)()
    assert until(lambda: processes(sandbox, 4321) == 0)
    assert until(lambda: daemon.open_files() <= before)


def test_an_interactive_shell_does_not_survive_its_terminal(sandbox):
    for _ in range(5):
        terminal = Terminal(sandbox)
        terminal.type("echo re''ady\n")
        terminal.expect("ready")
        terminal.socket.vanish()
    assert until(lambda: not [p for p in sandbox.call("GET", "/processes")["processes"] if p["state"] == "running"], 30)


def test_many_terminals_at_once(sandbox):
    terminals = [Terminal(sandbox, cmd=f"read x; echo number-{n}-$x") for n in range(20)]
    for terminal in terminals:
        terminal.type("y\n")
    for n, terminal in enumerate(terminals):
        terminal.expect(f"number-{n}-y")
        assert terminal.end() == ({"type": "exit", "exit_code": 0}, 1000)


def test_a_deleted_sandbox_ends_its_terminals_with_an_error(fresh):
    terminal = Terminal(fresh)
    terminal.type("echo re''ady\n")
    terminal.expect("ready")
    fresh.delete()
    last, code = terminal.end()
    assert last["type"] == "error" and last["error"] and code == 1011


@pytest.mark.parametrize("query", [{"rows": "0"}, {"rows": "-1"}, {"cols": "4096"}, {"cols": "x"}, {"rows": "99999999999999999999"}, {"cmd": ""}, {"user": ""},
                                   {"cwd": ""}, {"user": "x" * 100}, {"cwd": "/" * 5000}])
def test_bad_queries_are_refused_before_anything_starts(sandbox, query):
    with pytest.raises(WebSocketRefused) as refusal:
        sandbox.websocket("/pty", **query)
    assert refusal.value.status == 400 and json.loads(refusal.value.body)["type"] == "invalid"


@pytest.mark.parametrize("query, status", [({"user": "nobody-of-this-name"}, {400, 404}), ({"cwd": "/no/such/folder"}, {400, 404})])
def test_what_cannot_be_started_is_an_ordinary_error(sandbox, query, status):
    with pytest.raises(WebSocketRefused) as refusal:
        sandbox.websocket("/pty", **query)
    assert refusal.value.status in status


def test_refusals_are_ordinary_errors(sandbox, client):
    assert client.ask("GET", f"{sandbox.path}/pty").status == 400, "no WebSocket"
    assert client.ask("GET", f"{sandbox.path}/pty", key=False).status == 401
    sandbox_path, sandbox.path = sandbox.path, "/v1/sandboxes/" + "z" * 20
    try:
        with pytest.raises(WebSocketRefused) as refusal:
            sandbox.websocket("/pty")
    finally:
        sandbox.path = sandbox_path
    assert refusal.value.status == 404


def test_old_protocols_cannot_leave_a_terminal_behind(sandbox, client):
    with socket.create_connection(client.address, timeout=20) as raw:
        raw.sendall(f"GET {sandbox.path}/pty HTTP/1.0\r\nHost: localhost\r\nX-API-Key: {client.key}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode())
        assert b" 400 " in raw.makefile("rb").readline()
