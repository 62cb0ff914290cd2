# SPDX-License-Identifier: Apache-2.0
"""A viald whose every sandbox is a liar (liar.py): no image, no runsc, no KVM is behind it, only the wire.

The programs are those built with AddressSanitizer and UndefinedBehaviorSanitizer: a lie that viald merely survives is not enough."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "api"))

import vial  # noqa: E402


def missing():
    """Why this machine cannot run the suite, or None."""
    if os.geteuid() != 0:
        return "viald makes network namespaces and control groups for its sandboxes, which needs root"
    return None


def pytest_collection_modifyitems(items):
    reason = missing()
    if reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def sanitized():
    if "VIAL_TEST_SANITIZED" in os.environ:
        return Path(os.environ["VIAL_TEST_SANITIZED"])
    done = subprocess.run([vial.ROOT / "scripts/build-sanitized"], check=True, stdout=subprocess.PIPE, text=True, timeout=900)
    return Path(done.stdout.splitlines()[-1])


class World:
    """Programs, an image that is only a name, and a viald with them."""

    def __init__(self, sanitized, engine):
        self.folder = Path(tempfile.mkdtemp(prefix="vial-liar-", dir="/tmp"))
        self.programs = self.folder / "bin"
        self.reports = self.folder / "reports"
        images = self.folder / "images"
        for path in (self.programs, self.reports, images / "minimal-1/rootfs", images / "guest-kernel", self.programs / "kernels"):
            path.mkdir(parents=True)
        for name in ("viald", "vial-agent"):
            shutil.copy(sanitized / name, self.programs / name)
        for name in ("vial-shim", "vial-vmm"):
            shutil.copy(HERE / "liar.py", self.programs / name)
            (self.programs / name).chmod(0o755)
        (self.programs / "build-disk").write_text('#!/bin/sh\n: > "$2"\n')
        (self.programs / "build-disk").chmod(0o755)
        (images / "guest-kernel/initrd").touch()
        (images / "minimal-1/rootfs/etc").mkdir()
        (images / "minimal.json").write_text(json.dumps({"name": "minimal", "hash": "1", "rootfs": str(images / "minimal-1/rootfs")}))
        self.lies = {}
        self.write_lies()
        options = f"log_path={self.reports}/report:exitcode=99:print_stacktrace=1:detect_leaks=1"
        environment = {"ASAN_OPTIONS": options, "UBSAN_OPTIONS": options, "VIAL_TEST_IMAGES": str(images),
                       "LSAN_OPTIONS": f"suppressions={HERE.parent / 'api/lsan.supp'}:print_suppressions=0"}
        os.environ.update({"VIAL_BUILD_DIR": str(self.programs), "VIAL_TEST_IMAGES": str(images)})
        (self.folder / "d").mkdir()
        self.daemon = vial.Daemon(self.folder / "d", "--engine", engine, env=environment)
        self.client = self.daemon.client()
        self.honest = self.client.create()

    def write_lies(self):
        temporary = self.programs / "lies.tmp"
        temporary.write_text(json.dumps(self.lies))
        temporary.rename(self.programs / "lies.json")

    def tell(self, who, lie):
        self.lies = {who: lie} if lie else {}
        self.write_lies()

    def create(self, **fields):
        """A sandbox that tells the truth so far. A viald that a lie has killed fails that one's test and is started anew for the next."""
        if self.daemon.process.poll() is not None:
            for path in self.reports.iterdir():
                path.unlink()
            self.daemon.start()
            self.client = self.daemon.client()
            self.honest = self.client.create()
        return self.client.create(**fields)

    def check(self):
        """viald lives, no sanitizer has spoken, and the others go on."""
        assert self.daemon.process.poll() is None, self.daemon.log_text()[-4000:]
        reports = [path.read_text(errors="replace")[:4000] for path in self.reports.iterdir()]
        assert not reports, reports[0]
        assert self.honest.exec("true")["exit_code"] == 0

    def stop(self):
        self.tell("", None)
        self.daemon.stop()
        reports = [path.read_text(errors="replace")[:4000] for path in self.reports.iterdir()]
        assert not reports, reports[0]
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def gvisor(sanitized):
    world = World(sanitized, "gvisor")
    yield world
    world.stop()


@pytest.fixture(scope="module")
def microvm(sanitized):
    world = World(sanitized, "microvm")
    yield world
    world.stop()
