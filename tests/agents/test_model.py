# SPDX-License-Identifier: Apache-2.0
"""Twenty agents of five versions each, random sessions of random users, and crashes, under a model that knows who may share with whom: nobody.

Every call appends a word of its own to a file of its session and reads the file. The model knows of each (agent, version, session, user) which words it was
given, which of those were answered, and whether it has been ended since. So it sees when a word is lost, when one turns up in another's file, and when a call
says `fresh` of what is not, or the other way round. Calls come in bursts of several threads, often to the same session; a crash comes in the middle of one.

VIAL_MODEL_SEED repeats the choices of a run (not the order of threads); VIAL_AGENT_MODEL_SECONDS (60) is how long it goes on at least.
"""

import http.client
import itertools
import os
import random
import threading
import time
from collections import Counter

from people import Agent, named
from vial import ApiError

SECONDS = float(os.environ.get("VIAL_AGENT_MODEL_SECONDS", 60))
ENOUGH_CALLS = 20  # it goes on for longer where a machine, the emulated one above all, does not come to that
AGENTS, VERSIONS, SESSIONS, USERS = 20, 5, ("a", "b", "c"), (None, "ann", "bob")
MOST_SESSIONS = 10  # alive at a time: the machine is small
BURST = 6


class Owner:
    """What the model knows of one (agent, version, session, user)."""

    def __init__(self):
        self.given = set()     # every word it ever sent
        self.kept = set()      # those that must be in its file now
        self.sandbox = None    # whose they are
        self.is_uncertain = False  # a call or an end was under way when viald died: it may have begun anew

    def end(self):
        self.kept, self.sandbox, self.is_uncertain = set(), None, False


