# SPDX-License-Identifier: Apache-2.0
"""Where the kernels are tested.

VIAL_TEST_URL, VIAL_TEST_KEY (or VIAL_URL, VIAL_API_KEY)  a viald to test through its HTTP API, with VIAL_TEST_TEMPLATE (default code-interpreter); or
VIAL_TEST_ROOTFS             a guest root file system: the agent and the kernels of this tree are run in it directly under runsc
VIAL_TEST_AGENT              the vial-agent program for that; default build/vial-agent
"""
import os
import shutil

import pytest

from runners import AgentRunner, HttpRunner, PROJECT

URL = os.environ.get("VIAL_URL") or os.environ.get("VIAL_TEST_URL", "")
KEY = os.environ.get("VIAL_API_KEY") or os.environ.get("VIAL_TEST_KEY", "")
TEMPLATE = os.environ.get("VIAL_TEST_TEMPLATE", "code-interpreter")
ROOTFS = os.environ.get("VIAL_TEST_ROOTFS", "")
AGENT = os.environ.get("VIAL_TEST_AGENT", os.path.join(PROJECT, "build", "vial-agent"))


def why_not():
    if URL:
        return None if KEY else "VIAL_URL is set but VIAL_API_KEY is not"
    if os.geteuid() != 0:
        return "runsc needs root"
    if not shutil.which(os.environ.get("VIAL_RUNSC", "runsc")):
        return "runsc is not installed"
    if not os.path.isdir(ROOTFS):
        return "neither VIAL_URL nor VIAL_TEST_ROOTFS is set"
    if not os.path.exists(AGENT):
        return f"{AGENT} does not exist: build it first"
    return None


def pytest_collection_modifyitems(items):
    reason = why_not()
    if reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


def make(**options):
    return HttpRunner(URL, KEY, TEMPLATE, **options) if URL else AgentRunner(AGENT, ROOTFS, **options)


@pytest.fixture(scope="session")
def box():
    """One sandbox for all cases: they leave its contexts usable."""
    runner = make()
    yield runner
    runner.close()


@pytest.fixture
def fresh():
    """fresh(memory_mb=...): a sandbox of one's own."""
    made = []

    def start(**options):
        made.append(make(**options))
        return made[-1]

    yield start
    for runner in made:
        runner.close()


_present = {}


@pytest.fixture
def needs(box):
    """needs("pandas", "esbuild"): skips when the image has no such Python module or program."""

    def check(*names):
        for name in names:
            if name not in _present:
                code = f"import importlib.util, shutil\nbool(importlib.util.find_spec({name!r}) or shutil.which({name!r}))"
                _present[name] = box.run(code)["results"][-1]["text/plain"] == "True"
            if not _present[name]:
                pytest.skip(f"the image has no {name}")

    return check
