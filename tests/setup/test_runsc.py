# SPDX-License-Identifier: Apache-2.0
"""scripts/get-runsc: which gVisor is taken, and what is said when none can be built."""

import os
import re

import pytest

from conftest import ROOT, SCRIPTS, complaint, make_program, run

RELEASE = re.search(r"^require gvisor\.dev/gvisor v0\.0\.0-(\d{8})", (ROOT / "guest/gvisor/go.mod").read_text(), re.M).group(1)


def get_runsc(data, programs, **env):
    return run(SCRIPTS / "get-runsc", env={"VIAL_DATA": data, "VIAL_RUNSC": "", "PATH": f"{programs}:{os.environ['PATH']}", **env})


def runsc(directory, version):
    return make_program(directory, "runsc", f"#!/bin/sh\necho 'runsc version {version}'\n")


def go(directory, version, says, status=1):
    """A compiler that answers for its version and fails at everything else, with these words."""
    return make_program(directory, "go", f'#!/bin/sh\nif [ "$1 $2" = "env GOVERSION" ]; then echo go{version}; exit; fi\necho "{says}" >&2\nexit {status}\n')


def test_the_named_one_is_taken_unseen(tmp_path):
    finished = get_runsc(tmp_path / "data", tmp_path, VIAL_RUNSC="/opt/mine")
    assert (finished.stdout, finished.stderr, finished.returncode) == ("/opt/mine\n", "", 0)


@pytest.mark.parametrize("version", [f"release-{RELEASE}.0", f"0.0~{RELEASE}.0", "release-20991231.1"])
def test_a_new_enough_one_in_the_path_is_taken(tmp_path, version):
    (tmp_path / "data/runsc").mkdir(parents=True)
    (tmp_path / "data/runsc/current").symlink_to("older")
    programs = runsc(tmp_path / "bin", version)
    finished = get_runsc(tmp_path / "data", programs)
    assert (finished.stdout, finished.stderr) == (f"{programs}/runsc\n", "")
    assert not os.path.lexists(tmp_path / "data/runsc/current"), "viald would take that one before the path's"


def test_what_was_built_before_is_taken_in_silence(tmp_path):
    built = runsc(tmp_path / "data/runsc" / RELEASE, f"release-{RELEASE}.0")
    finished = get_runsc(tmp_path / "data", runsc(tmp_path / "bin", "release-20240729.0"))
    assert (finished.stdout, finished.stderr) == (f"{built}/runsc\n", "")
    assert os.readlink(tmp_path / "data/runsc/current") == RELEASE


def test_what_another_data_directory_has_is_shared(tmp_path):
    runsc(tmp_path / "server/runsc" / RELEASE, f"release-{RELEASE}.0")
    finished = get_runsc(tmp_path / "data", runsc(tmp_path / "bin", "release-20240729.0"), VIAL_DATA_SERVER=tmp_path / "server")
    mine = tmp_path / "data/runsc" / RELEASE / "runsc"
    assert finished.stdout == f"{mine}\n" and mine.samefile(tmp_path / "server/runsc" / RELEASE / "runsc"), finished.stderr


@pytest.mark.parametrize("says", ["dial tcp 127.0.0.1:9: connect: connection refused", "lookup proxy: no such host", "404 Not Found"])
def test_without_a_registry_the_old_one_is_taken_with_a_word_about_the_cost(tmp_path, says):
    programs = go(runsc(tmp_path / "bin", "0.0~20240729.0"), "1.23", says)
    finished = get_runsc(tmp_path / "data", programs)
    assert finished.stdout == f"{programs}/runsc\n", finished.stderr
    assert "2024-07" in finished.stderr and "3 to 6 %" in finished.stderr and "docs/gvisor.md" in finished.stderr
    assert not list((tmp_path / "data/runsc").glob("*.tmp")), "what was begun is removed"


@pytest.mark.parametrize("says, words", [("verifying module: checksum mismatch", "go.sum"), ("write x: No space left on device", "disk is full")])
def test_what_an_old_one_would_hide_stops_it(tmp_path, says, words):
    finished = get_runsc(tmp_path / "data", go(runsc(tmp_path / "bin", "0.0~20240729.0"), "1.23", says))
    assert words in complaint(finished) and finished.stdout == ""


def test_a_compiler_that_makes_something_else_is_not_believed(tmp_path):
    programs = go(runsc(tmp_path / "bin", "0.0~20240729.0"), "1.26", "all is well", status=0)
    finished = get_runsc(tmp_path / "data", programs)
    assert "does not run" in complaint(finished)
    assert not (tmp_path / "data/runsc" / RELEASE).exists()
