# SPDX-License-Identifier: Apache-2.0
"""The same rules seen from real gVisor sandboxes: a part of the table, changes under way, raw sockets, restore elsewhere."""
import subprocess
import time

import pytest

import gvisor
from backend import DriverBackend, patience, wait_until
from cases import CASES, OPEN, filtered, http, https, query, resolve, tcp, udp
from internet import EXAMPLE, EXAMPLE6, HOST_V4, OTHER, TEN
from test_lifecycle import CUT_SECONDS, HOLD

DISABLED = {"mode": "disabled"}


@pytest.fixture(autouse=True)
def possible(backend):
    reason = gvisor.missing()
    if reason or not isinstance(backend, DriverBackend):
        pytest.skip(reason or "viald starts its own sandboxes")


@pytest.fixture
def guest(sandbox):
    made = []

    def make(policy, **kw):
        made.append(gvisor.Gvisor(sandbox(policy), **kw))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_part_of_the_table(guest):
    """One sandbox, its policy changed for each case: which also tries that changes reach a running guest."""
    box = guest(DISABLED)
    wrong = []
    for title, policy, attempts in CASES[::4]:
        box.slot.set_policy(policy or DISABLED)
        results = box.try_all([a for a, _ in attempts])
        wrong += [(title, a, r) for (a, expected), r in zip(attempts, results) if r["ok"] != expected]
    # Names were resolved under an earlier policy, so "open only after it was answered" cannot be asked here.
    assert not wrong, wrong


def test_disabled_looks_like_no_network(guest):
    def quick(got):
        assert not any(g["ok"] for g in got), got
        return all(g["ms"] < 500 * patience() for g in got[:4])

    got = guest(DISABLED).try_until([tcp(EXAMPLE), tcp(EXAMPLE6), http(OTHER), resolve("example.com"), udp(EXAMPLE)], quick)
    assert [g["code"] for g in got[:3]] == ["ENETUNREACH"] * 3
    assert quick(got), got


def test_curl_and_node(guest):
    box = guest(filtered(["example.com"]))
    assert box.run(["curl", "-sSk", "-m", "30", "https://example.com/"]).returncode == 0
    assert box.run(["curl", "-sSk", "-m", "30", "https://evil.com/"]).returncode
    script = "fetch('http://' + process.argv[1]).then(r => process.exit(r.ok ? 0 : 2), () => process.exit(1))"
    assert box.run(["node", "-e", script, "example.com"]).returncode == 0
    assert box.run(["node", "-e", script, "other.org"]).returncode


def test_a_change_cuts_connections_of_a_running_guest(guest):
    box = guest(OPEN)
    held = box.popen(["python3", "-c", HOLD, EXAMPLE, "9000"], stdout=subprocess.PIPE)
    assert held.stdout.readline().strip() == "up"
    start = time.time()
    box.slot.set_policy(filtered([OTHER]))
    word, when = held.stdout.readline().split()
    held.kill()
    held.wait()
    assert word == "dead" and float(when) - start < CUT_SECONDS


def test_raw_sockets_of_the_guests_root(guest):
    box = guest(filtered([EXAMPLE]))
    script = """
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def ip(src, dst): return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 1, 0, 64, 17, 0, socket.inet_aton(src), socket.inet_aton(dst)) + struct.pack("!HHHH", 4000, 9000, 12, 0) + b"ping"
for src, dst in (("192.0.0.2", "%s"), ("10.9.9.9", "%s"), ("198.19.0.9", "%s"), ("192.0.0.2", "%s")):
    try: s.sendto(ip(src, dst), (dst, 0))
    except OSError: pass
""" % (OTHER, EXAMPLE, EXAMPLE, TEN)
    assert box.run(["python3", "-c", script]).returncode == 0
    time.sleep(0.3)
    reached = [e for e in box.slot.events() if e["verdict"] == "allow" and e["address"] in (OTHER, TEN)]
    assert reached == []
    assert [g["ok"] for g in box.try_all([tcp(EXAMPLE), tcp(HOST_V4, 7777), query("x.com", to="8.8.8.8")])] == [True, False, False]


def test_a_restored_guest_lives_in_a_fresh_slot_without_its_old_connections(guest, tmp_path):
    # Process 1 holds a connection and keeps trying it: what a snapshot catches in the middle. (gVisor ends what `runsc exec`
    # started when it restores.)
    init = ["python3", "-c", """
import os, socket, time
s = socket.create_connection(("%s", 9000), 20); s.settimeout(2)
while True:
    time.sleep(.1)
    try:
        s.sendall(b"x"); state = "alive" if s.recv(10) else "closed"
    except OSError as e: state = "dead"
    with open("/tmp/state.new", "w") as f: f.write(state)
    os.rename("/tmp/state.new", "/tmp/state")
""" % EXAMPLE]
    first = guest(OPEN, init=init)
    assert wait_until(lambda: first.run(["cat", "/tmp/state"]).stdout == "alive")
    first.checkpoint(str(tmp_path))
    second = guest(filtered(["example.com"]), image_path=str(tmp_path), init=init)
    assert wait_until(lambda: second.run(["cat", "/tmp/state"]).stdout == "dead")
    got = second.try_all([https("example.com"), tcp(OTHER)])
    assert [g["ok"] for g in got] == [True, False]
    # The original goes on under its own policy; gVisor ended its connections at the checkpoint, new ones work.
    assert first.try_one(**tcp(OTHER))["ok"]
