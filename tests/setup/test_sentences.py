# SPDX-License-Identifier: Apache-2.0
"""When set-up cannot go on, one clear sentence says why and what to do."""

import os
import shutil
import socket

import pytest

from conftest import ROOT, SCRIPTS, complaint, cpu_seconds, make_program, run


@pytest.fixture
def readable_copy(tmp_path_factory):
    """The scripts where anybody may read them: a checkout in root's home is out of another user's reach."""
    copy = tmp_path_factory.mktemp("copy")
    shutil.copytree(SCRIPTS, copy / "scripts")
    shutil.copytree(ROOT / "guest/images", copy / "guest/images")
    for directory in [copy, *copy.parents]:
        if directory == directory.parent or directory.stat().st_mode & 0o001:
            break
        directory.chmod(0o755)
    return copy


@pytest.mark.parametrize("command", ["up", "test", "bench run", "build-image minimal", "clean-images"])
def test_without_root_it_says_to_use_root(command, readable_copy, tmp_path):
    script, *arguments = command.split()
    (readable_copy / "bench").mkdir()
    (readable_copy / "bench/run.py").touch()
    finished = run("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", readable_copy / "scripts" / script, *arguments,
                   env={"VIAL_DATA": tmp_path / "data"})
    sentence = complaint(finished)
    assert "root" in sentence and "sudo" in sentence
    assert len(finished.stderr.splitlines()) == 1


def test_a_full_disk_is_noticed_before_the_build(tmp_path):
    mount_point = tmp_path / "small"
    mount_point.mkdir()
    script = f'mount -t tmpfs -o size=16m tmpfs "{mount_point}" && exec "{SCRIPTS}/build-image" minimal'
    finished = run("unshare", "--mount", "bash", "-c", script, env={"VIAL_DATA": mount_point / "data"})
    sentence = complaint(finished)
    assert "disk space" in sentence and "VIAL_DATA" in sentence and "MB are free" in sentence


def test_an_unreachable_mirror_stops_the_image_with_a_hint(tmp_path, fake_apt_config):
    finished = run(SCRIPTS / "build-image", "minimal", env={"VIAL_DATA": tmp_path / "data", **fake_apt_config})
    assert "cannot be reached" in complaint(finished)
    assert not list((tmp_path / "data/images").glob("minimal-*")), "a failed build leaves no directory"


def test_an_unreachable_mirror_stops_the_installation_with_a_hint(tmp_path, fake_apt_config):
    # A dpkg-query that knows no package makes everything missing.
    programs = make_program(tmp_path / "bin", "dpkg-query", "#!/bin/sh\nexit 1\n")
    finished = run(SCRIPTS / "install-deps", "build", env={"PATH": f"{programs}:{os.environ['PATH']}", **fake_apt_config})
    assert "build-essential" in finished.stderr, "it says what it is about to install"
    assert "cannot be reached" in complaint(finished)


@pytest.mark.parametrize("output, status, words", [
    ("runsc version 0.0~20221219.0", 0, "too old"),
    ("runsc version release-20220101.0", 0, "too old"),
    ("cannot execute binary file", 126, "does not run"),
])
def test_a_bad_runsc_is_named_with_its_fault(tmp_path, output, status, words):
    programs = make_program(tmp_path / "bin", "runsc", f"#!/bin/sh\necho '{output}'\nexit {status}\n")
    sentence = complaint(run(SCRIPTS / "install-deps", "runsc", env={"PATH": f"{programs}:{os.environ['PATH']}"}))
    assert str(programs / "runsc") in sentence and words in sentence and "replace" in sentence


@pytest.mark.parametrize("output", ["runsc version 0.0~20240729.0", "runsc version release-20260105.0", "runsc version 20250101"])
def test_a_good_runsc_passes(tmp_path, output):
    programs = make_program(tmp_path / "bin", "runsc", f"#!/bin/sh\necho '{output}'\n")
    finished = run(SCRIPTS / "install-deps", "runsc", env={"PATH": f"{programs}:{os.environ['PATH']}"})
    assert (finished.returncode, finished.stderr) == (0, "")


def test_a_port_in_use_is_said_first_with_its_owner():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sentence = complaint(run(SCRIPTS / "up", env={"VIAL_LISTEN": f"127.0.0.1:{port}"}))
    assert f"port {port} is already in use by" in sentence and f"pid {os.getpid()}" in sentence and "VIAL_LISTEN=" in sentence


def test_another_system_than_debian_is_named(tmp_path):
    release = tmp_path / "os-release"
    release.write_text('ID=plan9\nPRETTY_NAME="Plan 9"\n')
    programs = make_program(tmp_path / "bin", "dpkg-query", "#!/bin/sh\nexit 1\n")
    env = {"VIAL_OS_RELEASE": release, "PATH": f"{programs}:{os.environ['PATH']}"}
    assert "Plan 9" in complaint(run(SCRIPTS / "install-deps", "build", env=env))


def test_a_locked_package_database_is_explained(tmp_path):
    programs = make_program(tmp_path / "bin", "dpkg-query", "#!/bin/sh\nexit 1\n")
    make_program(programs, "apt-get", "#!/bin/sh\necho 'E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1'\nexit 100\n")
    sentence = complaint(run(SCRIPTS / "install-deps", "build", env={"PATH": f"{programs}:{os.environ['PATH']}"}))
    assert "another program is installing packages" in sentence


@pytest.mark.parametrize("script, argument", [("build-image", "nonsense"), ("install-deps", "nonsense"), ("bench", "nonsense")])
def test_an_unknown_argument_lists_the_known_ones(script, argument):
    sentence = complaint(run(SCRIPTS / script, argument))
    assert "nonsense" in sentence and "choose" in sentence


def test_nothing_missing_is_silent_and_quick():
    taken, finished = cpu_seconds(SCRIPTS / "install-deps", "build", "run")
    assert (finished.stdout, finished.stderr) == ("", "")
    assert taken < 0.1
