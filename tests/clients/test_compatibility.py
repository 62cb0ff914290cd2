# SPDX-License-Identifier: Apache-2.0
"""docs/compatibility.md says what the tests show, of every method that the packages have, and of no other."""

import json
import os
import subprocess
import sys

import pytest

import compatibility
import sdks
from vial import slow


def test_the_page_is_what_the_tests_show():
    page = compatibility.DOCS / "compatibility.md"
    assert page.read_text(encoding="utf-8") == compatibility.page(), f"docs/compatibility.md is not what the tests show; in the top folder: {compatibility.COMMAND}"


def test_marks_name_methods_that_there_are():
    known = compatibility.known()
    for sdk, methods in compatibility.shown().items():
        assert set(methods) <= set(known.get(sdk, methods)), f"{sdk} has no {sorted(set(methods) - set(known[sdk]))}"


def test_the_list_of_methods_knows_every_sdk():
    assert set(compatibility.known()) >= {*sdks.PYTHON, *sdks.NPM}


@pytest.mark.parametrize("title", sdks.PYTHON)
def test_the_list_of_methods_is_what_a_python_package_has(python_packages, title):
    folder = python_packages(sdks.PYTHON[title][0])
    done = subprocess.run([sys.executable, sdks.__file__, title], capture_output=True, text=True, timeout=slow(60), env={**os.environ, "PYTHONPATH": str(folder)})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == compatibility.known()[title]


@pytest.mark.parametrize("title", sdks.NPM)
def test_the_list_of_methods_is_what_an_npm_package_has(npm_package, title):
    package, version = sdks.NPM[title]
    script = compatibility.CLIENTS / "sdks.mjs"
    done = subprocess.run(["node", script, npm_package(package, version), title], capture_output=True, text=True, timeout=slow(60))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == compatibility.known()[title]


def test_what_marks_say_is_read_without_running_them(tmp_path):
    """A text may have a name; what is no text is an error of the test, not a method that is silently left out."""
    (tmp_path / "test_x.py").write_text('WHY = "because"\n@covers("S 1", "a.b", "a.c", differs=WHY)\n@pytest.mark.method("S 1", "a.b")\ndef test(): pass\n')
    assert sorted(map(str, compatibility.marks_of(tmp_path / "test_x.py"))) == sorted(map(str, [
        ("S 1", "a.b", "because"), ("S 1", "a.c", "because"), ("S 1", "a.b", None)]))
    (tmp_path / "test_y.py").write_text('@covers("S 1", name())\ndef test(): pass\n')
    with pytest.raises(SystemExit, match="test_y.py:1"):
        list(compatibility.marks_of(tmp_path / "test_y.py"))
