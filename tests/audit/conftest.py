# SPDX-License-Identifier: Apache-2.0
"""The record's suite uses the API suite's viald, client and fixtures."""

import importlib.util
import json
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

API = Path(__file__).parent.parent / "api"
sys.path.insert(0, str(API))
_spec = importlib.util.spec_from_file_location("api_conftest", API / "conftest.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

pytest_collection_modifyitems = _module.pytest_collection_modifyitems
folder, daemon, client, sandbox, fresh = _module.folder, _module.daemon, _module.client, _module.sandbox, _module.fresh

from vial import Daemon  # noqa: E402


@pytest.fixture
def place():
    """A folder with a short name, for one test."""
    path = tempfile.mkdtemp(prefix="vial-test-", dir="/tmp")
    yield Path(path)
    shutil.rmtree(path, ignore_errors=True)


def make_empty_image(folder):
    """viald does not start without an image: this one has nothing in it, so nothing is baked from it."""
    (folder / "none/rootfs").mkdir(parents=True, exist_ok=True)
    (folder / "none.json").write_text(json.dumps({
        "name": "none", "hash": "0" * 12, "summary": "", "aliases": [], "rootfs": str(folder / "none/rootfs"),
        "created_at": "2026-01-01T00:00:00Z", "size_bytes": 1, "packages": 0, "missing": []}))


def make_idle_runsc(path):
    """Says its version, which takes the real one a tenth of a second, and starts nothing."""
    path.write_text("""#!/bin/sh
[ "$1" != --version ] || printf 'runsc version release-20260905.0\\nspec: 1.2.1\\n'
[ "$1" != help ] || echo "-background"
[ "$1" = --version ] || [ "$1" = help ]
""")
    path.chmod(0o755)


@pytest.fixture
def bare(place):
    """Starts vialds that have no sandboxes, and start at once: bare("--audit-sync", "true"). One data directory for all of a test's."""
    daemons = []
    make_empty_image(place / "images")
    make_idle_runsc(place / "runsc")

    def start(*options, **keywords):
        daemons.append(Daemon(place, "--images-dir", place / "images", "--engine", "gvisor", "--runsc", place / "runsc", *options, **keywords))
        return daemons[-1]

    yield start
    for one in daemons:
        if one.process.poll() is None:
            one.stop()
