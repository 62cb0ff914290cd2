# SPDX-License-Identifier: Apache-2.0
"""One transition at a time: whatever is asked meanwhile waits its turn, and everybody who waits is told, whatever becomes of the guest."""

import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest

from sanitized import Sanitized
from test_states import run, value, wait_for
from tools import check_refusal, command_lines, engine_processes, leftovers, shim_processes
from vial import ApiError, Daemon, Sandbox, slow

# No request of this file may take longer: the guest's own limits are 30 s.
LIMIT = slow(60)


class Asking:
    """A request under way in a thread of its own; join() gives its answer, and fails when there is none."""

    def __init__(self, client, method, path, body=None):
        self.what, self.answer, self.error = f"{method} {path}", None, None
        self.thread = threading.Thread(target=self._ask, args=(client, method, path, body), daemon=True)
        self.thread.start()

    def _ask(self, client, method, path, body):
        try:
            self.answer = client.ask(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            self.error = error

    def is_open(self):
        return self.thread.is_alive()

    def join(self, seconds=LIMIT):
        self.thread.join(seconds)
        assert not self.thread.is_alive(), f"{self.what} is not answered"
        assert not self.error, f"{self.what}: {self.error!r}"
        return self.answer


@pytest.fixture(scope="module")
def programs():
    folder = Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp"))
    yield Sanitized(folder)
    shutil.rmtree(folder, ignore_errors=True)


class Strict(Daemon):
    """A sanitized viald whose failures are in `faults`."""

    def __init__(self, programs, *options):
        folder = Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp"))
        self.sanitized = programs
        self.faults = folder / "faults"
        self.faults.write_text("")
        super().__init__(folder, *options, programs=programs.path, env={**programs.env, "VIAL_FAULTS": str(self.faults)})

    def wait_until_ready(self):
        """Also its templates: nothing is baked any more."""
        wait_for(lambda: self.log_text().count("Vial is ready") == self.log_text().count("the key is in") > 0, 120)

    def is_well(self):
        self.sanitized.check()
        return self.process.poll() is None and self.alive()

    def end(self):
        """As Ctrl-C does it; it must end well, and the sanitizers have found nothing."""
        self.faults.write_text("")
        try:
            self.stop(slow(90))
            assert not leftovers(self)
        finally:
            self.sanitized.check()
            shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def shared(programs):
    daemon = Strict(programs)
    daemon.wait_until_ready()
    yield daemon
    daemon.end()


@pytest.fixture
def strict(shared, programs):
    """One that no test before has brought down."""
    if shared.process.poll() is not None:
        shared.start()
    shared.faults.write_text("")
    programs.clear()
    yield shared
    shared.faults.write_text("")
    assert shared.is_well()


@pytest.fixture
def sandbox(strict):
    sandbox = strict.client().create()
    yield sandbox
    if strict.process.poll() is None:
        assert sandbox.ask("DELETE").status in (204, 404)


# A state is kept while somebody goes back to the one before

@pytest.fixture
def frugal(programs):
    """One that keeps one state of a sandbox, and restores nothing as long as there is the file `hold`."""
    programs.clear()
    folder = Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp"))
    hold, runsc = folder / "hold", folder / "runsc"
    runsc.write_text(f'#!/bin/sh\ncase " $* " in *" restore "*) while [ -e {hold} ]; do sleep 0.05; done ;; esac\nexec {os.environ.get("VIAL_RUNSC", "runsc")} "$@"\n')
    runsc.chmod(0o755)
    daemon = Strict(programs, "--undo-points", "1", "--runsc", runsc)
    daemon.hold, daemon.runsc = hold, runsc
    daemon.wait_until_ready()
    yield daemon
    hold.unlink(missing_ok=True)
    daemon.end()
    shutil.rmtree(folder)


@pytest.mark.parametrize("leaves", [False, True], ids=["who runs it stays", "who runs it leaves"])
def test_a_state_that_is_kept_while_the_one_before_is_gone_back_to_is_not_the_one_to_give_way(frugal, leaves):
    """Only one may be kept, and the older of the two is in use: the new machine is held up until the state is on the disk."""
    sandbox = frugal.client().create()
    run(sandbox, "x = 'first'")
    run(sandbox, "x = 'second'", undo=True)
    (first,) = snapshot_folders(frugal)
    frugal.faults.write_text("manifest.wait 1\n")
    going = Leaving(sandbox, {"code": "import time; time.sleep(600)", "undo": True})
    wait_for(lambda: is_being_kept(frugal))
    frugal.hold.touch()
    back = Asking(frugal.client(), "POST", f"{sandbox.path}/undo")
    if leaves:
        going.leave()
    wait_for(lambda: held_machines(frugal))
    frugal.faults.write_text("")
    wait_for(lambda: not is_being_kept(frugal))
    time.sleep(slow(1))  # until it is on record, and has been looked at
    assert back.is_open()
    frugal.hold.unlink()
    assert back.join().status == 200
    going.leave()
    assert frugal.is_well()
    assert value(sandbox, "x") == "'first'"
    assert sandbox.refresh()["undos"] == (0 if leaves else 1)
    wait_for(lambda: len(snapshot_folders(frugal)) == sandbox.info["undos"] and first not in snapshot_folders(frugal))
    sandbox.delete()


def snapshot_folders(daemon):
    return {path.name for path in (daemon.data / "snapshots").iterdir()}


def is_being_kept(daemon):
    return any(name.endswith(".tmp") for name in snapshot_folders(daemon))


def held_machines(daemon):
    """Those that wait until there is no `hold` any more."""
    return [pid for pid, words in command_lines() if str(daemon.runsc) in words and "restore" in words]


class Leaving:
    """A run whose answer nobody waits for."""

    def __init__(self, sandbox, body):
        self.connection = sandbox.client.connection()
        self.connection.request("POST", f"{sandbox.path}/run", body=json.dumps(body),
                                headers={"Authorization": f"Bearer {sandbox.client.key}", "Content-Type": "application/json"})

    def leave(self):
        self.connection.close()


# The guest dies while it is put to sleep

@pytest.mark.parametrize("victim", [engine_processes, shim_processes], ids=["engine", "host process"])
@pytest.mark.parametrize("delay", [0.05, 0.4])
def test_a_guest_that_dies_while_it_hibernates_fails_and_who_waited_for_it_is_told(strict, sandbox, victim, delay):
    client = strict.client()
    run(sandbox, "kept = bytearray(b'z') * (600 << 20)")
    pids = victim(strict, sandbox)
    assert pids
    hibernate = Asking(client, "POST", f"{sandbox.path}/hibernate")
    time.sleep(0.02)
    waiting = [Asking(client, "POST", f"{sandbox.path}/exec", {"cmd": "echo hello"}), Asking(client, "POST", f"{sandbox.path}/run", {"code": "1"}),
               Asking(client, "POST", f"{sandbox.path}/wake")]
    time.sleep(delay)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # late, it has hibernated
            os.kill(pid, signal.SIGKILL)
    answers = [hibernate.join(), *[one.join() for one in waiting]]
    assert strict.is_well(), strict.log_text()[-3000:]
    wait_for(lambda: sandbox.refresh()["status"] in ("failed", "hibernated", "running"))
    for answer in answers:
        # A kill that came after the image was sealed costs nothing: then all of them succeed.
        assert answer.status < 300 or check_refusal(answer, 409, 503), answer.body
    if sandbox.info["status"] == "failed":
        assert sandbox.info["reason"]
        check_refusal(sandbox.ask("POST", "/exec", {"cmd": "true"}), 503)
    else:
        assert value(sandbox, "len(kept)") == str(600 << 20)
    assert sandbox.ask("DELETE").status == 204


# What is deleted before it was there

def creating(client, known=()):
    """The sandboxes that are being made."""
    return [entry for entry in client.sandboxes() if entry["status"] == "creating" and entry["id"] not in known]


def wait_for_creating(client, asking, count=1):
    while asking.is_open():
        found = creating(client)
        if len(found) >= count:
            return found
    return []


@pytest.mark.parametrize("fault", ["boot.hello", "boot.launch", ""], ids=["its agent is refused", "no host process", "it succeeds"])
def test_deleting_a_sandbox_that_is_being_made_is_answered_however_that_ends(strict, fault):
    client = strict.client()
    for _ in range(10):
        strict.faults.write_text(fault)
        made = [Asking(client, "POST", "/v1/sandboxes", {"template": "minimal"}) for _ in range(3)]
        deletions = [Asking(client, "DELETE", f"/v1/sandboxes/{entry['id']}") for entry in wait_for_creating(client, made[0])]
        in_time = bool(deletions) and any(one.is_open() for one in made)
        for one in deletions:
            assert one.join().status in (204, 404)
        for one in made:
            answer = one.join()
            if answer.status == 201:
                client.ask("DELETE", f"/v1/sandboxes/{answer.json()['id']}")
            elif fault == "boot.launch":
                check_refusal(answer, 404, 409, 500, 503)  # the injected failure is an error of the host
            else:
                check_refusal(answer, 404, 409, 503)
        strict.faults.write_text("")
        assert client.sandboxes() == [] and strict.is_well()
        if in_time:
            return
    assert fault == "boot.launch", "no deletion ever came in time"  # that one fails too early to be met


@pytest.mark.parametrize("verb", ["delete", "promote"])
def test_children_that_are_not_there_yet_can_be_deleted_and_promoted_though_they_never_come(strict, sandbox, verb):
    client = strict.client()
    for _ in range(10):
        forking = Asking(client, "POST", f"{sandbox.path}/fork-tree", {"count": 3})
        children = wait_for_creating(client, forking, 3)
        strict.faults.write_text("boot.hello\n")  # the parent's own agent has answered by now
        asked = [Asking(client, "DELETE", f"/v1/sandboxes/{child['id']}") if verb == "delete" else
                 Asking(client, "POST", f"/v1/sandboxes/{child['id']}/promote", {"cleanup_siblings": True}) for child in children]
        in_time = bool(asked) and forking.is_open()
        for one in asked:
            answer = one.join()
            assert answer.status in (200, 204) or check_refusal(answer, 404, 409, 503)
        assert forking.join().status in (200, 201, 503)
        strict.faults.write_text("")
        for entry in client.sandboxes():
            if entry["id"] != sandbox.id:
                assert client.ask("DELETE", f"/v1/sandboxes/{entry['id']}").status in (204, 404)
        assert value(sandbox, "1 + 1") == "2" and strict.is_well()
        if in_time:
            return
    raise AssertionError("never in time")


def test_ctrl_c_ends_what_was_deleted_while_it_was_being_made(programs):
    programs.clear()
    daemon = Strict(programs)
    daemon.wait_until_ready()
    daemon.faults.write_text("boot.hello\n")
    client = daemon.client()
    made = [Asking(client, "POST", "/v1/sandboxes", {"template": "minimal"}) for _ in range(4)]
    for entry in wait_for_creating(client, made[0]):
        Asking(client, "DELETE", f"/v1/sandboxes/{entry['id']}")
    daemon.end()


# Many at once

def test_sixteen_threads_on_one_sandbox_never_meet_an_error_of_ours(strict, sandbox):
    client = strict.client()
    run(sandbox, "x = 'state'")
    end, seen, lock = time.monotonic() + 12, {}, threading.Lock()
    needed = {"/exec", "/run", "/pause", "/resume", "/snapshots", "/fork"}  # each of them succeeds now and then
    verbs = [("/exec", {"cmd": "echo hello"}), ("/run", {"code": "x"}), ("/pause", None), ("/resume", None), ("/resume", None), ("/snapshots", {}),
             ("/fork", {}), ("/hibernate", None), ("/wake", None)]

    def has_all():
        with lock:
            return needed <= {path for path, status in seen if status < 300}

    def work(number):
        rng = random.Random(number)
        while time.monotonic() < end or (not has_all() and time.monotonic() < end + LIMIT / 2):
            path, body = rng.choice(verbs)
            try:
                answer = client.ask("POST", sandbox.path + path, body)
            except (OSError, http.client.HTTPException) as error:
                with lock:
                    seen.setdefault((path, 599), repr(error))
                return
            with lock:
                seen.setdefault((path, answer.status), answer.body[:300])
            if answer.status == 201 and path in ("/fork", "/snapshots"):
                made = answer.json()
                client.ask("DELETE", f"/v1/sandboxes/{made['sandbox']['id']}" if path == "/fork" else f"/v1/snapshots/{made['id']}")

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(16)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and time.monotonic() < end + LIMIT * 2:
        time.sleep(0.5)
        if time.monotonic() > end:
            sandbox.ask("POST", "/resume")  # a command in a sandbox that was paused under it has to wait for that
    assert not any(thread.is_alive() for thread in threads), "a request is not answered"
    wrong = {key: body for key, body in seen.items() if key[1] not in (200, 201, 204, 409)}
    assert not wrong, wrong
    assert has_all(), sorted(seen)
    sandbox.ask("POST", "/resume")
    assert value(sandbox, "x") == "'state'"


def test_of_two_snapshots_with_one_name_taken_at_once_one_is_made(strict, sandbox):
    client = strict.client()
    for round_ in range(3):
        asked = [Asking(client, "POST", f"{sandbox.path}/snapshots", {"name": f"same-{round_}"}) for _ in range(2)]
        statuses = sorted(one.join().status for one in asked)
        assert statuses == [201, 409], [one.answer.body for one in asked]
        named = [entry for entry in client.call("GET", "/v1/snapshots") if entry.get("name") == f"same-{round_}"]
        assert len(named) == 1
        client.call("DELETE", f"/v1/snapshots/{named[0]['id']}")
    # A name that was not taken in the end is free again.
    strict.faults.write_text("snapshot.rename\n")
    assert sandbox.ask("POST", "/snapshots", {"name": "failed"}).status >= 400
    strict.faults.write_text("")
    snapshot = sandbox.call("POST", "/snapshots", {"name": "failed"})
    client.call("DELETE", f"/v1/snapshots/{snapshot['id']}")


def test_commands_that_run_while_snapshots_are_taken_lose_no_output(strict, sandbox):
    client = strict.client()
    wrong, done, rounds = [], threading.Event(), [0]

    def work():
        while not done.is_set():
            answer = client.ask("POST", f"{sandbox.path}/exec", {"cmd": "echo $((6 * 7))"})
            rounds[0] += 1
            if answer.status != 200 or answer.json()["stdout"] != "42\n":
                wrong.append(answer.body[:300])

    threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(8):
        snapshot = sandbox.call("POST", "/snapshots", {})
        client.call("DELETE", f"/v1/snapshots/{snapshot['id']}")
    done.set()
    for thread in threads:
        thread.join(LIMIT)
    assert not wrong and rounds[0] >= 8, (rounds, wrong[:3])


def test_the_answer_to_a_viald_that_is_gone_is_no_lie_to_the_next(strict, sandbox):
    """A checkpoint that was being written when viald died ends when the next one is there, which did not ask for it."""
    run(sandbox, "kept = bytearray(b'z') * (600 << 20)")
    for delay in (0.15, 0.3):
        asked = Asking(strict.client(), "POST", f"{sandbox.path}/snapshots", {})
        time.sleep(delay)
        strict.kill()
        asked.thread.join(LIMIT)
        strict.start()
        sandbox.client = strict.client()
        assert value(sandbox, "len(kept)") == str(600 << 20)
    for entry in strict.client().call("GET", "/v1/snapshots"):
        strict.client().call("DELETE", f"/v1/snapshots/{entry['id']}")


# Stopping

def load(client, parent):
    """Creations, forks and the rest, more than can be under way at once."""
    asked = [Asking(client, "POST", "/v1/sandboxes", {"template": "minimal", "persistent": number % 2 == 0}) for number in range(4)]
    asked += [Asking(client, "POST", f"{parent.path}/fork-tree", {"count": 2}), Asking(client, "POST", f"{parent.path}/snapshots", {})]
    return asked


@pytest.mark.parametrize("signals", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGINT), (signal.SIGINT,), (signal.SIGTERM,)],
                         ids=["Ctrl-C twice", "SIGTERM, then Ctrl-C", "Ctrl-C", "SIGTERM"])
