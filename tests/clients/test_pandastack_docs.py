# SPDX-License-Identifier: Apache-2.0
"""The samples of docs/pandastack.md, as they stand there."""

import os
import re
import subprocess
import sys

import pytest

from compatibility import DOCS
from vial import slow


def sample(language):
    text = (DOCS / "pandastack.md").read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, found
    return found[0]


@pytest.fixture(scope="module")
def environment(daemon):
    key = daemon.client().call("POST", "/v1/me/tokens", {"label": "sample"})["token"]
    return {**os.environ, "PANDASTACK_API": daemon.url, "PANDASTACK_API_KEY": key}


def printed(command, environment, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=slow(60), env=environment, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_sample_does_what_it_says(python_packages, environment):
    path = str(python_packages("pandastack==0.10.0"))
    assert printed([sys.executable, "-c", sample("python")], {**environment, "PYTHONPATH": path}) == "42\n42\n1234\n"


def test_the_javascript_sample_does_what_it_says(npm_package, environment, tmp_path):
    (tmp_path / "node_modules").symlink_to(npm_package("@pandastack/sdk", "0.9.0") / "node_modules")
    (tmp_path / "sample.mjs").write_text(sample("js"))
    assert printed(["node", "sample.mjs"], environment, cwd=tmp_path) == "from\nthe stream\n0 42\n"


def test_nothing_is_left_of_them(daemon):
    assert daemon.client().sandboxes() == []
