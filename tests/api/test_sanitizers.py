# SPDX-License-Identifier: Apache-2.0
"""A part of this suite once more, against viald and vial-shim built with AddressSanitizer and UndefinedBehaviorSanitizer.

The agent stays the ordinary one: the suite `agent` runs the sanitized one, all of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vial import ROOT, SLOWNESS, build_dir

# What touches the most code in the least time, and all that is hostile (tests/http/test_sanitizers.py has its own half of that). Sizes of memory and
# speeds are another matter under a sanitizer.
FILES = ["test_exec.py", "test_files.py", "test_processes.py", "test_survival.py", "test_bad_input.py", "../security/test_clients.py"]
LEAVE_OUT = ["size", "quarter", "quick", "many_files", "for_ever", "many_commands", "ignores_polite", "time_to_live", "costs_little", "without_growing"]


@pytest.fixture(scope="module")
def sanitized():
    """A build folder with sanitized viald and vial-shim."""
    done = subprocess.run([ROOT / "scripts/build-sanitized"], check=True, stdout=subprocess.PIPE, text=True, timeout=300 * SLOWNESS)
    return Path(done.stdout.splitlines()[-1])


@pytest.fixture
def programs(sanitized, tmp_path):
    for source in (sanitized / "viald", sanitized / "vial-shim", build_dir() / "vial-agent"):
        shutil.copy(source, tmp_path / source.name)
    (tmp_path / "kernels").symlink_to(ROOT / "guest/kernels")
    return tmp_path


@pytest.mark.timeout(400 * SLOWNESS)
def test_the_sanitizers_find_nothing(programs):
    reports = programs / "reports"
    reports.mkdir()
    options = f"log_path={reports}/report:exitcode=99:print_stacktrace=1:detect_leaks=1"
    environment = {**os.environ, "VIAL_BUILD_DIR": str(programs), "VIAL_BUILD": str(programs), "VIAL_TEST_SLOWNESS": str(2 * SLOWNESS), "ASAN_OPTIONS": options,
                   "UBSAN_OPTIONS": options, "LSAN_OPTIONS": f"suppressions={Path(__file__).with_name('lsan.supp')}:print_suppressions=0"}
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=short", "--timeout", str(int(80 * SLOWNESS)),
                           "-k", " and ".join(f"not {word}" for word in LEAVE_OUT), *[str(Path(__file__).parent / name) for name in FILES]],
                          env=environment, capture_output=True, text=True, timeout=370 * SLOWNESS)
    found = "\n".join(path.read_text(errors="replace")[:6000] for path in sorted(reports.iterdir())[:5])
    assert not found, found
    assert done.returncode == 0, done.stdout[-6000:]
