# SPDX-License-Identifier: Apache-2.0
"""Slots through their life: stock, speed, changes under way, a dead daemon, adoption, sweeping, nothing left behind."""
import os
import statistics
import subprocess
import time

import pytest

from backend import DriverBackend, Refused, patience
from cases import ALL, OPEN, filtered, http, https, query, resolve, tcp, udp
from internet import EXAMPLE, EXAMPLE6, HOST_V4, OTHER, TEN

DISABLED = {"mode": "disabled"}


def leftovers(net, backend):
    names = subprocess.run(["ip", "netns"], text=True, capture_output=True).stdout.split()
    links = net.in_host("ip", "-o", "link").stdout.splitlines()
    tag = os.path.basename(backend)
    return [n for n in names if tag in n] + [l for l in links if f"alias vial:{tag}" in l]


def tag_of(box):
    return box.slot.split("-")[1]


CUT_SECONDS = 60  # A cut takes a small part of a second, the rest is for a busy machine: one that is not cut lives much longer.

# A client that holds one connection, uses it every 50 ms and says when it died. Silence is no death: it asks again, and a
# connection that was cut is answered with its end.
HOLD = """
import socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20); start = time.monotonic()
if len(sys.argv) > 3: s.sendall(b"GET / HTTP/1.1\\r\\nHost: " + sys.argv[3].encode() + b"\\r\\n\\r\\n"); s.recv(4096)
s.settimeout(1)
print("up", flush=True)
while time.monotonic() - start < 120:
    try:
        s.sendall(b"GET / HTTP/1.1\\r\\nHost: " + sys.argv[3].encode() + b"\\r\\n\\r\\n" if len(sys.argv) > 3 else b"x")
        if not s.recv(4096): raise OSError("closed")
        time.sleep(.05)
    except TimeoutError: pass
    except OSError as e:
        print("dead", time.time(), flush=True); break
else: print("alive", flush=True)
"""


def hold(box, *argv):
    process = box.popen(["python3", "-c", HOLD, *map(str, argv)], stdout=subprocess.PIPE)
    assert process.stdout.readline().strip() == "up"
    return process


def cut_after(process, start):
    word, *when = process.stdout.readline().split()
    process.kill()
    process.wait()
    return float(when[0]) - start if word == "dead" else None


def test_acquiring_a_prepared_slot_takes_less_than_two_milliseconds(own):
    backend = own(prepared=8)
    policy = filtered(["example.com", "*.pythonhosted.org:443", "1.2.3.0/24"], [ALL])
    times = []
    for _ in range(8):
        backend.settle(prepared=8, preparing=0, removing=0)
        boxes = [backend.create(policy) for _ in range(4)]
        times += [b.ms for b in boxes]
        for b in boxes:
            b.close()
    print(f"acquire ms: best {min(times)}, median {statistics.median(times)}, worst {max(times)}")
    # The best: other work on this machine is not what is measured.
    assert min(times) < 2 * patience()


def test_live_change_from_disabled_to_filtered_to_open_and_back(sandbox):
    box = sandbox(DISABLED)
    assert not box.try_one(**http("example.com"))["ok"]
    box.set_policy(filtered(["example.com"]))
    assert box.try_one(**http("example.com"))["ok"] and not box.try_one(**tcp(OTHER))["ok"]
    box.set_policy(OPEN)
    assert box.try_one(**tcp(OTHER))["ok"]
    box.set_policy(DISABLED)
    assert not any(r["ok"] for r in box.try_all([tcp(OTHER), resolve("example.com"), tcp(EXAMPLE), query("example.com")]))


def check_cut_within_a_second(box, allowed, refused, *connection):
    """Always, and within a second one time of three at least: what else is done on the machine is not what is measured."""
    for _ in range(3):
        box.set_policy(allowed)
        held = hold(box, *connection)
        start = time.time()
        box.set_policy(refused)
        seconds = cut_after(held, start)
        assert seconds < CUT_SECONDS
        if seconds < patience():
            return
    assert seconds < patience()


def test_a_change_cuts_direct_connections_within_a_second(sandbox, backend):
    if not isinstance(backend, DriverBackend):
        pytest.skip("needs a process that is left running")
    box = sandbox(OPEN)
    for target in (EXAMPLE, EXAMPLE6):
        check_cut_within_a_second(box, OPEN, filtered([OTHER]), target, 9000)


def test_a_change_cuts_proxied_connections_within_a_second(sandbox, backend):
    if not isinstance(backend, DriverBackend):
        pytest.skip("needs a process that is left running")
    check_cut_within_a_second(sandbox(filtered(["example.com"])), filtered(["example.com"]), filtered(["other.org"]), "example.com", 80, "example.com")


def test_a_change_cuts_pinned_connections_within_a_second(sandbox, backend):
    if not isinstance(backend, DriverBackend):
        pytest.skip("needs a process that is left running")
    check_cut_within_a_second(sandbox(filtered(["git.org"])), filtered(["git.org"]), filtered(["other.org"]), "git.org", 9000)


def test_a_change_leaves_connections_that_stay_allowed(sandbox, backend):
    if not isinstance(backend, DriverBackend):
        pytest.skip("needs a process that is left running")
    box = sandbox(filtered([EXAMPLE, "example.com", "git.org"]))
    held = [hold(box, EXAMPLE, 9000), hold(box, "git.org", 9000)]
    for policy in (filtered(["93.184.0.0/16", "git.org:9000"]), OPEN, filtered([ALL], [OTHER]), filtered([EXAMPLE, "git.org"])):
        box.set_policy(policy)
        time.sleep(.2)
    start = time.time()
    box.set_policy(DISABLED)
    for process in held:
        assert 0 <= cut_after(process, start) < CUT_SECONDS


