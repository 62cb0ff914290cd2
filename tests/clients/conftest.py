# SPDX-License-Identifier: Apache-2.0
"""Real third-party clients, unmodified, from their registries. They use the API suite's daemon fixtures."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
for folder in ("http", "api"):
    sys.path.insert(0, str(TESTS / folder))

specification = importlib.util.spec_from_file_location("api_conftest", TESTS / "api/conftest.py")
api = importlib.util.module_from_spec(specification)
specification.loader.exec_module(api)

pytest_collection_modifyitems = api.pytest_collection_modifyitems
folder, daemon, client, sandbox, fresh, start_daemon = api.folder, api.daemon, api.client, api.sandbox, api.fresh, api.start_daemon


@pytest.fixture(scope="session")
def npm_package():
    """Installs an npm package by exact version, through this machine's own npm configuration; kept between runs."""
    def install(name, version):
        cache = Path(os.environ.get("VIAL_DATA_TEST", "/var/lib/vial-test")) / "npm" / f"{name.replace('/', '-')}-{version}"
        if not (cache / "complete").exists():
            cache.mkdir(parents=True, exist_ok=True)
            done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", cache, f"{name}@{version}"],
                                  capture_output=True, text=True, timeout=300)
            if done.returncode != 0:
                pytest.skip(f"npm cannot install {name} {version}: {done.stderr.strip().splitlines()[-1:]}")
            (cache / "complete").touch()
        return cache
    return install
