# SPDX-License-Identifier: Apache-2.0
"""The governance suite: who may do what, how much of it, and what is left of it afterwards. With the API suite's viald, client and fixtures, the identity
provider of tests/auth and the collector of tests/telemetry."""

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in ("telemetry", "auth", "http", "api", "governance"):
    sys.path.insert(0, str(HERE.parent / folder))
_spec = importlib.util.spec_from_file_location("api_conftest", HERE.parent / "api/conftest.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

pytest_collection_modifyitems = _module.pytest_collection_modifyitems
folder, daemon, client, sandbox, fresh = _module.folder, _module.daemon, _module.client, _module.sandbox, _module.fresh
start_daemon = _module.start_daemon

from world import Project  # noqa: E402


@pytest.fixture
def project(client):
    """A project for one test alone, with everything in it ended afterwards."""
    project = Project(client)
    yield project
    client.ask("DELETE", project.path)
