# SPDX-License-Identifier: Apache-2.0
"""Runs the lab as one test of the ordinary suite (scripts/lab, under 15 minutes on an idle machine). VIAL_SKIP_LAB=1 leaves it out."""
import os
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77


@pytest.mark.timeout(2500)  # the lab itself gives up after VIAL_LAB_TIMEOUT (2400) seconds
@pytest.mark.skipif(os.environ.get("VIAL_SKIP_LAB") == "1", reason="VIAL_SKIP_LAB=1")
def test_the_microvm_engine_works_on_an_emulated_processor():
    environment = {**os.environ, "VIAL_DATA": os.environ.get("VIAL_DATA_TEST", "/var/lib/vial-test"), "VIAL_BUILD": os.environ.get("VIAL_BUILD", os.path.join(ROOT, "build"))}
    result = subprocess.run([os.path.join(ROOT, "scripts", "lab")], env=environment, capture_output=True, text=True, timeout=1580)
    print(result.stdout)
    if result.returncode == SKIPPED:
        pytest.skip(result.stderr.strip().splitlines()[-1])
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-1000:]
