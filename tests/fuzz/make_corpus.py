#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed inputs of the fuzz targets: one frame sequence per thing worth mutating. Run after the wire changes."""
import json
import os
import struct

HELLO, OPEN, DATA, EVENT, EOF, CLOSE, CANCEL, CREDIT, FREEZE, RESET, PING, PONG = range(1, 13)
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def frame(kind, payload=b"", stream=1, channel=0, epoch=1):
    if isinstance(payload, dict):
        payload = json.dumps(payload).encode()
    return struct.pack("<IIHBB", len(payload), stream, epoch, kind, channel) + payload


HELLO_BODY = {"version": 1, "generation": "g2", "sandbox_id": "abc", "hostname": "abc", "wall_clock_ns": "1700000000000000000",
              "entropy": "00" * 64, "env": {"A": "b", "N": 1, "T": True, "Z": None}, "memory_limit_mb": 512, "process_limit": 10}

REQUESTS = {
    "exec-argv": {"op": "exec", "argv": ["true", "x"], "cwd": "/tmp", "env": {"A": "1"}, "user": "root", "stdin": True},
    "exec-cmd": {"op": "exec", "cmd": "echo", "timeout_ms": 5, "background": True, "pty": {"rows": 3, "cols": 4}, "user": 0},
    "fs-read": {"op": "fs.read", "path": "a/../b", "user": "root", "offset": 1, "length": 2},
    "fs-write": {"op": "fs.write", "path": "/tmp/x", "user": "root", "mode": "0644", "append": False},
    "fs-list": {"op": "fs.list", "path": "//./tmp/", "depth": 2, "user": "root"},
    "fs-stat": {"op": "fs.stat", "path": "/proc/self", "user": "root"},
    "fs-mkdir": {"op": "fs.mkdir", "path": "x", "mode": 448, "user": "root"},
    "fs-move": {"op": "fs.move", "path": "x", "to": "y", "user": "root"},
    "fs-remove": {"op": "fs.remove", "path": "x", "recursive": True, "user": "root"},
    "fs-watch": {"op": "fs.watch", "path": ".", "recursive": True, "user": "root"},
    "tcp": {"op": "tcp", "port": 80},
    "ports": {"op": "ports"},
    "metrics": {"op": "metrics"},
    "proc-list": {"op": "proc.list"},
    "proc-attach": {"op": "proc.attach", "pid": 3},
    "proc-signal": {"op": "proc.signal", "pid": 3, "signal": "SIGTERM"},
    "proc-stdin": {"op": "proc.stdin", "pid": 3, "close": True},
    "ctx-create": {"op": "ctx.create", "language": "python", "cwd": "/", "id": "c"},
    "ctx-run": {"op": "ctx.run", "language": "python", "code": "1", "timeout_ms": 1, "execution_id": "e"},
    "ctx-list": {"op": "ctx.list"},
    "unknown": {"op": "nothing"},
    "no-op": {"path": 1},
}


def agent_inputs():
    for name, request in REQUESTS.items():
        yield name, frame(OPEN, request) + frame(DATA, b"abc") + frame(EVENT, {"event": "signal", "signal": "INT"}) + \
            frame(CREDIT, struct.pack("<I", 100)) + frame(EOF) + frame(CANCEL)
    yield "hello", frame(HELLO, HELLO_BODY, stream=0)
    yield "hello-wrong", frame(HELLO, {**HELLO_BODY, "entropy": "xx"}, stream=0) + frame(OPEN, {"op": "ports"})
    yield "ping", frame(PING, b"payload", stream=0)
    yield "freeze", frame(FREEZE, stream=0) + frame(OPEN, {"op": "ports"}) + frame(HELLO, HELLO_BODY, stream=0)
    yield "reset", frame(OPEN, {"op": "tcp", "port": 1}) + frame(RESET, stream=0, epoch=2) + frame(CANCEL)
    yield "twice", frame(OPEN, {"op": "tcp", "port": 1}) + frame(OPEN, {"op": "tcp", "port": 1})
    yield "event-in-parts", frame(OPEN, {"op": "tcp", "port": 1}) + frame(EVENT, b'{"event":', channel=0x80) + frame(EVENT, b'"x"}')
    yield "not-json", frame(OPEN, b"{]")
    yield "duplicate-key", frame(OPEN, b'{"op":"ports","op":"tcp"}')
    yield "not-utf8", frame(OPEN, b'{"op":"fs.stat","path":"\xff\xfe"}')
    yield "deep", frame(OPEN, b"[" * 3000)
    yield "reserved-stream", frame(OPEN, {"op": "ports"}, stream=0xffffffff)


def wire_inputs():
    yield "every-type", b"\x00" + b"".join(frame(kind, b"1234" if kind == CREDIT else b"", 0 if kind in (HELLO, FREEZE, RESET, PING, PONG) else 1)
                                           for kind in range(1, 13))
    yield "cut", b"\x02" + frame(DATA, b"x" * 100)[:50]
    yield "too-long", b"\x10" + struct.pack("<IIHBB", 1 << 31, 1, 0, DATA, 0)
    yield "unknown-type", b"\x10" + frame(99)
    yield "wrong-stream", b"\x10" + frame(HELLO, stream=5)
    yield "more", b"\x07" + frame(EVENT, b"{", channel=0x80) + frame(EVENT, b"}")
    yield "large", b"\xff" + frame(DATA, bytes(20000)) + frame(EOF)


def write(target, inputs):
    folder = os.path.join(HERE, target)
    os.makedirs(folder, exist_ok=True)
    for name, data in inputs:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


write("wire", wire_inputs())
write("agent", agent_inputs())
