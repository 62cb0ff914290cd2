# SPDX-License-Identifier: Apache-2.0
"""A machine that cannot be exchanged, and a viald that is killed while it is: the sandbox has the old machine or the new one, never none and never
both, and the winner of a merge that did not happen is still there."""

import contextlib
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

from test_in_place import fork, is_there, merge, rollback, snapshot, undo, undo_points
from test_integrity import again, faulty, flip_a_byte, restart  # noqa: F401  (faulty is a fixture)
from test_states import run, value, wait_for
from test_transitions import Asking
from tools import check_refusal, command_lines, engine_processes, host_id
from vial import Daemon, slow


@pytest.fixture
def sandbox(faulty):  # noqa: F811
    """With x: 'old' now, 'new' in the snapshot `.to`, and before its last run."""
    sandbox = faulty.client().create()
    run(sandbox, "x = 'new'")
    sandbox.to = snapshot(sandbox)
    run(sandbox, "x = 'old'", undo=True)
    yield sandbox
    faulty.faults.write_text("")
    for one in faulty.client().sandboxes():
        faulty.client().ask("DELETE", f"/v1/sandboxes/{one['id']}")
    for one in faulty.client().call("GET", "/v1/snapshots"):
        faulty.client().ask("DELETE", f"/v1/snapshots/{one['id']}")


def winner_of(sandbox):
    winner = fork(sandbox)
    run(winner, "x = 'new'")
    return winner


def begin(sandbox, what, winner=None):
    body = {"rollback": {"snapshot": sandbox.to}, "merge": {"winner": winner.id if winner else None}}.get(what)
    return sandbox.ask("POST", f"/{what}", body)


def hosts(daemon):
    """Host ids that have a process."""
    return {Path(word).name for _, words in command_lines() for word in words
            if Path(words[0]).name in ("vial-shim", "vial-vmm") and word.startswith(str(daemon.data / "sandboxes"))}


@pytest.mark.parametrize("what, fault, state", [
    ("rollback", "boot.launch", "running"), ("undo", "boot.hello", "running"), ("undo", "in_place.record", "running"), ("rollback", "boot.hello", "paused"),
    ("rollback", "in_place.record", "paused"), ("undo", "boot.launch", "hibernated"), ("rollback", "in_place.record", "hibernated")])
def test_what_cannot_be_exchanged_stays_what_it_was(faulty, sandbox, what, fault, state):  # noqa: F811
    verb = {"paused": "/pause", "hibernated": "/hibernate"}.get(state)
    if verb:
        sandbox.call("POST", verb)
    machine = host_id(faulty, sandbox)
    faulty.faults.write_text(fault + "\n")
    answer = begin(sandbox, what)
    faulty.faults.write_text("")
    assert check_refusal(answer, 500, 503, 507)
    assert sandbox.refresh()["status"] == state and sandbox.info["undos"] == 1
    if state == "paused":
        sandbox.call("POST", "/resume")
    assert value(sandbox, "x") == "'old'"
    assert state == "hibernated" or host_id(faulty, sandbox) == machine
    wait_for(lambda: hosts(faulty) >= {host_id(faulty, sandbox)} and len(engine_processes(faulty, sandbox)) == 1)
    assert begin(sandbox, what).status == 200
    assert value(sandbox, "x") == "'new'"


@pytest.mark.parametrize("winner_sleeps", [False, True])
@pytest.mark.parametrize("fault", ["boot.hello", "in_place.record"])
def test_a_merge_that_fails_leaves_the_parent_and_unless_its_agent_is_mad_the_winner(faulty, sandbox, fault, winner_sleeps):  # noqa: F811
    winner = winner_of(sandbox)
    if winner_sleeps:
        winner.call("POST", "/hibernate")
    faulty.faults.write_text(fault + "\n")
    check_refusal(begin(sandbox, "merge", winner), 500, 503, 507)
    faulty.faults.write_text("")
    assert value(sandbox, "x") == "'old'"
    if fault == "boot.hello" and not winner_sleeps:  # it did not take its new name, so nobody may use it
        wait_for(lambda: winner.refresh()["status"] == "failed")
        return
    assert value(winner, "x") == "'new'"
    assert winner.exec("hostname")["stdout"].strip() == winner.id
    assert merge(sandbox, winner)["status"] == "running" and value(sandbox, "x") == "'new'"


