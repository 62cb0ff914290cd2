# SPDX-License-Identifier: Apache-2.0
"""viald --doctor: which gVisor a viald with these settings would use, and what it says of an old one."""

import json
import os

import pytest

from conftest import make_program, run

VIALD = os.path.join(os.environ.get("VIAL_BUILD", "build"), "viald")
CURRENT = "restore [flags] <container id>\n  -background\n"


def runsc(directory, version, help_text=CURRENT):
    return make_program(directory, "runsc", f"#!/bin/sh\ncase $1 in\n--version) echo 'runsc version {version}' ;;\nhelp) echo '{help_text}' ;;\nesac\n") / "runsc"


def check(data, *options, **env):
    finished = run(VIALD, "--doctor", "--json", "--config", "/dev/null", "--data-dir", data, "--engine", "gvisor", *options, env={"VIAL_RUNSC": "", **env})
    return {one["name"]: one for one in json.loads(finished.stdout)["checks"]}["gvisor"]


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_auto_takes_what_was_built_before_what_is_in_the_path(data, tmp_path):
    in_path = runsc(tmp_path / "bin", "release-20990101.0")
    path = f"{in_path.parent}:{os.environ['PATH']}"
    assert str(in_path) in check(data, "--runsc", "auto", PATH=path)["detail"]
    built = runsc(data / "runsc/20260905", "release-20260905.0")
    (data / "runsc/current").symlink_to("20260905")
    found = check(data, "--runsc", "auto", PATH=path)
    assert found["ok"] and "release-20260905.0" in found["detail"] and str(built) in found["detail"], "by its own name: current may change"


def test_a_named_one_is_taken(data, tmp_path):
    runsc(data / "runsc/current", "release-20260905.0")
    assert "release-20270101.0" in check(data, "--runsc", runsc(tmp_path / "mine", "release-20270101.0"))["detail"]


def test_an_old_one_works_and_is_warned_of(data, tmp_path):
    found = check(data, "--runsc", runsc(tmp_path, "0.0~20240729.0", "restore [flags] <container id>\n"))
    assert not found["ok"] and found["needed"] is False
    assert "3 to 6 % of a core" in found["detail"] and "make up" in found["advice"]


@pytest.mark.parametrize("version, words", [("release-20220101.0", "too old"), (None, "does not run")])
def test_one_that_cannot_be_used_is_a_fault(data, tmp_path, version, words):
    program = runsc(tmp_path, version) if version else make_program(tmp_path, "runsc", "#!/bin/sh\nexit 3\n") / "runsc"
    found = check(data, "--runsc", program)
    assert not found["ok"] and "needed" not in found and words in found["detail"]


def test_none_is_a_fault_that_says_what_to_do(data, tmp_path):
    found = check(data, "--runsc", tmp_path / "nowhere")
    assert not found["ok"] and "nowhere" in found["detail"] and "make up" in found["detail"]


def test_builds_without_a_release_are_told_apart_by_their_content(data, tmp_path):
    one, other = (check(data, "--runsc", runsc(tmp_path / name, "VERSION_MISSING", CURRENT + name))["detail"] for name in ("one", "other"))
    assert "VERSION_MISSING+" in one and one.split()[1] != other.split()[1]
