# SPDX-License-Identifier: Apache-2.0
"""A storm: several threads do everything that can be done to a few sandboxes, while their processes are killed at any moment.

It goes in rounds. In a round each thread sends requests of its own choice and one more kills whatever process of a guest it meets; at the end of it
nothing is under way any more, and every sandbox must be what it was or failed with a reason. Some rounds begin with a new viald after kill -9.

Checked all the time: every request is answered within its limit, an error is a sentence and never ours (500), a state follows the one before it as
the table allows, and a sandbox keeps the variable that it or its ancestor was given.
"""

import http.client
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

from test_states import wait_for
from tools import command_lines
from vial import slow

REQUEST_SECONDS = slow(150)
THREADS = 6
MOST_SANDBOXES = 8
MOST_SNAPSHOTS = 5
STEPS_IN_A_ROUND = 48
PROGRAMS = {"runsc-sandbox", "runsc-gofer", "vial-shim", "vial-vmm", "runsc"}
SETTLED = {"running", "paused", "hibernated", "failed"}

VERBS = {"exec": 8, "run": 8, "sleep": 2, "pause": 3, "resume": 6, "hibernate": 4, "wake": 3, "snapshot": 2, "fork": 2, "fork_tree": 1, "promote": 1,
         "create": 3, "restore": 2, "forget": 2, "delete": 2, "lifecycle": 2, "network": 2, "write": 2, "read": 2, "look": 3, "logs": 1,
         "keep": 3, "undo": 2, "rollback": 2, "merge": 1}
# What may be answered besides success: not there, not in this state, too many, gone or going, too late.
REFUSALS = {404, 409, 429, 503, 504}


