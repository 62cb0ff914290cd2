# SPDX-License-Identifier: Apache-2.0
"""Python packages that suites run, by exact version, through this machine's own pip configuration; kept between runs. Each set of packages has a folder of
its own, because SDKs pin each other's versions: put it first in sys.path, or, where two versions are wanted in one run, into a child's PYTHONPATH."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def install(*packages):
    """The folder that has the packages ("name==version") and what they need. An index that cannot be reached skips the test, with the reason."""
    folder = Path(os.environ.get("VIAL_DATA_TEST", "/var/lib/vial-test")) / "pypi" / "+".join(sorted(packages))
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was ended in the middle
        folder.mkdir(parents=True)
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", folder, *packages],
                              capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            pytest.skip(f"pip cannot install {' '.join(packages)}: {done.stderr.strip().splitlines()[-1:]}")
        (folder / "complete").touch()
    return folder
