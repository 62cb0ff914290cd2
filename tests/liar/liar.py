#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A sandbox host process and the agent behind it, in one: it answers rightly until it is told to lie.

viald starts it in place of vial-shim or vial-vmm (conftest.py puts it there under that name). What to lie about is read at every frame from lies.json beside
it: {"<sandbox id>": LIE, "boot": LIE of whoever starts next}. LIES below says what each one does."""

import array
import json
import os
import select
import socket
import struct
import sys
import time
from pathlib import Path

HELLO, OPEN, DATA, EVENT, EOF, CLOSE, CANCEL, CREDIT, FREEZE, RESET, PING, PONG = range(1, 13)
HOST = 0xFFFFFFFF
HERE = Path(__file__).resolve().parent
IS_VMM = Path(sys.argv[0]).name == "vial-vmm"
HUGE = 2**63 - 1
LONG = "x" * 200_000

# What an answer has, by operation; the fields that a lie leaves out or fills with nonsense.
CONTEXT = {"id": "c1", "language": "python", "cwd": "/workspace", "state": "idle", "execution_count": 0, "pid": 7, "queued": 0}
ENTRY = {"name": "a", "path": "/a", "is_dir": False, "type": "file", "size": 1, "mode": "0644", "mtime": 1.5, "user": "user", "group": "user"}
ANSWERS = {
    "exec": {"exit_code": 0, "timed_out": False, "duration_ms": 1},
    "proc.attach": {"exit_code": 0, "timed_out": False, "duration_ms": 1},
    "proc.list": {"processes": []},
    "proc.signal": {},
    "proc.resize": {},
    "proc.read": {"next": 1, "exited": False},
    "proc.stdin": {"bytes": 1},
    "fs.read": {"bytes": 1},
    "fs.write": {"bytes": 1, "path": "/a"},
    "fs.list": {},
    "fs.stat": {"entry": ENTRY},
    "ports": {"ports": []},
    "metrics": {"cpu_ms": 1, "memory_used_kb": 1, "memory_limit_kb": 1, "disk_used_kb": 1, "disk_total_kb": 1, "processes": 1, "load": [0.1, 0.1, 0.1]},
    "ctx.create": {"context": CONTEXT},
    "ctx.restart": {"context": CONTEXT},
    "ctx.list": {"contexts": [CONTEXT]},
    "ctx.interrupt": {"interrupted": True},
    "ctx.run": {"execution_id": "", "execution_count": 1, "status": "ok", "timed_out": False, "kernel_restarted": False, "truncated": False, "files": [],
                "duration_ms": 1},
}
EVENTS = {"exec": [{"event": "started", "pid": 7}], "fs.read": [ENTRY], "fs.list": [{"entries": [ENTRY]}], "tcp": [{"event": "connected"}],
          "fs.watch": [{"event": "watching"}], "proc.attach": [{"event": "started", "pid": 7}]}


def frame(kind, payload=b"", stream=1, channel=0, length=None):
    if not isinstance(payload, bytes):
        payload = json.dumps(payload).encode()
    return struct.pack("<IIHBB", len(payload) if length is None else length, stream, 1, kind, channel) + payload


def nested(depth):
    """A JSON object of that many levels."""
    return b'{"ok":true,"context":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def every_field(value):
    fields = {"ok": True}
    for answer in ANSWERS.values():
        fields.update({name: value for name in answer})
    return {**fields, "pid": value, "signal": value, "oom": value, "full_output": value, "detached": value}


# Answers that are lies: what comes in place of the CLOSE, by the stream.
CLOSES = {
    "bare": lambda s: frame(CLOSE, {"ok": True}, s),
    "numbers": lambda s: frame(CLOSE, every_field(7), s),
    "texts": lambda s: frame(CLOSE, every_field("x\x1b]0;y\x07"), s),
    "lists": lambda s: frame(CLOSE, every_field([[], {}, None, [1]]), s),
    "objects": lambda s: frame(CLOSE, every_field({"id": [], "name": 1}), s),
    "nulls": lambda s: frame(CLOSE, every_field(None), s),
    "huge": lambda s: frame(CLOSE, every_field(HUGE), s),
    "negative": lambda s: frame(CLOSE, every_field(-1), s),
    "beyond_64_bits": lambda s: frame(CLOSE, every_field(2**70), s),
    "long": lambda s: frame(CLOSE, {"ok": True, "path": LONG, "pid": LONG, "exit_code": LONG}, s),
    "long_error": lambda s: frame(CLOSE, {"ok": False, "code": "invalid", "error": LONG}, s),
    "rude_error": lambda s: frame(CLOSE, {"ok": False, "code": LONG[:99], "error": "a\x1b[2Jb\r\nc"}, s),
    "deep_31": lambda s: frame(CLOSE, nested(31), s),
    "deep_32": lambda s: frame(CLOSE, nested(32), s),
    "deep_33": lambda s: frame(CLOSE, nested(33), s),
    "cut_signal": lambda s: frame(CLOSE, {"ok": True, "exit_code": 1, "signal": "a" * 15 + "\u00e9" * 2000}, s),
    "no_ok": lambda s: frame(CLOSE, {}, s),
    "ok_is_a_number": lambda s: frame(CLOSE, {"ok": 1}, s),
    "not_json": lambda s: frame(CLOSE, b"{]", s),
    "not_an_object": lambda s: frame(CLOSE, [], s),
    "not_utf8": lambda s: frame(CLOSE, b'{"ok":true,"path":"\xff"}', s),
    "twice_the_same_field": lambda s: frame(CLOSE, b'{"ok":false,"ok":true}', s),
    "closed_twice": lambda s: frame(CLOSE, {"ok": False, "code": "conflict", "error": "x"}, s) * 2,
    "data_after_close": lambda s: frame(CLOSE, {"ok": False, "code": "conflict", "error": "x"}, s) + frame(DATA, b"x", s),
    "unknown_stream": lambda s: frame(DATA, b"x", s + 1000),
    "event_before_open": lambda s: frame(EVENT, {"event": "started", "pid": 1}, s + 1),
    "opened_by_the_agent": lambda s: frame(OPEN, {"op": "exec"}, s),
    "absurd_window": lambda s: frame(CREDIT, struct.pack("<I", 2**32 - 1), s),
    "frozen_unasked": lambda s: frame(FREEZE, stream=0),
    "hello_unasked": lambda s: frame(HELLO, {"version": 1, "generation": "g", "confirmed": []}, 0),
    "too_long_a_frame": lambda s: frame(DATA, b"", s, length=2**31),
    "unknown_type": lambda s: frame(99, b"", s),
    "state_that_does_not_exist": lambda s: frame(EVENT, {"event": "state", "state": "flying"}, HOST),
    "answer_to_nothing": lambda s: frame(CLOSE, {"ok": True, "tag": 10**6}, HOST),
    "negative_tag": lambda s: frame(CLOSE, {"ok": True, "tag": -1}, HOST),
}


class Gone(Exception):
    pass


class Liar:
    def __init__(self):
        self.state = "new"
        self.sandbox_id = None
        self.buffer = b""
        self.fds = []
        self.connection = None
        self.endless = None  # a stream that never stops
        self.credit = 0

    def lie(self):
        try:
            lies = json.loads((HERE / "lies.json").read_text())
        except (OSError, ValueError):
            return None
        return lies.get(self.sandbox_id) or lies.get("boot")

    def send(self, data):
        try:
            self.connection.sendall(data)
        except OSError:
            raise Gone from None

    def announce(self):
        self.send(frame(EVENT, {"event": "state", "state": self.state, "epoch": 1, "engine": "liar", "pid": 1}, HOST))

    # ---- the host process

    def verb(self, request):
        op, tag, lie = request["op"], request["tag"], self.lie()
        fds, self.fds = self.fds, []
        if op == "stop":
            self.send(frame(CLOSE, {"tag": tag, "ok": True}, HOST))
            self.exit()
        if lie == "host_dies":
            os._exit(1)
        if lie == "host_bare":
            return self.send(frame(CLOSE, {"tag": tag}, HOST))
        if lie == "host_silent":
            return None
        answer = {"tag": tag, "ok": True}
        if op == "checkpoint":
            for number, fd in enumerate(fds[:3]):
                os.write(fd, b"liar %d" % number)
            if not fds:
                (Path(request["image"]) / "checkpoint.img").write_bytes(b"liar")
        if op == "fork":
            answer.update(self.fork(request["count"], fds, lie))
        self.state = {"create": "created", "start": "running", "pause": "paused", "resume": "running"}.get(op, self.state)
        for fd in fds:
            os.close(fd)
        self.send(frame(CLOSE, answer, HOST))
        return self.announce()

    def fork(self, count, fds, lie):
        """Real children on the sockets they are given, unless the lie is that there are none."""
        pids = []
        per_child = (len(fds) - 1) // count
        for index in range(count if lie is None or lie.startswith("pids_") else 0):
            listener = fds[1 + index * per_child]
            pid = os.fork()
            if pid == 0:
                os.set_inheritable(listener, False)
                self.connection.close()
                child = Liar()
                child.state = "running"
                own = socket.socket(fileno=os.dup(listener))
                own.setblocking(True)
                serve(child, own)
            pids.append(pid)
        false = {"pids_minus_one": -1, "pids_zero": 0, "pids_init": 1, "pids_large": 2**40, "pids_viald": os.getppid()}.get(lie)
        return {"pids": [false] * count if false is not None else pids} if lie != "fork_bare" else {}

    def exit(self):
        Path("exit.json").write_text('{"stopped":true,"reason":"stopped"}')
        os._exit(0)

    # ---- the agent

    def hello(self, message):
        self.sandbox_id = message["sandbox_id"]
        answer = {"version": 1, "generation": message["generation"], "agent": "liar", "wall_clock_ns": str(time.time_ns()),
                  "confirmed": ["entropy", "clock", "hostname", "kernels"]}
        lie = self.lie()
        if lie == "hello_bare":
            answer = {}
        elif lie == "hello_types":
            answer = {name: 7 for name in answer}
        elif lie == "hello_other":
            answer["generation"] = "another"
        elif lie == "hello_long":
            answer = {"error": LONG + "\x1b"}
        elif lie == "hello_past":
            answer["wall_clock_ns"] = "1"
        self.send(frame(HELLO, answer, 0))

    def open(self, stream, request):
        op, lie = request["op"], self.lie()
        if op == "warm":
            lie = None
        if lie == "silent":
            return
        if lie == "dies":
            os._exit(1)
        if lie == "half_a_frame":
            self.send(frame(CLOSE, {"ok": True}, stream)[:14])
            os._exit(1)
        events = EVENTS.get(op, [])
        if lie == "events":
            events = [{"event": 7}, {"event": "result", "data": []}, {"event": "error", "name": {}, "traceback": 1}, {"entries": 7}, {"event": "started"},
                      {"event": "started", "pid": -1}, {"event": "create", "path": 9}, {}]
        if lie == "nameless":
            events = [{"event": "watching", "path": "/"}, *({"event": event, "path": path, "from": path} for event in ("create", "modify", "delete", "move") for path in ("", "a", "//"))]
        if lie == "events_in_pieces":
            self.send(frame(EVENT, b'{"event":"x', stream, 0x80) + frame(EVENT, b"]", stream))
            return
        if lie == "dies_after_the_first_event":
            self.send(frame(EVENT, events[0] if events else {"event": "started", "pid": 7}, stream))
            os._exit(1)
        for event in events:
            self.send(frame(EVENT, event, stream))
        if lie == "endless":
            self.endless, self.credit = stream, 1024 * 1024
            return
        if op in ("exec", "ctx.run", "fs.read"):
            self.send(frame(DATA, b"h", stream, 0 if op == "fs.read" else 1))
        if lie in CLOSES:
            self.send(CLOSES[lie](stream))
        elif op not in ("tcp", "fs.watch"):
            answer = ANSWERS.get(op, {})
            if op == "exec" and request.get("background") and not request.get("attached"):
                answer = {"pid": 7}
            self.send(frame(CLOSE, {"ok": True, **answer}, stream))

    def more(self):
        """Results for as long as there is credit."""
        if not self.endless:
            return
        result = frame(EVENT, {"event": "result", "data": {"text/plain": "y" * 100_000}, "is_main_result": False}, self.endless)
        while self.endless and self.credit > len(result):
            self.credit -= len(result) - 12
            self.send(result)

    def handle(self, kind, stream, payload):
        if stream == HOST:
            self.verb(json.loads(payload))
        elif kind == HELLO:
            self.hello(json.loads(payload))
        elif kind == FREEZE:
            if self.lie() != "never_frozen":
                self.send(frame(FREEZE, stream=0))
        elif kind == OPEN:
            self.open(stream, json.loads(payload))
        elif kind == CREDIT and stream == self.endless:
            self.credit += struct.unpack("<I", payload)[0]
        elif kind == CANCEL:
            if stream == self.endless:
                self.endless = None
            if self.lie() != "silent":
                self.send(frame(CLOSE, {"ok": False, "code": "timeout", "error": "cancelled"}, stream))
        self.more()

    def read(self):
        data, ancillary, _, _ = self.connection.recvmsg(1 << 20, socket.CMSG_SPACE(253 * 4))
        if not data:
            raise Gone
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(content[: len(content) // 4 * 4])
                self.fds += fds
        self.buffer += data
        while len(self.buffer) >= 12:
            length, stream, _, kind, _ = struct.unpack("<IIHBB", self.buffer[:12])
            if len(self.buffer) < 12 + length:
                break
            payload, self.buffer = self.buffer[12:12 + length], self.buffer[12 + length:]
            self.handle(kind, stream, payload)


def serve(liar, listener):
    while True:
        if liar.connection is None:
            liar.connection, _ = listener.accept()
            liar.buffer = b""
            lie = liar.lie() or ""
            if lie == "state_bare":
                liar.send(frame(EVENT, {}, HOST))
            elif lie == "speaks_no_frames":
                liar.send(b"\xff" * 100)
            else:
                liar.announce()
        ready, _, _ = select.select([liar.connection, listener], [], [])
        try:
            if listener in ready:
                liar.connection.close()
                raise Gone
            liar.read()
        except (Gone, ConnectionError):
            liar.connection = None
            liar.endless = None


def start_time():
    return Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]


def main():
    if sys.argv[1:] == ["--probe"]:
        print(json.dumps({"works": True, "usable": True, "build": "liar", "host": "liar"}))
        return
    os.chdir(sys.argv[1])
    liar = Liar()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("shim.sock")
    listener.listen(8)
    if not IS_VMM:
        false = {"record_minus_one": "-1 1", "record_init": f"1 {start_time()}", "record_nonsense": "x" * 10000,
                 "record_viald": f"{os.getppid()} {Path(f'/proc/{os.getppid()}/stat').read_text().rsplit(')', 1)[1].split()[19]}"}.get(liar.lie())
        Path("shim.pid").write_text(false or f"{os.getpid()} {start_time()}\n")
    if liar.lie() == "never_ready":
        time.sleep(3600)
    print("ready", flush=True)
    os.close(1)
    os.open("/dev/null", os.O_RDWR)
    serve(liar, listener)


main()