class World:
    def __init__(self, daemon, rng):
        self.daemon, self.rng, self.lock = daemon, rng, threading.Lock()
        self.names = [f"agent-{number}" for number in range(AGENTS)]
        self.active, self.retired = {}, set()
        self.owners = {}
        self.sandboxes = {}  # id -> the owner's key, for ever
        self.numbers = itertools.count(1)
        self.done, self.problems = Counter(), []
        for name in self.names:
            self.make_agent(name)

    def agent(self, name):
        return named(self.daemon.client(), name)

    def make_agent(self, name):
        agent = Agent(self.daemon.client(), name)
        for number in range(1, VERSIONS + 1):
            agent.add_version(never_expire=number % 2 == 1, env={"WHO": f"{name}/{number}"}, files=[{"path": "/workspace/from", "content": str(number)}] if number == 2 else [])
        self.active[name] = 1

    def owner(self, key):
        with self.lock:
            return self.owners.setdefault(key, Owner())

    def alive(self):
        return [key for key, owner in self.owners.items() if owner.sandbox]

    def versions(self, name):
        return [number for number in range(1, VERSIONS + 1) if (name, number) not in self.retired]

    def pick(self):
        """One that there is, or a new one; most new ones differ from one that there is in one thing only, as whoever would be mistaken for another does."""
        alive = sorted(self.alive(), key=str)
        if alive and (len(alive) >= MOST_SESSIONS or self.rng.random() < 0.5):
            return self.rng.choice(alive)
        name, version, session, user = self.rng.choice(alive) if alive and self.rng.random() < 0.8 else (self.rng.choice(self.names), 0, "a", None)
        differs = self.rng.choice(("name", "version", "session", "user"))
        name = self.rng.choice(self.names) if differs == "name" else name
        version = self.rng.choice(self.versions(name)) if differs == "version" or version not in self.versions(name) else version
        return name, version, self.rng.choice(SESSIONS) if differs == "session" else session, self.rng.choice(USERS) if differs == "user" else user

    # One call, in a thread

    def call(self, key):
        name, version, session, user = key
        owner, word = self.owner(key), f"w{next(self.numbers)}"
        with self.lock:
            before, was = set(owner.kept), owner.sandbox
            owner.given.add(word)
        says_version = version if (self.active[name] != version or self.rng.random() < 0.5) else None
        try:
            answer = self.agent(name).exec(f"echo {word} >> /workspace/words; cat /workspace/words; echo $WHO >&2", session=session, user=user, version=says_version)
        except ApiError as refusal:
            with self.lock:
                self.done[f"refused {refusal.status}"] += 1
                if refusal.status >= 500 and refusal.status != 503:
                    self.problems.append(f"{key}: {refusal}")
            return
        except (OSError, http.client.HTTPException):  # its viald died
            with self.lock:
                owner.is_uncertain = True
            return
        with self.lock:
            self.judge(key, owner, answer, word, before, was)

    def judge(self, key, owner, answer, word, before, was):
        place, words = answer["session"], set(answer["stdout"].split())
        said = (place["agent"], place["version"], place["id"], place.get("user"))
        self.done["call"] += 1
        if said != key or answer["stderr"].strip() != f"{key[0]}/{key[1]}":
            self.problems.append(f"{key} was answered by {said}, {answer['stderr']!r}")
        if self.sandboxes.setdefault(place["sandbox_id"], key) != key:
            self.problems.append(f"{key} shares {place['sandbox_id']} with {self.sandboxes[place['sandbox_id']]}")
        if not words <= owner.given:
            self.problems.append(f"{key} reads what is not its own: {words - owner.given}")
        if place["fresh"] and was and not owner.is_uncertain:
            self.problems.append(f"{key} is told that its sandbox is fresh, but it had {was}")
        if not place["fresh"] and not before <= words:
            self.problems.append(f"{key} has lost {before - words}")
        if place["fresh"]:
            owner.kept &= words
        owner.kept.add(word)
        owner.sandbox = place["sandbox_id"]

    # What can be done

    def burst(self, crash=False):
        keys = [self.pick() for _ in range(2)]
        chosen = [self.rng.choice(keys) for _ in range(BURST)]
        threads = [threading.Thread(target=self.call, args=(key,)) for key in chosen]
        for thread in threads:
            thread.start()
        if crash:
            time.sleep(self.rng.random() * 0.6)
            self.daemon.kill()
        for thread in threads:
            thread.join()
        if crash:
            self.daemon.start()
        for key in set(chosen):  # in a burst, words of a sandbox that was made then are in no order that the model knows
            owner = self.owner(key)
            owner.is_uncertain = owner.is_uncertain and crash

    def crash(self):
        self.burst(crash=True)

    def check(self):
        """Every session that is listed is one that the model knows, and the other way round."""
        for name in self.rng.sample(self.names, 4):
            listed = {(name, item["version"], item["id"], item.get("user")): item["sandbox_id"] for item in self.agent(name).sessions(limit=1000)["items"]}
            for key, owner in self.owners.items():
                if key[0] == name and not owner.is_uncertain and listed.get(key) != owner.sandbox:
                    self.problems.append(f"{key} should be in {owner.sandbox}, but is listed in {listed.get(key)}")
        mine = {box["id"] for box in self.daemon.client().sandboxes()}
        known = {item["sandbox_id"] for name in self.names for item in self.agent(name).sessions(limit=1000)["items"]}
        if mine != known:
            self.problems.append(f"sandboxes that no session knows: {mine - known}; sessions without: {known - mine}")

    def sleep(self):
        alive = [key for key in self.alive() if key[1] % 2 == 1]
        if alive:
            self.daemon.client().ask("POST", f"/v1/sandboxes/{self.owners[self.rng.choice(sorted(alive, key=str))].sandbox}/hibernate")

    def end(self):
        alive = self.alive()
        if alive:
            name, version, session, user = key = self.rng.choice(sorted(alive, key=str))
            assert self.agent(name).ask("DELETE", f"/sessions/{session}?version={version}" + (f"&user={user}" if user else "")).status in (204, 404)
            self.owners[key].end()

    def forget(self):
        user, name = self.rng.choice(("ann", "bob")), self.rng.choice([*self.names, None])
        self.daemon.client().call("DELETE", f"/v1/agents/{name}/users/{user}" if name else f"/v1/users/{user}")
        for key, owner in self.owners.items():
            if key[3] == user and name in (None, key[0]):
                owner.end()

    def activate(self):
        name = self.rng.choice(self.names)
        number = self.rng.choice(self.versions(name))
        self.agent(name).call("POST", f"/versions/{number}/activate")
        self.active[name] = number

    def retire(self):
        name = self.rng.choice(self.names)
        number = self.rng.randint(1, VERSIONS)
        if number != self.active[name] and len([one for one in self.retired if one[0] == name]) < VERSIONS - 2:
            self.agent(name).call("POST", f"/versions/{number}/retire")
            self.retired.add((name, number))

    def replace(self):
        """The agent is deleted, and another one gets its name: nothing of the first may be seen by it."""
        name = self.rng.choice(self.names)
        self.daemon.client().call("DELETE", f"/v1/agents/{name}")
        for key, owner in self.owners.items():
            if key[0] == name:
                owner.end()
        self.retired = {one for one in self.retired if one[0] != name}
        self.make_agent(name)

    def thin_out(self):
        while len(self.alive()) > MOST_SESSIONS:
            self.end()


WEIGHTS = {"burst": 12, "crash": 2, "check": 3, "sleep": 3, "end": 2, "forget": 1, "activate": 2, "retire": 1, "replace": 1}


def test_nobody_ever_shares_and_nothing_is_lost(start_daemon):
    seed = int(os.environ.get("VIAL_MODEL_SEED", time.time_ns() % 1_000_000))
    rng = random.Random(seed)
    world = World(start_daemon(), rng)
    verbs, deadline = [], time.monotonic() + SECONDS
    while (time.monotonic() < deadline or world.done["call"] < ENOUGH_CALLS) and not world.problems:
        verbs.append(rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0])
        getattr(world, verbs[-1])()
        world.thin_out()
    world.check()
    assert not world.problems, f"seed {seed}, after {verbs[-12:]} ({dict(world.done)}): {world.problems[:4]}"
    print(f"seed {seed}: {dict(Counter(verbs))}, {dict(world.done)}")
