# SPDX-License-Identifier: Apache-2.0
"""A connection outlives its guest's sleep: whoever wakes within the peer's patience goes on where he was. Who is a copy of him does not."""
import http.client
import os
import subprocess

import pytest

import backend as backends
from backend import wait_until
from cases import filtered
from internet import EXAMPLE, EXAMPLE6

OPEN = {"mode": "open"}
TALK = "s.sendall(b'{0}\\n'); got = b''\nwhile not got.endswith(b'\\n'): got += s.recv(100) or b'end\\n'\nprint(got)"


def is_current():
    runsc = os.environ.get("VIAL_RUNSC", "runsc")
    return b"-background" in subprocess.run([runsc, "help", "restore"], capture_output=True, check=False).stdout


pytestmark = pytest.mark.skipif(not is_current(), reason="this runsc ends all connections with a checkpoint")


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    """A file that makes viald fail where it says (src/util/fault.h)."""
    path = tmp_path_factory.mktemp("faults") / "faults"
    path.write_text("")
    os.environ["VIAL_FAULTS"] = str(path)
    yield path
    del os.environ["VIAL_FAULTS"]


@pytest.fixture(scope="module")
def viald(net, faults, tmp_path_factory):
    backend = backends.VialdBackend(net, str(tmp_path_factory.mktemp("data")))
    yield backend
    backend.close()


@pytest.fixture
def box(viald):
    made = []

    def create(policy):
        made.append(viald.create(policy))
        return made[-1]

    yield create
    for one in made:
        one.close()


def python(viald, box, code):
    answer = viald.request("POST", f"/v1/sandboxes/{box.id}/run", {"code": code, "timeout_ms": 60000})
    assert not answer.get("error"), answer
    return answer["stdout"].strip()


def talk(viald, box, word):
    return python(viald, box, TALK.format(word))


def connect(viald, box, host):
    python(viald, box, f"import socket; s = socket.create_connection(({host!r}, 9000), 30); s.settimeout(60)")


def sleep(viald, box):
    viald.request("POST", f"/v1/sandboxes/{box.id}/hibernate")
    assert viald.request("GET", f"/v1/sandboxes/{box.id}")["status"] == "hibernated"


def held_slots(viald):
    return int(next(line for line in viald.text("/metrics").splitlines() if line.startswith('vial_network_slots{state="held"}')).split()[1])


@pytest.mark.parametrize("policy, host", [(OPEN, EXAMPLE), (OPEN, EXAMPLE6), (filtered(["example.com:9000"]), "example.com")], ids=["direct", "IPv6", "through the proxy"])
def test_it_goes_on_after_a_sleep(viald, box, policy, host):
    one = box(policy)
    connect(viald, one, host)
    assert talk(viald, one, "before") == repr(b"before\n")
    for word in ("first", "second"):
        sleep(viald, one)
        assert talk(viald, one, word) == repr(word.encode() + b"\n"), "the call wakes it"


def test_what_the_peer_sent_meanwhile_arrives(viald, box):
    one = box(OPEN)
    connect(viald, one, EXAMPLE)
    python(viald, one, "s.sendall(b'later 3\\n')")
    sleep(viald, one)
    assert python(viald, one, "got = b''\nwhile not got.endswith(b'\\n'): got += s.recv(100) or b'end\\n'\nprint(got)") == repr(b"later 3\n")


ENDED = "try: print('got', s.recv(10))\nexcept OSError: print('ended')"


def test_a_fork_has_none_and_its_parent_keeps_it(viald, box):
    """Its recv would wait for ever: nobody sends it anything."""
    parent = box(OPEN)
    connect(viald, parent, EXAMPLE)
    child = backends.VialdSandbox(viald, viald.request("POST", f"/v1/sandboxes/{parent.id}/fork", {})["sandbox"])
    assert python(viald, child, ENDED) == "ended"
    assert talk(viald, parent, "still") == repr(b"still\n")
    child.close()


def test_a_fork_that_speaks_over_ipv6_is_reset(viald, box):
    parent = box(OPEN)
    connect(viald, parent, EXAMPLE6)
    child = backends.VialdSandbox(viald, viald.request("POST", f"/v1/sandboxes/{parent.id}/fork", {})["sandbox"])
    assert python(viald, child, "s.sendall(b'x')\n" + ENDED) == "ended"
    assert talk(viald, parent, "still") == repr(b"still\n")
    child.close()


@pytest.mark.parametrize("network", [OPEN, {"mode": "disabled"}, filtered(["example.com"])])
def test_what_is_made_from_a_snapshot_has_none(viald, box, network):
    one = box(OPEN)
    connect(viald, one, EXAMPLE)
    snapshot = viald.request("POST", f"/v1/sandboxes/{one.id}/snapshots", {})
    born = backends.VialdSandbox(viald, viald.request("POST", "/v1/sandboxes", {"from_snapshot": snapshot["id"], "network": network}))
    assert python(viald, born, ENDED) == "ended"
    assert talk(viald, one, "still") == repr(b"still\n")
    born.close()
    viald.request("DELETE", f"/v1/snapshots/{snapshot['id']}")


def test_who_wakes_too_late_is_told(viald, box):
    """A restart of viald gives the slots of sleepers back, as time does."""
    one = box(OPEN)
    connect(viald, one, EXAMPLE)
    sleep(viald, one)
    viald.kill()
    viald.start()
    assert python(viald, one, ENDED) == "ended"
    connect(viald, one, EXAMPLE)
    assert talk(viald, one, "again") == repr(b"again\n")


def test_a_sleep_that_fails_changes_nothing(viald, box, faults):
    one = box(OPEN)
    connect(viald, one, EXAMPLE)
    faults.write_text("hibernate.rename\n")
    with pytest.raises(backends.Refused):
        viald.request("POST", f"/v1/sandboxes/{one.id}/hibernate")
    faults.write_text("")
    assert talk(viald, one, "still") == repr(b"still\n")


def test_nor_does_a_crash_while_falling_asleep(viald, box, faults):
    one = box(OPEN)
    connect(viald, one, EXAMPLE)
    faults.write_text("hibernate.rename crash\n")
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        viald.request("POST", f"/v1/sandboxes/{one.id}/hibernate")
    viald.process.wait(120)
    faults.write_text("")
    viald.start()
    assert talk(viald, one, "still") == repr(b"still\n")


def test_a_policy_that_forbids_it_meanwhile_ends_it(viald, box):
    one = box(OPEN)
    connect(viald, one, EXAMPLE)
    sleep(viald, one)
    viald.request("PUT", f"/v1/sandboxes/{one.id}/network", filtered(["example.com:80"]))
    assert python(viald, one, "try: s.sendall(b'x\\n'); print(s.recv(10))\nexcept OSError as error: print('ended')") in ("b''", "ended")


def test_only_who_has_one_leaves_his_slot_and_only_until_he_is_deleted(viald, box):
    waiting = []  # the pool's, as soon as nothing more comes

    def is_full():
        waiting.append(held_slots(viald))
        counts = viald.request("GET", "/v1/me")["pool"]["minimal"]
        return counts["ready"] and counts["blank"] and len(waiting) > 20 and len(set(waiting[-20:])) == 1

    assert wait_until(is_full)
    silent, talker = box(OPEN), viald.create(OPEN)
    connect(viald, talker, EXAMPLE)
    sleep(viald, silent)
    sleep(viald, talker)
    assert wait_until(lambda: held_slots(viald) == waiting[-1] + 1), (waiting[-1], held_slots(viald))
    talker.close()
    assert wait_until(lambda: held_slots(viald) == waiting[-1])
