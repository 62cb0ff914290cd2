# SPDX-License-Identifier: Apache-2.0
"""What holds for all suites."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def test_an_empty_table_of_cases_is_an_error(tmp_path):
    file = tmp_path / "test_nothing.py"
    file.write_text("import pytest\n\n\n@pytest.mark.parametrize('case', [])\ndef test_nothing(case):\n    pass\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-c", TESTS / "pytest.ini", file], capture_output=True, text=True)
    assert done.returncode == 2 and "Empty parameter set" in done.stdout
