# SPDX-License-Identifier: Apache-2.0
"""Random sequences of everything that can be done to sandboxes, with crashes in between, checked against a small model.

First one request after the other: the model knows of each sandbox only the value of one Python variable and of one file. Then all at once, with
guests that are killed at any moment, against sanitized programs (storm.py). VIAL_MODEL_SEED repeats a run of the one; of the other it repeats only
the choices, not their order. VIAL_MODEL_STEPS and VIAL_LIFE_STEPS (10000 takes an hour or two) change their lengths.
"""

import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

from sanitized import Sanitized
from storm import Storm
from test_states import run, value
from tools import leftovers
from vial import Daemon, Sandbox, slow

STEPS = int(os.environ.get("VIAL_MODEL_STEPS", 200))
STORM_STEPS = int(os.environ.get("VIAL_LIFE_STEPS", 600))
MOST_SANDBOXES = 6
MOST_SNAPSHOTS = 4
UNDO_POINTS = 3  # viald's default


class World:
    def __init__(self, daemon, rng):
        self.daemon = daemon
        self.rng = rng
        self.known = {}      # sandbox id -> number
        self.paused = set()
        self.snapshots = {}  # snapshot id -> number
        self.before = {}     # sandbox id -> the numbers before its last runs with undo
        self.counter = 0

    def sandbox(self, id_):
        return Sandbox(self.daemon.client(), {"id": id_})

    def pick(self):
        awake = [id_ for id_ in self.known if id_ not in self.paused]
        return self.rng.choice(awake) if awake else None

    def add(self, sandbox, number):
        self.known[sandbox.id] = number

    # Each verb returns nothing; it changes the world and the model alike.

    def create(self):
        if len(self.known) < MOST_SANDBOXES:
            sandbox = self.daemon.client().create()
            self.add(sandbox, None)
            self.write(sandbox.id)

    def write(self, id_=None):
        id_ = id_ or self.pick()
        if id_:
            self.counter += 1
            run(self.sandbox(id_), f"x = {self.counter}\nopen('/workspace/x', 'w').write('{self.counter}')")
            self.known[id_] = self.counter

    def check(self, id_=None):
        id_ = id_ or self.pick()
        if id_:
            expected = self.known[id_]
            assert value(self.sandbox(id_), "(x, int(open('/workspace/x').read()))") == f"({expected}, {expected})"

    def hibernate(self):
        id_ = self.pick()
        if id_:
            self.sandbox(id_).call("POST", "/hibernate")

    def pause(self):
        id_ = self.pick()
        if id_ and self.sandbox(id_).refresh()["status"] == "running":
            self.sandbox(id_).call("POST", "/pause")
            self.paused.add(id_)

    def resume(self):
        if self.paused:
            id_ = self.rng.choice(sorted(self.paused))
            self.sandbox(id_).call("POST", "/resume")
            self.paused.discard(id_)

    def fork(self):
        id_ = self.pick()
        if id_ and len(self.known) < MOST_SANDBOXES:
            child = self.sandbox(id_).call("POST", "/fork", {})["sandbox"]
            self.known[child["id"]] = self.known[id_]

    def snapshot(self):
        id_ = self.pick()
        if id_ and len(self.snapshots) < MOST_SNAPSHOTS:
            self.snapshots[self.sandbox(id_).call("POST", "/snapshots", {})["id"]] = self.known[id_]

    def restore(self):
        if self.snapshots and len(self.known) < MOST_SANDBOXES:
            snapshot = self.rng.choice(sorted(self.snapshots))
            self.add(self.daemon.client().create(from_snapshot=snapshot), self.snapshots[snapshot])

    def write_undoably(self):
        id_ = self.pick()
        if id_:
            self.before[id_] = self.before.get(id_, [])[-UNDO_POINTS + 1:] + [self.known[id_]]
            self.counter += 1
            run(self.sandbox(id_), f"x = {self.counter}\nopen('/workspace/x', 'w').write('{self.counter}')", undo=True)
            self.known[id_] = self.counter

    def undo(self):
        id_ = self.rng.choice(sorted(self.known)) if self.known else None
        if id_ and self.before.get(id_):
            self.sandbox(id_).call("POST", "/undo")
            self.known[id_] = self.before[id_].pop()
            self.paused.discard(id_)

    def rollback(self):
        if self.snapshots and self.known:
            id_, snapshot = self.rng.choice(sorted(self.known)), self.rng.choice(sorted(self.snapshots))
            self.sandbox(id_).call("POST", "/rollback", {"snapshot": snapshot})
            self.known[id_] = self.snapshots[snapshot]
            self.paused.discard(id_)

    def merge(self):
        winner = self.pick()
        others = [id_ for id_ in sorted(self.known) if id_ != winner]
        if winner and len(others) > 1:
            id_ = self.rng.choice(others)
            self.sandbox(id_).call("POST", "/merge", {"winner": winner})
            self.known[id_] = self.known.pop(winner)
            self.before.pop(winner, None)
            self.paused.discard(id_)

    def forget(self):
        if self.snapshots:
            snapshot = self.rng.choice(sorted(self.snapshots))
            self.daemon.client().call("DELETE", f"/v1/snapshots/{snapshot}")
            del self.snapshots[snapshot]

    def delete(self):
        if len(self.known) > 2:
            id_ = self.rng.choice(sorted(self.known))
            self.sandbox(id_).delete()
            del self.known[id_]
            self.before.pop(id_, None)
            self.paused.discard(id_)

    def crash(self):
        self.daemon.kill()
        self.daemon.start()

    def audit(self):
        entries = self.daemon.client().sandboxes()
        listed = {entry["id"]: entry["status"] for entry in entries}
        assert {entry["id"]: entry["undos"] for entry in entries if entry["undos"]} == {id_: len(kept) for id_, kept in self.before.items() if kept}
        assert set(listed) == set(self.known)
        assert {id_ for id_, status in listed.items() if status == "paused"} == self.paused
        assert set(listed.values()) <= {"running", "paused", "hibernated"}, listed
        assert {entry["id"] for entry in self.daemon.client().call("GET", "/v1/snapshots")} == set(self.snapshots)


