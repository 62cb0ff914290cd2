# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from rawhttp import ask  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = os.environ.get("VIAL_TEST_SERVER_OPTIONS", "").split()  # of every server: the same tests under other circumstances


def find_program():
    build = Path(os.environ.get("VIAL_BUILD_DIR", ROOT / "build"))
    return build / "tests/http/http-echo-server"


def address_of(url):
    if url.startswith("unix:"):
        return url[len("unix:"):]
    parts = urlsplit(url)
    return (parts.hostname, parts.port)


class Server:
    """The test server of src/http in a process of its own."""

    def __init__(self, *options, listen="127.0.0.1:0", log=None):
        command = [find_program(), "--listen", listen, *OPTIONS, *map(str, options)]
        with open(log, "w") if log else nullcontext() as stderr:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.url = self.process.stdout.readline().strip()
        self.address = address_of(self.url)
        # Where the counters are: a server of its own if answers of the first one may be held.
        self.control = address_of(self.process.stdout.readline().strip()) if "--commit" in command else self.address

    def ask(self, method, path, **options):
        return ask(self.address, method, path, **options)

    def counters(self):
        """Asking is one of the connections and requests, also when it is a connection to the other server."""
        counters = ask(self.control, "GET", "/counters", key=None).json()
        is_apart = self.control != self.address
        return {**counters, "connections": counters["connections"] + is_apart, "requests": counters["requests"] + is_apart}

    def rss_kb(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        return 0

    def stop(self):
        """Ends it the way an operator does; leaks and sanitizer reports show in the exit status."""
        self.process.terminate()
        status = self.process.wait(timeout=60)
        assert status == 0, f"the server ended with {status}"


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def start():
    """Starts servers with options of their own; all are stopped, and must stop well."""
    servers = []

    def start_server(*options, **keywords):
        servers.append(Server(*options, **keywords))
        return servers[-1]

    yield start_server
    for server in servers:
        server.stop()
