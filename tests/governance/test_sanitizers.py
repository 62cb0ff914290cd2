# SPDX-License-Identifier: Apache-2.0
"""Keys, people, bad fields and the race with a project's end once more, against a viald that watches its own memory: identities and promises have many holders."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sanitized import Sanitized
from vial import slow

HERE = Path(__file__).parent
TESTS = ["test_keys.py", "test_people.py", "test_bad_fields.py", "test_deletion.py::test_creations_that_race_with_the_end_leave_nothing",
         "test_quotas.py::test_runs_at_the_same_time_are_limited_and_worth_waiting_for", "test_quotas.py::test_a_fork_that_does_not_fit_whole_makes_nothing"]
LATER = "not expires and not overlap_and_then and not ten_thousand"  # bounds of a second are for a viald as it is delivered


@pytest.mark.timeout(400)
def test_the_sanitizers_find_nothing(folder):
    programs = Sanitized(folder)
    environment = {**os.environ, **programs.env, "VIAL_BUILD_DIR": str(programs.path)}
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=short", "-k", LATER, *(str(HERE / name) for name in TESTS)],
                          env=environment, capture_output=True, text=True, timeout=slow(130))
    programs.check()
    assert done.returncode == 0 and " passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-6000:]
