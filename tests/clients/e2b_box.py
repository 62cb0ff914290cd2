# SPDX-License-Identifier: Apache-2.0
"""What the tests of E2B's data plane share: its Python packages, a sandbox made with them, and requests as they send them, by hand."""

import http.client
import importlib
import json
import struct
import sys

import pypi
from vial import slow

ENVD, CODE = 49983, 49999
# What breaks clients: a line separator, an emoji beyond the BMP, NEL, what is not ASCII.
STRANGE = "Grüße \u2028 \U0001f600 \x85 Ångström\u2029 日本"


def load(name="e2b"):
    """One of the two packages, from a folder that has both. It stays in the path, since they load parts of theirs late; last, to be in nobody's way."""
    folder = str(pypi.install("e2b==2.63.0", "e2b-code-interpreter==2.11.5"))
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def options(daemon, **others):
    """For anything that takes a connection's parameters: one address for everything."""
    return {"api_url": daemon.url, "sandbox_url": daemon.url, "api_key": daemon.key, "request_timeout": slow(30), **others}


def create(daemon, template="minimal", package="e2b", **others):
    return load(package).Sandbox.create(template, **options(daemon, **others))


def headers(box, port=ENVD, **others):
    """Those of a request of the data plane; one given as None is left out."""
    usual = {"E2b-Sandbox-Id": box.sandbox_id, "E2b-Sandbox-Port": str(port), "X-Access-Token": box._envd_access_token}
    return {name: value for name, value in {**usual, **others}.items() if value is not None}


class Reply:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    def json(self):
        return json.loads(self.body)


def ask(daemon, method, path, send=None, body=None):
    """An answer to a request with exactly these headers: no key but what `send` says."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=slow(30))
    try:
        connection.request(method, path, body=json.dumps(body) if isinstance(body, (dict, list)) else body,
                           headers={**({"Content-Type": "application/json"} if isinstance(body, (dict, list)) else {}), **(send or {})})
        return Reply(connection.getresponse())
    finally:
        connection.close()


def frame(message, flags=0):
    body = json.dumps(message).encode()
    return struct.pack(">BI", flags, len(body)) + body


def frames(body):
    """[(flags, message)] of a Connect stream that is complete."""
    found = []
    while body:
        flags, size = struct.unpack(">BI", body[:5])
        assert len(body) >= 5 + size, f"a frame is cut: {body!r}"
        found.append((flags, json.loads(body[5:5 + size])))
        body = body[5 + size:]
    return found
