# SPDX-License-Identifier: Apache-2.0
"""The warm pool: ready, never handed out twice, and its guests are their owner's from the first call on."""

import random
import shutil
import tempfile
import threading
import time

import pytest

from test_states import value, wait_for
from vial import Daemon


@pytest.fixture(scope="module")
def pooled(request):
    folder = tempfile.mkdtemp(prefix="vial-test-", dir="/tmp")
    daemon = Daemon(folder, "--pool-size", "2")
    yield daemon
    daemon.stop()
    shutil.rmtree(folder, ignore_errors=True)


def state(daemon):
    return daemon.client().call("GET", "/v1/me").get("pool", {}).get("minimal", {})


def wait_for_pool(daemon, ready=2, blank=0):
    wait_for(lambda: state(daemon).get("ready", 0) >= ready and state(daemon).get("blank", 0) >= blank, 120)


def test_a_claim_takes_identity_env_metadata_and_limits_from_the_request(pooled):
    wait_for_pool(pooled)
    sandbox = pooled.client().create(env={"OWNER": "me"}, metadata={"a": "b"}, cpu=1)
    assert sandbox.info["boot_mode"] == "pool" and sandbox.info["metadata"] == {"a": "b"} and sandbox.info["cpu"] == 1
    assert sandbox.exec("echo $OWNER; hostname")["stdout"].split() == ["me", sandbox.id]
    assert value(sandbox, "__import__('os').environ['OWNER']") == "'me'"
    sandbox.delete()


def test_what_the_pool_did_to_the_kernels_cannot_be_seen(pooled):
    wait_for_pool(pooled)
    sandbox = pooled.client().create()
    first = sandbox.call("POST", "/run", {"code": "(In, Out, _, [name for name in dir() if 'vial' in name])"})
    assert first["execution_count"] == 1 and first["results"][0]["text/plain"].startswith("(['', "), first
    assert first["results"][0]["text/plain"].endswith("{}, '', [])"), first
    first = sandbox.call("POST", "/run", {"code": "Object.keys(globalThis).filter(name => /warm|vial/.test(name)).length", "language": "javascript"})
    assert first["execution_count"] == 1 and first["results"][0]["text/plain"] == "0", first
    sandbox.delete()


def test_other_sizes_do_not_come_from_the_pool(pooled):
    wait_for_pool(pooled)
    sandbox = pooled.client().create(memory_mb=1024)
    assert sandbox.info["boot_mode"] == "restore"
    assert "MemTotal:        1048576 kB" in sandbox.exec("head -1 /proc/meminfo")["stdout"]
    sandbox.delete()


def test_twenty_at_once_from_a_pool_of_two_all_come_and_none_twice(pooled):
    wait_for_pool(pooled, blank=1)
    made, errors = [], []

    def one():
        try:
            made.append(pooled.client().create())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert len({sandbox.id for sandbox in made}) == 20
    names = [sandbox.exec("hostname; echo mine > /workspace/only; ls /workspace")["stdout"].split() for sandbox in made]
    assert [name[0] for name in names] == [sandbox.id for sandbox in made]
    # Their kernels came with the template and nobody has used them yet.
    for code, language in (("__import__('random').random()", "python"), ("Math.random()", "javascript"), ("echo $RANDOM$RANDOM", "bash")):
        answers = [sandbox.call("POST", "/run", {"code": code, "language": language}) for sandbox in made]
        drawn = {answer["stdout"] if language == "bash" else answer["results"][0]["text/plain"] for answer in answers}
        assert len(drawn) == 20, (language, drawn)
    assert {"pool", "restore"} == {sandbox.info["boot_mode"] for sandbox in made}
    for sandbox in made:
        sandbox.delete()


def test_the_pool_refills_itself(pooled):
    wait_for_pool(pooled, blank=1)


def test_without_a_pool_sandboxes_are_restored(client):
    sandbox = client.create()
    assert sandbox.info["boot_mode"] == "restore"
    sandbox.delete()


def test_a_killed_viald_leaves_no_pooled_guest_behind(pooled):
    wait_for_pool(pooled)
    before = {folder.name for folder in (pooled.data / "sandboxes").iterdir()}
    pooled.kill()
    pooled.start()
    wait_for(lambda: not before & {folder.name for folder in (pooled.data / "sandboxes").iterdir()})
    wait_for_pool(pooled)


def test_a_crash_while_it_fills_leaves_nothing():
    """What a sandbox's half-made host process was doing ends with it, wherever it was when viald was killed."""
    folder = tempfile.mkdtemp(prefix="vial-test-", dir="/tmp")
    daemon = Daemon(folder, "--pool-size", "2")
    for _ in range(6):
        time.sleep(random.uniform(0, 0.4))
        daemon.kill()
        daemon.start()
    wait_for_pool(daemon)
    daemon.stop()
    shutil.rmtree(folder, ignore_errors=True)
