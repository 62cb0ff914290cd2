# SPDX-License-Identifier: Apache-2.0
"""Nothing is lost and nothing foreign is restored: tampering, failures injected at every step, and crashes at every step.

viald reads the file named by VIAL_FAULTS at each of its fault points (src/util/fault.h); the tests write into it.
"""

import json
import os
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest

from test_states import run, value, wait_for
from test_transitions import Asking
from tools import command_lines, engine_processes, host_id, wait_until
from vial import ApiError, Daemon, Sandbox, slow

HELLO_SECONDS = 30  # of viald's boot.c


@pytest.fixture(scope="module")
def faulty():
    """A viald whose failures are in faulty.faults."""
    folder = Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp"))
    faults = folder / "faults"
    faults.write_text("")
    daemon = Daemon(folder, env={"VIAL_FAULTS": str(faults)})
    daemon.faults = faults
    wait_for(lambda: "Vial is ready" in daemon.log_text(), 120)  # what is still baked would meet the failures
    yield daemon
    faults.write_text("")
    daemon.stop()
    shutil.rmtree(folder, ignore_errors=True)


def restart(daemon):
    daemon.faults.write_text("")
    if daemon.process.poll() is None:
        daemon.kill()
    daemon.start()


def again(daemon, sandbox):
    """The same sandbox through the restarted viald."""
    return Sandbox(daemon.client(), daemon.client().call("GET", sandbox.path))


def flip_a_byte(path, offset=None):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2 if offset is None else offset)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


@pytest.fixture(autouse=True)
def no_faults(request):
    """A test that fails leaves none to the next ones."""
    yield
    if "faulty" in request.fixturenames:
        request.getfixturevalue("faulty").faults.write_text("")


def make(daemon):
    sandbox = daemon.client().create()
    run(sandbox, "x = 'state'")
    return sandbox


@pytest.mark.parametrize("file", ["pages.img", "checkpoint.img", "pages_meta.img", "manifest.json"])
def test_a_snapshot_with_one_changed_byte_is_refused_with_a_sentence(faulty, file):
    sandbox = make(faulty)
    snapshot = sandbox.call("POST", "/snapshots", {})
    flip_a_byte(faulty.data / "snapshots" / snapshot["id"] / file)
    with pytest.raises(ApiError) as refused:
        faulty.client().create(from_snapshot=snapshot["id"])
    assert refused.value.status == 409 and "snapshot" in refused.value.body["error"], refused.value.body
    assert value(sandbox, "x") == "'state'"
    faulty.client().call("DELETE", f"/v1/snapshots/{snapshot['id']}")
    sandbox.delete()


def test_a_snapshot_of_another_engine_version_or_a_better_cpu_is_refused(faulty):
    sandbox = make(faulty)
    snapshot = sandbox.call("POST", "/snapshots", {})
    path = faulty.data / "snapshots" / snapshot["id"] / "manifest.json"
    original = path.read_text()
    for field, text in (("engine_version", "0.0~19990101"), ("cpu_features", "avx1024 fpu")):
        manifest = json.loads(original)
        manifest["snapshot"][field] = text
        seal(faulty, manifest)
        path.write_text(json.dumps(manifest))
        with pytest.raises(ApiError) as refused:
            faulty.client().create(from_snapshot=snapshot["id"])
        assert refused.value.status == 409 and ("19990101" in refused.value.body["error"] or "avx1024" in refused.value.body["error"])
    path.write_text(original)
    twin = faulty.client().create(from_snapshot=snapshot["id"])
    twin.delete()
    faulty.client().call("DELETE", f"/v1/snapshots/{snapshot['id']}")
    sandbox.delete()


