# SPDX-License-Identifier: Apache-2.0
"""Caps per sandbox, and that one sandbox's flood is not another's problem. Events and counters."""
import math
import subprocess
import time

import pytest

from backend import DriverBackend, patience, wait_until
from cases import OPEN, filtered, http, https, resolve, tcp, udp
from internet import EXAMPLE, OTHER, TEN

GET = """
import http.client, sys, time
c = http.client.HTTPConnection(sys.argv[1], timeout=30); start = time.monotonic()
c.request("GET", "/bytes/" + sys.argv[2]); r = c.getresponse(); n = 0
while b := r.read(1 << 16): n += len(b)
print(n * 8 / 1e6 / (time.monotonic() - start))
"""
PUT = """
import http.client, sys, time
c = http.client.HTTPConnection(sys.argv[1], timeout=30); start = time.monotonic()
c.request("POST", "/", body=bytes(int(sys.argv[2]))); assert c.getresponse().status == 200
print(int(sys.argv[2]) * 8 / 1e6 / (time.monotonic() - start))
"""


HOLD = """
import socket, struct, sys
held = []
for i in range(int(sys.argv[2])):
    try: held.append(socket.create_connection((sys.argv[1], 9000), 20))
    except OSError: pass
print(len(held))
for one in held: one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
"""


def held(box, wanted):
    """How many connections it could open and keep at a time. They end by a reset: while one is closing, in a guest that sleeps meanwhile too, it counts."""
    done = box.run(["python3", "-c", HOLD, EXAMPLE, str(wanted)])
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def mbit(box, script, host, size):
    done = box.run(["python3", "-c", script, host, str(size)])
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def check_rate(box, script, host, size, low, high=math.inf):
    """No more than `high`, ever; more than `low` one time of three, since other work on the machine may take it away."""
    for _ in range(3):
        rate = mbit(box, script, host, size)
        print(f"{rate:.0f} Mbit/s")
        assert rate < high
        if rate > low:
            return
    assert rate > low


@pytest.mark.parametrize("policy,host", [(OPEN, EXAMPLE), (filtered(["example.com"]), "example.com")], ids=["direct", "through the proxy"])
def test_bandwidth_is_capped_both_ways(sandbox, policy, host):
    box = sandbox(policy, limits={"rate_mbit": 40})
    for script in (GET, PUT):
        check_rate(box, script, host, 8_000_000, 20, 60)


def test_connections_are_capped(sandbox):
    box = sandbox(OPEN, limits={"max_connections": 20})
    assert 15 <= held(box, 40) <= 21
    # The kernel reports in small batches.
    assert wait_until(lambda: any(e["rule"] == "limit:connections" for e in box.events()), 30)


def test_a_policys_own_limits_hold_through_change_and_adoption(own):
    backend = own()
    policy = {**filtered([EXAMPLE]), "limits": {"rate_mbit": 40, "max_connections": 10}}
    box = backend.create(policy)
    check_rate(box, GET, EXAMPLE, 8_000_000, 20, 60)
    wider = {**policy, "limits": {"rate_mbit": 4000, "max_connections": 10}}  # the daemon's own cap of 1000 stays
    box.set_policy(wider)
    check_rate(box, GET, EXAMPLE, 80_000_000, 100, 1500)
    box.set_policy(policy)
    backend.kill()
    backend.start(sweep=False)
    again = backend.adopt(box.slot, policy)
    check_rate(again, GET, EXAMPLE, 8_000_000, 20, 60)
    again.close()


def test_new_connections_per_second_are_capped(sandbox):
    script = """
import socket, sys, time
n, start = 0, time.monotonic()
for i in range(100):
    try: socket.create_connection((sys.argv[1], 9000), 20).close(); n += 1
    except OSError: pass
print(n, time.monotonic() - start)
"""
    box = sandbox(OPEN, limits={"connection_rate": 10})
    count, seconds = map(float, box.run(["python3", "-c", script, EXAMPLE]).stdout.split())
    print(f"{count:.0f} connections in {seconds:.1f} s")
    assert 15 <= count <= 25 + 10 * seconds  # a burst of 20, then 10 per second


def test_a_flood_does_not_slow_a_neighbour(sandbox, backend):
    if not isinstance(backend, DriverBackend):
        pytest.skip("needs a process that is left running")
    script = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); end = time.monotonic() + 4; n = 0
print("up", flush=True)
while time.monotonic() < end:
    for i in range(200):
        try: s.sendto(b"x", (("93.184.216.34", "10.1.2.3", "192.0.0.1")[i % 3], 1 + (n := n + 1) % 60000))
        except OSError: pass