class Storm:
    def __init__(self, daemon, seed):
        self.daemon = daemon
        self.rng = random.Random(seed)
        self.lock = threading.Lock()
        self.tokens = {}      # sandbox id -> value of its variable, or None where that is not known
        self.snapshots = {}   # snapshot id -> the same
        self.ended = set()    # ids that were seen failed
        self.exchanged = set()  # ids whose machine was to be exchanged: that brings one back that had failed, and cuts off who reads from it
        self.cut = {}         # sandbox id -> what was being read from it when the answer broke off
        self.statuses = Counter()
        self.recent = []
        self.problems = []
        self.steps = 0

    # One request

    def ask(self, rng, verb, method, path, body=None):
        """Its answer, or None when it is not to be looked at."""
        client = self.daemon.client()
        client.timeout = REQUEST_SECONDS
        started = time.monotonic()
        try:
            answer = client.ask(method, path, body)
        except http.client.IncompleteRead as error:
            self.note_cut(verb, path, f"{method} {path}: {error!r} after {time.monotonic() - started:.1f} s")
            return None
        except (OSError, http.client.HTTPException) as error:
            self.complain(f"{method} {path}: {error!r} after {time.monotonic() - started:.1f} s")
            return None
        with self.lock:
            self.steps += 1
            self.statuses[verb, answer.status] += 1
            self.recent = self.recent[-40:] + [f"{method} {path} -> {answer.status}"]
        if answer.status < 300:
            return answer
        self.check_refusal(f"{method} {path} -> {answer.status}", answer)
        return None

    def note_cut(self, verb, path, problem):
        """A file whose length is announced can only break off when the guest that sends it dies; settle() asks whether it did."""
        if verb != "read":
            return self.complain(problem)
        with self.lock:
            self.steps += 1
            self.statuses[verb, "cut"] += 1
            self.cut[path.split("/")[3]] = problem

    def check_refusal(self, what, answer):
        try:
            sentence = answer.json()["error"]
        except (ValueError, KeyError):
            sentence = ""
        if answer.status not in REFUSALS or not sentence:
            self.complain(f"{what}: {answer.body[:300]!r}")
        with self.lock:
            if "has failed" in sentence:
                self.ended.update(id_ for id_ in self.tokens if id_ in what)

    def complain(self, problem):
        with self.lock:
            self.problems.append(problem)

    # What a thread chooses from

    def pick(self, rng, table):
        with self.lock:
            return rng.choice(sorted(table)) if table else None

    def add(self, table, id_, token):
        with self.lock:
            table[id_] = token

    def token_of(self, table, id_):
        with self.lock:
            return table.get(id_)

    def drop(self, table, id_):
        with self.lock:
            table.pop(id_, None)

    def step(self, rng):
        verb = rng.choices(list(VERBS), list(VERBS.values()))[0]
        id_ = self.pick(rng, self.tokens)
        if id_ in self.ended:  # there is little more to be seen of it
            verb = rng.choice(["delete", "look", "exec", "wake"])
        if id_ is None or verb in ("create", "restore", "forget"):
            return getattr(self, verb if verb in ("restore", "forget") else "create")(rng)
        getattr(self, verb)(rng, id_, f"/v1/sandboxes/{id_}")

    def create(self, rng, from_snapshot=None, token=None):
        if len(self.tokens) >= MOST_SANDBOXES:
            return
        body = {"template": "minimal", "ttl_seconds": 0} if from_snapshot is None else {"from_snapshot": from_snapshot, "ttl_seconds": 0}
        answer = self.ask(rng, "create", "POST", "/v1/sandboxes", {**body, "persistent": rng.random() < 0.3})
        if not answer:
            return
        id_ = answer.json()["id"]
        self.add(self.tokens, id_, token)
        if from_snapshot is None:
            number = rng.randrange(1 << 40)
            told = self.ask(rng, "run", "POST", f"/v1/sandboxes/{id_}/run", {"code": f"x = {number}"})
            with self.lock:  # its forks of the meantime have no variable, or have it: not known
                if told and id_ in self.tokens and "error" not in told.json():
                    self.tokens[id_] = number

    def restore(self, rng):
        snapshot = self.pick(rng, self.snapshots)
        if snapshot:
            self.create(rng, snapshot, self.token_of(self.snapshots, snapshot))

    def forget(self, rng):
        snapshot = self.pick(rng, self.snapshots)
        if snapshot and len(self.snapshots) > 1:
            if self.ask(rng, "forget", "DELETE", f"/v1/snapshots/{snapshot}"):
                self.drop(self.snapshots, snapshot)

    def exec(self, rng, id_, path):
        answer = self.ask(rng, "exec", "POST", f"{path}/exec", {"cmd": "echo $((6 * 7))"})
        if answer and answer.json()["exit_code"] == 0 and answer.json()["stdout"] != "42\n":
            self.complain(f"exec in {id_}: {answer.body[:300]!r}")

    def sleep(self, rng, id_, path):
        self.ask(rng, "sleep", "POST", f"{path}/exec", {"cmd": f"sleep {rng.uniform(0.1, 1.5):.2f}"})

    def run(self, rng, id_, path):
        expected = self.token_of(self.tokens, id_)
        answer = self.ask(rng, "run", "POST", f"{path}/run", {"code": "x", "timeout_ms": 60_000})
        if answer and expected is not None:
            result = answer.json()
            if result.get("results") and result["results"][-1]["text/plain"] != str(expected):
                self.complain(f"x of {id_} is {result['results']}, not {expected}")

    def pause(self, rng, id_, path):
        self.ask(rng, "pause", "POST", f"{path}/pause")

    def resume(self, rng, id_, path):
        self.ask(rng, "resume", "POST", f"{path}/resume")

    def hibernate(self, rng, id_, path):
        self.ask(rng, "hibernate", "POST", f"{path}/hibernate")

    def wake(self, rng, id_, path):
        self.ask(rng, "wake", "POST", f"{path}/wake")

    def snapshot(self, rng, id_, path):
        token = self.token_of(self.tokens, id_)
        if len(self.snapshots) >= MOST_SNAPSHOTS:
            return self.forget(rng)
        answer = self.ask(rng, "snapshot", "POST", f"{path}/snapshots", {"name": f"n{rng.randrange(3)}"} if rng.random() < 0.5 else {})
        if answer:
            self.add(self.snapshots, answer.json()["id"], token)

    def fork(self, rng, id_, path):
        token = self.token_of(self.tokens, id_)
        if len(self.tokens) < MOST_SANDBOXES:
            answer = self.ask(rng, "fork", "POST", f"{path}/fork", {})
            if answer:
                self.add(self.tokens, answer.json()["sandbox"]["id"], token)

    def fork_tree(self, rng, id_, path):
        token = self.token_of(self.tokens, id_)
        if len(self.tokens) + 1 < MOST_SANDBOXES:
            answer = self.ask(rng, "fork_tree", "POST", f"{path}/fork-tree", {"count": 2})
            for child in answer.json()["children"] if answer else []:
                self.add(self.tokens, child["id"], token)
            if answer and len(answer.json()["children"]) + len(answer.json().get("errors", [])) != 2:
                self.complain(f"children of {id_} that are neither there nor refused: {answer.json()}")

    def promote(self, rng, id_, path):
        answer = self.ask(rng, "promote", "POST", f"{path}/promote", {"cleanup_siblings": True})
        for gone in answer.json()["deleted"] if answer else []:
            self.drop(self.tokens, gone)

    def keep(self, rng, id_, path):
        expected = self.token_of(self.tokens, id_)
        answer = self.ask(rng, "keep", "POST", f"{path}/run", {"code": "x", "undo": True, "timeout_ms": 60_000})
        if answer and expected is not None:
            result = answer.json()
            if result.get("results") and result["results"][-1]["text/plain"] != str(expected):
                self.complain(f"x of {id_} is {result['results']}, not {expected}")

    def undo(self, rng, id_, path):
        self.exchanged.add(id_)
        if self.token_of(self.tokens, id_) is not None:  # x was there before anything could be kept
            self.ask(rng, "undo", "POST", f"{path}/undo")

    def alike(self, table, id_):
        """Of the same token, so that nobody who looks at x meanwhile can tell."""
        with self.lock:
            token = self.tokens.get(id_)
            return [other for other, its in table.items() if token is not None and its == token and other != id_]

    def rollback(self, rng, id_, path):
        self.exchanged.add(id_)
        snapshot = self.pick(rng, self.alike(self.snapshots, id_))
        if snapshot:
            self.ask(rng, "rollback", "POST", f"{path}/rollback", {"snapshot": snapshot})

    def merge(self, rng, id_, path):
        winner = self.pick(rng, self.alike(self.tokens, id_))
        if not winner:
            return
        self.exchanged.update((id_, winner))
        if self.ask(rng, "merge", "POST", f"{path}/merge", {"winner": winner}):
            self.drop(self.tokens, winner)

    def delete(self, rng, id_, path):
        if self.ask(rng, "delete", "DELETE", path):
            self.drop(self.tokens, id_)

    def lifecycle(self, rng, id_, path):
        self.ask(rng, "lifecycle", "PATCH", f"{path}/lifecycle", {"idle_seconds": rng.choice([0, 2, 1000]), "on_idle": "hibernate"})

    def network(self, rng, id_, path):
        mode = rng.choice([{"mode": "disabled"}, {"mode": "filtered", "deny_out": ["ALL_TRAFFIC"], "allow_out": ["192.0.2.7"]}])
        self.ask(rng, "network", "PUT", f"{path}/network", mode)

    def write(self, rng, id_, path):
        self.ask(rng, "write", "PUT", f"{path}/fs?path=/workspace/f", b"z" * rng.randrange(1 << 20))

    def read(self, rng, id_, path):
        self.ask(rng, "read", "GET", f"{path}/fs?path=/workspace/f")

    def logs(self, rng, id_, path):
        self.ask(rng, "logs", "GET", f"{path}/logs")

    def look(self, rng, id_, path):
        answer = self.ask(rng, "look", "GET", path)
        if not answer:
            return
        shown = answer.json()
        with self.lock:
            was_ended = id_ in self.ended
            if shown["status"] == "failed":
                self.ended.add(id_)
        if was_ended and shown["status"] != "failed" and id_ not in self.exchanged:
            self.complain(f"{id_} had failed and is {shown['status']}")
        if shown["status"] == "failed" and not shown.get("reason"):
            self.complain(f"{id_} failed without a reason")

    # The killer

    def guest_processes(self):
        folder = str(self.daemon.folder)
        return [pid for pid, words in command_lines() if os.path.basename(words[0]) in PROGRAMS and any(folder in word for word in words)]

    def kill_some(self, stop, rng):
        while not stop.wait(rng.uniform(0.1, 3)):
            pids = self.guest_processes()
            if pids:
                try:
                    os.kill(rng.choice(pids), signal.SIGKILL)
                except ProcessLookupError:
                    continue
                with self.lock:
                    self.steps += 1
                    self.statuses["kill", 0] += 1

    # Rounds

    def round(self):
        stop, seeds = threading.Event(), [self.rng.randrange(1 << 30) for _ in range(THREADS + 1)]
        end = self.steps + STEPS_IN_A_ROUND

        def work(rng):
            while self.steps < end and not self.problems:
                self.step(rng)

        threads = [threading.Thread(target=work, args=(random.Random(seed),), daemon=True) for seed in seeds[1:]]
        killer = threading.Thread(target=self.kill_some, args=(stop, random.Random(seeds[0])), daemon=True)
        for thread in (*threads, killer):
            thread.start()
        self.wait_for(threads, end)
        stop.set()
        killer.join()
        self.settle()

    def wait_for(self, threads, end):
        """A command in a sandbox that was paused under it waits until it is resumed: near the end nobody else may do that any more."""
        client, deadline = self.daemon.client(), time.monotonic() + REQUEST_SECONDS * 2
        client.timeout = REQUEST_SECONDS
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.5)
            assert time.monotonic() < deadline, "a thread hangs"
            for id_ in sorted(self.tokens) if self.steps >= end and self.daemon.process.poll() is None else []:
                client.ask("POST", f"/v1/sandboxes/{id_}/resume")

    def settle(self):
        """Nobody asks for anything any more: soon nothing moves, and what is there can be used."""
        assert not self.problems, self.problems
        assert self.daemon.process.poll() is None, "viald is dead"
        client = self.daemon.client()
        shown = {}

        def is_settled():
            shown.clear()
            shown.update({entry["id"]: entry for entry in client.sandboxes()})
            return all(entry["status"] in SETTLED for entry in shown.values())

        def cut_without_a_death():
            return [problem for id_, problem in self.cut.items() if id_ in shown and shown[id_]["status"] != "failed" and id_ not in self.exchanged]

        wait_for(lambda: is_settled() and not cut_without_a_death())
        self.cut.clear()
        self.ended -= self.exchanged
        self.exchanged.clear()
        with self.lock:
            # Children of a fork whose answer was an error are there all the same: they are the storm's, too.
            self.tokens = {id_: self.tokens.get(id_) for id_ in shown}
            self.snapshots = {entry["id"]: self.snapshots.get(entry["id"]) for entry in client.call("GET", "/v1/snapshots")}
        for id_, entry in shown.items():
            if entry["status"] == "failed":
                assert entry["reason"], entry
                assert client.ask("DELETE", f"/v1/sandboxes/{id_}").status in (204, 404)
                self.drop(self.tokens, id_)
        assert "a transition that the table forbids" not in self.daemon.log_text()

    def crash(self):
        self.daemon.kill()
        self.daemon.start()

    def threads_of_viald(self):
        """Where each of them is in the kernel: for the report of a hang."""
        lines = []
        for task in Path(f"/proc/{self.daemon.process.pid}/task").glob("*"):
            try:
                stack = (task / "stack").read_text().split("\n")[:3]
                lines.append(f"{task.name} {(task / 'comm').read_text().strip()}: {' '.join(line.split('+')[0] for line in stack)}")
            except OSError:
                pass
        return "\n".join(sorted(lines))

    def end(self):
        """All of it can be deleted."""
        client = self.daemon.client()
        for entry in client.sandboxes():
            assert client.ask("DELETE", f"/v1/sandboxes/{entry['id']}").status in (204, 404), entry
        for entry in client.call("GET", "/v1/snapshots"):
            assert client.ask("DELETE", f"/v1/snapshots/{entry['id']}").status == 204
        assert client.sandboxes() == [] and client.call("GET", "/v1/snapshots") == []