def test_udp_stops_with_the_policy(sandbox):
    box = sandbox(OPEN)
    assert box.try_one(**udp(EXAMPLE))["ok"]
    box.set_policy(DISABLED)
    assert not box.try_one(**udp(EXAMPLE))["ok"]


def test_a_bad_policy_changes_nothing(sandbox):
    box = sandbox(filtered([EXAMPLE]))
    with pytest.raises(Refused, match="allow_out"):
        box.set_policy(filtered(["exa mple"]))
    assert [r["ok"] for r in box.try_all([tcp(EXAMPLE), tcp(OTHER)])] == [True, False]


def test_with_the_daemon_dead_address_rules_hold_and_names_fail(own):
    backend = own()
    box = backend.create(filtered([EXAMPLE, "git.org"]))
    other = backend.create(DISABLED)
    assert box.try_one(**resolve("git.org"))["ok"]
    held = hold(box, EXAMPLE, 9000)
    backend.kill()
    got = box.try_all([tcp(EXAMPLE), tcp(OTHER), https("git.org"), resolve("git.org"), tcp(TEN), tcp("45.33.32.1", 7777)])
    assert [g["ok"] for g in got] == [True, False, False, False, False, False]
    assert not any(g["ok"] for g in other.try_all([tcp(EXAMPLE), query("example.com")]))
    assert held.poll() is None
    held.kill()
    held.wait()


def test_a_restarted_daemon_adopts_what_it_is_told_and_sweeps_the_rest(own, net):
    backend = own()
    policy = filtered([EXAMPLE, "example.com"])
    kept, lost = backend.create(policy), backend.create(OPEN)
    held = hold(kept, EXAMPLE, 9000)
    backend.kill()
    backend.start(sweep=False)
    again = backend.adopt(kept.slot, policy)
    backend.call("start")
    backend.settle(removing=0)
    assert not os.path.exists(lost.netns) and os.path.exists(kept.netns)
    assert again.try_one(**https("example.com"))["ok"] and again.try_one(**tcp(EXAMPLE))["ok"] and not again.try_one(**tcp(OTHER))["ok"]
    # A connection by address did not even notice.
    assert held.poll() is None
    start = time.time()
    again.set_policy(DISABLED)
    assert cut_after(held, start) < CUT_SECONDS
    with pytest.raises(Refused):
        backend.adopt(lost.slot, OPEN)
    with pytest.raises(Refused):
        backend.adopt("vial-00000000-1", OPEN)
    again.close()


@pytest.mark.parametrize("policy,reached", [(filtered([EXAMPLE]), [True, False]), (DISABLED, [False, False])], ids=["filtered", "disabled"])
def test_adoption_with_another_policy_puts_it_in_force(own, policy, reached):
    backend = own()
    box = backend.create(OPEN)
    held = hold(box, OTHER, 9000)
    backend.kill()
    backend.start(sweep=False)
    start = time.time()
    again = backend.adopt(box.slot, policy)
    assert cut_after(held, start) < CUT_SECONDS
    assert [r["ok"] for r in again.try_all([tcp(EXAMPLE), tcp(OTHER)])] == reached
    again.close()


def test_the_hosts_wall_follows_adoption_and_release(own, net):
    backend = own()
    policy = filtered([HOST_V4])
    box = backend.create(policy)
    assert box.try_one(**tcp(HOST_V4))["ok"]
    backend.kill()
    backend.start(sweep=False)
    again = backend.adopt(box.slot, policy)
    assert again.try_one(**tcp(HOST_V4))["ok"]
    again.set_policy(OPEN)
    assert not again.try_one(**tcp(HOST_V4))["ok"]
    again.close()
    wall = net.in_host("nft", "list", "set", "inet", "vial_host", "named4")
    assert wall.returncode == 0 and "elements" not in wall.stdout, wall


def test_nothing_is_left_behind(own, net):
    backend = own(prepared=2)
    boxes = [backend.create(OPEN) for _ in range(5)]
    tag = tag_of(boxes[0])
    assert len(leftovers(net, tag)) >= 15
    for box in boxes:
        box.close()
    backend.settle(removing=0)
    backend.close()
    assert leftovers(net, tag) == []


def test_two_daemons_leave_each_other_alone(own, net, tmp_path_factory):
    first = own(prepared=2)
    box = first.create(OPEN)
    second = DriverBackend(net, str(tmp_path_factory.mktemp("second")), prepared=2)
    other = second.create(filtered([EXAMPLE]))
    second.settle(removing=0, preparing=0)
    assert box.try_one(**tcp(OTHER))["ok"] and other.try_one(**tcp(EXAMPLE))["ok"]
    other.close()
    second.close()
    assert box.try_one(**tcp(OTHER))["ok"]


def test_many_slots(own):
    backend = own(prepared=4)
    start = time.monotonic()
    boxes = [backend.create(filtered([EXAMPLE])) for _ in range(60)]
    print(f"60 slots in {time.monotonic() - start:.2f} s")
    assert len({b.slot for b in boxes}) == 60
    for box in (boxes[0], boxes[30], boxes[59]):
        assert [r["ok"] for r in box.try_all([tcp(EXAMPLE), tcp(OTHER)])] == [True, False]
    for box in boxes:
        box.close()
    backend.settle(removing=0)


def test_a_tap_takes_the_veths_place(own):
    backend = own()
    box = backend.create(OPEN)
    assert backend.call("tap", slot=box.slot)["fd"] >= 0
    shown = subprocess.run(["ip", "-n", box.slot + "-gate", "-d", "addr", "show", "gate0"], text=True, capture_output=True).stdout
    assert "tun type tap" in shown and "192.0.0.1/30" in shown and "fd76:6961:6c00::1/64" in shown
    box.set_policy(filtered(["example.com"]))
    box.close()
