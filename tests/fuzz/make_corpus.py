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
    "ctx-run-streamed": {"op": "ctx.run", "language": "python", "code_bytes": 3, "execution_id": "e", "max_results_bytes": 1, "env": {"A": 1}},
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


def message(value):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return b"%d\n%b" % (len(body), body)


def pipe_inputs():
    """What a kernel may write to its message pipe, and what others would."""
    run = {"id": "e"}
    error = {"type": "error", **run, "name": "E", "value": "v", "traceback": "t"}
    yield "ready", message({"type": "ready", "pid": 1}) + message({"type": "touched"}) + message({"type": "sync", "number": 1})
    yield "run", message({"type": "result", **run, "data": {"text/plain": "2", "application/json": {"a": [1, 2.5, None, True]}}, "is_main_result": True}) + \
        message({"type": "done", **run, "status": "ok", "execution_count": 1, "exit_status": 0})
    yield "error", message(error) + message({"type": "ending", **run}) + message({"type": "reseeded", "number": 4294967295, "is_incomplete": True})
    yield "clear", message({"type": "clear", **run, "wait": True}) + message({"type": "result", **run, "data": {"text/plain": "2"}, "display_id": "d", "is_update": True})
    yield "long-error", message({**error, "name": "n\x1b" * 300, "value": "\u00e9" * 3000})
    yield "odd-mime", message({"type": "result", **run, "data": {"text/\x1b[2J": "x", "": 1, "a/b;c=d": {"k" * 5000: 1}, "text/plain": []}, "display_id": "\x9b" * 300})
    yield "deep", message(b'{"type":"result","id":"e","data":{"application/json":' + b"[" * 31 + b"]" * 31 + b"}}")
    yield "very-deep", message(b"[" * 5000)
    yield "many-types", message({"type": "result", **run, "data": {f"x/{n}": n for n in range(100)}})
    yield "cut", message({"type": "ready"})[:-3]
    yield "two-lengths", b"12" + message({"type": "ready"})
    yield "no-length", b"hello"
    yield "huge-length", b"99999999\n{}"
    yield "not-utf8", message(b'{"type":"\xff"}')
    yield "wrong-types", message({"type": "done", "id": 1})


def wire_inputs():
    yield "every-type", b"\x00" + b"".join(frame(kind, b"1234" if kind == CREDIT else b"", 0 if kind in (HELLO, FREEZE, RESET, PING, PONG) else 1)
                                           for kind in range(1, 13))
    yield "cut", b"\x02" + frame(DATA, b"x" * 100)[:50]
    yield "too-long", b"\x10" + struct.pack("<IIHBB", 1 << 31, 1, 0, DATA, 0)
    yield "unknown-type", b"\x10" + frame(99)
    yield "wrong-stream", b"\x10" + frame(HELLO, stream=5)
    yield "more", b"\x07" + frame(EVENT, b"{", channel=0x80) + frame(EVENT, b"}")
    yield "large", b"\xff" + frame(DATA, bytes(20000)) + frame(EOF)


HOST = 0xffffffff
CONFIRMATION = {"version": 1, "generation": "g", "agent": "a", "wall_clock_ns": "1700000000000000000", "confirmed": ["entropy", "clock", "hostname", "kernels"]}


def channel_inputs():
    """What a guest and a monitor say to the host; the first byte is the target's flags. Streams 1 to 5 are open, 4 is left by its owner."""
    hello = frame(HELLO, CONFIRMATION, stream=0)
    state = frame(EVENT, {"event": "state", "state": "running", "epoch": 1, "pid": 7}, stream=HOST)
    close = frame(CLOSE, {"ok": True, "exit_code": 0})
    for flags in (0, 1, 2, 4, 7):
        yield f"honest-{flags}", bytes([flags]) + state + hello + frame(FREEZE, stream=0) * (flags & 2 > 0) + \
            frame(EVENT, {"event": "started", "pid": 7}) + frame(DATA, b"out", channel=1) + frame(EOF, channel=1) + frame(CREDIT, b"\0\1\0\0") + \
            close + frame(CLOSE, {"ok": False, "code": "not_found", "error": "no"}, stream=5) + frame(CLOSE, {"ok": True, "tag": 1}, stream=HOST)
    lies = {
        "hello-error": frame(HELLO, {"error": "\x1b" * 5000}, stream=0),
        "hello-types": frame(HELLO, {name: 7 for name in CONFIRMATION}, stream=0),
        "hello-twice": hello * 2,
        "frozen-unasked": hello + frame(FREEZE, stream=0),
        "close-twice": close * 2,
        "close-left-twice": frame(CLOSE, {"ok": True}, stream=4) * 2,
        "close-bare": frame(CLOSE, {}),
        "close-long": frame(CLOSE, {"ok": False, "code": "x" * 999, "error": "y" * 9999}),
        "deep": frame(CLOSE, b'{"ok":' + b"[" * 40 + b"]" * 40 + b"}"),
        "values": frame(EVENT, b'{"a":[' + b"0," * 100000 + b"0]}"),
        "pieces": frame(EVENT, b'{"event":', channel=0x80) + frame(EVENT, b'"x"}') + frame(EVENT, b"", channel=0x80) + frame(EVENT, b"]"),
        "beyond-credit": frame(DATA, bytes(200000), stream=4) * 2 + frame(DATA, bytes(262144), stream=2) * 3,
        "window": frame(CREDIT, b"\xff\xff\xff\xff"),
        "never-opened": frame(EVENT, {}, stream=99),
        "state": frame(EVENT, {"event": "state", "state": 7}, stream=HOST),
        "tag": frame(CLOSE, {"ok": True, "tag": -1}, stream=HOST) + frame(CLOSE, {"ok": True, "tag": 2**62}, stream=HOST),
        "pids": frame(CLOSE, {"ok": True, "tag": 1, "pids": [-1, 0, 1, 2**40]}, stream=HOST),
        "host-data": frame(DATA, b"x", stream=HOST),
        "cut": close[:-3],
    }
    for name, data in lies.items():
        yield name, b"\0" + data


def write(target, inputs):
    folder = os.path.join(HERE, target)
    os.makedirs(folder, exist_ok=True)
    for name, data in inputs:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


write("wire", wire_inputs())
write("agent", agent_inputs())
write("channel", channel_inputs())
for size in (0, 255):
    write("agent", ((f"pipe-{name}-{size}", b"PIPE" + bytes([size]) + data) for name, data in pipe_inputs()))
