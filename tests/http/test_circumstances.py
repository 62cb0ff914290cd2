# SPDX-License-Identifier: Apache-2.0
"""Requests, bodies and routes once more, while everything comes a little later: a client must not be able to tell."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = [HERE / f"test_{name}.py" for name in ("bad_input", "bodies", "errors", "routes", "websocket")]
SLOWNESS = float(os.environ.get("VIAL_TEST_SLOWNESS", "3"))  # of every limit here; see tests/api/vial.py


@pytest.mark.timeout(100 * SLOWNESS)
@pytest.mark.parametrize("options", ["--auth-delay 0", "--commit 1"])
def test_it_is_the_same(options):
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=short", *FILES],
                          env={**os.environ, "VIAL_TEST_SERVER_OPTIONS": options}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:]
