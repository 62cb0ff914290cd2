# SPDX-License-Identifier: Apache-2.0
"""scripts/clean-images: what is old and unused goes, what is current or in use stays."""

import os

import pytest

from conftest import SCRIPTS, run


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    for name in ("minimal-aaaaaaaaaaaa", "minimal-bbbbbbbbbbbb"):
        (folder / name / "rootfs").mkdir(parents=True)
    (folder / "minimal.json").write_text(f'{{\n  "rootfs": "{folder}/minimal-bbbbbbbbbbbb/rootfs",\n}}\n')
    for name in ("kernel-6.1.1-1-aaaaaaaaaaaa", "kernel-6.12.1-1-bbbbbbbbbbbb", "kernel-6.12.2-1-cccccccccccc", "kernel-6.12.3-1-dddddddddddd"):
        (folder / name).mkdir()
        (folder / name / "vmlinux").touch()
    (folder / "guest-kernel").symlink_to("kernel-6.12.2-1-cccccccccccc")
    (tmp_path / "lab/kernel-6.1.9-1-eeeeeeeeeeee").mkdir(parents=True)
    return folder


def clean(images):
    finished = run(SCRIPTS / "clean-images", env={"VIAL_DATA": images.parent})
    assert finished.returncode == 0, finished.stderr
    return {path.name for path in [*images.iterdir(), *(images.parent / "lab").iterdir()] if path.is_dir() and not path.is_symlink()}


def test_old_images_and_kernels_go_and_what_is_used_stays(images):
    sandbox = images.parent / "sandboxes/one"
    sandbox.mkdir(parents=True)
    (sandbox / "vmm.json").write_text(f'{{"kernel": "{images}/kernel-6.1.1-1-aaaaaaaaaaaa/vmlinux"}}')
    held = os.open(images / "kernel-6.12.3-1-dddddddddddd", os.O_RDONLY)  # as a viald does with the one it found at its start
    kept = {"minimal-bbbbbbbbbbbb", "kernel-6.12.2-1-cccccccccccc", "kernel-6.1.1-1-aaaaaaaaaaaa"}
    assert clean(images) == kept | {"kernel-6.12.3-1-dddddddddddd"}
    os.close(held)
    assert clean(images) == kept
    (sandbox / "vmm.json").unlink()
    assert clean(images) == kept - {"kernel-6.1.1-1-aaaaaaaaaaaa"}


def test_without_a_current_kernel_none_is_removed(images):
    (images / "guest-kernel").unlink()
    assert len([name for name in clean(images) if name.startswith("kernel-")]) == 5
