# SPDX-License-Identifier: Apache-2.0
"""Real third-party clients, unmodified, from their registries. They use the API suite's daemon fixtures, with a sanitized viald: clients that leave, errors in
the middle of a stream and odd bodies are what surfaces are made of, and an exchange that is ended twice shows there or nowhere."""

import importlib.util
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
for folder in ("", "http", "api"):
    sys.path.insert(0, str(TESTS / folder))

import npm
import pypi
from sanitized import Sanitized
from vial import Daemon

specification = importlib.util.spec_from_file_location("api_conftest", TESTS / "api/conftest.py")
api = importlib.util.module_from_spec(specification)
specification.loader.exec_module(api)

pytest_collection_modifyitems = api.pytest_collection_modifyitems
folder, daemon, client, sandbox, fresh, start_daemon = api.folder, api.daemon, api.client, api.sandbox, api.fresh, api.start_daemon


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory):
    programs = Sanitized(tmp_path_factory.mktemp("sanitized"))
    Daemon.usual_programs, Daemon.usual_env = programs.path, programs.env
    return programs


@pytest.fixture(scope="module", autouse=True)
def nothing_is_found(sanitized):
    """The first of a module's fixtures, and so the last to go: after its viald has."""
    yield
    sanitized.check()


@pytest.fixture(scope="session")
def npm_package():
    return npm.install


@pytest.fixture(scope="session")
def python_packages():
    return pypi.install


def pytest_configure(config):
    config.addinivalue_line("markers", "method(sdk, *methods, differs=None): the methods of an SDK that a test shows; see compatibility.py")
