# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the API suite: one viald per module, one sandbox per module, all gone afterwards."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "http"))  # the table of bad input

from vial import Client, Daemon, build_dir, images_dir  # noqa: E402


def missing():
    """Why this machine cannot run the suite, or None."""
    if os.geteuid() != 0:
        return "the API suite starts sandboxes, which needs root"
    if not (build_dir() / "viald").exists():
        return f"{build_dir() / 'viald'} is not built"
    if not (images_dir() / "minimal.json").exists():
        return f"the image `minimal` is not in {images_dir()}; make it with scripts/build-image"
    return None


def pytest_collection_modifyitems(items):
    reason = missing()
    if reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module")
def folder():
    # Not pytest's own tmp_path: unix sockets have short names, and nothing of a passed run is worth keeping.
    path = tempfile.mkdtemp(prefix="vial-test-", dir="/tmp")
    yield Path(path)
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def daemon(folder):
    daemon = Daemon(folder)
    yield daemon
    daemon.stop()


@pytest.fixture(scope="module")
def client(daemon) -> Client:
    return daemon.client()


@pytest.fixture(scope="module")
def sandbox(client):
    sandbox = client.create()
    yield sandbox
    sandbox.delete()


@pytest.fixture
def fresh(client):
    """A sandbox for one test alone, which may break it."""
    sandbox = client.create()
    yield sandbox
    sandbox.delete()


@pytest.fixture
def start_daemon():
    """Starts vialds with options of their own: start_daemon("--max-sandboxes", 2). All are stopped, and must stop well."""
    daemons = []

    def start(*options, **keywords):
        folder = tempfile.mkdtemp(prefix="vial-test-", dir="/tmp")
        daemons.append(Daemon(folder, *options, **keywords))
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.stop()
        shutil.rmtree(daemon.folder, ignore_errors=True)