def test_viald_stops_in_time_whatever_is_queued_and_the_next_one_finds_everything_in_order(programs, signals):
    rng = random.Random()
    programs.clear()
    for _ in range(2):
        daemon = Strict(programs, "--pool-size", "1")
        daemon.wait_until_ready()
        client = daemon.client()
        parent = client.create(persistent=True)
        run(parent, "x = 'state'")
        pauses = [rng.uniform(0, 0.8), *[rng.uniform(0, 1.5) for _ in signals[1:]]]
        load(client, parent)
        for number, pause in zip(signals, pauses):
            time.sleep(pause)
            if daemon.process.poll() is None:
                daemon.process.send_signal(number)
        signalled = time.monotonic()
        status = daemon.process.wait(slow(90))
        programs.check()
        assert status == 0 or (status == 1 and len(signals) > 1), (status, pauses, daemon.log_text()[-3000:])
        assert status == 0 or time.monotonic() - signalled < slow(5), "asked twice, it does not wait"
        daemon.start()
        try:
            assert value(Sandbox(daemon.client(), parent.info), "x") == "'state'", pauses
        except ApiError as error:
            raise AssertionError(f"{error}, {pauses}\n{daemon.log_text()[-6000:]}") from error
        daemon.wait_until_ready()
        daemon.end()
