# SPDX-License-Identifier: Apache-2.0
"""The lab's end of the wire: what viald is to vial-vmm, in a page of Python. Frames as in docs/wire.md, descriptors by SCM_RIGHTS."""
import array
import collections
import json
import os
import select
import socket
import struct
import subprocess
import time

from patience import stretched

HELLO, OPEN, DATA, EVENT, EOF, CLOSE, CANCEL, CREDIT, FREEZE, RESET, PING, PONG = range(1, 13)
HOST = 0xFFFFFFFF
Frame = collections.namedtuple("Frame", "stream epoch type channel payload")


class Gone(Exception):
    """The other end closed the connection."""


class Connection:
    def __init__(self, path, timeout=60):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(stretched(timeout))
        deadline = time.monotonic() + stretched(timeout)
        while True:
            try:
                self.socket.connect(path)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        self.buffer = b""
        self.frames = collections.deque()
        self.tag = 0
        self.stream = 0
        self.states = []

    def close(self):
        self.socket.close()

    def send(self, stream, kind, payload=b"", channel=0, fds=()):
        if isinstance(payload, dict):
            payload = json.dumps(payload).encode()
        data = struct.pack("<IIHBB", len(payload), stream, 0, kind, channel) + payload
        if fds:
            sent = self.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
            data = data[sent:]
        self.socket.sendall(data)

    def _read(self, deadline):
        while True:
            if len(self.buffer) >= 12:
                length, stream, epoch, kind, channel = struct.unpack("<IIHBB", self.buffer[:12])
                if len(self.buffer) >= 12 + length:
                    payload, self.buffer = self.buffer[12:12 + length], self.buffer[12 + length:]
                    return Frame(stream, epoch, kind, channel, payload)
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.socket], [], [], left)[0]:
                raise TimeoutError("no frame in time")
            data = self.socket.recv(1 << 18)
            if not data:
                raise Gone()
            self.buffer += data

    def wait(self, matches, timeout):
        """The first frame that matches; what comes before it is kept for later."""
        for frame in self.frames:
            if matches(frame):
                self.frames.remove(frame)
                return frame
        deadline = time.monotonic() + stretched(timeout)
        while True:
            frame = self._read(deadline)
            if frame.stream == HOST and frame.type == EVENT:
                self.states.append(json.loads(frame.payload))
            if matches(frame):
                return frame
            self.frames.append(frame)

    # vial-vmm itself

    def host(self, op, fds=(), timeout=120, **fields):
        self.tag += 1
        tag = self.tag
        self.send(HOST, OPEN, dict(op=op, tag=tag, **fields), fds=fds)
        frame = self.wait(lambda f: f.stream == HOST and f.type == CLOSE and json.loads(f.payload)["tag"] == tag, timeout)
        return json.loads(frame.payload)

    def state(self, name, timeout=120):
        frame = self.wait(lambda f: f.stream == HOST and f.type == EVENT and json.loads(f.payload)["state"] == name, timeout)
        return json.loads(frame.payload)

    # the agent

    def hello(self, generation, hostname="lab", timeout=300, **fields):
        message = {"version": 1, "generation": generation, "sandbox_id": "sbx_lab", "hostname": hostname,
                   "wall_clock_ns": str(time.time_ns()), "entropy": os.urandom(64).hex(), "env": {}, "memory_limit_mb": 400,
                   "process_limit": 256, "resume_timeout_ms": 300000}
        message.update(fields)
        self.send(0, HELLO, message)
        return json.loads(self.wait(lambda f: f.stream == 0 and f.type == HELLO, timeout).payload)

    def freeze(self, timeout=120):
        self.send(0, FREEZE)
        self.wait(lambda f: f.stream == 0 and f.type == FREEZE, timeout)

    def call(self, op, data=None, timeout=300, **fields):
        """Runs one operation to its end: (CLOSE payload, {channel: bytes}, events)."""
        self.stream += 1
        stream = self.stream
        self.send(stream, OPEN, dict(op=op, **fields))
        if data is not None:
            for at in range(0, len(data), 1 << 16):
                self.send(stream, DATA, data[at:at + (1 << 16)])
            self.send(stream, EOF)
        output, events = collections.defaultdict(bytes), []
        while True:
            frame = self.wait(lambda f: f.stream == stream, timeout)
            if frame.type == DATA:
                output[frame.channel] += frame.payload
                self.send(stream, CREDIT, struct.pack("<I", len(frame.payload)))
            elif frame.type == EVENT:
                events.append(json.loads(frame.payload))
            elif frame.type == CLOSE:
                return json.loads(frame.payload), output, events

    def shell(self, command, timeout=300):
        result, output, _ = self.call("exec", cmd=command, timeout=timeout, timeout_ms=int(stretched(timeout) * 1000), user="root")
        if not result.get("ok") or result.get("exit_code") != 0:
            raise AssertionError(f"{command!r}: {result} {output[1][-300:]!r} {output[2][-300:]!r}")
        return output[1].decode()


class Vmm:
    """One vial-vmm process and its socket."""

    def __init__(self, program, directory, name):
        self.path = os.path.join(directory, name + ".sock")
        self.log = open(os.path.join(directory, name + ".log"), "wb+")
        self.process = subprocess.Popen([program, "--socket", self.path, "--uid", "70001", "--gid", "70001"],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def connect(self):
        return Connection(self.path)

    def words(self):
        self.log.flush()
        with open(self.log.name, "rb") as log:
            return log.read().decode(errors="replace")


def unnamed(directory):
    return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)


def listener(path):
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path)
    server.listen(8)
    server.setblocking(False)
    return server
