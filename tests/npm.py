# SPDX-License-Identifier: Apache-2.0
"""npm packages that suites run, by exact version, through this machine's own npm configuration; kept between runs."""

import os
import subprocess
from pathlib import Path

import pytest


def install(name, version, *beside):
    """The folder that has node_modules; `beside` are "name@version" of what it needs from whoever installs it. A registry that cannot be reached skips the
    test, with the reason."""
    words = "+".join([f"{name}-{version}", *beside])
    cache = Path(os.environ.get("VIAL_DATA_TEST", "/var/lib/vial-test")) / "npm" / words.replace("/", "-")
    if not (cache / "complete").exists():
        cache.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", cache, f"{name}@{version}", *beside],
                              capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            pytest.skip(f"npm cannot install {name} {version}: {done.stderr.strip().splitlines()[-1:]}")
        (cache / "complete").touch()
    return cache
