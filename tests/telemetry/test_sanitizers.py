# SPDX-License-Identifier: Apache-2.0
"""Everything in this folder once more, against the exporter built with AddressSanitizer and UndefinedBehaviorSanitizer: a collector that talks nonsense is
what a memory error would come from."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
SLOWNESS = float(os.environ.get("VIAL_TEST_SLOWNESS", "3"))  # of every limit here; see tests/api/vial.py


@pytest.mark.timeout(300 * SLOWNESS)
def test_the_sanitizers_find_nothing(tmp_path):
    done = subprocess.run([ROOT / "scripts/build-sanitized"], check=True, stdout=subprocess.PIPE, text=True, timeout=200 * SLOWNESS)
    options = f"log_path={tmp_path}/report:exitcode=99:print_stacktrace=1:detect_leaks=1"
    environment = {**os.environ, "VIAL_BUILD_DIR": done.stdout.splitlines()[-1], "ASAN_OPTIONS": options, "UBSAN_OPTIONS": options}
    files = sorted(str(path) for path in HERE.glob("test_*.py") if path != Path(__file__))
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=short", "--timeout", str(int(40 * SLOWNESS)), *files],
                          env=environment, capture_output=True, text=True, timeout=260 * SLOWNESS)
    found = "\n".join(path.read_text(errors="replace")[:6000] for path in sorted(tmp_path.glob("report*"))[:5])
    assert not found, found
    assert done.returncode == 0, done.stdout[-6000:]
