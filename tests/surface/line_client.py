# SPDX-License-Identifier: Apache-2.0
"""A client of the line surface, and a viald that has one. line_surface.c has the protocol."""

import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "api"))

from vial import Daemon, build_dir  # noqa: E402

PROGRAM = build_dir() / "tests/surface/viald-line"


class LineDaemon(Daemon):
    program = PROGRAM

    def __init__(self, folder, *options):
        self.line_socket, self.faults = f"{folder}/line", Path(folder) / "faults"
        super().__init__(folder, "--program-dir", build_dir(), *options, env={"VIAL_LINE_SOCKET": self.line_socket, "VIAL_FAULTS": str(self.faults)})

    def line(self, key=None):
        return Line(self.line_socket, key or self.key)


class Refused(Exception):
    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


class Line:
    def __init__(self, path, key, timeout=120):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")
        self.project = self.ask(f"key {key}")

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, line, block=b""):
        self.socket.sendall(line.encode() + b"\n" + block)

    def read(self):
        """(name, rest of the line, block or None)"""
        line = self.file.readline().decode()
        assert line.endswith("\n"), "the connection ended"
        name, _, rest = line[:-1].partition(" ")
        if name == "refused":
            raise Refused(*rest.split(" ", 1))
        if name in ("stdout", "stderr", "result", "error"):
            block = self.file.read(int(rest))
            assert self.file.read(1) == b"\n"
            return name, rest, block
        return name, rest, None

    def ask(self, line):
        self.send(line)
        name, rest, _ = self.read()
        assert name == "ok"
        return rest

    def events(self):
        while True:
            name, rest, block = self.read()
            yield name, block if block is not None else rest
            if name == "end":
                return

    def run(self, sandbox, code, **fields):
        return self._begin("run", sandbox, code, fields)

    def exec(self, sandbox, command, **fields):
        return self._begin("exec", sandbox, command, fields)

    def _begin(self, verb, sandbox, text, fields):
        block = text if isinstance(text, bytes) else text.encode()
        words = [f"env.{name}:{value}" for name, value in fields.pop("env", {}).items()] + [f"{name}={value}" for name, value in fields.items()]
        self.send(" ".join([verb, sandbox, str(len(block)), *words]), block)
        return list(self.events())