def seal(daemon, manifest):
    """As manifest.c does: whoever has the installation's key can sign; nobody else."""
    import hashlib
    import hmac

    key = (daemon.data / "keys/snapshot.key").read_bytes()
    body = json.dumps(manifest["snapshot"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    manifest["hmac"] = hmac.new(key, body.encode(), hashlib.sha256).hexdigest()


def test_a_changed_hibernation_image_is_refused_and_the_sandbox_stays_asleep(faulty):
    sandbox = make(faulty)
    sandbox.call("POST", "/hibernate")
    pages = faulty.data / "hibernated" / sandbox.id / "pages.img"
    flip_a_byte(pages)
    with pytest.raises(ApiError):
        run(sandbox, "x")
    assert sandbox.refresh()["status"] == "hibernated"
    flip_a_byte(pages)
    assert value(sandbox, "x") == "'state'"
    sandbox.delete()


@pytest.mark.parametrize("point", ["freeze.frozen", "freeze.checkpointed", "manifest.sync", "manifest.write", "hibernate.rename"])
def test_a_hibernation_that_fails_at_any_step_leaves_the_sandbox_running(faulty, point):
    sandbox = make(faulty)
    faulty.faults.write_text(point + "\n")
    with pytest.raises(ApiError):
        sandbox.call("POST", "/hibernate")
    faulty.faults.write_text("")
    assert sandbox.refresh()["status"] == "running"
    assert value(sandbox, "x") == "'state'"
    sandbox.call("POST", "/hibernate")
    assert value(sandbox, "x") == "'state'"
    sandbox.delete()


@pytest.mark.parametrize("point", ["freeze.frozen", "freeze.checkpointed", "manifest.sync", "manifest.write", "snapshot.rename"])
def test_a_snapshot_that_fails_at_any_step_leaves_no_trace_and_the_sandbox_running(faulty, point):
    sandbox = make(faulty)
    faulty.faults.write_text(point + "\n")
    with pytest.raises(ApiError):
        sandbox.call("POST", "/snapshots", {})
    faulty.faults.write_text("")
    assert value(sandbox, "x") == "'state'"
    assert faulty.client().call("GET", "/v1/snapshots") == []
    wait_for(lambda: not list((faulty.data / "snapshots").glob("*")))
    sandbox.delete()


@pytest.mark.parametrize("point", ["boot.launch", "boot.hello"])
def test_a_wake_that_fails_leaves_the_sandbox_asleep_and_the_next_one_works(faulty, point):
    sandbox = make(faulty)
    sandbox.call("POST", "/hibernate")
    faulty.faults.write_text(point + "\n")
    with pytest.raises(ApiError):
        run(sandbox, "x")
    faulty.faults.write_text("")
    assert sandbox.refresh()["status"] == "hibernated"
    assert value(sandbox, "x") == "'state'"
    sandbox.delete()


@pytest.mark.parametrize("point", ["freeze.frozen", "freeze.checkpointed"])
def test_a_fork_that_fails_tells_so_and_the_parent_lives(faulty, point):
    sandbox = make(faulty)
    faulty.faults.write_text(point + "\n")
    with pytest.raises(ApiError):
        sandbox.call("POST", "/fork", {})
    faulty.faults.write_text("")
    assert value(sandbox, "x") == "'state'"
    sandbox.delete()


def test_children_that_fail_are_reported_one_by_one_and_the_others_live(start_daemon):
    """Nobody else says HELLO here: there is no pool, and nothing is baked any more."""
    faults = Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp")) / "faults"
    daemon = start_daemon("--pool-size", "0", env={"VIAL_FAULTS": str(faults)})
    wait_until(lambda: "Vial is ready" in daemon.log_text(), 120)
    sandbox = make(daemon)
    faults.write_text("boot.hello 4\n")  # the parent goes on, and so do two children
    answer = sandbox.call("POST", "/fork-tree", {"count": 4})
    faults.write_text("")
    assert [child["status"] for child in answer["children"]] == ["running", "running"]
    assert len(answer["errors"]) == 2 and all("injected failure" in refusal for refusal in answer["errors"])
    assert value(sandbox, "x") == "'state'"
    assert [value(Sandbox(daemon.client(), child), "x") for child in answer["children"]] == ["'state'", "'state'"]
    shutil.rmtree(faults.parent)


@pytest.mark.parametrize("point", ["freeze.frozen", "freeze.checkpointed", "manifest.sync", "hibernate.rename", "hibernate.renamed", "hibernate.stored"])
def test_viald_killed_at_any_step_of_a_hibernation_loses_nothing(faulty, point):
    sandbox = make(faulty)
    faulty.faults.write_text(f"{point} crash\n")
    with pytest.raises(Exception):
        sandbox.call("POST", "/hibernate")
    faulty.process.wait(slow(10))
    restart(faulty)
    sandbox = again(faulty, sandbox)
    assert sandbox.info["status"] in ("running", "hibernated"), sandbox.info
    assert value(sandbox, "x") == "'state'"
    sandbox.delete()
    wait_for(lambda: not os.listdir(faulty.data / "sandboxes"))  # or the guest that was hibernated lives on beside the one that was woken


def stop_in_its_checkpoint(daemon, sandbox, engine):
    """Stops the engine while a snapshot is taken. Whoever asks it for a checkpoint waits for it then: where nobody does, it was too late, or too early."""
    name = host_id(daemon, sandbox)

    def is_asked():
        return any("checkpoint" in words and name in words for _, words in command_lines())

    for _ in range(20):
        asking = Asking(daemon.client(), "POST", f"{sandbox.path}/snapshots", {})
        wait_until(lambda: is_asked() or not asking.is_open(), interval=0.005)
        os.kill(engine, signal.SIGSTOP)
        time.sleep(0.5)
        if is_asked():
            return
        os.kill(engine, signal.SIGCONT)
        daemon.client().call("DELETE", f"/v1/snapshots/{asking.join().json()['id']}")
    raise AssertionError("never in time")


def test_a_guest_whose_checkpoint_outlives_viald_by_long_is_waited_for(faulty):
    """Longer than a HELLO is: its disk is slow, or its memory large."""
    sandbox = make(faulty)
    run(sandbox, "large = bytearray(b'z') * (400 << 20)")
    (engine,) = engine_processes(faulty, sandbox)
    stop_in_its_checkpoint(faulty, sandbox, engine)
    faulty.kill()
    timer = threading.Timer(HELLO_SECONDS + 5, os.kill, (engine, signal.SIGCONT))
    timer.start()
    faulty.start()
    assert not timer.is_alive(), "the checkpoint was over before"
    assert value(again(faulty, sandbox), "x") == "'state'"
    again(faulty, sandbox).delete()


@pytest.mark.parametrize("point", ["boot.launch", "boot.hello", "wake.booted"])
def test_viald_killed_during_a_wake_loses_nothing(faulty, point):
    sandbox = make(faulty)
    sandbox.call("POST", "/hibernate")
    faulty.faults.write_text(f"{point} crash\n")
    with pytest.raises(Exception):
        run(sandbox, "x")
    faulty.process.wait(slow(10))
    restart(faulty)
    sandbox = again(faulty, sandbox)
    assert sandbox.info["status"] == "hibernated"
    assert value(sandbox, "x") == "'state'"
    sandbox.call("POST", "/hibernate")  # which takes its network, too
    assert value(sandbox, "x") == "'state'"
    sandbox.delete()
    wait_for(lambda: not os.listdir(faulty.data / "sandboxes"))


@pytest.mark.parametrize("point", ["freeze.frozen", "freeze.checkpointed", "snapshot.rename"])
def test_viald_killed_during_a_snapshot_leaves_the_sandbox_running_and_no_garbage(faulty, point):
    sandbox = make(faulty)
    faulty.faults.write_text(f"{point} crash\n")
    with pytest.raises(Exception):
        sandbox.call("POST", "/snapshots", {})
    faulty.process.wait(slow(10))
    restart(faulty)
    sandbox = again(faulty, sandbox)
    assert value(sandbox, "x") == "'state'"
    wait_for(lambda: not list((faulty.data / "snapshots").glob("*")))
    sandbox.delete()


def shim_of(daemon, sandbox):
    import sqlite3

    with sqlite3.connect(f"file:{daemon.data}/db.sqlite?mode=ro", uri=True) as database:
        document = database.execute("select document from sandboxes where id = ?", (sandbox.id,)).fetchone()[0]
    return daemon.data / "sandboxes" / json.loads(document)["host_id"]


@pytest.mark.parametrize("victim", ["shim.pid", "runsc.pid"])
def test_a_killed_engine_during_a_snapshot_fails_that_sandbox_only(faulty, victim):
    import threading

    sandbox, other = make(faulty), make(faulty)
    folder = shim_of(faulty, sandbox)
    pid = int((folder / victim).read_text().split()[0])
    errors = []

    def snapshot():
        try:
            sandbox.call("POST", "/snapshots", {})
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=snapshot)
    thread.start()
    time.sleep(0.05)
    os.kill(pid, 9)
    thread.join()
    wait_for(lambda: sandbox.refresh()["status"] == "failed")
    assert sandbox.info["reason"]
    assert value(other, "x") == "'state'"
    for one in (sandbox, other):
        one.delete()
    for snapshot in faulty.client().call("GET", "/v1/snapshots"):
        faulty.client().call("DELETE", f"/v1/snapshots/{snapshot['id']}")


def test_a_full_disk_fails_the_snapshot_and_nothing_else():
    folder = Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp"))
    small = folder / "data"
    small.mkdir()
    os.system(f"mount -t tmpfs -o size=64m tmpfs {small}")
    daemon = None
    try:
        daemon = Daemon(folder)
        sandbox = daemon.client().create()
        run(sandbox, "x = bytearray(b'z' * 80_000_000)")
        with pytest.raises(ApiError):
            sandbox.call("POST", "/snapshots", {})
        with pytest.raises(ApiError):
            sandbox.call("POST", "/hibernate")
        assert value(sandbox, "len(x)") == "80000000"
    finally:
        if daemon:
            daemon.process.send_signal(2)
            daemon.process.wait(slow(60))
        os.system(f"umount {small}")
        shutil.rmtree(folder, ignore_errors=True)