def test_a_snapshot_with_a_changed_byte_is_refused_and_the_sandbox_goes_on(faulty, sandbox):  # noqa: F811
    for what, folder in (("rollback", sandbox.to), ("undo", undo_points(faulty, sandbox)[0])):
        pages = faulty.data / "snapshots" / folder / "pages.img"
        flip_a_byte(pages)
        check_refusal(begin(sandbox, what), 409)
        assert value(sandbox, "x") == "'old'"
        flip_a_byte(pages)
    assert begin(sandbox, "undo").status == 200 and value(sandbox, "x") == "'new'"


@pytest.mark.parametrize("what, point, expected, state", [
    ("rollback", "boot.launch", "old", "running"), ("undo", "boot.hello", "old", "running"), ("undo", "in_place.booted", "old", "running"),
    ("rollback", "in_place.stored", "new", "running"), ("undo", "in_place.stored", "new", "running"), ("rollback", "boot.hello", "old", "hibernated"),
    ("undo", "in_place.booted", "old", "hibernated"), ("rollback", "in_place.stored", "new", "hibernated")])
def test_viald_killed_at_any_step_leaves_one_machine(faulty, sandbox, what, point, expected, state):  # noqa: F811
    if state == "hibernated":
        sandbox.call("POST", "/hibernate")
    faulty.faults.write_text(f"{point} crash\n")
    with pytest.raises(OSError):
        begin(sandbox, what)
    faulty.process.wait(slow(10))
    restart(faulty)
    sandbox = again(faulty, sandbox)
    assert sandbox.info["undos"] == (0 if what == "undo" and expected == "new" else 1)
    assert value(sandbox, "x") == f"'{expected}'"
    wait_for(lambda: hosts(faulty) == {host_id(faulty, sandbox)})
    sandbox.call("POST", "/hibernate")
    assert value(sandbox, "x") == f"'{expected}'"


@pytest.mark.parametrize("point, winner_sleeps", [("boot.hello", False), ("in_place.introduced", False), ("in_place.stored", False),
                                                   ("in_place.booted", True), ("in_place.stored", True)])
def test_viald_killed_at_any_step_of_a_merge_leaves_both_or_the_winners_machine_under_the_parents_id(faulty, sandbox, point, winner_sleeps):  # noqa: F811
    winner = winner_of(sandbox)
    if winner_sleeps:
        winner.call("POST", "/hibernate")
    faulty.faults.write_text(f"{point} crash\n")
    with pytest.raises(OSError):
        begin(sandbox, "merge", winner)
    faulty.process.wait(slow(10))
    restart(faulty)
    sandbox = again(faulty, sandbox)
    if point == "in_place.stored":
        assert value(sandbox, "x") == "'new'"
        check_refusal(faulty.client().ask("GET", winner.path), 404)
        assert sandbox.exec("hostname")["stdout"].strip() == sandbox.id
        return
    winner = again(faulty, winner)
    assert value(sandbox, "x") == "'old'" and value(winner, "x") == "'new'"
    assert winner.exec("hostname")["stdout"].strip() == winner.id
    wait_for(lambda: hosts(faulty) == {host_id(faulty, sandbox), host_id(faulty, winner)})


@pytest.mark.parametrize("point", ["freeze.frozen", "freeze.checkpointed", "manifest.sync", "snapshot.rename"])
def test_a_state_that_cannot_be_kept_refuses_the_run_and_nothing_ran(faulty, sandbox, point):  # noqa: F811
    for path, body in (("/run", {"code": "x = 'ran'"}), ("/exec/stream", {"cmd": "touch /workspace/ran"})):
        faulty.faults.write_text(point + "\n")
        check_refusal(sandbox.ask("POST", path, {**body, "undo": True}), 500, 503, 507)
        faulty.faults.write_text("")
    assert value(sandbox, "x") == "'old'" and sandbox.ask("GET", "/fs?path=ran").status == 404
    assert sandbox.refresh()["undos"] == 1


@pytest.mark.parametrize("point", ["freeze.checkpointed", "snapshot.rename"])
def test_viald_killed_while_a_state_is_kept_leaves_the_sandbox_and_no_garbage(faulty, sandbox, point):  # noqa: F811
    faulty.faults.write_text(f"{point} crash\n")
    with pytest.raises(OSError):
        run(sandbox, "x = 'ran'", undo=True)
    faulty.process.wait(slow(10))
    restart(faulty)
    sandbox = again(faulty, sandbox)
    assert value(sandbox, "x") == "'old'" and sandbox.info["undos"] == 1
    assert len(list((faulty.data / "snapshots").iterdir())) == 2


