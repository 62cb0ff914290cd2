# SPDX-License-Identifier: Apache-2.0
"""A viald that makes templates of layers (layer_daemon.py)."""

import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from layer_daemon import PROGRAM, LayerDaemon  # noqa: E402
from vial import images_dir  # noqa: E402


def pytest_collection_modifyitems(items):
    for program in (PROGRAM, images_dir() / "minimal.json"):
        if not program.exists():
            for item in items:
                item.add_marker(pytest.mark.skip(reason=f"{program} is not there"))


@pytest.fixture(scope="module")
def start_daemon():
    daemons = []

    def start(*options, **fields):
        folder = tempfile.mkdtemp(prefix="vial-test-", dir="/tmp")
        daemons.append(LayerDaemon(folder, *options, **fields))
        return daemons[-1]

    yield start
    for daemon in daemons:
        if daemon.process.poll() is None:
            daemon.stop()
        shutil.rmtree(daemon.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def daemon(start_daemon):
    return start_daemon()


@pytest.fixture
def client(daemon):
    """Made anew for each test: viald may have been started again, on another port."""
    return daemon.client()
