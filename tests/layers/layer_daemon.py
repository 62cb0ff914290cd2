# SPDX-License-Identifier: Apache-2.0
"""viald with a socket on which templates are made of layers step by step (layer_surface.c)."""

import json
import socket
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent / "api"), str(Path(__file__).parent.parent)]

from vial import Daemon, build_dir, slow  # noqa: E402
from waiting import wait_until  # noqa: E402

PROGRAM = build_dir() / "tests/layers/viald-layers"


class Refused(Exception):
    """What viald said instead."""


class LayerDaemon(Daemon):
    program = PROGRAM

    def __init__(self, folder, *options, env=None):
        self.socket = f"{folder}/layers"
        super().__init__(folder, "--program-dir", build_dir(), *options, env={"VIAL_LAYER_SOCKET": self.socket, **(env or {})})

    def start(self):
        Path(self.socket).unlink(missing_ok=True)
        super().start()
        wait_until(Path(self.socket).exists, 10, lambda: "no second surface")

    @property
    def layers(self):
        return self.data / "layers"

    def left_over(self):
        """Folders of guests that no sandbox has."""
        return [path.name for path in (self.data / "sandboxes").iterdir()]

    def project(self):
        return self.client().call("GET", "/v1/me")["project"]

    def ask(self, verb, **fields):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(slow(280))
            client.connect(self.socket)
            client.sendall(json.dumps({"do": verb, **fields}).encode() + b"\n")
            answer = json.loads(client.makefile().readline())
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    def make(self, name, cmd, base="minimal", **fields):
        """A layer of `cmd`, and the record of a template with it."""
        return self.ask("make", name=name, base=base, cmd=cmd, **fields)

    def put(self, made):
        return self.ask("put", record=made["record"])

    def template(self, name, cmd, **fields):
        made = self.make(name, cmd, **fields)
        return {**made, **self.put(made)}
