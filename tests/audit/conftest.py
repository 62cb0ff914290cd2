# SPDX-License-Identifier: Apache-2.0
"""The record's suite uses the API suite's viald, client and fixtures."""

import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

API = Path(__file__).parent.parent / "api"
sys.path.insert(0, str(API))
_spec = importlib.util.spec_from_file_location("api_conftest", API / "conftest.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

pytest_collection_modifyitems = _module.pytest_collection_modifyitems
folder, daemon, client, sandbox, fresh = _module.folder, _module.daemon, _module.client, _module.sandbox, _module.fresh

from record import bare_options  # noqa: E402
from vial import Daemon  # noqa: E402


@pytest.fixture
def place():
    """A folder with a short name, for one test."""
    path = tempfile.mkdtemp(prefix="vial-test-", dir="/tmp")
    yield Path(path)
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def bare(place):
    """Starts vialds that have no sandboxes, and start at once: bare("--audit-sync", "true"). One data directory for all of a test's."""
    daemons = []

    def start(*options, **keywords):
        daemons.append(Daemon(place, *bare_options(place), *options, **keywords))
        return daemons[-1]

    yield start
    for one in daemons:
        if one.process.poll() is None:
            one.stop()