def test_a_stream_that_wakes_a_sandbox_that_cannot_be_woken_is_answered(faulty, sandbox):  # noqa: F811
    sandbox.call("POST", "/hibernate")
    faulty.faults.write_text("boot.hello\n")
    for path, body in (("/run/stream", {"code": "1"}), ("/exec/stream", {"cmd": "true"})):
        check_refusal(sandbox.ask("POST", path, body), 503)
    check_refusal(sandbox.ask("GET", "/fs/watch?path=/workspace"), 503)
    faulty.faults.write_text("")
    assert value(sandbox, "x") == "'old'"


@pytest.mark.parametrize("victim", ["old", "new"])
def test_a_machine_that_dies_meanwhile_is_not_mourned_if_the_other_lives(faulty, sandbox, victim):  # noqa: F811
    """The old one while the new one is restored; or all processes of the new one, and then the old one goes on."""
    old = engine_processes(faulty, sandbox)
    before = hosts(faulty)
    asking = Asking(faulty.client(), "POST", f"{sandbox.path}/rollback", {"snapshot": sandbox.to})
    if victim == "old":
        os.kill(old[0], signal.SIGKILL)
        answer = asking.join()
        assert answer.status == 200, answer.body
        assert value(sandbox, "x") == "'new'" and sandbox.refresh()["status"] == "running"
        return
    made = set()
    while asking.is_open() and not made:
        made = hosts(faulty) - before
    for pid, words in command_lines():
        if any(name in word for word in words for name in made):
            with contextlib.suppress(ProcessLookupError):  # those before it have taken it along
                os.kill(pid, signal.SIGKILL)
    answer = asking.join()
    wait_for(lambda: not [name for name in made if is_there(faulty, name)] or sandbox.refresh()["status"] in ("running", "failed"))
    if answer.status == 200:  # it was too late: it was the sandbox's own by then
        return
    assert value(sandbox, "x") == "'old'"


def test_a_full_disk_refuses_the_run_and_the_rollback_and_nothing_is_lost():
    folder = Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp"))
    small = folder / "data"
    small.mkdir()
    os.system(f"mount -t tmpfs -o size=200m tmpfs {small}")
    daemon = None
    try:
        daemon = Daemon(folder)
        sandbox = daemon.client().create()
        run(sandbox, "x = 'before'")
        run(sandbox, "x = 'after'", undo=True)
        (small / "filler").write_bytes(b"z" * (os.statvfs(small).f_bavail * os.statvfs(small).f_frsize - (1 << 20)))
        sentence = check_refusal(sandbox.ask("POST", "/run", {"code": "x = 'ran'", "undo": True}), 500, 503, 507)
        assert "no space left" in sentence.lower() and "goroutine" not in sentence and ".go:" not in sentence, sentence
        assert value(sandbox, "x") == "'after'" and sandbox.refresh()["undos"] == 1
        (small / "filler").unlink()
        undo(sandbox)
        assert value(sandbox, "x") == "'before'"
    finally:
        if daemon:  # its own stop() would take the mount for something left behind
            daemon.process.send_signal(signal.SIGINT)
            daemon.process.wait(slow(60))
        os.system(f"umount {small}")
        shutil.rmtree(folder, ignore_errors=True)


def test_who_leaves_while_the_state_is_kept_leaves_nothing_behind(faulty, sandbox):  # noqa: F811
    faulty.faults.write_text("manifest.wait 1\n")  # it is not kept before he has left
    connection = sandbox.client.connection()
    connection.request("POST", f"{sandbox.path}/run", body='{"code": "x = \'ran\'", "undo": true}',
                       headers={"Authorization": f"Bearer {sandbox.client.key}", "Content-Type": "application/json"})
    wait_for(lambda: list((faulty.data / "snapshots").glob("*.tmp")))
    connection.close()
    time.sleep(slow(0.2))  # that is heard of
    faulty.faults.write_text("")
    wait_for(lambda: not list((faulty.data / "snapshots").glob("*.tmp")))
    wait_for(lambda: len(list((faulty.data / "snapshots").iterdir())) == 2)
    assert value(sandbox, "x") == "'old'" and sandbox.refresh()["undos"] == 1
