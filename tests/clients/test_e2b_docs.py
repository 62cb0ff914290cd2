# SPDX-License-Identifier: Apache-2.0
"""The samples of docs/e2b.md, as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import add_key
from vial import images_dir, slow


def samples(language):
    text = (Path(__file__).resolve().parents[2] / "docs/e2b.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def environment(daemon):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("E2B_")}
    return {**kept, "E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url, "E2B_API_KEY": add_key(daemon, "samples", form="e2b")}


def printed(command, environment, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=slow(60), env=environment, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_sample_of_the_control_plane_does_what_it_says(python_packages, environment):
    path = str(python_packages("e2b==2.63.0"))
    assert printed([sys.executable, "-c", samples("python")[0]], {**environment, "PYTHONPATH": path}) == "still here\n['still here', 'still here']\n"


def test_the_javascript_sample_of_the_control_plane_does_what_it_says(npm_package, environment, tmp_path):
    (tmp_path / "node_modules").symlink_to(npm_package("e2b", "2.51.0") / "node_modules")
    (tmp_path / "sample.mjs").write_text(samples("js")[0])
    assert printed(["node", tmp_path / "sample.mjs"], environment) == "built in /srv/app\n fast\n\n"


@pytest.mark.skipif(not (images_dir() / "code-interpreter.json").exists(), reason="the image `code-interpreter` is not built")
def test_the_python_sample_of_the_code_interpreter_does_what_it_says(python_packages, environment):
    path = str(python_packages("e2b==2.63.0", "e2b-code-interpreter==2.11.5"))
    assert printed([sys.executable, "-c", samples("python")[1]], {**environment, "PYTHONPATH": path}) == "42\n{'a': [1, 2]}\n14\n"


def test_the_python_sample_of_a_template_with_files_does_what_it_says(python_packages, environment, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/page").write_text("hello from a template")
    path = str(python_packages("e2b==2.63.0"))
    assert printed([sys.executable, "-c", samples("python")[2]], {**environment, "PYTHONPATH": path}, cwd=tmp_path) == "hello from a template\n"
