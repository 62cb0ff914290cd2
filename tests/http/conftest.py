# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from rawhttp import ask  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def find_program():
    build = Path(os.environ.get("VIAL_BUILD_DIR", ROOT / "build"))
    return build / "tests/http/http-echo-server"


class Server:
    """The test server of src/http in a process of its own."""

    def __init__(self, *options, listen="127.0.0.1:0"):
        self.process = subprocess.Popen([find_program(), "--listen", listen, *map(str, options)], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        if self.url.startswith("unix:"):
            self.address = self.url[len("unix:"):]
        else:
            parts = urlsplit(self.url)
            self.address = (parts.hostname, parts.port)

    def ask(self, method, path, **options):
        return ask(self.address, method, path, **options)

    def counters(self):
        return self.ask("GET", "/counters", key=None).json()

    def rss_kb(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        return 0

    def stop(self):
        """Ends it the way an operator does; leaks and sanitizer reports show in the exit status."""
        self.process.terminate()
        status = self.process.wait(timeout=20)
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