VERBS = {"create": 3, "write": 6, "check": 6, "hibernate": 4, "pause": 2, "resume": 3, "fork": 3, "snapshot": 2, "restore": 2,
         "write_undoably": 3, "undo": 3, "rollback": 2, "merge": 1, "forget": 1, "delete": 2, "crash": 1}


def test_random_life_cycles_with_crashes_agree_with_the_model():
    seed = int(os.environ.get("VIAL_MODEL_SEED", random.randrange(1 << 30)))
    print(f"VIAL_MODEL_SEED={seed}")
    folder = Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp"))
    daemon = Daemon(folder)
    world = World(daemon, random.Random(seed))
    done = []
    try:
        for step in range(STEPS):
            verb = world.rng.choices(list(VERBS), list(VERBS.values()))[0]
            done.append(verb)
            getattr(world, verb)()
            world.audit()
        for id_ in sorted(world.paused):
            world.sandbox(id_).call("POST", "/resume")
        for id_ in sorted(world.known):
            world.check(id_)
    except BaseException:
        print(f"seed {seed}, step {len(done)}: {' '.join(done[-12:])}")
        print(daemon.log_text()[-3000:])
        raise
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.timeout(24 * 3600)
def test_a_storm_of_requests_and_deaths_breaks_nothing_and_everybody_is_answered():
    seed = int(os.environ.get("VIAL_MODEL_SEED", random.randrange(1 << 30)))
    print(f"VIAL_MODEL_SEED={seed}")
    folder = Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp"))
    programs = Sanitized(folder)
    daemon = Daemon(folder, "--pool-size", "1", "--pool-blanks", "1", programs=programs.path, env=programs.env)
    storm = Storm(daemon, seed)
    try:
        while storm.steps < STORM_STEPS:
            storm.round()
            programs.check()
            if storm.rng.random() < 0.25:
                storm.crash()
        storm.end()
        daemon.stop()
        assert not leftovers(daemon)
    except BaseException:
        print(f"seed {seed}, step {storm.steps}, {dict(storm.statuses)}")
        print("\n".join(storm.recent[-20:]))
        print(time.strftime("%H:%M:%S", time.gmtime()), storm.threads_of_viald(), daemon.log_text()[-5000:], sep="\n")
        raise
    finally:
        if daemon.process.poll() is None:
            daemon.process.send_signal(signal.SIGINT)
            daemon.process.wait(slow(90))
        found = programs.found()
        shutil.rmtree(folder, ignore_errors=True)
        assert not found, found
    print(f"{storm.steps} steps: {dict(storm.statuses)}")
