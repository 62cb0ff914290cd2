# SPDX-License-Identifier: Apache-2.0
"""The agents suite: who has which sandbox, and for how long. With the governance suite's projects, and so with the API suite's viald, client and fixtures."""

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in ("telemetry", "auth", "http", "api", "governance", "agents"):
    sys.path.insert(0, str(HERE.parent / folder))
_spec = importlib.util.spec_from_file_location("governance_conftest", HERE.parent / "governance/conftest.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

pytest_collection_modifyitems = _module.pytest_collection_modifyitems
folder, daemon, client, start_daemon, project = _module.folder, _module.daemon, _module.client, _module.start_daemon, _module.project

from people import Agent  # noqa: E402


@pytest.fixture
def agent(client):
    """An agent with one version, for one test alone."""
    agent = Agent(client)
    agent.add_version()
    yield agent
    client.ask("DELETE", agent.path)
