# SPDX-License-Identifier: Apache-2.0
"""Every surface by hand: how each makes a sandbox, runs something as a stream, and moves a file, as far as tests ask the same of all of them. A surface that
viald serves (`viald --print-routes`) and this file does not know fails test_surfaces.py."""

import base64
import functools
import json
import re
import struct
import subprocess
from dataclasses import dataclass
from typing import Callable
from urllib.parse import quote

from vial import build_dir

ENVD, CODE = "49983", "49999"
PANDASTACK = {"User-Agent": "pandastack-py/0.10.0"}


@functools.cache
def routes():
    """[(method, pattern, verb, role, surface)], as viald itself says."""
    program = build_dir() / "viald"
    if not program.exists():
        return []
    return [tuple(line.split()) for line in subprocess.run([program, "--print-routes"], capture_output=True, text=True, timeout=20).stdout.splitlines()]


def served():
    """The surfaces, in the order of their tables."""
    return list(dict.fromkeys(surface for *_, surface in routes()))


# Making one

# Surface: (path, body, headers, the field of the id).
CREATES = {
    "native": ("/v1/sandboxes", {"template": "minimal"}, {}, "id"),
    "pandastack": ("/v1/sandboxes", {"template": "minimal"}, PANDASTACK, "id"),
    "podflare": ("/podflare/v1/sandboxes", {"template": "minimal"}, {}, "id"),
    "e2b": ("/v2/sandboxes", {"templateID": "minimal", "timeout": 3600}, {}, "sandboxID"),
    "cloudflare": ("/t/minimal/v1/sandbox", None, {}, "id"),
}


def create(client, surface):
    """A sandbox's id."""
    path, body, headers, field = CREATES[surface]
    return client.call("POST", path, body, headers=headers)[field]


# Streams

def sse(body):
    """[(event, data)]."""
    found = []
    for block in body.decode().split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in block.split("\n") if line and not line.startswith(":"))
        if "data" in fields:
            found.append((fields.get("event", ""), fields["data"]))
    return found


def lines(body):
    return [json.loads(line) for line in body.decode().split("\n") if line.strip()]


def frames(body):
    """The messages of a Connect stream; one that is cut is left out."""
    found, at = [], 0
    while len(body) >= at + 5:
        _, size = struct.unpack_from(">BI", body, at)
        at += 5 + size
        if len(body) >= at:
            found.append(json.loads(body[at - size:at]))
    return found


def frame(message):
    text = json.dumps(message).encode()
    return struct.pack(">BI", 0, len(text)) + text


def text_of_chunks(body, stream):
    return "".join(json.loads(data)["chunk"] for event, data in sse(body) if event == stream)


def text_of_base64(body, stream):
    return b"".join(base64.b64decode(data) for event, data in sse(body) if event == stream).decode(errors="replace")


def text_of_podflare(body, stream):
    return "\n".join(line["data"] for line in lines(body) if line["type"] == stream)


def text_of_execute(body, stream):
    return "".join(line["text"] for line in lines(body) if line["type"] == stream)


def text_of_process(body, stream):
    data = [message.get("event", {}).get("data", {}).get(stream, "") for message in frames(body)]
    return b"".join(map(base64.b64decode, data)).decode(errors="replace")


@dataclass
class Stream:
    """A way to run a shell line and hear of it as it goes."""
    name: str
    surface: str
    pattern: str  # of the route, without its method, which is POST
    content_type: str
    body: Callable  # of the line
    text: Callable  # of what came, and "stdout" or "stderr"
    success: bytes  # an expression that is in what came if, and only if, it ended well
    headers: Callable = lambda sandbox_id: {}

    def is_served(self):
        return any(pattern == self.pattern and method == "POST" for method, pattern, *_ in routes())

    def open(self, client, sandbox_id, line):
        return client.open("POST", self.pattern.replace("{id}", sandbox_id), self.body(line), headers=self.headers(sandbox_id))

    def run(self, client, sandbox_id, line):
        """(status, headers, the whole answer)."""
        response = self.open(client, sandbox_id, line)
        try:
            return response.status, response.headers, response.read()
        finally:
            response.connection.close()

    def ended_well(self, body):
        return re.search(self.success, body) is not None


SSE, NDJSON = "text/event-stream; charset=utf-8", "application/x-ndjson; charset=utf-8"
STREAMS = [
    Stream("native exec", "native", "/v1/sandboxes/{id}/exec/stream", SSE, lambda line: {"cmd": line}, text_of_chunks, rb'"exit_code":0\b'),
    Stream("native run", "native", "/v1/sandboxes/{id}/run/stream", SSE, lambda line: {"code": line, "language": "bash"}, text_of_chunks, rb'"exit_code":0\b'),
    Stream("pandastack exec", "pandastack", "/v1/sandboxes/{id}/exec/stream", SSE, lambda line: {"cmd": line}, text_of_chunks, rb'"exit_code":0\b', lambda _: PANDASTACK),
    Stream("podflare exec", "podflare", "/podflare/v1/sandboxes/{id}/exec", NDJSON, lambda line: {"code": line, "language": "bash"}, text_of_podflare,
           rb'"type":"exit","data":0\b'),
    Stream("e2b execute", "e2b", "/execute", NDJSON, lambda line: {"code": line, "language": "bash"}, text_of_execute, rb'"end_of_execution"',
           lambda sandbox_id: {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": CODE}),
    Stream("e2b process", "e2b", "/process.Process/Start", "application/connect+json",
           lambda line: frame({"process": {"cmd": "/bin/sh", "args": ["-c", line]}}), text_of_process, rb'"exited":true',
           lambda sandbox_id: {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": ENVD, "Content-Type": "application/connect+json", "Connect-Protocol-Version": "1",
                               "Keepalive-Ping-Interval": "50"}),
    Stream("cloudflare exec", "cloudflare", "/v1/sandbox/{id}/exec", SSE, lambda line: {"argv": ["sh", "-c", line]}, text_of_base64, rb'"exit_code":0\b'),
]


# Files

@dataclass
class Files:
    """How a surface takes a file's bytes, and gives them back."""
    surface: str
    up: tuple  # method, path with {id} and {path}
    down: str
    headers: Callable = lambda sandbox_id: {}

    def write(self, client, sandbox_id, path, content):
        method, pattern = self.up
        answer = client.ask(method, pattern.format(id=sandbox_id, path=quote(path)), content, headers={"Content-Type": "application/octet-stream", **self.headers(sandbox_id)})
        assert answer.status < 300, answer.body[:300]

    def read(self, client, sandbox_id, path):
        answer = client.ask("GET", self.down.format(id=sandbox_id, path=quote(path)), headers=self.headers(sandbox_id))
        assert answer.status == 200, answer.body[:300]
        return answer.body


def envd(sandbox_id):
    return {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": ENVD}


FILES = [
    Files("native", ("PUT", "/v1/sandboxes/{id}/fs?path={path}"), "/v1/sandboxes/{id}/fs?path={path}"),
    Files("pandastack", ("PUT", "/v1/sandboxes/{id}/fs?path={path}"), "/v1/sandboxes/{id}/fs?path={path}", lambda _: PANDASTACK),
    Files("e2b", ("POST", "/files?path={path}"), "/files?path={path}", envd),
    Files("cloudflare", ("PUT", "/v1/sandbox/{id}/file{path}"), "/v1/sandbox/{id}/file{path}"),
]
