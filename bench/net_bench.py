# SPDX-License-Identifier: Apache-2.0
"""What the network filter costs: a slot, throughput and connect latency, beside the same path without rules.

Runs on src/net/ alone (vial-net-driver), and for creations on a viald with the image `minimal`, against the small internet of tests/net, so
nothing leaves the machine. "Without" is a slot whose gate has its rules taken out and only translates addresses. The client is a gVisor guest where runsc and an
image are there, else a plain process in the slot's namespace.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "net"))

import backend as backends  # noqa: E402
import gvisor  # noqa: E402
import internet  # noqa: E402

NO_CAPS = {k: 0xffffffff for k in ("rate_mbit", "max_connections", "connection_rate", "packet_rate", "dns_rate")}

# One process, sendfile from memory: the server must not be what is measured.
SERVER = """
import os, socket, threading
memory = os.memfd_create("x"); os.truncate(memory, 1 << 26)
def serve(c):
    with c:
        while head := c.recv(65536):
            path = head.split(b" ", 2)[1]
            size = int(path[1:] or b"0")
            c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % size)
            while size > 0: size -= os.sendfile(c.fileno(), memory, 0, min(size, 1 << 26))
s = socket.create_server(("93.184.216.35", 80), backlog=512)
print("ready", flush=True)
while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""

CLIENT = """
import json, socket, sys, time
host, address, size, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
socket.getaddrinfo(host, 80) if host != address else None
buffer = memoryview(bytearray(1 << 20))
def get(size):
    s = socket.create_connection((address, 80), 10); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(b"GET /%d HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (size, host.encode()))
    left = size
    got = s.recv_into(buffer)
    left -= got - (bytes(buffer[:got]).index(b"\\r\\n\\r\\n") + 4)
    while left > 0:
        got = s.recv_into(buffer)
        if not got: raise SystemExit("short")
        left -= got
    s.close()
times = []
for _ in range(count + 1):
    start = time.perf_counter(); get(size); times.append((time.perf_counter() - start) * 1000)
print(json.dumps(times[1:]))
"""

FLAT = """
table inet vial
delete table inet vial
table netdev vial
delete table netdev vial
table inet flat {
 chain leave {
  type nat hook postrouting priority srcnat; policy accept;
  oifname "up0" masquerade
 }
}
"""

POLICIES = {
    "without": {"mode": "open"},
    "filtered": {"mode": "filtered", "allow_out": [internet.WWW], "deny_out": ["ALL_TRAFFIC"]},
    "proxied": {"mode": "filtered", "allow_out": ["www.example.com"], "deny_out": ["ALL_TRAFFIC"]},
}


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Path:
    """One client behind one kind of gate; `inside`: in a gVisor guest (which takes the namespace's addresses for itself)."""

    def __init__(self, backend, kind, inside):
        self.slot = backend.create(POLICIES[kind], NO_CAPS)
        self.host = "www.example.com" if kind == "proxied" else internet.WWW
        if kind == "without":
            subprocess.run(["nsenter", f"--net={self.slot.netns}-gate", "nft", "-f", "-"], input=FLAT, text=True, check=True)
        self.guest = gvisor.Gvisor(self.slot) if inside else None

    def get(self, size, count):
        done = (self.guest or self.slot).run(["python3", "-c", CLIENT, self.host, internet.WWW, str(size), str(count)], timeout=300)
        if done.returncode:
            raise RuntimeError(done.stderr[-500:])
        return json.loads(done.stdout)

    def close(self):
        if self.guest:
            self.guest.close()
        self.slot.close()


class World:
    def __init__(self):
        self.net = internet.Internet()
        # www.example.com's address gets the fast server; the others keep theirs.
        self.server = None
        self.data = tempfile.mkdtemp(prefix="vial-bench-net-")
        self.net.stop_http(internet.WWW)
        self.server = subprocess.Popen(["nsenter", f"--net=/run/netns/{self.net.internet_ns}", sys.executable, "-c", SERVER],
                                       stdout=subprocess.PIPE, text=True)
        assert self.server.stdout.readline().strip() == "ready"
        self.backend = backends.DriverBackend(self.net, self.data, prepared=8)

    def close(self):
        self.backend.close()
        self.server.kill()
        self.server.wait()
        self.net.close()
        shutil.rmtree(self.data, ignore_errors=True)


