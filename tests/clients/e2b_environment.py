# SPDX-License-Identifier: Apache-2.0
"""The PyPI package e2b 2.63.0 for tests of the control plane, pointed at viald as its users do it: by three environment variables."""

import importlib
import os
import sys

import pytest

from tools import add_key


@pytest.fixture(scope="module")
def e2b(python_packages, daemon):
    before, folder = dict(os.environ), str(python_packages("e2b==2.63.0"))
    os.environ.update(E2B_API_URL=daemon.url, E2B_SANDBOX_URL=daemon.url, E2B_API_KEY=add_key(daemon, "e2b", form="e2b"))
    sys.path.insert(0, folder)
    yield importlib.import_module("e2b")
    sys.path.remove(folder)
    os.environ.clear()
    os.environ.update(before)