"""
    loud, quiet = sandbox(filtered([EXAMPLE])), sandbox(filtered(["example.com"]))
    assert quiet.try_one(**http("example.com"))["ok"]
    flood = loud.popen(["python3", "-c", script], stdout=subprocess.PIPE)
    assert flood.stdout.readline().strip() == "up"
    got = quiet.try_all([resolve("example.com"), http("example.com"), https("example.com"), tcp("example.com")] * 5)
    flood.kill()
    flood.wait()
    assert all(g["ok"] for g in got), got
    worst = sorted(g["ms"] for g in got)
    print("ms under flood:", worst)
    # The quicker ones tell what the flood costs, other work on the machine aside; a packet lost in it would cost a second.
    assert worst[len(worst) // 4] < 200 * patience() and worst[len(worst) // 2] < 800
    spent = []
    for _ in range(3):
        start = time.monotonic()
        quiet.check("example.com", 443)
        spent.append(time.monotonic() - start)
    assert min(spent) < 0.2 * patience(), spent


def test_connections_and_refusals_are_seen(sandbox):
    box = sandbox(filtered([EXAMPLE, "example.com", "git.org"]))
    box.try_all([tcp(EXAMPLE), tcp(OTHER), udp(OTHER), tcp(TEN), resolve("example.com"), https("git.org"), tcp("git.org", 22),
                 https(EXAMPLE, sni="evil.com"), resolve("git.org"), https("140.82.112.3", sni="evil.com")])

    def find(**want):
        """Such events; the kernel reports in small batches."""
        return wait_until(lambda: [e for e in box.events() if all(e.get(k) == v for k, v in want.items())], 30)

    assert find(kind="connection", protocol="tcp", address=EXAMPLE, port=9000, verdict="allow", rule=EXAMPLE)
    assert find(kind="refused", protocol="tcp", address=OTHER, port=9000, verdict="deny", rule="default")
    assert find(kind="refused", protocol="udp", address=OTHER, port=9000, verdict="deny", rule="default")
    assert find(kind="refused", address=TEN, rule="closed:10.0.0.0/8 (private)")
    assert find(kind="connection", name="git.org", port=443, rule="git.org", verdict="allow")
    assert find(kind="connection", name="git.org", port=22, rule="git.org", verdict="allow")
    assert find(kind="refused", name="evil.com", address="140.82.112.3", port=443, verdict="deny")
    closed = wait_until(lambda: [e for e in find(kind="connection", name="git.org", port=443) if "closed_at" in e], 30)[0]
    assert closed["bytes_in"] > 100 and closed["bytes_out"] > 100
    events = box.events()
    assert [e["seq"] for e in events] == sorted(e["seq"] for e in events)
    later = box.events(after=events[-2]["seq"])
    assert later[0]["seq"] == events[-1]["seq"]


def test_bytes_of_direct_connections_are_counted_when_they_end(sandbox):
    box = sandbox(filtered([EXAMPLE]))
    mbit(box, GET, EXAMPLE, 1_000_000)
    box.set_policy({"mode": "disabled"})  # ends what lingers in TIME_WAIT
    counted = wait_until(lambda: [e for e in box.events() if e["kind"] == "connection" and e.get("bytes_in")], 30)
    assert counted and counted[0]["bytes_in"] > 1_000_000 and counted[0]["bytes_out"] > 1000, box.events()


def test_counters(sandbox, backend):
    if not isinstance(backend, DriverBackend):
        pytest.skip("viald shows them in its metrics")
    box = sandbox(filtered(["example.com"]))
    box.try_all([http("example.com"), tcp(OTHER), resolve("evil.com")])
    wait_until(lambda: all(box.counters()[name] for name in ("connections_allowed", "connections_denied", "bytes_in", "bytes_out")), 30)
    time.sleep(0.2)  # nor do they go on counting
    counters = box.counters()
    assert counters["connections_allowed"] == 1 and counters["connections_denied"] == 1
    assert counters["dns_allowed"] >= 1 and counters["dns_denied"] >= 1
    assert counters["bytes_in"] > 500 and counters["bytes_out"] > 300


def test_repeated_refusals_do_not_wash_the_list_away(sandbox):
    box = sandbox(filtered([EXAMPLE]))
    box.try_one(**tcp(EXAMPLE))
    box.try_all([tcp(OTHER)] * 150)
    events = box.events()
    assert any(e["verdict"] == "allow" for e in events) and len(events) < 20
    assert max(e.get("count", 1) for e in events) > 50