def acquire(world, rounds):
    times = []
    for _ in range(rounds):
        world.backend.settle(prepared=8, preparing=0, removing=0)
        boxes = [world.backend.create(POLICIES["proxied"]) for _ in range(4)]
        times += [b.ms for b in boxes]
        for box in boxes:
            box.close()
    yield {"case": "net: a slot with its policy, p50", "value": percentile(times, 0.5), "unit": "ms", "at_most": 2, "p99_ms": percentile(times, 0.99)}


def paths(world, quick, inside):
    where = "from a gVisor guest" if inside else "from a plain process"
    size, count = (20_000_000, 4) if quick else (100_000_000, 8)
    made = {}
    try:
        for kind in POLICIES:
            made[kind] = Path(world.backend, kind, inside)
        # Interleaved, so that a busy machine is busy for all of them.
        rates = {kind: [] for kind in made}
        for _ in range(count):
            for kind, path in made.items():
                rates[kind] += [size * 8 / 1e3 / ms for ms in path.get(size, 1)]
        rates = {kind: max(values) for kind, values in rates.items()}
        for kind in ("filtered", "proxied"):
            row = {"case": f"net: throughput {kind}, % of unfiltered, {where}", "value": 100 * rates[kind] / rates["without"], "unit": "%",
                   "mbit": {k: round(v) for k, v in rates.items()}}
            # A plain process has nothing of its own to spend time on; the promise is for sandboxes.
            row["at_least"] = 70 if inside or kind == "filtered" else 40
            yield row
        times = {kind: [] for kind in made}
        for _ in range(2 if quick else 6):
            for kind, path in made.items():
                times[kind] += path.get(0, 40)
        middle = {kind: percentile(values, 0.5) for kind, values in times.items()}
        yield {"case": f"net: connect and first byte, added by the proxy, {where}", "value": middle["proxied"] - middle["without"], "unit": "ms",
               "at_most": 1, "p50_ms_each": {k: round(v, 3) for k, v in middle.items()}}
    finally:
        for path in made.values():
            path.close()


CREATIONS = {"without": {"mode": "disabled"}, "open": {"mode": "open"},
             "filtered": {"mode": "filtered", "allow_out": ["www.example.com", "*.example.org:443", internet.WWW], "deny_out": ["ALL_TRAFFIC"]}}


def creations(world, quick):
    """POST /v1/sandboxes through a viald in the same internet. From the pool, whose milliseconds leave nothing to hide behind, once it is full again."""
    data = tempfile.mkdtemp(prefix="vial-bench-net-")
    viald = backends.VialdBackend(world.net, data)
    times = {kind: [] for kind in CREATIONS}

    def is_full():
        pool = viald.request("GET", "/v1/me")["pool"]
        return all(one["ready"] >= 1 and one["blank"] >= 1 for one in pool.values())

    try:
        for i in range(8 if quick else 24):
            kinds = list(CREATIONS)
            for kind in kinds[i % 3:] + kinds[:i % 3]:  # each is first as often as the others
                deadline = time.monotonic() + 120
                while not is_full() and time.monotonic() < deadline:
                    time.sleep(0.05)
                time.sleep(0.3)  # slots are prepared behind the pool
                start = time.perf_counter()
                box = viald.create(CREATIONS[kind])
                times[kind].append((time.perf_counter() - start) * 1000)
                box.close()
        middle = {kind: percentile(values, 0.5) for kind, values in times.items()}
        for kind in ("open", "filtered"):
            yield {"case": f"net: create with a network ({kind}), added", "value": middle[kind] - middle["without"], "unit": "ms", "at_most": 5,
                   "n": len(times[kind]), "p50_ms_each": {k: round(v, 2) for k, v in middle.items()},
                   "p99_ms": percentile(times[kind], 0.99) - percentile(times["without"], 0.99)}
    finally:
        viald.close()
        shutil.rmtree(data, ignore_errors=True)


def cases(quick=False):
    """For run.py: functions that yield rows."""
    def all_rows():
        world = World()
        try:
            yield from acquire(world, 3 if quick else 10)
            yield from creations(world, quick)
            if gvisor.missing():
                print("not measured from a guest:", gvisor.missing(), file=sys.stderr)
            else:
                yield from paths(world, quick, True)
            yield from paths(world, quick, False)
        finally:
            world.close()
    return [all_rows]


if __name__ == "__main__":
    for case in cases("--quick" in sys.argv):
        for row in case():
            print(json.dumps(row), flush=True)
