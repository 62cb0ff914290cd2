# SPDX-License-Identifier: Apache-2.0
"""Checkpoints and runtimes of older builds beside the images: removed at start, unless somebody needs them."""

import fcntl
import os
import shutil
import time

import pytest

from test_states import value, wait_for
from test_templates import Images
from vial import ROOT, Daemon, build_dir

DAY = 24 * 3600


@pytest.fixture
def images():
    images = Images()
    images.put("one")
    yield images
    images.remove()


@pytest.fixture
def start(images):
    """start(name, options...): an installation of that name on these images; again: its next viald."""
    daemons, made = {}, []

    def begin(name, *options):
        if name in daemons:
            daemons[name].start()
        else:
            folder = f"/tmp/vial-test-prune-{os.getpid()}-{name}"
            os.mkdir(folder)
            made.append(folder)
            daemons[name] = Daemon(folder, "--images-dir", images.path, *options)
        daemon = daemons[name]
        wait_for(lambda: daemon.log_text().count("Vial is ready") == daemon.log_text().count("the key is in") > 0, 120)
        wait_for(lambda: daemon.client().call("GET", "/v1/templates/minimal")["ready"], 120)
        return daemon

    yield begin
    for daemon in daemons.values():
        if daemon.process.poll() is None:
            daemon.stop()
    for folder in made:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def other_build(tmp_path):
    """Programs that differ in their kernels, and so in their runtime and checkpoints."""
    for name in ("viald", "vial-shim", "vial-agent", "vial-vmm"):
        if (build_dir() / name).exists():
            shutil.copy(build_dir() / name, tmp_path / name)
    shutil.copytree(ROOT / "guest/kernels", tmp_path / "kernels")
    (tmp_path / "kernels/another-build").write_text("x")
    return tmp_path


def age(folder, days=2):
    then = time.time() - days * DAY
    os.utime(folder, (then, then))


def age_all(images):
    for folder in names(images, "baked-", "runtime-"):
        age(images.path / folder)


def names(images, *prefixes):
    return {path.name for path in images.path.iterdir() if path.name.startswith(prefixes)}


def test_what_nothing_refers_to_is_removed_and_what_is_used_young_or_held_stays(images, start):
    for name in ("baked-minimal-old", "runtime-old", "baking-old", "baked-minimal-held", "baked-minimal-young", "runtime-young", "someone-elses"):
        (images.path / name).mkdir()
        (images.path / name / "file").write_text("x")
        if "young" not in name:
            age(images.path / name)
    outside = images.path / "minimal-one"
    (images.path / "baked-minimal-link").symlink_to(outside)
    held = os.open(images.path / "baked-minimal-held", os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_SH)  # as another viald would
    daemon = start("a")
    wait_for(lambda: not names(images, "baked-minimal-old", "runtime-old", "baking-old"))
    left = names(images, "baked-", "runtime-", "someone")
    assert {"baked-minimal-held", "baked-minimal-young", "runtime-young", "someone-elses", "baked-minimal-link"} <= left
    assert len(left) == 7 and (outside / "rootfs").exists()  # besides these, its own checkpoint and runtime
    daemon.stop()
    os.close(held)
    # Its own are used by its start, however old they are.
    own = left - {"baked-minimal-held", "baked-minimal-young", "runtime-young", "someone-elses", "baked-minimal-link"}
    age_all(images)
    start("a")
    wait_for(lambda: not names(images, "baked-minimal-held", "baked-minimal-young", "runtime-young"))
    assert own <= names(images, "baked-", "runtime-")


def test_the_runtime_of_another_installation_s_sleepers_and_snapshots_stays_while_they_do(images, start, other_build):
    b = start("b", "--program-dir", other_build)
    theirs = names(images, "baked-", "runtime-")
    runtime = next(name for name in theirs if name.startswith("runtime-"))
    sandbox = b.client().create(ttl_seconds=0)
    assert value(sandbox, "(x := 42)") == "42"
    snapshot = sandbox.call("POST", "/snapshots", {})
    # It runs and has its templates locked: nothing of it is touched, however old it looks.
    age_all(images)
    a = start("a")
    wait_for(lambda: (images.path / "users").exists() and len(list((images.path / "users").iterdir())) == 2)
    time.sleep(0.5)
    assert theirs <= names(images, "baked-", "runtime-")
    # It sleeps, with no viald: its checkpoint can be baked again, its runtime cannot.
    sandbox.call("POST", "/hibernate")
    b.stop()
    a.stop()
    age_all(images)
    start("a")
    wait_for(lambda: theirs & names(images, "baked-", "runtime-") == {runtime})
    start("b")
    sandbox.client = b.client()
    assert value(sandbox, "x") == "42"
    sandbox.delete()
    # A snapshot alone keeps it too; then nothing does.
    for expected in ({runtime}, set()):
        b.stop()
        a.stop()
        age_all(images)
        a.start()
        wait_for(lambda: theirs & names(images, "baked-", "runtime-") == expected)
        start("b")
        if expected:
            born = b.client().create(template=None, from_snapshot=snapshot["id"])
            assert value(born, "x") == "42"
            born.delete()
            b.client().call("DELETE", f"/v1/snapshots/{snapshot['id']}")
