# SPDX-License-Identifier: Apache-2.0
"""Network slots beside those of others: the numbers of a host are shared by every daemon on it."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from test_states import value, wait_for
from vial import Daemon, Sandbox

STOCK = 8  # what a daemon keeps ready
SANDBOXES = 6
NUMBERS = 32768


@pytest.fixture
def daemon():
    folder = Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp"))
    daemon = Daemon(folder)
    yield daemon
    daemon.stop()
    shutil.rmtree(folder, ignore_errors=True)


def numbers(daemon):
    tag = hashlib.sha256(str(daemon.data).encode()).hexdigest()[:8]
    return [int(path.name.split("-")[2]) for path in Path("/run/netns").glob(f"vial-{tag}-*-gate")]


@pytest.fixture
def strangers(daemon):
    """Links that look like another daemon's: every second number of those that come next is taken."""
    wait_for(lambda: len(numbers(daemon)) >= STOCK, 60)
    next_number = max(numbers(daemon), key=lambda number: (number - numbers(daemon)[0] + NUMBERS // 2) % NUMBERS) + 1
    links = [f"vl{(next_number + step) % NUMBERS:x}" for step in range(0, 4 * SANDBOXES, 2)]
    made = [link for link in links if subprocess.run(["ip", "link", "add", link, "type", "veth", "peer", "name", f"x{link}"], check=False).returncode == 0]
    yield made
    for link in made:
        subprocess.run(["ip", "link", "del", link], check=True)


def test_a_number_that_is_taken_costs_no_slot_of_ours(daemon, strangers):
    assert len(strangers) >= SANDBOXES
    made = [daemon.client().create() for _ in range(SANDBOXES)]
    wait_for(lambda: len(numbers(daemon)) >= SANDBOXES + STOCK, 60)
    assert "could not be prepared" not in daemon.log_text(), daemon.log_text()[-3000:]
    daemon.kill()
    daemon.start()
    for sandbox in made:
        assert value(Sandbox(daemon.client(), sandbox.info), "6 * 7") == "42"
    assert all(Path(f"/sys/class/net/{link}").exists() for link in strangers), "a stranger's link was removed"
    for sandbox in made:
        Sandbox(daemon.client(), sandbox.info).delete()
