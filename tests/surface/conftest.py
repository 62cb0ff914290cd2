# SPDX-License-Identifier: Apache-2.0
"""viald with two surfaces: the native API and a line protocol on a unix socket (line_surface.c)."""

import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from line_client import PROGRAM, LineDaemon  # noqa: E402
from vial import images_dir  # noqa: E402


def pytest_collection_modifyitems(items):
    for program in (PROGRAM, images_dir() / "minimal.json"):
        if not program.exists():
            for item in items:
                item.add_marker(pytest.mark.skip(reason=f"{program} is not there"))


@pytest.fixture(scope="module")
def start_line_daemon():
    daemons = []

    def start(*options):
        folder = tempfile.mkdtemp(prefix="vial-test-", dir="/tmp")
        daemons.append(LineDaemon(folder, *options))
        return daemons[-1]

    yield start
    for daemon in daemons:
        if daemon.process.poll() is None:
            daemon.stop()
        shutil.rmtree(daemon.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def daemon(start_line_daemon):
    return start_line_daemon("--max-sandboxes", 3)


@pytest.fixture(scope="module")
def client(daemon):
    return daemon.client()


@pytest.fixture(scope="module")
def sandbox(client):
    sandbox = client.create()
    yield sandbox
    sandbox.delete()


@pytest.fixture
def line(daemon):
    line = daemon.line()
    yield line
    line.close()
