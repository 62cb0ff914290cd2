# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the real agent under runsc.

VIAL_TEST_ROOTFS   a guest root file system (Debian with python3 and bash); needed
VIAL_TEST_AGENT    the vial-agent program; default build/vial-agent (`make test` takes the sanitized one)
"""
import os
import shutil

import pytest

from wireclient import Sandbox

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AGENT = os.environ.get("VIAL_TEST_AGENT", os.path.join(PROJECT, "build", "vial-agent"))
ROOTFS = os.environ.get("VIAL_TEST_ROOTFS", "")


def pytest_collection_modifyitems(items):
    reason = None
    if os.geteuid() != 0:
        reason = "runsc needs root"
    elif not shutil.which(os.environ.get("VIAL_RUNSC", "runsc")):
        reason = "runsc is not installed"
    elif not os.path.exists(AGENT):
        reason = f"{AGENT} does not exist: build it first"
    elif not os.path.isdir(ROOTFS):
        reason = "VIAL_TEST_ROOTFS does not name a root file system"
    if reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


def start(hello=None, **options):
    """A sandbox that has said hello and has the user `user`."""
    sandbox = Sandbox.start(AGENT, ROOTFS, **options)
    try:
        assert "error" not in sandbox.hello(**(hello or {}))
        sandbox.run("id user || useradd -m -u 1000 -s /bin/bash user; chown user:user /workspace", user="root")
    except BaseException:
        print(sandbox.log())
        sandbox.close()
        raise
    return sandbox


def kernels_mount():
    """The kernels of this tree as the guest sees them; what start() wants as extra_mounts."""
    source = os.path.join(PROJECT, "guest", "kernels")
    return ({"destination": "/opt/vial/kernels", "type": "bind", "source": source, "options": ["ro", "rbind"]},)


@pytest.fixture(scope="module")
def notebook():
    """A sandbox in which ctx.run works, shared by the tests of one file."""
    with start(extra_mounts=kernels_mount()) as sandbox:
        yield sandbox
        print(sandbox.log())


@pytest.fixture(scope="module")
def box():
    """Shared by the tests of one file: they leave it usable."""
    with start() as sandbox:
        yield sandbox
        print(sandbox.log())


@pytest.fixture
def fresh():
    """start(): a sandbox of one's own, for tests that ruin it or set limits."""
    started = []

    def make(**options):
        started.append(start(**options))
        return started[-1]

    yield make
    for sandbox in started:
        print(sandbox.log())
        sandbox.close()


@pytest.fixture
def restore(tmp_path):
    """restore(sandbox): a checkpoint of it that goes on running, and a new sandbox from that."""
    started = []

    def make(sandbox):
        image = str(tmp_path / f"image{len(started)}")
        os.mkdir(image)
        sandbox.wire.freeze()
        sandbox.checkpoint(image)
        sandbox.hello(generation=sandbox.generation)
        started.append(Sandbox.start(AGENT, ROOTFS, image=image, bundle_of=sandbox))
        return started[-1]

    yield make
    for sandbox in started:
        print(sandbox.log())
        sandbox.close()
