# SPDX-License-Identifier: Apache-2.0
"""Custom templates: builds on a viald of one's own, with the API suite's client and the `minimal` image as the base."""

import importlib.util
import sys
from pathlib import Path

import pytest

API = Path(__file__).parent.parent / "api"
sys.path.insert(0, str(API))
_spec = importlib.util.spec_from_file_location("api_conftest", API / "conftest.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

pytest_collection_modifyitems = _module.pytest_collection_modifyitems
folder, client, start_daemon = _module.folder, _module.client, _module.start_daemon

from vial import Daemon  # noqa: E402

from builds import Builder  # noqa: E402


@pytest.fixture(scope="module")
def daemon(folder):
    # Two at a time, so that a check that lets one hang does not hold up the next; the queue's checks have a viald of their own.
    daemon = Daemon(folder, "--max-builds", 2)
    yield daemon
    daemon.stop()


@pytest.fixture(scope="module")
def builder(client):
    return Builder(client)
