# SPDX-License-Identifier: Apache-2.0
"""The pool lives on what nobody else needs: it sleeps when nobody calls, and gives back step by step as memory runs short.

How much memory there is says the file named by VIAL_FAULTS (src/util/fault.h): "memory.available 12" is 12 %.
"""

import shutil
import tempfile
from pathlib import Path

import pytest

from test_states import run, value, wait_for
from vial import Daemon, Sandbox

IDLE_SECONDS = 4


class PooledDaemon(Daemon):
    def __init__(self, *options):
        self.folder = Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp"))
        self.faults = self.folder / "faults"
        self.set_memory(90)
        super().__init__(self.folder, "--pool-size", 2, "--pool-blanks", 1, *options, env={"VIAL_FAULTS": str(self.faults)})

    def set_memory(self, percent):
        """In one step: viald may look at any moment, and would take an empty file for the truth about this machine."""
        new = self.faults.with_suffix(".new")
        new.write_text(f"memory.available {percent}\n")
        new.rename(self.faults)

    def me(self):
        return self.client().call("GET", "/v1/me")

    def counts(self):
        """(ready, blank) of minimal."""
        pool = self.me()["pool"]["minimal"]
        return pool["ready"], pool["blank"]

    def waiting(self):
        """All entries of all templates."""
        return sum(counts["ready"] + counts["blank"] for counts in self.me()["pool"].values())

    def wait_for_state(self, state):
        wait_for(lambda: self.me()["pool_state"] == state, 120)

    def wait_for_counts(self, counts):
        wait_for(lambda: self.counts() == counts, 120)

    def host_folders(self):
        return {folder.name for folder in (self.data / "sandboxes").iterdir()}

    def host_processes(self):
        return [line for line in self.left_behind() if "/viald " not in line]

    def metric(self, line):
        return line in self.client().ask("GET", "/metrics").text.splitlines()


@pytest.fixture
def sleepy():
    daemon = PooledDaemon("--pool-idle-seconds", IDLE_SECONDS)
    yield daemon
    daemon.stop()
    shutil.rmtree(daemon.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def tight():
    daemon = PooledDaemon("--pool-idle-seconds", 0)
    yield daemon
    daemon.stop()
    shutil.rmtree(daemon.folder, ignore_errors=True)


def test_with_no_call_the_pool_sleeps_and_a_monitor_does_not_keep_it_awake(sleepy):
    # Asking for the state, as wait_for does all the time, is what a monitor does; so are these.
    def watch():
        for path in ("/healthz", "/metrics", "/v1/sandboxes", "/v1/templates"):
            sleepy.client().ask("GET", path)
        return sleepy.me()["pool_state"] == "asleep"

    wait_for(watch, 120)
    assert sleepy.waiting() == 0
    # Memory and processes are gone, not only the entries.
    wait_for(lambda: not sleepy.host_folders() and not sleepy.host_processes(), 60)
    assert sleepy.metric('vial_pool_state{state="asleep"} 1')
    assert sleepy.metric('vial_pool_sandboxes{template="minimal",kind="ready"} 0')


def test_the_next_create_is_restored_and_the_pool_fills_behind_it(sleepy):
    sleepy.wait_for_state("asleep")
    sandbox = sleepy.client().create()
    assert sandbox.info["boot_mode"] == "restore"
    # A run that goes on is a call as long as it lasts.
    response = sleepy.client().open("POST", sandbox.path + "/exec/stream", {"cmd": "sleep 600"})
    sleepy.wait_for_counts((2, 1))
    assert sleepy.me()["pool_state"] == "awake" and sleepy.metric('vial_pool_sandboxes{template="minimal",kind="ready"} 2')
    another = sleepy.client().create()
    assert another.info["boot_mode"] == "pool"
    response.connection.close()
    assert value(another, "6 * 7") == "42"
    sleepy.wait_for_state("asleep")
    # And a call to a sandbox that is there already wakes it, too; the sandboxes themselves never slept.
    response = sleepy.client().open("POST", another.path + "/exec/stream", {"cmd": "echo awake; sleep 600"})
    assert response.readline() and sleepy.me()["pool_state"] == "awake"
    response.connection.close()
    assert value(another, "6 * 7") == "42"
    sandbox.delete()
    another.delete()


def test_a_viald_that_crashes_while_its_pool_sleeps_comes_back_with_all_it_had(sleepy):
    sandbox = sleepy.client().create(persistent=True)
    run(sandbox, "x = 11")
    sleepy.wait_for_state("asleep")
    wait_for(lambda: len(sleepy.host_folders()) == 1, 60)
    sleepy.kill()
    sleepy.start()
    sandbox = Sandbox(sleepy.client(), sleepy.client().call("GET", sandbox.path))
    assert value(sandbox, "x") == "11"
    sleepy.wait_for_state("asleep")
    assert sleepy.waiting() == 0 and value(sandbox, "x") == "11"
    sandbox.delete()
    # The fixture stops it asleep, and looks whether anything is left.


def test_blanks_go_first_then_the_ready_ones_and_all_come_back_with_some_to_spare(tight):
    tight.wait_for_counts((2, 1))
    assert tight.me()["pool_state"] == "awake"
    tight.set_memory(14)
    tight.wait_for_counts((2, 0))
    assert tight.me()["pool_state"] == "short_of_memory" and tight.metric("vial_memory_available_percent 14")
    # What is claimed meanwhile is not replaced.
    tight.client().create().delete()
    assert tight.counts() == (1, 0)
    tight.set_memory(9)
    wait_for(lambda: tight.waiting() == 0, 120)
    # Above the mark, but not by enough: a pool that filled up now might have to give back at once.
    tight.set_memory(12)
    sandbox = tight.client().create()
    assert sandbox.info["boot_mode"] == "restore"
    sandbox.delete()
    assert tight.waiting() == 0
    tight.set_memory(17)
    tight.wait_for_counts((2, 0))
    tight.set_memory(19)
    assert tight.me()["pool_state"] == "short_of_memory"
    tight.set_memory(21)
    tight.wait_for_counts((2, 1))
    assert tight.me()["pool_state"] == "awake"


def test_with_hardly_any_memory_everything_goes_at_once_and_sandboxes_stay(tight):
    sandbox = tight.client().create()
    run(sandbox, "x = 1")
    tight.set_memory(90)
    tight.wait_for_counts((2, 1))
    tight.set_memory(3)
    wait_for(lambda: tight.waiting() == 0, 120)
    wait_for(lambda: len(tight.host_folders()) == 1, 60)
    assert value(sandbox, "x") == "1"
    sandbox.delete()
