# SPDX-License-Identifier: Apache-2.0
"""Tests that try what THREATS names and must fail to get through. They use the API suite's fixtures and add a second project."""

import importlib.util
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
for folder in ("http", "api"):
    sys.path.insert(0, str(TESTS / folder))

specification = importlib.util.spec_from_file_location("api_conftest", TESTS / "api/conftest.py")
api = importlib.util.module_from_spec(specification)
specification.loader.exec_module(api)

pytest_collection_modifyitems = api.pytest_collection_modifyitems
folder, client, sandbox, fresh, start_daemon = api.folder, api.client, api.sandbox, api.fresh, api.start_daemon

from tools import add_key  # noqa: E402
from vial import Daemon  # noqa: E402


@pytest.fixture(scope="module")
def keys():
    return {}


@pytest.fixture(scope="module")
def daemon(folder, keys):
    """A daemon that knows two projects: its own, and `other`."""
    daemon = Daemon(folder, "--log-level", "debug", "--log-format", "json")
    keys["other"] = add_key(daemon, "other")
    yield daemon
    daemon.stop()


@pytest.fixture(scope="module")
def stranger(daemon, keys):
    """A client with a valid key of another project."""
    return daemon.client(keys["other"])
